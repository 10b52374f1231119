"""What is known of a loss curve before its end: priors on a curve law's parameters, scaled to the run at hand.

The first part of a run does not determine a curve law: at a constant rate nothing has annealed yet. What fills the gap
was learned from other studies (`fitting.learned`; Wang et al. 2025, arXiv:2505.07796, and the curves of Luo et al.
2025, arXiv:2503.12811). Raw coefficients depend on the learning rate and on the loss, so priors are on quantities that
do not: shares of the loss, and rates per step. All are log-normal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cptlaw.errors import UsageError
from cptlaw.fitting.learned.priors import learned_prior
from cptlaw.fitting.solving.restraint import Prior
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Number
from cptlaw.schedules import LAMBDA
from cptlaw_curves.laws.curve_law import CurveLaw
from cptlaw_curves.laws.dynamics import CptDynamics

BEFORE = Prior(3.0, 1.5, "log")  # S1 of an unknown pre-training, in forward areas of CPT


def learned(kind: str) -> Prior:
    """Return the learned prior of a kind of quantity, without the study that is left out (`cptlaw.fitting.learned`)."""
    return learned_prior(f"curve_{kind}")


@dataclass(frozen=True)
class Coordinates:
    """A curve law in coordinates whose priors are independent: logarithms of shares and rates.

    Parameters
    ----------
    law
        lr-annealing, or cpt-dynamics with or without an open base model.
    level
        Loss at the last row, nats.
    peak
        Highest learning rate of the run.
    area, area_cpt
        Forward area at the planned end, of both phases and of CPT.
    """

    law: CurveLaw
    role: Role
    level: float
    peak: float
    area: float
    area_cpt: float

    def __post_init__(self) -> None:
        plain = type(self.law) is CptDynamics or self.law.name == "lr-annealing"
        if not plain or self.law.decay == "fit":
            raise UsageError(
                f"an unfinished run is forecast with lr-annealing or cpt-dynamics at a given lambda; law "
                f"{self.law.spec} has no priors."
            )

    # A descent asks for them at each of its thousand losses: made anew each time they were three fifths of its cost.
    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Prior of each parameter, in shares and rates."""
        result = {"L0": learned("floor"), "A": learned("forward"), "alpha": learned("alpha")}
        # What annealing from the peak to 0 gains, as published: 2 to 3.9 % of the loss (Wang et al.), 2.9 % (Tissue et
        # al.), 6.6 % (Luo et al., 400M).
        anneal = learned("anneal")
        if self.law.name == "lr-annealing":
            return result | {"C": anneal}
        result |= {"B": learned(f"shift_{self.role}"), "E": learned(f"speed_{self.role}")}
        result |= {"beta": learned("bend"), "C2": anneal}
        return result | ({"S1pt": BEFORE} if "S1pt" in self.law.parameters else {"C1": anneal})

    def params(self, shares: Mapping[str, Number]) -> dict[str, Number]:
        """Return the law's parameters for shares and rates, each a number or an array."""
        result = dict(shares)
        area: Number = self.area
        if "S1pt" in result:
            result["S1pt"] = result["S1pt"] * self.area_cpt
            area = result["S1pt"] + self.area_cpt
        for name in ("L0", "B"):
            if name in result:
                result[name] = result[name] * self.level
        result["A"] = result["A"] * self.level * area ** result["alpha"]
        for name in ("C", "C1", "C2"):
            if name in result:
                result[name] = result[name] * self.level * (1.0 - min(float(self.law.decay), LAMBDA)) / self.peak
        if "E" in result:
            result["E"] = result["E"] / self.peak
        return {name: result[name] for name in self.law.parameters}

    def pairs(self) -> list[tuple[str, str, float]]:
        """Return pairs of parameters that are alike, with the sd of the logarithm of their ratio."""
        return [("C2", "C1", learned("like").sd)] if {"C1", "C2"} <= set(self.law.parameters) else []
