"""Profile of the objective along a forecast: every forecast that the data cannot tell from the best one.

For a point x the profile is the least objective among all parameter vectors that forecast a given loss there. Where it
stays low the data is silent, however far that is from the fit; a bootstrap that starts at the fit never sees this. A
penalty draws the forecast to a wanted value; minimising with it lands on the profile whatever its stiffness, and all
wanted values of all points are descended side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array, Positive
from cptlaw.solving import newton
from cptlaw.solving.components import base_models, components, variance_by_level
from cptlaw.solving.huber import FLOOR_ROWS, noise_variance, noise_weight
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.objective import ForecastPenalty, Objective, penalty_of
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
STIFFNESS = 30.0  # of the penalty, in rows of data
MOST_PROFILES = 12  # rows that are profiled; the others take the range of what was met on the way


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
    freedom
        Rows less fitted parameters, and the rows that the floor of the noise counts as.
    """

    rise: float
    spread: float
    freedom: float


def noise(fit: Fit) -> Noise:
    """Estimate the scatter from the residuals of the fit, with a floor that decides where none are left."""
    residual, free = fit.residuals(), max(fit.n_points - fit.rank, 0)
    return Noise(
        rise=0.5 * noise_weight(residual, fit.options.delta, free),
        spread=math.sqrt(noise_variance(residual, free)),
        freedom=free + FLOOR_ROWS,
    )


def profile(fit: Fit, frame: pd.DataFrame, probability: float, most: int | None = None) -> Array:
    """Return the range of fitted log losses that the data allows at each row, shape (n, 2).

    Parameters
    ----------
    fit
        The fit.
    frame
        Rows with the law's inputs.
    probability
        Of the confidence interval.
    most
        Rows that are profiled, 12 where not given; the others take the range of what was met on these and
        earlier profiles.

    Returns
    -------
    array
        Lower and upper end; minus or plus infinity where the data does not bound the loss.
    """
    pool, centre = _Pool.of(fit), np.log(fit.predict(frame))
    (limits,), chosen = pool.profiled(frame, [probability], MOST_PROFILES if most is None else most)
    return pool.ends(frame, centre, limits, chosen)


def profiles(fit: Fit, frame: pd.DataFrame, probabilities: Sequence[float]) -> Array:
    """Return `profile` for several probabilities from one profile, that of the widest, shape (probabilities, n, 2)."""
    pool, centre = _Pool.of(fit), np.log(fit.predict(frame))
    every, chosen = pool.profiled(frame, probabilities)
    return np.stack([pool.ends(frame, centre, limits, chosen) for limits in every])


