"""What a plan of a mix must keep: upper limits on losses, forgetting, scores and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import EVEN, Loss
from cptlaw.planning.options import label
from cptlaw.planning.scenario import options_of
from cptlaw.planning.solve import Limit, Points


@dataclass(frozen=True, eq=False)
class Upper:
    """A limited quantity at points: the value that is kept with a probability.

    Parameters
    ----------
    loss
        The loss behind it.
    risk
        The probability; ``None`` for the forecast.
    scale
        How the loss turns into the quantity; ``None`` for the loss itself. Its reference may be in doubt as well, and
        the two doubts are independent of each other.
    """

    loss: Any
    risk: float | None
    scale: Any = None

    def __call__(self, points: Points) -> Array:
        """Return the quantity at points, (n,)."""
        found = self.loss.upper(points, self.risk)
        if self.scale is None:
            return np.asarray(found, dtype=float)
        if self.risk is not None and self.risk > EVEN:
            own = self.scale.reference.half_width(2.0 * self.risk - 1.0)
            if own > 0:
                centre = self.loss.upper(points, None)
                with np.errstate(all="ignore"):
                    found = centre * np.exp(np.hypot(np.log(found / centre), own))
        return np.asarray(self.scale.of(found), dtype=float)


def limit_on(name: str, about: str, value: float, loss: Any, scale: Any, risk: float | None) -> Limit:
    """Return an upper limit on a loss, or on what a scale makes of it."""
    return Limit(name, value, Upper(loss, risk, scale), Upper(loss, None, scale), about, loss, scale)


def build_limits(scenario: Any, given: Any, losses: dict[str, Loss], how: Any, more: Iterable[Limit]) -> list[Limit]:
    """Return the limits that were given, in the order in which the scenario declares them.

    Parameters
    ----------
    scenario, given
        The scenario, and its values as `read_scenario` returns them.
    losses
        The losses by role.
    how
        How forgetting counts, where that is known.
    more
        Limits of other kinds, such as those in points.

    Raises
    ------
    UsageError
        If a limit lacks its fit, if `risk` is given without a limit, or with a fit of fewer than three runs.
    """
    limits: list[Limit] = []
    risk = getattr(given, "risk", None)
    for name, option in options_of(scenario).items():
        value = getattr(given, name)
        if not option.limit or value is None:
            continue
        # Forgetting is a limit on the source loss in other words.
        role = "target" if option.limit == "target_loss" else "source"
        if role not in losses:
            raise UsageError(
                f"{label(name)}: a limit on the {role} loss or on forgetting needs {role}= (--{role}), a fit of the "
                f"{role} loss."
            )
        scale = how if option.limit == "forgetting" else None
        limits.append(limit_on(name.replace("_", "-"), option.limit, value, losses[role], scale, risk))
    limits += more
    if risk is None:
        return limits
    if not limits:
        raise UsageError("risk (--risk) is the probability with which limits hold, but no limit was given.")
    for limit in limits:
        if not limit.loss.knows_doubt:
            raise UsageError(
                f"risk (--risk): the {limit.loss.role} fit has {limit.loss.n_runs} runs, which cannot say how runs "
                f"differ. Fit on at least three, or leave risk out."
            )
    return limits


def column(points: Points, name: str) -> Array:
    """Return a column of points."""
    return np.asarray(points[name], dtype=float)


def at_most(name: str, what: str, value: float) -> Limit:
    """Return an upper limit on a column of the points."""
    return Limit(name, value, partial(column, name=what), None, what)


def at_risk(limit: Limit, risk: float | None) -> Limit:
    """Return a limit that is kept with another probability."""
    upper = limit.reached
    return replace(limit, reached=replace(upper, risk=risk)) if isinstance(upper, Upper) else limit
