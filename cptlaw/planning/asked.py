"""Reading what a user asks for: quantities with their ranges, and words out of a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.units import format_percent, parse_probability, parse_quantity

Word = TypeVar("Word", bound=str)


def positive(value: Any, name: str, example: str) -> float:
    """Return a positive quantity, such as ``"8.1B"``.

    Raises
    ------
    UsageError
        If the value is no positive number.
    """
    number = parse_quantity(value, label(name))
    if not number > 0:
        raise UsageError(f"{label(name)}: {value!r} is not positive. Expected a number such as {example}.")
    return number


def quantity(value: Any, name: str) -> float:
    """Return any finite quantity, such as ``"2%"`` or ``-0.01``."""
    return parse_quantity(value, label(name))


def share(value: Any, name: str) -> float:
    """Return a share in [0, 1], such as ``"34%"``.

    Raises
    ------
    UsageError
        If the value lies outside.
    """
    number = parse_quantity(value, label(name))
    if not 0 <= number <= 1:
        hint = f" Did you mean {format_percent(number / 100)}?" if 1 < number <= 100 else ""
        raise UsageError(f"{label(name)}: {value!r} is not a share. Expected 0 to 1, or 0% to 100%.{hint}")
    return number


def probability(value: Any, name: str) -> float:
    """Return a probability strictly between 0 and 1.

    Raises
    ------
    UsageError
        If the value lies outside.
    """
    return parse_probability(value, label(name))


def one_of(value: Any, name: str, words: Sequence[Word]) -> Word:
    """Return one of a few words.

    Raises
    ------
    UsageError
        If the value is another one.
    """
    for word in words:
        if value == word:
            return word
    raise UsageError(
        f"{label(name)}: {value!r} is unknown. Expected {', '.join(words)}.{did_you_mean(str(value), words)}"
    )


def label(name: str) -> str:
    """Name an argument as the library and the command line both write it: ``n_params (--n-params)``."""
    return f"{name} (--{name.replace('_', '-')})"
