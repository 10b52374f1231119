"""What is known of a loss curve before its end: priors on a curve law's parameters, scaled to the run at hand.

The first part of a run does not determine a curve law: at a constant rate nothing has annealed yet. What fills the gap
are the coefficients published for other models (Wang et al. 2025, arXiv:2505.07796, figs. 3, 11, 12, 16, 18; Tissue et
al. 2024, arXiv:2408.11029; for the gain of annealing also the 400M model of Luo et al. 2025, arXiv:2503.12811). Raw
coefficients depend on the learning rate and on the loss, so priors are on quantities that do not: shares of the loss,
and rates per step. All are log-normal, and at least as wide as the published spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cptlaw.errors import UsageError
from cptlaw.laws.base import Role
from cptlaw.laws.curve_law import CurveLaw
from cptlaw.laws.dynamics import CptDynamics
from cptlaw.schedules import LAMBDA


@dataclass(frozen=True)
class LogNormal:
    """Median, and standard deviation of the logarithm."""

    median: float
    sd: float


# Shares of the loss level unless said otherwise; ranges are those of the published coefficients.
FLOOR = LogNormal(0.90, 0.10)  # L0
FORWARD = LogNormal(0.06, 0.8)  # A S1^-alpha at the planned end: 0.03 to 0.10
ANNEAL = LogNormal(0.035, 0.6)  # C peak / (1 - lambda), the gain of annealing from the peak to 0: 0.02 to 0.066
ALPHA = LogNormal(0.55, 0.3)  # 0.41 to 0.70
SHIFT: dict[Role, LogNormal] = {"source": LogNormal(0.12, 1.2), "target": LogNormal(0.25, 0.6)}  # |B|
SPEED: dict[Role, LogNormal] = {"source": LogNormal(0.003, 1.2), "target": LogNormal(0.3, 2.0)}  # E peak, per step
BEND = LogNormal(0.25, 0.8)  # beta: 0.07 to 0.9
BEFORE = LogNormal(3.0, 1.5)  # S1 of an unknown pre-training, in forward areas of CPT
LIKE = 0.2  # sd of log(C2 / C1): published ratios lie between 0.90 and 1.17


@dataclass(frozen=True)
class Scales:
    """What the priors are scaled by.

    Parameters
    ----------
    level
        Loss at the last row, nats.
    peak
        Highest learning rate of the run.
    area, area_cpt
        Forward area at the planned end, of both phases and of CPT.
    """

    level: float
    peak: float
    area: float
    area_cpt: float


@dataclass(frozen=True)
class Coordinates:
    """A curve law in coordinates whose priors are independent: logarithms of shares and rates.

    Parameters
    ----------
    law
        lr-annealing, or cpt-dynamics with or without an open base model.
    role
        Of the eval.
    scales
        Of the run.
    """

    law: CurveLaw
    role: Role
    scales: Scales

    def __post_init__(self) -> None:
        plain = type(self.law) is CptDynamics or self.law.name == "lr-annealing"
        if not plain or self.law.decay == "fit":
            raise UsageError(
                f"an unfinished run is forecast with lr-annealing or cpt-dynamics at a given lambda; law "
                f"{self.law.spec} has no priors."
            )

    @property
    def priors(self) -> dict[str, LogNormal]:
        """Prior of each parameter, in shares and rates."""
        found = {"L0": FLOOR, "A": FORWARD, "alpha": ALPHA}
        if self.law.name == "lr-annealing":
            return found | {"C": ANNEAL}
        found |= {"B": SHIFT[self.role], "E": SPEED[self.role], "beta": BEND, "C2": ANNEAL}
        return found | ({"S1pt": BEFORE} if "S1pt" in self.law.parameters else {"C1": ANNEAL})

    def params(self, shares: Mapping[str, Any]) -> dict[str, Any]:
        """Return the law's parameters for shares and rates, each a number or an array."""
        s = self.scales
        found = dict(shares)
        area = s.area
        if "S1pt" in found:
            found["S1pt"] = found["S1pt"] * s.area_cpt
            area = found["S1pt"] + s.area_cpt
        for name in ("L0", "B"):
            if name in found:
                found[name] = found[name] * s.level
        found["A"] = found["A"] * s.level * area ** found["alpha"]
        for name in ("C", "C1", "C2"):
            if name in found:
                found[name] = found[name] * s.level * (1.0 - min(float(self.law.decay), LAMBDA)) / s.peak
        if "E" in found:
            found["E"] = found["E"] / s.peak
        return {name: found[name] for name in self.law.parameters}

    def pairs(self) -> list[tuple[str, str, float]]:
        """Return pairs of parameters that are alike, with the sd of the logarithm of their ratio."""
        return [("C2", "C1", LIKE)] if {"C1", "C2"} <= set(self.law.parameters) else []
