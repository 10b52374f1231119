"""What `--columns` says of a column: a name, a value, or a sum of others with their units, read by a small grammar.

``replay=1-ja_frac``, ``replay=mix%``, ``tokens=btok:B``, ``tokens=flops/(6*n_params)``, ``loss=log(ppl)``. Nothing is
evaluated as code: an expression is numbers, columns, ``+ - * /``, parentheses and the natural logarithm. A name with
other characters stands in backticks where it would be read otherwise; the columns of the table are known, so that
``1-data.en_frac`` needs none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cptlaw.errors import UsageError, did_you_mean, join_names, quote
from cptlaw.units import NUMBER, SUFFIXES, parse_quantity

Floats = NDArray[np.float64]
Lookup = Callable[[str], Floats]

IGNORE = "ignore"  # in the place of a canonical column: columns that are no setting of the runs
DEEPEST = 20  # parentheses within each other
_NUMBER = re.compile(rf"{NUMBER}[KkMmGgBbTt%]?(?![\w.])")
_QUOTED = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"[^\W\d][\w.]*")
_UNIT = re.compile(r"\s*(%|:\s*[KkMmGgBbTt](?!\w))")
_NEXT_PAIR = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")
_SIGNS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


@dataclass(frozen=True)
class Expression:
    """A column that others give.

    Parameters
    ----------
    text
        As it was typed.
    names
        The columns of the table that it reads, in order.
    """

    text: str
    names: tuple[str, ...]

    def values(self, lookup: Lookup) -> Floats:
        """Return its value in each row, (n,); NaN where one of its columns is empty, or where it is not finite."""
        with np.errstate(all="ignore"):
            result = np.asarray(_Reader(self.text, self.names, lookup).whole(), dtype=float)
        return np.where(np.isfinite(result), result, np.nan)


def column_pairs(texts: Iterable[str]) -> dict[str, str | list[str]]:
    """Read texts such as ``eval=domain`` or ``replay=1-ja_frac,tokens=btok:B``; ``ignore`` may stand several times.

    Raises
    ------
    UsageError
        If a pair lacks its name, its column, or what stands between them.

    Examples
    --------
    >>> column_pairs(["replay=1-ja_frac, tokens=btok:B", "ignore=note,ignore=gpu"])
    {'replay': '1-ja_frac', 'tokens': 'btok:B', 'ignore': ['note', 'gpu']}
    """
    result: dict[str, str | list[str]] = {}
    for pair in (pair for text in texts for pair in _NEXT_PAIR.split(text)):
        name, equals, place = (part.strip() for part in pair.partition("="))
        if not equals or not name or not place:
            raise UsageError(f"--columns {pair!r}: expected NAME=COLUMN, as in eval=domain or replay=1-ja_frac.")
        if name == IGNORE:
            result[name] = [*result.get(name, []), place]
        else:
            result[name] = place
    return result


def expression(text: str, known: Iterable[str]) -> Expression | None:
    """Return what a text computes from columns, or ``None`` where it is no expression, such as a plain name.

    Parameters
    ----------
    known
        The columns that it may name: those of the table, and the canonical ones that it was read as.

    Raises
    ------
    UsageError
        If it is one, and something in it cannot be read.

    Examples
    --------
    >>> expression("1-data.en_frac", ["data.en_frac"]).names, expression("note", ["notes"])
    (('data.en_frac',), None)
    """
    every = list(dict.fromkeys(map(str, known)))
    if not re.search(r"[-+*/%:()`]", text) or text in every:
        return None
    names: dict[str, None] = {}

    def note(name: str) -> Floats:
        names[name] = None
        return np.ones(1)

    with np.errstate(all="ignore"):
        _Reader(text, every, note).whole()
    return Expression(text, tuple(names)) if names else None


class _Reader:
    """Reads an expression from left to right: a sum of products of numbers, columns and parentheses."""

    def __init__(self, text: str, known: Iterable[str], lookup: Lookup) -> None:
        self.text, self.place, self.lookup, self.depth = text, 0, lookup, 0
        self.known = list(known)
        self.longest_first = sorted(self.known, key=len, reverse=True)

    def whole(self) -> Floats:
        """Return the value of all of it."""
        result = self.sum()
        if self.rest().strip():
            raise self.error(f"cannot be read from {quote(self.rest().strip())} on")
        return result

    def rest(self) -> str:
        return self.text[self.place :]

    def error(self, what: str) -> UsageError:
        near = did_you_mean(self.rest().strip(" ()%"), self.known) if self.rest() else ""
        return UsageError(
            f"--columns: {quote(self.text)} {what}.{near} Expected columns and numbers with + - * / and parentheses "
            f"between, as in 1-ja_frac, mix%, btok:B or flops/(6*n_params). Columns: "
            f"{join_names(map(repr, self.known))}."
        )

    def signs(self, which: str) -> Iterator[str]:
        while match := re.compile(rf"\s*([{which}])").match(self.text, self.place):
            self.place = match.end()
            yield match[1]

    def sum(self) -> Floats:
        result = self.product()
        for sign in self.signs("+-"):
            result = _SIGNS[sign](result, self.product())
        return result

    def product(self) -> Floats:
        result = self.single()
        for sign in self.signs("*/"):
            result = _SIGNS[sign](result, self.single())
        return result

    def single(self) -> Floats:
        result = self.plain()
        while match := _UNIT.match(self.text, self.place):
            self.place = match.end()
            result = result * float(SUFFIXES[match[1].strip(": ").upper()])
        return result

    def plain(self) -> Floats:
        """Return a column, a number, or what stands in parentheses."""
        self.place += len(self.rest()) - len(self.rest().lstrip())
        if match := _QUOTED.match(self.text, self.place):
            if match[1] not in self.known:
                raise self.error(f"names the column {quote(match[1])}, which the table does not have")
            self.place = match.end()
            return self.lookup(match[1])
        if name := self.name():
            self.place += len(name)
            return self.lookup(name)
        if self.rest().startswith("log("):
            self.place += len("log")
            return np.log(self.inner())
        if match := _NUMBER.match(self.text, self.place):
            self.place = match.end()
            return np.asarray(parse_quantity(match[0]), dtype=float)
        if not self.rest().startswith("("):
            word = _WORD.match(self.rest())
            raise self.error(f"names {quote(word[0])}, which is no column" if word else "ends too early")
        return self.inner()

    def inner(self) -> Floats:
        """Return what stands in the parentheses that open here."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"has more than {DEEPEST} parentheses within each other")
        self.place += 1
        result = self.sum()
        if not self.rest().lstrip().startswith(")"):
            raise self.error("lacks a closing parenthesis")
        self.place += len(self.rest()) - len(self.rest().lstrip()) + 1
        self.depth -= 1
        return result

    def name(self) -> str:
        """Return the longest known name that stands here and ends where a name can end."""
        for name in self.longest_first:
            if self.text.startswith(name, self.place):
                after = self.text[self.place + len(name) : self.place + len(name) + 1]
                if not (name[-1:].isalnum() or name[-1:] == "_") or not (after.isalnum() or after == "_"):
                    return name
        return ""


def as_texts(columns: Mapping[str, str | list[str]]) -> list[str]:
    """Return pairs as `--columns` takes them, each a text of its own."""
    every = ((name, places if isinstance(places, list | tuple) else [places]) for name, places in columns.items())
    return [f"{name}={place}" for name, places in every for place in places]
