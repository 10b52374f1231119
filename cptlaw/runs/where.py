"""The filter language: ``ptpp <= 31 and replay in (0.1, 0.25) and not run == "x"``.

A query is read by a tokenizer and a recursive descent into a tree of conditions; nothing is ever evaluated as code.

- Comparisons: ``==  !=  <  <=  >  >=``, ``in (...)``, ``not in (...)``, the column on the left.
- Joined by ``and``, ``or``, ``not`` and parentheses; ``not`` binds tightest, ``or`` loosest.
- Values: numbers with or without a unit (``0.25``, ``8.1B``, ``34%``), and text in single or double quotes.
- Columns go by their names or by an alias (``N``, ``D``, ``r``); one with other characters stands in backticks.
  ``atpp`` and ``flops`` are computed where the table does not hold them.
- Numbers that differ by less than 1e-9 of their size are equal, in every comparison: ``replay == 0.3`` and
  ``replay <= 0.3`` hold for ``0.1 + 0.2``, and ``replay > 0.3`` does not.
- Every comparison with a missing value is false, ``!=`` and ``not in`` too. ``not`` is the plain complement, so each
  row answers either Q or ``not (Q)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean, escape_hidden, quote
from cptlaw.runs.levels import among_levels
from cptlaw.runs.schema import canonical_name
from cptlaw.units import NUMBER, UNIT, parse_quantity

Mask = npt.NDArray[np.bool_]

# Columns that are computed from others where a table does not hold them.
DERIVED = {"atpp": ("tokens", "n_params"), "flops": ("n_params", "tokens")}

# Parentheses and `not` within each other, so that no query can exhaust the stack.
DEEPEST_NESTING = 50

# Characters of a query: room for some thousand names of runs.
LONGEST_FILTER = 100_000

_TOKEN = re.compile(
    rf"""
      (?P<space>\s+)
    | (?P<text>"[^"]*"|'[^']*')
    | (?P<number>{NUMBER}{UNIT}?+(?![\w.%]))
    | (?P<operator>==|!=|<=|>=|<|>)
    | (?P<mark>[(),])
    | (?P<name>[^\W\d][\w.]*+|`[^`]+`)
    """,
    re.VERBOSE,
)
_KEYWORDS = ("and", "or", "not", "in")
_HINTS = {
    "=": "Write == for equal.",
    "&": "Write 'and'.",
    "|": "Write 'or'.",
    "!": "Write 'not'.",
    "[": "Write a list in round parentheses.",
    '"': "The quote is not closed.",
    "'": "The quote is not closed.",
}


@dataclass(frozen=True)
class Condition:
    """A parsed filter.

    Parameters
    ----------
    columns
        The columns named, without repeats: canonical names, and other columns as written.
    mask
        Returns which rows of a table answer it, (n,); a `UsageError` where a column is not there, or holds text where a
        number is asked for or the other way round.
    """

    columns: tuple[str, ...]
    mask: Callable[[pd.DataFrame], Mask]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


def parse(query: str) -> Condition:
    """Read a filter.

    Parameters
    ----------
    query
        A filter such as ``'ptpp <= 31 and tokens >= 1B'``; the module's docstring gives the language.

    Raises
    ------
    UsageError
        If the query cannot be read; the message points at the place.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"ptpp": [15.0, 31.0, 279.0], "run": ["a", "b", "c"]})
    >>> parse('ptpp <= 31 and not run == "a"').mask(table).tolist()
    [False, True, False]
    """
    return _Parser(query).parse()


class _Parser:
    """Recursive descent: any := all (or all)*; all := one (and one)*; one := not one | (any) | comparison."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.tokens = _tokenize(query)
        self.next = 0
        self.depth = 0

    def parse(self) -> Condition:
        condition = self._any()
        if self._token.kind != "end":
            self._fail(f"expected 'and' or 'or', found {self._shown()}.{self._hint_for_chain()}")
        return condition

    @property
    def _token(self) -> _Token:
        return self.tokens[self.next]

    def _take_if(self, *texts: str) -> bool:
        token = self._token
        if token.kind in ("keyword", "mark") and token.text in texts:
            self.next += 1
            return True
        return False

    def _any(self) -> Condition:
        return self._joined("or", np.logical_or, self._all)

    def _all(self) -> Condition:
        return self._joined("and", np.logical_and, self._one)

    def _joined(self, word: str, join: np.ufunc, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._take_if(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        columns = dict.fromkeys(column for each in parts for column in each.columns)
        # Every part is computed, so that a slip in any of them is told whatever the rows are.
        return Condition(tuple(columns), lambda frame: reduce(join, (each.mask(frame) for each in parts)))

    def _one(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            self._fail(f"more than {DEEPEST_NESTING} parentheses or 'not' within each other.")
        try:
            if self._take_if("not"):
                inner = self._one()
                return Condition(inner.columns, lambda frame: ~inner.mask(frame))
            if self._take_if("("):
                condition = self._any()
                if not self._take_if(")"):
                    self._fail(f"expected ')', found {self._shown()}.{self._hint_for_chain()}")
                return condition
            return self._comparison()
        finally:
            self.depth -= 1

    def _comparison(self) -> Condition:
        column = self._token
        if column.kind != "name":
            advice = " Write the column first, as in ptpp <= 31." if column.kind in ("number", "text") else ""
            self._fail(f"expected the name of a column, found {self._shown()}.{advice}")
        self.next += 1
        name = column.text.strip("`")
        if self._token.kind == "operator":
            operator = self._token.text
            self.next += 1
            return self._compared(column, name, operator, [self._value()])
        operator = "not in" if self._take_if("not") else "in"
        if not self._take_if("in"):
            self._fail(f"expected one of == != < <= > >= in, 'not in' after {quote(name)}, found {self._shown()}.")
        if not self._take_if("("):
            self._fail(f"expected '(' and a list of values after 'in', found {self._shown()}.")
        values = [self._value()]
        while self._take_if(","):
            if self._token.text != ")":
                values.append(self._value())
        if not self._take_if(")"):
            self._fail(f"expected ',' or ')' in the list of values, found {self._shown()}.")
        return self._compared(column, name, operator, values)

    def _compared(self, token: _Token, name: str, operator: str, values: list[float | str]) -> Condition:
        def mask(frame: pd.DataFrame) -> Mask:
            try:
                return _mask(frame, name, operator, values)
            except UsageError as error:
                raise _error_in(str(error), self.query, token.position) from None

        return Condition((canonical_name(name) or name,), mask)

    def _value(self) -> float | str:
        token = self._token
        if token.kind == "text":
            self.next += 1
            return token.text[1:-1]
        if token.kind == "number":
            try:
                value = parse_quantity(token.text)
            except (UsageError, ArithmeticError):  # the latter from an exponent beyond all bounds
                self._fail(f"{_cut(token.text)} is not a finite number.")
            self.next += 1
            return value
        if token.kind == "name":
            # Show the whole word that was meant, dashes and all, not its first piece alone.
            word = re.compile(r"[^\s(),]+").match(self.query, token.position)
            text = _cut(word.group() if word else token.text)
            self._fail(f'expected a number or text in quotes, found unquoted {text}. Write "{text}".')
        self._fail(f"expected a number or text in quotes, found {self._shown()}.")

    def _shown(self) -> str:
        return "the end" if self._token.kind == "end" else _cut(self._token.text)

    def _hint_for_chain(self) -> str:
        chained = self._token.kind == "operator"
        return " Write two comparisons joined by 'and', as in ptpp >= 15 and ptpp <= 31." if chained else ""

    def _fail(self, message: str) -> NoReturn:
        token = self._token
        if token.kind == "unreadable":
            problem = "a number that cannot be read" if token.text.isdigit() else f"unexpected {token.text!r}"
            message = f"{problem}. {_HINTS.get(token.text, '')}".rstrip()
        raise _error_in(message, self.query, token.position)


