"""What the controls ask, as one value: it makes the answer, names a pinned scenario, and stands in the address."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qsl, urlencode

from cptlaw.answering.question import RISK
from cptlaw.errors import UsageError
from cptlaw.units import format_percent, format_quantity, parse_quantity

DIGITS = 6  # of a number in the address
SHARES = ("replay", "risk", "max_forgetting")
IN_POINTS = {"min_score": "min", "max_drop": "drop", "base_score": "base"}  # by eval; as the address has them
LONGEST = 4_000  # characters of an address that is read


@dataclass(frozen=True)
class Scenario:
    """A question in raw units; what is ``None`` is not limited, not read by any law, or to be chosen.

    Attributes
    ----------
    n_params, ptpp
        The model, and the pre-training tokens per parameter of its base model.
    tokens, replay, lr_peak
        The mix and its peak rate; ``None``: as few tokens as keep the limits, the best replay, the best measured rate.
    max_forgetting, max_target_loss
        The limits.
    base_source_loss
        The base model's source loss where it is known.
    risk
        Probability with which each limit shall hold.
    min_score, max_drop, base_score
        Least score, most that a score may fall below the base model's, and the base model's score where it is known,
        each by eval, 0 to 1.
    """

    n_params: float | None = None
    ptpp: float | None = None
    tokens: float | None = None
    replay: float | None = None
    lr_peak: float | None = None
    max_forgetting: float | None = None
    max_target_loss: float | None = None
    base_source_loss: float | None = None
    risk: float = RISK
    min_score: Mapping[str, float] = field(default_factory=dict)
    max_drop: Mapping[str, float] = field(default_factory=dict)
    base_score: Mapping[str, float] = field(default_factory=dict)

    def to_query(self) -> str:
        """Return it as a part of an address; what is not asked is left out."""
        given = {name: value for name, value in vars(self).items() if value is not None and name not in IN_POINTS}
        for name, word in IN_POINTS.items():
            given |= {f"{word}.{on}": value for on, value in sorted(getattr(self, name).items())}
        return urlencode({name: f"{value:.{DIGITS}g}" for name, value in given.items()})

    @classmethod
    def from_query(cls, text: str) -> Scenario:
        """Read a part of an address.

        Raises
        ------
        UsageError
            If a value is no sensible number. Names that are not known are left alone: an address may hold other things.
        """
        return cls.read(dict(parse_qsl(text[:LONGEST])))

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Scenario:
        """Read values by name, numbers or texts such as ``"8B"``."""
        known = {field.name for field in fields(cls)} - set(IN_POINTS)
        values: dict[str, Any] = {name: _by_eval(given, word) for name, word in IN_POINTS.items()}
        for name, value in given.items():
            if name in known and value is not None:
                number = parse_quantity(value, name)
                least_ok = number > 0 or name in SHARES
                if not math.isfinite(number) or not least_ok or (name in ("replay", "risk") and not 0 <= number <= 1):
                    raise UsageError(f"{name.replace('_', ' ')}: {value!r} is not possible.")
                values[name] = number
        if not 0.5 <= values.get("risk", RISK) < 1:
            raise UsageError("risk: expected a probability from 50% to below 100%.")
        return cls(**values)

    @property
    def model_text(self) -> str:
        """The model in a few words."""
        parts = [] if self.n_params is None else [f"{format_quantity(self.n_params, 4)} parameters"]
        return ", ".join([*parts, *([] if self.ptpp is None else [f"{format_quantity(self.ptpp)} tokens each"])])

    @property
    def limited_scores(self) -> tuple[str, ...]:
        """The evals of which a score is limited."""
        return tuple(dict.fromkeys([*self.min_score, *self.max_drop]))

    @property
    def limits_text(self) -> str:
        """The limits in a few words."""
        parts = []
        if self.max_forgetting is not None:
            parts.append(f"forgetting at most {format_percent(self.max_forgetting, 3)}")
        if self.max_target_loss is not None:
            parts.append(f"target loss at most {self.max_target_loss:.4g}")
        parts += [least_text(name, value) for name, value in self.min_score.items()]
        parts += [drop_text(name, value) for name, value in self.max_drop.items()]
        return " and ".join(parts)


def least_text(name: str, value: float) -> str:
    """Return a least score in words."""
    return f"{name} at least {format_percent(value, 3)}"


def drop_text(name: str, value: float) -> str:
    """Return the most that a score may fall in words."""
    return f"{name} down at most {100 * value:.3g} points"


def _by_eval(given: Mapping[str, Any], word: str) -> dict[str, float]:
    """Return the shares by eval of an address's entries such as ``min.gsm8k=0.6``."""
    found = {}
    for name, value in given.items():
        first, dot, on = name.partition(".")
        if first == word and dot and on and value is not None:
            found[on] = parse_quantity(value, name)
            if not 0 <= found[on] <= 1:
                raise UsageError(f"{on}: {value!r} is not possible as a score. Expected 0% to 100%.")
    return found


def read_address(search: str | None) -> tuple[str | None, Scenario | None, list[str]]:
    """Return the table, the scenario and the pinned scenarios of an address.

    Parameters
    ----------
    search
        ``?table=..&n_params=..&pin=..&pin=..``, in which anybody may have written anything.

    Returns
    -------
    table
        The beginning of a table's fingerprint.
    scenario
        ``None`` where the address has none.
    pins
        Scenarios as `Scenario.to_query` writes them.

    Raises
    ------
    UsageError
        If a value is no sensible number.
    """
    if not isinstance(search, str) or len(search) > LONGEST:
        return None, None, []
    pairs = parse_qsl(search.removeprefix("?"))
    table = next((value for name, value in pairs if name == "table"), None)
    asked: dict[str, Any] = {name: value for name, value in pairs if name not in ("table", "pin")}
    scenario = Scenario.read(asked) if {"tokens", "n_params", "replay"} & set(asked) else None
    return table, scenario, [Scenario.from_query(value).to_query() for name, value in pairs if name == "pin"]
