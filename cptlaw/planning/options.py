"""How an option of a scenario is declared, and how values are read: quantities with their ranges, and words.

Each reader raises a UsageError that names the option where its value cannot be read or lies outside the range.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from cptlaw.errors import UsageError, did_you_mean, quote, wrong_type
from cptlaw.units import LARGEST, SMALLEST, parse_probability, parse_quantity, parse_share

Word = TypeVar("Word", bound=str)

SHORTER = {"min_score": "min", "unique_tokens": "unique"}  # arguments whose option on the command line is another word

_POINTS = re.compile(r"\s*(?:points?|pts?|pp)\s*$", re.IGNORECASE)  # percentage points, hundredths as a percentage is

LEAST_RISK = 0.5  # below, a limit would fail more often than it holds; at one half the forecast itself must keep it


def label(name: str) -> str:
    """Name an argument as the library and the command line both write it: ``n_params (--n-params)``."""
    return f"{name} (--{SHORTER.get(name, name).replace('_', '-')})"


def positive(value: object, name: str, example: str) -> float:
    """Return a positive quantity, such as ``"8.1B"``."""
    number = quantity(value, name)
    if not number > 0:
        raise UsageError(f"{label(name)}: {quote(value)} is not positive. Expected a number such as {example}.")
    if number < SMALLEST:
        raise UsageError(f"{label(name)}: {quote(value)} is below {SMALLEST:g}. Expected a number such as {example}.")
    return number


def quantity(value: object, name: str) -> float:
    """Return a quantity, such as ``"2%"`` or ``-0.01``."""
    number = parse_quantity(value, label(name))
    if abs(number) > LARGEST:
        raise UsageError(f"{label(name)}: {quote(value)} is beyond {LARGEST:g}. Mind its unit, as in 8.1B or 2%.")
    return number


def points(value: object, name: str) -> dict[str, float]:
    """Return scores or points by benchmark: ``{"gsm8k": "60%"}``, or texts such as ``"mmlu=1pt"``."""
    pairs = _pairs(value, name, "BENCHMARK=SCORE, as in gsm8k=60% or mmlu=1pt")
    return {key: _points(item, f"{label(name)}: {key}", limit=name == "max_drop") for key, item in pairs.items()}


def _pairs(value: object, name: str, expected: str) -> dict[str, object]:
    """Return what was given by name, in a mapping or in texts such as ``"code=30%,web=20%"``.

    The name of a mean over tasks, ``mean:a,b``, has commas of its own.
    """
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items() if item is not None}
    parts: list[str] = []
    if not isinstance(value, str | list | tuple):
        raise wrong_type(value, label(name), expected)
    for part in (part for text in ([value] if isinstance(value, str) else value) for part in str(text).split(",")):
        if parts and parts[-1].startswith("mean:") and "=" not in parts[-1]:
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    result: dict[str, object] = {}
    for part in parts:
        key, equals, item = (word.strip() for word in part.partition("="))
        if not equals or not key:
            raise UsageError(f"{label(name)}: {part!r} has no name. Expected {expected}.")
        if key in result:
            raise UsageError(f"{label(name)}: {key} is given twice.")
        result[key] = item
    return result


def _points(value: object, what: str, limit: bool) -> float:
    text = _POINTS.sub("%", value) if isinstance(value, str) else value
    if parse_quantity(text, what) < 0:
        raise UsageError(
            f"{what}={value}: less than 0. Expected 0 or more; a gain over the base model is asked for as a least "
            f"score (--min)."
        )
    return parse_share(text, what, limit=limit)


def share(value: object, name: str) -> float:
    """Return a share in [0, 1], such as ``"34%"``."""
    return parse_share(value, label(name))


def change(value: object, name: str) -> float:
    """Return a limit on a relative rise, such as ``"2%"`` or ``-0.01``."""
    return parse_share(value, label(name), low=-1.0, high=LARGEST, limit=True)


def at_least_one(value: object, name: str) -> float:
    """Return a number of times, 1 or more, such as ``4``."""
    number = quantity(value, name)
    if number < 1:
        raise UsageError(f"{label(name)}: {quote(value)} is less than 1. Expected how often, such as 4.")
    return number


def probability(value: object, name: str) -> float:
    """Return a probability strictly between 0 and 1."""
    return parse_probability(value, label(name))


def risk(value: object, name: str) -> float:
    """Return the probability with which limits hold, from one half to below 1."""
    chance = probability(value, name)
    if chance < LEAST_RISK:
        raise UsageError(
            f"{label(name)}: {value!r} lets a limit fail more often than it holds. Expected the probability "
            f"with which limits hold, from 0.5 to below 1, such as 0.9."
        )
    return chance


def count(value: object, name: str, least: int) -> int:
    """Return a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
        raise UsageError(f"{name}={value!r}: expected a whole number of at least {least}.")
    return int(value)


def one_of(value: object, name: str, words: Sequence[Word]) -> Word:
    """Return one of a few words."""
    for word in words:
        if value == word:
            return word
    raise UsageError(
        f"{label(name)}: {value!r} is unknown. Expected {', '.join(words)}.{did_you_mean(str(value), words)}"
    )


def by_name(value: object, name: str, read: Callable[[object, str], float]) -> dict[str, float]:
    """Return numbers by name, from a mapping or from texts such as ``"code=30%"``.

    Raises
    ------
    UsageError
        If a text has no name, a name occurs twice, or a number cannot be read.
    """
    pairs = _pairs(value, name, "NAME=VALUE, such as code=30%")
    return {key: read(number, name) for key, number in pairs.items()}


def as_given(value: object, name: str) -> object:
    """Return a value as it stands: what uses it checks it."""
    return value


@dataclass(frozen=True)
class Entry:
    """One entry of a scenario.

    Parameters
    ----------
    read
        Turns a value that is not ``None`` into what the plan uses; called with the value and the name.
    help
        What the command line and the documentation say of it.
    metavar
        Its placeholder on the command line.
    default
        Where it is not given.
    words
        The words that it may be.
    flag
        Whether it is on or off.
    several
        Its name on the command line, where it may be repeated there.
    limit
        The quantity of which it is the upper limit: ``"forgetting"``, ``"source_loss"`` or ``"target_loss"``.
    law_input
        Whether it is an input that laws may read, in the table's units.
    in_nats
        Turns the value into a number of nats, where forgetting is asked in these and not as a share.
    """

    read: Callable[[object, str], object]
    help: str
    metavar: str = ""
    default: Any = None
    words: tuple[str, ...] = ()
    flag: bool = False
    several: str = ""
    limit: str = ""
    law_input: bool = False
    in_nats: Callable[[object, str], object] | None = None


def amount(
    example: str, help: str, metavar: str, *, default: float | None = None, limit: str = "", law_input: bool = False
) -> Entry:
    """Declare a positive quantity."""
    return Entry(partial(positive, example=example), help, metavar, default=default, limit=limit, law_input=law_input)


def word(words: tuple[str, ...], help: str) -> Entry:
    """Declare one of a few words, of which the first is the default."""
    return replace(choice(words, help), default=words[0])


def choice(words: tuple[str, ...], help: str) -> Entry:
    """Declare one of a few words, or none."""
    return Entry(partial(one_of, words=words), help, words=words)
