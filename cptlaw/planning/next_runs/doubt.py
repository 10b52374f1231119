"""What the data leaves open, as a sample of laws: the doubt that the next experiments have to shrink.

A covariance at the fit is singular, or far too narrow, where the design does not identify the law. So the sample is
laid along the profile of the asked forecast: every member is drawn, by a penalty, to its own value between the ends of
the interval, and minimises the objective under random weights of the runs. The forecasts of the members then cover the
interval evenly, and at a given forecast the members differ as refits do.

Axes: s = members of the sample, n = fitted rows, g = runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import DataError
from cptlaw.laws.calculus import Array, Positive
from cptlaw.solving import newton
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.objective import ForecastPenalty, Objective
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.intervals import MIN_RUNS
from cptlaw.uncertainty.profile import noise
from cptlaw.uncertainty.traces import STIFFNESS

if TYPE_CHECKING:
    from cptlaw.fitting.law_fit import LawFit

MEMBERS = 240  # twenty for each parameter of the largest laws: chance correlations stay at a few per cent
FARTHEST = 1.0  # in log loss: where the data bounds nothing, laws this far from the fit are sampled
SILENT = 1e-8  # of the largest singular value: directions of the Jacobian that the data does not see


@dataclass(frozen=True, eq=False)
class Doubt:
    """The doubt about one forecast.

    Parameters
    ----------
    members
        Parameter vectors that the data cannot tell apart, (s, parameters).
    centre
        Log of the forecast.
    sides
        Distance in log loss from the forecast down and up to the ends of the interval of the *fitted* loss; finite.
    bounded
        Whether the data bounds the loss on both sides; where not, `sides` is the farthest that was looked at.
    scatter
        Half-width in log loss that measuring one loss adds.
    """

    members: Array
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


def doubt(fit: LawFit, point: pd.DataFrame, before: pd.Series, probability: float) -> Doubt:
    """Sample the laws that the data cannot tell apart, spread along what they forecast at a point.

    Parameters
    ----------
    point
        One row with the law's inputs.
    before
        The row as `Fit.forecast` returned it: loss, lo and hi, missing where the data bounds nothing.
    probability
        Of the interval.

    Raises
    ------
    DataError
        If there are too few runs to say how runs differ.
    """
    if fit.n_runs < MIN_RUNS:
        raise DataError(
            f"{fit.n_runs} runs cannot say how runs differ, so there is no interval to shrink; at least {MIN_RUNS} are "
            f"needed. Add runs at other sizes, mixes or budgets first."
        )
    centre = float(np.log(before["loss"]))
    scatter = t_quantile(probability, max(fit.n_points - fit.rank, 1)) * noise(fit).spread
    reach = np.abs(np.log(np.array([before["lo"], before["hi"]], dtype=float)) - centre)
    bounded = np.isfinite(reach)
    # The noise of one measurement was added in quadrature; what is left is the doubt about the fitted loss.
    fitted = np.sqrt(np.maximum(reach**2 - scatter**2, 1e-18))
    low, high = (float(side) for side in np.minimum(np.where(bounded, fitted, FARTHEST), FARTHEST))
    return Doubt(
        members=_members(fit, point, centre - low, centre + high),
        centre=centre,
        sides=(low, high),
        bounded=(bool(bounded[0]), bool(bounded[1])),
        scatter=scatter,
    )


def _members(fit: LawFit, point: pd.DataFrame, low: float, high: float) -> Array:
    """Return parameters whose log forecasts spread evenly from low to high, each refitted to its own weights."""
    problem, k = fit.problem(), fit.problem().k
    x = fit.law.bind(point, fit.role)
    # Inputs that may be negative, such as the sign of a role, come as plain arrays.
    x = SimpleNamespace(
        **{name: Positive(column.value) if hasattr(column, "value") else column for name, column in vars(x).items()}
    )
    optima = fit.optima

    def forecasts(at: Array) -> Array:
        found: Array = np.log(fit.law.predict_many(problem.parameters(at[:, :k], at[:, k:]), point, fit.role)[:, 0])
        return found

    # A coarse profile without weights first: far ends are reached step by step, not in one leap.
    # Twice, for a far stop may be reached from what the first round met beside it.
    stops = np.linspace(low, high, 17)
    at, reached = optima, forecasts(optima)
    for _ in range(2):
        start = at[np.abs(reached[None, :] - stops[:, None]).argmin(axis=1)]
        goal = Objective(problem, fit.options.delta, forecast=ForecastPenalty(x, stops, STIFFNESS))
        found = newton.descend(goal, start[:, :k], start[:, k:], iterations=40, tolerance=1e-8)
        at = np.concatenate([at, np.concatenate([found.c, found.z], axis=1)])
        reached = forecasts(at)
    rng = np.random.default_rng([fit.options.seed, 3])
    _, run_of_row = np.unique(fit.data["run"].to_numpy(dtype=str), return_inverse=True)
    # The Bayesian bootstrap by run: each member is a fit to another weighing of the same runs, so that members scatter
    # in every direction and not along the forecast alone.
    weights = rng.exponential(size=(MEMBERS, fit.n_runs))
    weights *= fit.n_runs / weights.sum(axis=1, keepdims=True)
    # Even steps have the standard deviation of a normal law with these ends as its 90 % interval, within 6 %.
    wanted = low + (high - low) * (np.arange(MEMBERS) + 0.5) / MEMBERS
    start = at[np.abs(reached[None, :] - wanted[:, None]).argmin(axis=1)]
    goal = Objective(
        problem, fit.options.delta, weights=weights[:, run_of_row], forecast=ForecastPenalty(x, wanted, STIFFNESS)
    )
    found = newton.descend(goal, start[:, :k], start[:, k:], iterations=40, tolerance=1e-6)
    return problem.parameters(found.c, found.z)


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
    _, run = np.unique(fit.data["run"].to_numpy(dtype=str), return_inverse=True)
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
