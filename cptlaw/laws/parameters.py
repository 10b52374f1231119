"""What a law declares of its parameters and options: shapes, amplitudes, and the options that users may set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws.calculus import Array
from cptlaw.units import parse_quantity

Read = TypeVar("Read")


@dataclass(frozen=True)
class Shape:
    """The range of one shape parameter, and what is known of it.

    Parameters
    ----------
    low, high
        Bounds that a fit keeps; a fit that ends on one says so.
    start
        Range from which starting values are drawn; the bounds where not given.
    scale
        ``"log"`` for positive parameters, which are searched on a logarithmic axis; ``"gap"`` for parameters below 1
        that are searched on the axis -log(1 - value); ``"linear"`` for the rest.
    usual
        Mean and standard deviation as published: a weak prior. A third word, ``"log"``, says that the standard
        deviation is that of the logarithm.
    """

    low: float
    high: float
    start: tuple[float, float] | None = None
    scale: Literal["log", "linear", "gap"] = "log"
    usual: tuple[float, float] | tuple[float, float, str] | None = None

    @property
    def start_range(self) -> tuple[float, float]:
        """The range of starting values."""
        return self.start or (self.low, self.high)

    def to_axis(self, value: ArrayLike) -> Any:
        """Map parameter values to the axis on which they are searched."""
        if self.scale == "gap":
            return -np.log1p(-np.asarray(value, dtype=float))
        return np.log(value) if self.scale == "log" else np.asarray(value, dtype=float)

    def from_axis(self, coordinate: ArrayLike) -> Any:
        """Map coordinates on the search axis back to parameter values."""
        if self.scale == "gap":
            return -np.expm1(-np.asarray(coordinate, dtype=float))
        return np.exp(coordinate) if self.scale == "log" else coordinate

    def derivatives(self, value: Array) -> tuple[Array, Array]:
        """Return the first and second derivative of the parameter with respect to its axis, at a parameter value."""
        if self.scale == "log":
            return value, value
        return (1.0 - value, value - 1.0) if self.scale == "gap" else (np.ones_like(value), np.zeros_like(value))


EXPONENT = Shape(0.01, 5.0, start=(0.05, 1.2))


class Amplitude(str):
    """The name of an amplitude about which there is more to say: wherever a name is expected, it is one.

    Parameters
    ----------
    name
        The name.
    plausible
        Range between which `cptlaw.testing.check_law` draws it.
    signed
        Whether the sign is decided by the eval's role: plus for the source loss, minus for the target loss. A fit
        searches the magnitude.
    usual
        Its weak prior, as for `Shape`; the third word may be ``"share"``: the share of its term in the mean loss.
    """

    plausible: tuple[float, float]
    signed: bool
    usual: tuple[float, float, str] | None

    def __new__(
        cls,
        name: str,
        plausible: tuple[float, float] = (0.05, 2.0),
        signed: bool = False,
        usual: tuple[float, float, str] | None = None,
    ) -> Self:
        """Make the name."""
        made = super().__new__(cls, name)
        made.plausible, made.signed, made.usual = plausible, signed, usual
        return made


# E, A and B of E + A/N^alpha + B/D^beta where N and D are raw counts.
UsualPrior: TypeAlias = tuple[float, float] | tuple[float, float, str]  # mean, standard deviation, and their scale
IN_RAW_COUNTS = ("E", Amplitude("A", plausible=(100.0, 1000.0)), Amplitude("B", plausible=(500.0, 5000.0)))


@dataclass(frozen=True)
class Option:
    """One option of a law, declared on its class: ``choices = {"normalised": Option(False, "true or false")}``.

    Parameters
    ----------
    default
        The value where a user gives none; a law's spec names only options that differ from it.
    allowed
        The words to choose from; or, where these cannot be listed, what is expected, in words.
    description
        What the option does, for the law's card.
    read
        Turns what a user gives, text included, into the value, and raises ValueError where it cannot. Where absent, it
        follows from the default: true or false for a bool, a number for a number.
    """

    default: object
    allowed: tuple[str, ...] | str
    description: str = ""
    read: Callable[[Any], Any] | None = None

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if isinstance(self.allowed, str):
            return self.allowed
        *others, last = self.allowed
        return f"{', '.join(others)} or {last}" if others else last

    def value(self, name: str, given: object) -> Any:
        """Return the value of this option, called `name`, for what a user gives.

        Raises
        ------
        UsageError
            If it is none of those allowed.
        """
        hint = ""
        try:
            if self.read is not None:
                return self.read(given)
            if not isinstance(self.allowed, str):
                word = "none" if given is None else given
                if word in self.allowed:
                    return word
                hint = did_you_mean(str(given), self.allowed)
            elif isinstance(self.default, bool):
                return true_or_false(given)
            else:
                return number(given)
        except (ValueError, TypeError, OverflowError):
            pass
        shown = given if isinstance(self.allowed, str) else repr(given)
        raise UsageError(f"{name}={shown}: expected {self.expected}.{hint}")


def option_text(value: object) -> str:
    """Return the value of an option as a spec writes it."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")  # every digit: the text builds the same law again
    if isinstance(value, tuple):
        return "+".join(value)
    return "none" if value is None else str(value).lower()


def short_specs(specs: Sequence[str]) -> list[str]:
    """Return laws that stand beside each other by their names, with the options by which those of one name differ.

    Examples
    --------
    >>> short_specs(["bend:q=2:largest=9", "bend:largest=9:share=true", "chinchilla:q=1"])
    ['bend:q=2', 'bend:share=true', 'chinchilla']
    """
    parts = [(name, options) for name, *options in (spec.split(":") for spec in specs)]
    shared = {name: set.intersection(*(set(has) for other, has in parts if other == name)) for name, _ in parts}
    return [":".join([name, *(one for one in options if one not in shared[name])]) for name, options in parts]


# -- readers of options --------------------------------------------------------------------------------------------


def number(given: object) -> float:
    """Read a number, with a unit if it is text."""
    try:
        return float(parse_quantity(given))
    except UsageError as error:
        raise ValueError(str(error)) from None


def positive(given: object) -> float:
    """Read a positive number."""
    value = number(given)
    if not value > 0:
        raise ValueError(given)
    return value


def share(given: object) -> float:
    """Read a number from 0 to 1."""
    value = number(given)
    if not 0 <= value <= 1:
        raise ValueError(given)
    return value


def count(given: object) -> int:
    """Read a whole number, zero or more."""
    value = number(given)
    if value < 0 or value != int(value):
        raise ValueError(given)
    return int(value)


def true_or_false(given: object) -> bool:
    """Read true or false; 1 and 0 mean the same."""
    words = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
    value = words.get(str(given).lower())
    if value is None:
        raise ValueError(given)
    return value


def some_of(names: Collection[str]) -> Callable[[str | Iterable[str] | None], tuple[str, ...]]:
    """Return a reader of some of these names, in text joined by +."""

    def read(given: str | Iterable[str] | None) -> tuple[str, ...]:
        parts = given.split("+") if isinstance(given, str) else (given or ())
        chosen = {part for part in parts if part}
        if not chosen <= set(names):
            raise ValueError(given)
        return tuple(sorted(chosen))

    return read


def or_none(read: Callable[[object], Read]) -> Callable[[object], Read | None]:
    """Return a reader that also takes None, in text ``none``."""
    return lambda given: None if given is None or str(given).lower() == "none" else read(given)
