"""What a plan of a mix must keep: upper limits on losses, forgetting, scores and tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import EVEN
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
