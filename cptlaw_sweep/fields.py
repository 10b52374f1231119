"""Reading a mapping of a YAML file field by field, so that every message names the place and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from cptlaw.errors import CptlawError, DataError, did_you_mean, shown
from cptlaw.units import parse_quantity

T = TypeVar("T")
Plain = dict[str, Any]  # what a file of a recipe holds, and what defines a job
_ABSENT: Any = object()


class Fields:
    """The fields of one mapping; each is taken once, and `end` refuses what is left.

    Parameters
    ----------
    value
        What the file holds at that place.
    where
        The place, as in ``sweep.yaml: adapt[0]``.
    """

    def __init__(self, value: Any, where: str):
        if not isinstance(value, Mapping):
            raise DataError(f"{where}: found {shown(value)}. Expected a mapping, as in `name: value`, one per line.")
        self._left, self._known, self.where = dict(value), list[str](), where

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, convert: Callable[[Any, str], T], default: Any = _ABSENT) -> T:
        """Return one field, converted.

        Parameters
        ----------
        convert
            Takes the value and its place, and returns what it means.
        default
            For a field that is not there; without one the field is required.
        """
        self._known.append(name)
        if name not in self._left:
            if default is _ABSENT:
                near = did_you_mean(name, self._left)
                raise DataError(f"{self.where}: {name!r} is missing.{near} docs/sweep.md lists the fields.")
            found: T = default
            return found
        where = f"{self.where}: {name}"
        try:
            return convert(self._left.pop(name), where)
        except CptlawError as error:
            text = str(error)
            raise DataError(text if text.startswith(self.where) else f"{where}: {text}") from None

    def peek(self, name: str) -> Any:
        """Return what a field holds, and leave it to be taken."""
        return self._left.get(name)

    def end(self) -> None:
        """Refuse fields that nobody took: a slip in a name must not be passed over."""
        for name in self._left:
            raise DataError(
                f"{self.where}: there is no field {shown(name)}.{did_you_mean(str(name), self._known)} "
                f"Known here: {', '.join(self._known)}."
            )


def number(value: Any, where: str) -> float:
    """Return a number, as in 6e-3, 2M or 15%."""
    return parse_quantity(value, where)


def count(value: Any, where: str) -> int:
    """Return a whole number of 0 or more."""
    found = parse_quantity(value, where)
    if found < 0 or found != int(found):
        raise DataError(f"{where}: found {shown(value)}. Expected a whole number, 0 or more.")
    return int(found)


def positive(value: Any, where: str) -> float:
    """Return a number above 0."""
    found = parse_quantity(value, where)
    if found <= 0:
        raise DataError(f"{where}: found {shown(value)}. Expected a number above 0.")
    return found


def fraction(value: Any, where: str) -> float:
    """Return a share from 0 to 1."""
    found = parse_quantity(value, where)
    if not 0 <= found <= 1:
        raise DataError(f"{where}: found {shown(value)}. Expected a share from 0 to 1, such as 0.25 or 25%.")
    return found


def between(value: Any, where: str) -> float:
    """Return a weight of a merge, between 0 (the base model) and 1 (the adapted one)."""
    found = fraction(value, where)
    if not 0 < found < 1:
        raise DataError(f"{where}: found {shown(value)}. Both ends are measured anyway: expected a weight between.")
    return found


@lru_cache(maxsize=4096)  # the same few shares stand in every run of a recipe
def exact_share(value: float) -> str:
    """Return a share as an exact fraction, ``0.1`` as ``'1/10'``, so that rows are counted without rounding."""
    return str(Fraction(repr(value)).limit_denominator(1_000_000))


def text(value: Any, where: str) -> str:
    """Return a text."""
    if not isinstance(value, str) or not value:
        raise DataError(f"{where}: found {shown(value)}. Expected a text.")
    return value


def flag(value: Any, where: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise DataError(f"{where}: found {shown(value)}. Expected true or false.")
    return value


def mapping(value: Any, where: str) -> Fields:
    """Return the fields of a mapping."""
    return Fields(value, where)


def many(convert: Callable[[Any, str], T]) -> Callable[[Any, str], list[T]]:
    """Return a reader of one value or a list of values."""

    def read(value: Any, where: str) -> list[T]:
        if not isinstance(value, list):
            return [convert(value, where)]
        if not value:
            raise DataError(f"{where}: the list is empty.")
        return [convert(item, f"{where}[{index}]") for index, item in enumerate(value)]

    return read


def named(convert: Callable[[Any, str], T]) -> Callable[[Any, str], dict[str, T]]:
    """Return a reader of a mapping of names to values."""

    def read(value: Any, where: str) -> dict[str, T]:
        if not isinstance(value, Mapping) or not value:
            raise DataError(f"{where}: found {shown(value)}. Expected names with their values, one per line.")
        return {str(name): convert(item, f"{where}: {name}") for name, item in value.items()}

    return read


def choice(*known: str) -> Callable[[Any, str], str]:
    """Return a reader of one of several words."""

    def read(value: Any, where: str) -> str:
        if value not in known:
            raise DataError(
                f"{where}: found {shown(value)}.{did_you_mean(str(value), known)} Known: {', '.join(known)}."
            )
        return str(value)

    return read


def whole(value: Any, where: str) -> list[int]:
    """Return a list of whole numbers of 0 or more."""
    return many(count)(value, where)