class _Pool:
    """What profiles at any row of a fit have met, kept with the fit: a row is profiled once for all probabilities.

    Parameters
    ----------
    fit
        The fit.
    """

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        problem = fit.problem()
        self.problem = problem
        self.known = _Known.at_first(Objective(problem, fit.options.delta, penalty=fit.penalty(problem)), fit.optima)
        self.least = float(self.known.objective[0])
        self.rise = noise(fit).rise
        self.own: dict[bytes, slice] = {}
        self.reached: dict[bytes, float] = {}
        self.keys: list[bytes] = []

    @classmethod
    def of(cls, fit: Fit) -> _Pool:
        """Return the pool that is kept with a fit."""
        if "pool" not in fit._cache:
            fit._cache["pool"] = cls(fit)
        found: _Pool = fit._cache["pool"]
        return found

    def profiled(
        self, frame: pd.DataFrame, probabilities: Sequence[float], most: int = MOST_PROFILES
    ) -> tuple[Array, NDArray[np.int_]]:
        """Profile some rows, as far as the widest probability asks.

        Returns the rise allowed at each row, (probabilities, n), and which rows have a profile of their own.
        """
        x = self.fit.law.bind(frame, self.fit.role)
        k, start = self.problem.k, self.fit.optima[0]
        effects, freedom = units_along(self.fit, self.problem, jacobian(self.problem, start[:k], start[k:], at=x))
        quantiles = np.array([[t_quantile(p, nu) for nu in freedom] for p in probabilities])
        every = self.rise * quantiles**2 * effects
        limits = every.max(axis=0)
        self.keys = [_key(x, i) for i in range(len(frame))]
        places = [column.log for column in vars(x).values() if isinstance(column, Positive)]
        chosen = _spread_out(np.column_stack(places), most)
        for i in chosen:
            key = self.keys[i]
            if limits[i] <= self.reached.get(key, 0.0) * (1 + 1e-9):
                continue
            point = SimpleNamespace(**{name: column[i : i + 1] for name, column in vars(x).items()})
            first = len(self.known.at)
            self.known = _profile_row(self.fit, point, frame.iloc[[i]], self.least + limits[i], self.known)
            self.own[key], self.reached[key] = slice(first, len(self.known.at)), float(limits[i])
        with_walk = [i for i, key in enumerate(self.keys) if key in self.own]
        return every, np.array(with_walk, dtype=int)

    def ends(self, frame: pd.DataFrame, centre: Array, limits: Array, chosen: NDArray[np.int_]) -> Array:
        """Return the lower and upper end of the log loss at each row, (n, 2).

        What the data allows holds for all rows, whichever profile met it; what it refuses is known from a row's own.
        """
        found = np.column_stack([centre, centre])
        losses, rises = _log_losses(self.fit, self.known, frame), self.known.objective - self.least
        own = set(chosen.tolist())
        most = float(limits[chosen].max(initial=0.0))
        for i in range(len(frame)):
            if i in own:
                away, mine = losses[:, i] - centre[i], self.own[self.keys[i]]
                found[i] = [centre[i] + side * _reach(side * away, rises, limits[i], mine) for side in (-1, 1)]
            else:
                allowed = losses[rises <= most, i]
                found[i] = [allowed.min(initial=centre[i]), allowed.max(initial=centre[i])]
        return found


@dataclass(frozen=True, eq=False)
class _Known:
    """Places that profiles have met.

    Parameters
    ----------
    goal
        The objective of the data, with the priors.
    at, parameters
        Coordinates and all parameters of the law, one row per place.
    objective
        The objective there, priors included.
    settled
        Whether the descent that ended there had settled.
    """

    goal: Objective
    at: Array
    parameters: Array
    objective: Array
    settled: NDArray[np.bool_]

    @classmethod
    def at_first(cls, goal: Objective, at: Array) -> _Known:
        """Begin with optima."""
        # The data part alone: where a curvature is not finite, which no step could use, the total says infinity.
        k, total = goal.problem.k, goal.evaluate(at)["objective"] + penalty_of(goal.problem, at, goal.penalty)
        return cls(goal, at, goal.problem.parameters(at[:, :k], at[:, k:]), total, np.ones(len(at), dtype=bool))

    def and_these(self, found: newton.Descent) -> _Known:
        """Add where a descent ended."""
        at = np.concatenate([found.c, found.z], axis=1)
        priors = penalty_of(self.goal.problem, at, self.goal.penalty)
        return _Known(
            self.goal,
            np.concatenate([self.at, at]),
            np.concatenate([self.parameters, self.goal.problem.parameters(found.c, found.z)]),
            np.concatenate([self.objective, found.objective + priors]),
            np.concatenate([self.settled, found.status == newton.CONVERGED]),
        )


def _log_losses(fit: Fit, known: _Known, frame: pd.DataFrame) -> Array:
    """Return the log losses that known places forecast, (places, n); far out, a law with falling terms may cross 0."""
    losses: Array = np.log(np.maximum(fit.law.predict_many(known.parameters, frame, fit.role), 1e-300))
    return losses


def _key(x: SimpleNamespace, row: int) -> bytes:
    """Return what tells one row of a law's inputs from another: every number that the law reads there."""
    parts = []
    for column in vars(x).values():
        if isinstance(column, Positive | np.ndarray):
            parts.append(np.ascontiguousarray(getattr(column, "value", column)[row]).tobytes())
        else:  # whole schedules
            inside = vars(column[row : row + 1])
            parts += [np.ascontiguousarray(value).tobytes() for value in inside.values()]
    return b"|".join(parts)


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


