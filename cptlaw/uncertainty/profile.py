"""Profile of the objective along a forecast: every forecast that the data cannot tell from the best one.

For a point x the profile is the least objective among all parameter vectors that forecast a given loss there. Where it
stays low the data is silent, however far that is from the fit; a bootstrap that starts at the fit never sees this. A
spring draws the forecast to a wanted value; minimising with the spring lands on the profile whatever its stiffness, and
all wanted values of all points are descended side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array, Positive
from cptlaw.solving import newton
from cptlaw.solving.huber import observation_weight
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.objective import Objective, Pull
from cptlaw.solving.problem import Problem
from cptlaw.solving.student import t_quantile

if TYPE_CHECKING:
    from cptlaw.fitting.fitted_law import Fit

# Shifts of the log loss at which the profile is taken, to either side. The last one is a factor of 2.7 in the loss:
# what the data does not bound even there is not bounded.
SHIFTS = np.geomspace(1e-3, 1.0, 7)
REFINEMENTS = 8  # times, at most, that more values are asked for around the ends
CLOSE = 0.1  # gap between the last value allowed and the next one refused, in shares of the distance, that will do
STEPS = 60  # of each descent
TOLERANCE = 1e-6  # of each descent: small beside the rise that is allowed, which is about 1/n of the objective
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
    rise = 0.5 * observation_weight(residual, delta, correction)
    return Noise(rise=max(rise, 1e-24), spread=max(float(np.sqrt(np.mean(residual**2) * correction)), 1e-12))


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
    return walk(fit, frame, probability).ends


@dataclass(frozen=True, eq=False)
class Walked:
    """What the data allows at some rows.

    Attributes
    ----------
    ends
        Lower and upper end of the fitted log loss, shape (n, 2); infinite where the data does not bound it.
    allowed
        Parameter vectors that were met on the way and that the data allows, the fit first, shape (s, parameters).
    rises
        The share of the allowed rise of the objective that each of them takes, 0 to 1, shape (s,). At a smaller
        probability those are allowed whose share is at most the squared ratio of the two t quantiles.
    """

    ends: Array
    allowed: Array
    rises: Array


def walk(fit: Fit, frame: pd.DataFrame, probability: float) -> Walked:
    """Walk along the profile at each row; see `profile`."""
    problem = fit.problem()
    centre = np.log(fit.predict(frame))
    x = fit.law.bind(frame, fit.role)
    scale = noise(fit).rise * t_quantile(probability, max(fit.n_stretches - 1, 1)) ** 2
    ends = np.column_stack([centre, centre])
    places = [column.log for column in vars(x).values() if isinstance(column, Positive)]
    chosen = _spread_out(np.column_stack(places), MOST_WALKS)
    start = Objective(problem, fit.options.delta).evaluate(fit.optima)["objective"]
    known = _Known.at_first(problem, fit.optima, start)
    effects = design_effects(fit, problem, x)
    limits, own = {}, {}
    for i in chosen:
        point = SimpleNamespace(**{name: column[i : i + 1] for name, column in vars(x).items()})
        limits[i] = scale * float(effects[i])
        first = len(known.at)
        known = _walk(fit, point, frame.iloc[[i]], limits[i], known)
        own[i] = slice(first, len(known.at))
    # What the data allows holds for all rows, whichever walk met it; what it refuses is known from the row's own walk.
    losses = _log_losses(fit, known, frame)
    rises = known.objective - fit.objective
    for i in range(len(frame)):
        if i in limits:
            away = losses[:, i] - centre[i]
            ends[i] = [centre[i] + side * _reach(side * away, rises, limits[i], own[i]) for side in (-1, 1)]
        else:
            allowed = losses[rises <= max(limits.values()), i]
            ends[i] = [allowed.min(initial=centre[i]), allowed.max(initial=centre[i])]
    best = np.array([[fit.params[name] for name in fit.law.parameters]])
    most = max(limits.values(), default=0.0)
    allowed = rises <= most
    shares = np.clip(rises[allowed] / max(most, 1e-300), 0.0, 1.0)
    return Walked(ends, np.concatenate([best, known.parameters[allowed]]), np.concatenate([[0.0], shares]))


@dataclass(frozen=True, eq=False)
class _Known:
    """Places that walks have met.

    Parameters
    ----------
    problem
        The law bound to the fitted rows.
    at, parameters
        Coordinates and all parameters of the law, one row per place.
    objective
        The objective of the data there.
    settled
        Whether the descent that ended there had settled.
    """

    problem: Problem
    at: Array
    parameters: Array
    objective: Array
    settled: NDArray[np.bool_]

    @classmethod
    def at_first(cls, problem: Problem, at: Array, objective: Array) -> _Known:
        """Begin with optima."""
        k = problem.k
        return cls(problem, at, problem.parameters(at[:, :k], at[:, k:]), objective, np.ones(len(at), dtype=bool))

    def and_these(self, found: newton.Descent) -> _Known:
        """Add where a descent ended."""
        return _Known(
            self.problem,
            np.concatenate([self.at, np.concatenate([found.c, found.z], axis=1)]),
            np.concatenate([self.parameters, self.problem.parameters(found.c, found.z)]),
            np.concatenate([self.objective, found.objective]),
            np.concatenate([self.settled, found.status == newton.CONVERGED]),
        )


def _log_losses(fit: Fit, known: _Known, frame: pd.DataFrame) -> Array:
    """Return the log losses that known places forecast, (places, n); far out, a law with falling terms may cross 0."""
    losses: Array = np.log(np.maximum(fit.law.predict_many(known.parameters, frame, fit.role), 1e-300))
    return losses


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


def _walk(fit: Fit, point: SimpleNamespace, row: pd.DataFrame, limit: float, known: _Known) -> _Known:
    """Walk along the profile at one row, from the places that are known, and return them with the new ones."""
    problem, k = known.problem, known.problem.k
    centre, first = float(np.log(fit.predict(row))[0]), len(known.at)
    wanted = centre + np.concatenate([-SHIFTS[::-1], SHIFTS])
    for _ in range(1 + REFINEMENTS):
        values = _log_losses(fit, known, row)[:, 0]
        # Every wanted value starts from the known place that is best for it, so no step of any walk is lost.
        springs = 0.5 * STIFFNESS * (values - wanted[:, None]) ** 2
        start = known.at[(known.objective + springs).argmin(axis=1)]
        goal = Objective(problem, fit.options.delta, pull=Pull(point, wanted, STIFFNESS))
        known = known.and_these(newton.descend(goal, start[:, :k], start[:, k:], iterations=STEPS, tolerance=TOLERANCE))
        values = _log_losses(fit, known, row)[:, 0]
        rises = known.objective - fit.objective
        walls = known.settled & (np.arange(len(values)) >= first)
        wanted = np.concatenate(
            [centre + side * _ask_next(side * (values - centre), rises, walls, limit) for side in (-1, 1)]
        )
        if not len(wanted):
            break
    return known


def _ask_next(distance: Array, rises: Array, walls: NDArray[np.bool_], limit: float) -> Array:
    """Return distances on one side to ask for next: from the farthest one allowed to beyond the end of the profile.

    Only `walls` can say what is not allowed: places on this profile whose descent settled. The search goes past others.
    """
    last = float(distance[rises <= limit].max(initial=0.0))
    beyond = float(distance[(distance > last) & (rises > limit) & walls].min(initial=SHIFTS[-1]))
    if last >= 0.9 * SHIFTS[-1] or beyond - last <= CLOSE * last:
        return np.zeros(0)
    gap = min(beyond - last, max(2.0 * last, SHIFTS[0]))
    asked: Array = last + gap * np.array([0.25, 0.5, 1.0, 1.5])
    return asked


def _reach(distance: Array, rises: Array, limit: float, own: slice) -> float:
    """Return the largest distance on one side at which the profile is still below the limit.

    Parameters
    ----------
    distance, rises
        All known places: how far the forecast is away on this side, and the rise of the objective.
    limit
        Rise up to which a place is allowed.
    own
        The places on this row's own profile.
    """
    ahead = np.append(0.0, distance), np.append(0.0, np.sqrt(np.maximum(rises, 0.0)))
    near, low = (part[(ahead[0] >= 0) & (ahead[1] <= np.sqrt(limit))] for part in ahead)
    last, height = float(near[near.argmax()]), float(low[near.argmax()])
    far, high = distance[own], np.sqrt(np.maximum(rises[own], 0.0))
    far, high = far[(far > last) & (high > np.sqrt(limit))], high[(far > last) & (high > np.sqrt(limit))]
    if not len(far):
        return float("inf") if last >= 0.9 * SHIFTS[-1] else last
    # The root of the rise is close to linear in the distance, so it is interpolated up to the nearest place refused.
    j = int(far.argmin())
    share = (math.sqrt(limit) - height) / (float(high[j]) - height)
    return last + share * (float(far[j]) - last)


def design_effects(fit: Fit, problem: Problem, x: SimpleNamespace) -> Array:
    """Return how much more each forecast varies because points of one run err together, at least 1, shape (n,).

    For loss curves "run" means a stretch of a run: `cptlaw.solving.blocks`.

    The variance by the jackknife over runs is divided by that over single points. The jackknife is taken to first
    order: how the forecast moves when a run is left out. Plain sums of residuals by run would be too small, because the
    law bends towards what the points of a run have in common, the more so the fewer the runs (MacKinnon, Nielsen and
    Webb 2023, on the cluster-robust estimator CV3).
    """
    k, start = problem.k, fit.optima[0]
    return design_effects_along(fit, problem, jacobian(problem, start[:k], start[k:], at=x))


def design_effects_along(fit: Fit, problem: Problem, gradients: Array) -> Array:
    """Return the same for any quantities, by their gradients with respect to the coordinates, (n, coordinates)."""
    k, start = problem.k, fit.optima[0]
    matrix = jacobian(problem, start[:k], start[k:])
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    rows, singular, turn = np.linalg.svd(matrix / lengths, full_matrices=False)
    seen = singular > 1e-4 * singular[0]
    rows = rows[:, seen]  # orthonormal columns: rows.T @ rows is the identity, and less a run's share without it
    directions = (gradients / lengths) @ turn[seen].T / singular[seen]
    delta = fit.options.delta
    scores = rows * np.clip(fit.residuals(), -delta, delta)[:, None]
    run = fit.stretches
    order = np.argsort(run, kind="stable")
    first = np.searchsorted(run[order], np.arange(run.max() + 1))
    shares = np.add.reduceat((rows[:, :, None] * rows[:, None, :])[order], first)
    # What only one run knows has no residual in it, and nothing to say about how runs differ.
    without = np.linalg.pinv(np.eye(int(seen.sum())) - shares, rcond=1e-6, hermitian=True)
    moved_by_run = np.einsum("rij,rj->ri", without, np.add.reduceat(scores[order], first)) @ directions.T
    moved_by_point = scores / np.maximum(1.0 - np.sum(rows**2, axis=1), 1e-6)[:, None] @ directions.T
    runs, points = len(first), len(run)
    by_run = np.sum(moved_by_run**2, axis=0) * (runs - 1) / runs
    by_point = np.sum(moved_by_point**2, axis=0) * (points - 1) / points
    effects: Array = np.maximum(1.0, by_run / np.maximum(by_point, 1e-300))
    return effects
