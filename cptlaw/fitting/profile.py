"""Profile of the objective along a forecast: every forecast that the data cannot tell from the best one.

For a point x the profile is the least objective among all parameter vectors that forecast a given loss there. Where it
stays low the data is silent, however far that is from the fit; a bootstrap that starts at the fit never sees this. A
spring draws the forecast to a wanted value; minimising with the spring lands on the profile whatever its stiffness, and
all wanted values of all points are descended side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.fitting import newton
from cptlaw.fitting.identify import jacobian
from cptlaw.fitting.objective import Objective, Pull
from cptlaw.fitting.problem import Problem
from cptlaw.laws.calculus import Array, Positive

if TYPE_CHECKING:
    from cptlaw.fitting.result import Fit

# Shifts of the log loss at which the profile is taken, to either side. The last one is a factor of 2.7 in the loss:
# what the data does not bound even there is not bounded.
SHIFTS = np.concatenate([np.geomspace(1e-3, 0.05, 7), np.geomspace(0.08, 1.0, 6)])
STIFFNESS = 30.0  # of the spring, in rows of data
MOST_WALKS = 12  # rows whose profile is walked; the others take the range of what was met on the way


@dataclass(frozen=True)
class Noise:
    """The scatter of the log residuals around the fit.

    Parameters
    ----------
    rise
        Rise of the objective at one standard deviation of a parameter. The objective is no likelihood, so this is half
        of E[psi^2] / E[psi'] for its derivative psi (Huber 1964), corrected for the number of fitted parameters.
    spread
        Standard deviation of one measured log loss around the law.
    """

    rise: float
    spread: float


def noise(fit: Fit) -> Noise:
    """Estimate the scatter from the residuals of the fit."""
    residual, delta = fit.residuals(), fit.options.delta
    correction = fit.n_points / max(fit.n_points - fit.rank, 1)
    pull = np.clip(residual, -delta, delta)
    # With a threshold below the noise few rows lie within it, so their density is taken over a wider window.
    window = max(delta, 0.5 * 1.4826 * float(np.median(np.abs(residual))), 1e-12)
    inside = float(np.mean(np.abs(residual) <= window)) * delta / window
    rise = 0.5 * float(np.mean(pull**2)) / max(inside, 1e-3) * correction
    return Noise(rise=max(rise, 1e-24), spread=max(float(np.sqrt(np.mean(residual**2) * correction)), 1e-12))


def t_quantile(probability: float, freedom: float) -> float:
    """Return the half-width of the central interval of Student's t with this probability."""
    return float(special.stdtrit(freedom, 0.5 + 0.5 * probability))


def profile(fit: Fit, frame: pd.DataFrame, probability: float) -> Array:
    """Return the range of fitted log losses that the data allows at each row, shape (n, 2).

    Parameters
    ----------
    fit
        The fit.
    frame
        Rows with the law's inputs.
    probability
        Of the confidence interval.

    Returns
    -------
    array
        Lower and upper end; minus or plus infinity where the data does not bound the loss.
    """
    problem = fit.problem()
    centre = np.log(fit.predict(frame))
    x = fit.law.bind(frame, fit.role)
    scale = noise(fit).rise * t_quantile(probability, max(fit.n_runs - 1, 1)) ** 2
    ends = np.column_stack([centre, centre])
    chosen = _spread_out(np.column_stack([column.log for column in vars(x).values()]), MOST_WALKS)
    allowed = []  # parameters that the data cannot tell from the fit, met on the walks
    for i in chosen:
        point = SimpleNamespace(**{name: Positive(column.value[i : i + 1]) for name, column in vars(x).items()})
        values, rises, draws = _walk(fit, problem, point, frame.iloc[[i]], float(centre[i]))
        limit = scale * _design_effect(fit, problem, point)
        ends[i] = [centre[i] + side * _reach(side * (values - centre[i]), rises, limit) for side in (-1, 1)]
        allowed.append(draws[rises <= limit])
    if len(chosen) < len(frame):
        losses = np.log(fit.law.predict_many(np.concatenate(allowed), frame, fit.role))
        ends[:, 0] = np.minimum(ends[:, 0], losses.min(axis=0))
        ends[:, 1] = np.maximum(ends[:, 1], losses.max(axis=0))
    return ends


def _spread_out(places: Array, count: int) -> list[int]:
    """Choose rows that cover all rows: each next one is the farthest from those chosen; all where they are few."""
    if len(places) <= count:
        return list(range(len(places)))
    scaled = (places - places.mean(axis=0)) / np.maximum(places.std(axis=0), 1e-12)
    chosen = [int(np.abs(scaled).sum(axis=1).argmax())]
    gap = np.full(len(places), np.inf)
    while len(chosen) < count:
        gap = np.minimum(gap, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(gap.argmax()))
    return chosen


def _walk(
    fit: Fit, problem: Problem, point: SimpleNamespace, row: pd.DataFrame, centre: float
) -> tuple[Array, Array, Array]:
    """Walk along the profile at one row.

    Returns
    -------
    log losses at the row, how far the objective of the data rises there, and the parameters
    """
    shifts = np.concatenate([-SHIFTS[::-1], SHIFTS])
    wanted = centre + shifts
    goal = Objective(problem, fit.options.delta, pull=Pull(point, wanted, STIFFNESS))

    def forecasts(draws: Array) -> Array:
        losses: Array = np.log(fit.law.predict_many(draws, row, fit.role)[:, 0])
        return losses

    at = fit.optima
    draws = problem.parameters(at[:, : problem.k], at[:, problem.k :])
    values, rises = [forecasts(draws)], [np.zeros(len(at))]
    parameters = [draws]
    for _ in range(2):
        # Every wanted value starts from the point that came nearest to it so far.
        start = at[np.abs(values[-1][None, :] - wanted[:, None]).argmin(axis=1)]
        found = newton.descend(goal, start[:, : problem.k], start[:, problem.k :], iterations=60, tolerance=1e-9)
        at = np.concatenate([found.c, found.z], axis=1)
        parameters.append(problem.parameters(found.c, found.z))
        values.append(forecasts(parameters[-1]))
        rises.append(found.objective - fit.objective)
    return np.concatenate(values), np.concatenate(rises), np.concatenate(parameters)


def _reach(distance: Array, rises: Array, limit: float) -> float:
    """Return the largest distance on one side at which the profile is still below the limit.

    The root of the rise is close to linear in the distance, so it is interpolated.
    """
    ahead = distance > 0
    distance, height = np.append(0.0, distance[ahead]), np.append(0.0, np.sqrt(np.maximum(rises[ahead], 0.0)))
    allowed = height <= np.sqrt(limit)
    last = float(distance[allowed].max())
    beyond = (distance > last) & ~allowed
    if not beyond.any():
        return float("inf") if last >= 0.9 * SHIFTS[-1] else last
    # The nearest point beyond, and the highest one allowed at or before it.
    j = int(np.flatnonzero(beyond)[distance[beyond].argmin()])
    i = int(np.flatnonzero(allowed)[distance[allowed].argmax()])
    share = (np.sqrt(limit) - height[i]) / max(height[j] - height[i], 1e-300)
    return float(distance[i] + share * (distance[j] - distance[i]))


def _design_effect(fit: Fit, problem: Problem, point: SimpleNamespace) -> float:
    """Return how much more the forecast varies because points of one run err together, at least 1."""
    k = problem.k
    start = fit.optima[0]
    matrix = jacobian(problem, start[:k], start[k:])
    gradient = jacobian(problem, start[:k], start[k:], at=point)[0]
    residual = fit.residuals()
    pull = np.clip(residual, -fit.options.delta, fit.options.delta)
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    inverse = np.linalg.pinv((matrix / lengths).T @ (matrix / lengths), rcond=1e-8)
    influence = pull * ((matrix / lengths) @ (inverse @ (gradient / lengths)))
    _, run = np.unique(fit.data["run"].to_numpy(dtype=str), return_inverse=True)
    by_run = np.bincount(run, influence)
    single = float(np.sum(influence**2))
    runs = len(by_run)
    return max(1.0, float(np.sum(by_run**2)) / max(single, 1e-300) * runs / max(runs - 1, 1))