def _profile_row(fit: Fit, point: SimpleNamespace, row: pd.DataFrame, limit: float, known: _Known) -> _Known:
    """Profile one row, from the places that are known, and return them with the new ones.

    `limit` is the objective up to which a place is allowed.
    """
    k = known.goal.problem.k
    centre, first = float(np.log(fit.predict(row))[0]), len(known.at)
    wanted = centre + np.concatenate([-SHIFTS[::-1], SHIFTS])
    for _ in range(1 + REFINEMENTS):
        values = _log_losses(fit, known, row)[:, 0]
        # Every wanted value starts from the known place that is best for it, so no step is lost.
        penalties = 0.5 * STIFFNESS * (values - wanted[:, None]) ** 2
        start = known.at[(known.objective + penalties).argmin(axis=1)]
        goal = replace(known.goal, forecast=ForecastPenalty(point, wanted, STIFFNESS))
        known = known.and_these(newton.descend(goal, start[:, :k], start[:, k:], iterations=STEPS, tolerance=TOLERANCE))
        values = _log_losses(fit, known, row)[:, 0]
        walls = known.settled & (np.arange(len(values)) >= first)
        asked, wanted = (
            wanted,
            np.concatenate(
                [centre + side * _ask_next(side * (values - centre), known.objective, walls, limit) for side in (-1, 1)]
            ),
        )
        # Asked the same again, a descent from the same places ends where it did.
        if not len(wanted) or (len(wanted) == len(asked) and np.allclose(wanted, asked, rtol=0, atol=1e-12)):
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
    if not len(near):  # a limit that is no number: the forecast lies beyond all bounds
        return float("inf")
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

    For loss curves "run" means a block of a run: `cptlaw.solving.blocks`.

    The variance by the jackknife over runs is divided by that over single points. The jackknife is taken to first
    order: how the forecast moves when a run is left out. Plain sums of residuals by run would be too small, because the
    law bends towards what the points of a run have in common, the more so the fewer the runs (MacKinnon, Nielsen and
    Webb 2023, on the cluster-robust estimator CV3).
    """
    k, start = problem.k, fit.optima[0]
    return design_effects_along(fit, problem, jacobian(problem, start[:k], start[k:], at=x))


def design_effects_along(fit: Fit, problem: Problem, gradients: Array) -> Array:
    """Return the same for any quantities, by their gradients with respect to the coordinates, (n, coordinates)."""
    return units_along(fit, problem, gradients)[0]


def units_along(fit: Fit, problem: Problem, gradients: Array) -> tuple[Array, Array]:
    """Return design effects and degrees of freedom of the doubt about quantities, both (n,).

    Where runs share base models, the base model is the unit of error: the variance that its offset, those of runs and
    those of points make (`cptlaw.solving.components`) is divided by that of independent points, and the larger of the
    two effects counts. Freedom is then Satterthwaite's over the levels, otherwise runs less one.

    Parameters
    ----------
    gradients
        Of the quantities with respect to the coordinates of the fit, (n, coordinates).
    """
    k, start = problem.k, fit.optima[0]
    matrix = jacobian(problem, start[:k], start[k:])
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    rows, singular, turn = np.linalg.svd(matrix / lengths, full_matrices=False)
    seen = singular > 1e-4 * singular[0]
    rows = rows[:, seen]  # orthonormal columns: rows.T @ rows is the identity, and less a run's share without it
    directions = (gradients / lengths) @ turn[seen].T / singular[seen]
    delta = fit.options.delta
    scores = rows * np.clip(fit.residuals(), -delta, delta)[:, None]
    run = fit.blocks
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
    freedom = np.full(len(directions), float(max(fit.n_blocks - 1, 1)))
    base = base_models(fit.data)
    if base is None:
        return effects, freedom
    pulls = np.clip(fit.residuals(), -delta, delta)
    found = components(pulls, rows, (("base", base), ("run", run)))
    parts = variance_by_level(found, rows, directions)
    total = np.maximum(parts.sum(axis=0), 1e-300)
    alone = float(pulls @ pulls) / max(points - rows.shape[1], 1) * np.sum(directions**2, axis=1)
    by_level = total**2 / np.maximum(np.sum(parts**2 / found.freedoms[:, None], axis=0), 1e-300)
    return np.maximum(effects, total / np.maximum(alone, 1e-300)), np.clip(by_level, 1.0, freedom)
