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
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from cptlaw.errors import UsageError, shown
from cptlaw.runs.conditions import ColumnCondition, Condition, Joined, Not, error_in
from cptlaw.units import NUMBER, UNIT, parse_quantity

Mask = npt.NDArray[np.bool_]

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

    def _take(self) -> _Token:
        token = self._token
        self.next += 1
        return token

    def _take_if(self, *texts: str) -> bool:
        token = self._token
        if token.kind in ("keyword", "mark") and token.text in texts:
            self.next += 1
            return True
        return False

    def _any(self) -> Condition:
        parts = [self._all()]
        while self._take_if("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._take_if("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def _one(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            self._fail(f"more than {DEEPEST_NESTING} parentheses or 'not' within each other.")
        try:
            if self._take_if("not"):
                return Not(self._one())
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
            operator = self._take().text
            return ColumnCondition(name, operator, (self._value(),), self.query, column.position)
        operator = "not in" if self._take_if("not") else "in"
        if not self._take_if("in"):
            self._fail(f"expected one of == != < <= > >= in, 'not in' after {shown(name)}, found {self._shown()}.")
        if not self._take_if("("):
            self._fail(f"expected '(' and a list of values after 'in', found {self._shown()}.")
        values = [self._value()]
        while self._take_if(","):
            if self._token.text != ")":
                values.append(self._value())
        if not self._take_if(")"):
            self._fail(f"expected ',' or ')' in the list of values, found {self._shown()}.")
        return ColumnCondition(name, operator, tuple(values), self.query, column.position)

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
        raise error_in(message, self.query, token.position)


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