def _tokenize(query: str) -> list[_Token]:
    if not isinstance(query, str) or not query.strip():
        raise UsageError("The filter is empty. Expected a filter such as 'ptpp <= 31 and replay in (0.1, 0.25)'.")
    if len(query) > LONGEST_FILTER:
        raise UsageError(
            f"The filter has {len(query):,} characters, more than the {LONGEST_FILTER:,} that are read. Add a column "
            f"to the table that says which rows are meant, and filter by that."
        )
    tokens: list[_Token] = []
    position = 0
    while position < len(query):
        match = _TOKEN.match(query, position)
        if match is None:
            # Left for the parser to complain about: what stands before may tell better what is wrong.
            return [*tokens, _Token("unreadable", query[position], position)]
        kind, text = str(match.lastgroup), match.group()
        if kind == "name" and text.lower() in _KEYWORDS:
            kind, text = "keyword", text.lower()
        if kind != "space":
            tokens.append(_Token(kind, text, position))
        position = match.end()
    return [*tokens, _Token("end", "", len(query))]


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."


def _mask(frame: pd.DataFrame, name: str, operator: str, values: list[float | str]) -> Mask:
    """Return the rows in which a column compares so to one value, or for ``in`` and ``not in`` to several."""
    column = find_column(frame, name)
    if column is None:
        known = [str(other) for other in frame.columns]
        raise UsageError(f"no column {quote(name)}.{did_you_mean(name, known)} Columns: {', '.join(known)}.")
    if column.isna().all():
        return np.zeros(len(frame), dtype=np.bool_)
    holds_numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    compare = _numbers_compare if holds_numbers else _texts_compare
    return np.asarray(compare(column, name, operator, values), dtype=np.bool_)


