"""What the data leaves open of a forecast: the doubt that the next experiments have to shrink.

The doubt is a covariance of the law's parameters at the optimum (`cptlaw.fitting.curvature`), scaled so that the
forecast errs by as much as its interval says: how far the law's form errs, and how far profiles reach, counts.

Axes: d = directions of the parameters, n = rows, g = runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError
from cptlaw.fitting.cached import cached
from cptlaw.fitting.curvature import covariance
from cptlaw.fitting.doubt import slopes_at
from cptlaw.fitting.solving.blocks import trainings
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.uncertainty.intervals import MIN_RUNS
from cptlaw.laws.calculus import Array
from cptlaw.units import counted

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit
    from cptlaw.fitting.law_fit import LawFit
    from cptlaw.planning.limits import AboveBase

FARTHEST = 1.0  # in log loss: where the data bounds nothing, the doubt reaches this far
SILENT = 1e-8  # of the largest singular value: directions of the Jacobian that the data does not see


@dataclass(frozen=True, eq=False)
class Doubt:
    """The doubt about one forecast.

    Parameters
    ----------
    centre
        Log of the forecast.
    sides
        Distance in log loss from the forecast down and up to the ends of the interval of the *fitted* loss; finite.
        Where studies of others speak, of a measured loss, for what measuring adds depends on how sure the laws are.
    bounded
        Whether the data bounds the loss on both sides; where not, `sides` is the farthest that was looked at.
    scatter
        Half-width in log loss that measuring one loss adds to it.
    """

    centre: float
    sides: tuple[float, float]
    bounded: tuple[bool, bool]
    scatter: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval of the fitted log loss."""
        return 0.5 * (self.sides[0] + self.sides[1])

    def interval(self, share: float = 1.0) -> tuple[float, float]:
        """Return the interval of a measured loss, nats, with the doubt about the fitted loss scaled by `share`."""
        low = np.exp(self.centre - np.hypot(share * self.sides[0], self.scatter))
        high = np.exp(self.centre + np.hypot(share * self.sides[1], self.scatter))
        return float(low), float(high)

    def width(self, share: float = 1.0) -> float:
        """Return the width of `interval`, nats."""
        low, high = self.interval(share)
        return high - low


@dataclass(frozen=True)
class Variances:
    """The variance of log residuals: a run's own offset, and the scatter of its points."""

    between: float
    within: float


def doubt(fit: Fit, before: pd.Series, probability: float) -> Doubt:
    """Return the doubt about a forecast.

    Parameters
    ----------
    before
        The row as `Fit.forecast` returned it: loss, lo and hi, missing where the data bounds nothing.
    probability
        Of the interval.

    Raises
    ------
    DataError
        If there are too few runs to say how runs differ.
    """
    if fit.n_runs < MIN_RUNS and not fit.uses_studies:
        raise DataError(
            f"{counted(fit.n_runs, 'run')} cannot say how runs differ, so there is no interval to shrink; at least "
            f"{MIN_RUNS} are needed. Add runs at other sizes, mixes or budgets first."
        )
    centre = float(np.log(before["loss"]))
    scatter = 0.0 if fit.uses_studies else fit.scatter(probability)
    reach = np.abs(np.log(np.array([before["lo"], before["hi"]], dtype=float)) - centre)
    bounded = np.isfinite(reach)
    # The noise of one measurement was added in quadrature; what is left is the doubt about the fitted loss.
    fitted = np.sqrt(np.maximum(reach**2 - scatter**2, 1e-18))
    low, high = (float(side) for side in np.minimum(np.where(bounded, fitted, FARTHEST), FARTHEST))
    return Doubt(centre, (low, high), (bool(bounded[0]), bool(bounded[1])), scatter)


def above_base(of_loss: Doubt, above: AboveBase, points: Mapping[str, ArrayLike], probability: float) -> Doubt:
    """Return the doubt about how far a loss lies above its base model's, as `AboveBase.ends` has it."""
    bounded = np.array(of_loss.bounded)
    away = np.hypot(of_loss.sides, of_loss.scatter)
    if above.shared is not None and not bounded.all():
        # A loss at a size that was not run may be open, and how far it lies above its base model's known.
        away = np.where(bounded, away, above.shared.half_width(points, probability))
    away = above.half_width(points, away, probability)
    known = np.isfinite(away)
    sides = np.sqrt(np.maximum(np.where(known, away, np.inf) ** 2 - of_loss.scatter**2, 1e-18))
    low, high = (float(side) for side in np.minimum(sides, FARTHEST))
    return replace(of_loss, sides=(low, high), bounded=(bool(known[0]), bool(known[1])))


def along_directions(fit: LawFit, rows: pd.DataFrame) -> Array:
    """Return how log losses move along independent directions of the parameters, by one deviation, (d, n)."""
    slopes = slopes_at(fit, rows)
    open_still = covariance(fit)
    # Coordinates differ in size by orders of magnitude; the root is taken of the correlations.
    scale = np.sqrt(np.maximum(np.diag(open_still), 1e-300))
    values, vectors = np.linalg.eigh(open_still / np.outer(scale, scale))
    root = scale[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    result: Array = (slopes @ root).T
    return result


@cached
def errors(fit: LawFit) -> Variances:
    """Split the variance of the log residuals into a run's own offset and the scatter of its points.

    Both sums of squares are set to what they would be expected to be after the fit took its share (Henderson's method
    of moments): residuals are (1 - H) e with H the projection on the columns of the Jacobian.
    """
    problem, k = fit.problem(), fit.problem().k
    matrix = jacobian(problem, fit.optima[0][:k], fit.optima[0][k:])
    matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    seen = left[:, singular > SILENT * singular[0]]
    _, run = np.unique(trainings(fit.data), return_inverse=True)
    member = np.zeros((fit.n_points, int(run.max()) + 1))
    member[np.arange(fit.n_points), run] = 1.0
    # What the fit follows is taken out of the offsets too: a fit with as many parameters as runs leaves none of theirs
    # in its residuals.
    kept = member - seen @ (seen.T @ member)  # (1 - H) Z
    residual = fit.residuals()
    inner = member.T @ kept
    system = np.array(
        [
            [max(fit.n_points - seen.shape[1], 1), np.trace(inner)],
            [np.trace(inner), np.sum(inner**2)],
        ]
    )
    sums = np.array([np.sum(residual**2), np.sum((member.T @ residual) ** 2)])
    alone = sums[0] / system[0, 0]
    if np.linalg.cond(system) > 1e10:  # one point per run: what is a run's and what is a point's cannot be told apart
        return Variances(between=0.0, within=max(float(alone), 1e-24))
    within, between = np.linalg.solve(system, sums)
    if between <= 0:
        return Variances(between=0.0, within=max(float(alone), 1e-24))
    return Variances(between=float(between), within=max(float(within), 0.05 * float(between), 1e-24))
