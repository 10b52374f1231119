"""How a law is fitted: threshold, starts, seed and restraint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from cptlaw.errors import UsageError
from cptlaw.fitting.solving.restraint import GivenRestraint, Restraint
from cptlaw.laws import Law
from cptlaw.schedules import SchedulesLike
from cptlaw.units import parse_quantity


class HowToSearch(TypedDict, total=False):
    """How laws are searched for, wherever they are fitted."""

    delta: float | str | None
    starts: int | None
    seed: int
    schedules: SchedulesLike | None


class HowToFit(HowToSearch, GivenRestraint, total=False):
    """How `cptlaw.fit` fits, beside the law and the rows."""

    restraint: str | None
    shift: str | None


@dataclass(frozen=True)
class Options:
    """How to fit: threshold, starts, seed and restraint."""

    delta: float
    starts: int = Law.starts
    seed: int = 0
    restraint: Restraint = field(default_factory=Restraint)

    @classmethod
    def build(
        cls,
        chosen: Law,
        delta: object = None,
        starts: object = None,
        seed: object = 0,
        restraint: Restraint | None = None,
    ) -> Options:
        """Check what a user asks for, with the law's own threshold and starts where nothing is asked."""
        threshold = chosen.delta if delta is None else parse_quantity(delta, "delta (--delta)")
        if not threshold > 0:
            raise UsageError(f"delta (--delta): {delta!r}. Expected a positive number, such as 0.02.")
        return cls(
            threshold,
            chosen.starts if starts is None else _whole(starts, "starts (--starts)", 1),
            _whole(seed, "seed (--seed)", 0),
            restraint or Restraint(),
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"delta": self.delta, "starts": self.starts, "seed": self.seed, "restraint": self.restraint.to_dict()}


def _whole(value: object, name: str, lowest: int) -> int:
    number = parse_quantity(value, name)
    if number != int(number) or number < lowest:
        raise UsageError(f"{name}: {value!r}. Expected a whole number, {lowest} or more.")
    return int(number)