def _numbers_compare(column: pd.Series, name: str, operator: str, values: list[float | str]) -> Mask:
    """Return the rows of a column of numbers that compare so; a level stands for the cells that round to it."""
    levels = [level for level in values if isinstance(level, float)]
    if text := [value for value in values if isinstance(value, str)]:
        raise UsageError(
            f"column {quote(name)} holds numbers, {quote(text[0])} is text. Write a number without quotes."
        )
    cells = column.to_numpy(dtype=np.float64, na_value=np.nan)
    equal = among_levels(cells, levels)
    if operator[0] in "<>":
        beyond = cells < levels[0] if operator[0] == "<" else cells > levels[0]
        return beyond | equal if operator.endswith("=") else beyond & ~equal
    return equal if operator in ("==", "in") else ~equal & ~np.isnan(cells)


def _texts_compare(column: pd.Series, name: str, operator: str, values: list[float | str]) -> Mask:
    """Return the rows of a column of texts that are among some, or are not."""
    if numbers := [f"{value:g}" for value in values if isinstance(value, float)]:
        raise UsageError(
            f'column {quote(name)} holds text and {numbers[0]} is a number. Write it in quotes: "{numbers[0]}".'
        )
    if operator[0] in "<>":
        raise UsageError(f"column {quote(name)} holds text, which has no order here. Use ==, !=, in or not in.")
    if pd.api.types.is_bool_dtype(column):
        column = column.map({True: "True", False: "False"})
    equal = column.isin([escape_hidden(str(value)) for value in values]).to_numpy(dtype=np.bool_)
    return equal if operator in ("==", "in") else ~equal & column.notna().to_numpy(dtype=np.bool_)


def find_column(frame: pd.DataFrame, name: str) -> pd.Series | None:
    """Return the column that a name in a filter means, or ``None``.

    Parameters
    ----------
    name
        A column of the table, an alias of one, or ``atpp`` (tokens / n_params) or ``flops`` (6 * n_params * tokens).

    Examples
    --------
    >>> find_column(pd.DataFrame({"n_params": [1e6], "tokens": [2e7]}), "atpp").tolist()
    [20.0]
    """
    # A column of that very name comes first: a table may keep `N` beside `n_params`.
    for candidate in (name, canonical_name(name) or name):
        if candidate in frame.columns:
            return frame[candidate]
        if candidate in DERIVED and set(DERIVED[candidate]) <= set(frame.columns):
            first, second = (pd.to_numeric(frame[part], errors="coerce").astype(float) for part in DERIVED[candidate])
            return first / second if candidate == "atpp" else 6.0 * first * second
    return None


def _error_in(message: str, query: str, position: int) -> UsageError:
    """Return the error of a filter, with a caret under the place."""
    # A tab or line break before the caret would shift it; of a long filter the part around it is enough.
    first, last = max(0, position - 80), position + 80
    before, after = "..." if first else "", "..." if last < len(query) else ""
    flat = escape_hidden(re.sub(r"\s", " ", query[first:last]))
    shift = len(before) + len(escape_hidden(re.sub(r"\s", " ", query[first:position])))
    return UsageError(f"In the filter: {message}\n    {before}{flat}{after}\n    {' ' * shift}^")
