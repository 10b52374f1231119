"""Traces of the profile of a forecast: from the optima of a fit to the farthest losses that the data allows.

The trace of one row starts from the optima alone and knows nothing of other traces, so that its ends are the same
whatever was asked before and whatever is asked beside it. Traces of several rows are descended side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cptlaw.fitting.cached import cached_in
from cptlaw.fitting.curvature import LEAST, inverse
from cptlaw.fitting.solving import newton
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.objective import ForecastPenalty, Objective
from cptlaw.fitting.solving.priors import penalty_of
from cptlaw.laws.calculus import Array, Letters, Positive

FARTHEST = 1.0  # shift of the log loss at which a trace ends: what the data allows there is not bounded
NEAREST = 1e-5  # shift that a trace begins with at least
FIRST = np.array([0.6, 1.0, 1.5])  # values asked for first, in units of where a parabola would end
AFAR = np.array([0.03, 0.3])  # shifts that are tried as well, in case the profile comes down again
ROUNDS = 12  # of descents, at most
CLOSE = 0.1  # gap between the last value allowed and the next one refused, in shares of the distance, that will do
STUCK = 0.95  # of the gap before, above which a round brought nothing
FAR_WALL = 1.5  # times the farthest distance allowed
STEPS = 60  # of each descent
TOLERANCE = 2e-4  # of each descent, in shares of the rise that is allowed
STIFFNESS = 30.0  # of the penalty, in rows of data
BOTH_SIDES = (-1, 1)  # sides of a trace: lower losses and higher ones
FLAT = 1e-10  # of the largest curvature, below which a direction counts as this flat


@dataclass(eq=False)
class Trace:
    """What the search along the profile of one row has met.

    Parameters
    ----------
    at
        Coordinates of the places, (places, coordinates); the optima come first.
    parameters
        Of the law there, (places, parameters).
    log_loss
        The forecast there.
    rise
        The objective there, priors included, above that of the fit.
    finished
        Whether the descent that ended there had steps left: only then does its rise refuse a loss.
    """

    at: Array
    parameters: Array
    log_loss: Array
    rise: Array
    finished: NDArray[np.bool_]

    def ends(self, centre: float, limit: float) -> tuple[float, float]:
        """Return the log losses at which the profile reaches a limit, infinite where it does not."""
        low, high = self.ends_elsewhere(self.log_loss[:, None], np.array([centre]), np.array([limit]))[0]
        return float(low), float(high)

    def ends_elsewhere(self, log_losses: Array, centres: Array, limits: Array) -> Array:
        """Return the ends at rows, (n, 2), of which the places of this trace have other losses, (places, n)."""
        low, high = (_farthest_allowed(side * (log_losses - centres), self.rise, limits) for side in (-1, 1))
        return np.column_stack([centres - low, centres + high])


@dataclass(eq=False)
class Tracer:
    """Traces the profiles of the rows of one fit.

    Parameters
    ----------
    goal
        The objective of the data, with the priors.
    optima
        Coordinates of the optima, (optima, coordinates).
    rise
        The objective at the optima above that of the first, (optima,).
    least
        The objective of the first.
    inverse
        Inverse of the curvature at the first, (coordinates, coordinates).
    """

    goal: Objective
    optima: Array
    rise: Array
    least: float
    inverse: Array = field(repr=False)

    @classmethod
    def of(cls, fit: LawOnRows) -> Tracer:
        """Return the tracer of a fit, which is kept with it."""
        return cached_in(fit._cache, "tracer", lambda: cls._of(fit))

    @classmethod
    def _of(cls, fit: LawOnRows) -> Tracer:
        problem = fit.problem()
        goal = Objective(problem, fit.options.delta, penalty=fit.penalty(problem))
        result = goal.evaluate(fit.optima)
        # The data part alone: where a curvature is not finite, which no step could use, the total says infinity.
        total = result["objective"] + penalty_of(problem, fit.optima, goal.penalty)
        # Halfway between the exact curvature, which is zero in the Huber tails, and its majoriser, which is never too
        # flat.
        curvature = 0.5 * (result["hessian"][0] + result["majoriser"][0])
        return cls(goal, fit.optima, total - total[0], float(total[0]), inverse(curvature, LEAST, FLAT))

    def trace(self, rows: Letters, limits: Array, sides: tuple[int, ...] = BOTH_SIDES) -> list[Trace]:
        """Follow the profile from the optima until the rise passes the limit of each row, on the sides asked for.

        Parameters
        ----------
        rows
            Inputs of the rows, as `Law.bind` returns them.
        limits
            Rise of the objective up to which a loss is allowed, (n,).
        sides
            -1 for lower losses, 1 for higher ones.
        """
        problem, k = self.goal.problem, self.goal.problem.k
        best = self.optima[0]
        gradients = jacobian(problem, best[:k], best[k:], at=rows)
        named = problem.parameters(self.optima[:, :k], self.optima[:, k:])
        there = self.log_losses(named, rows)  # (optima, n)
        finished = np.ones(len(self.optima), dtype=bool)
        traces = [Trace(self.optima, named, there[:, i], self.rise, finished) for i in range(len(limits))]
        centres = there[0]
        shifts = gradients @ self.inverse
        variance = np.maximum(np.sum(shifts * gradients, axis=1), 1e-300)
        asked: list[Array] = []
        later: list[Array] = []
        for limit, spread in zip(limits, variance, strict=True):
            # Where a parabola with the curvature of the optimum would meet the limit: right for most rows, and only a
            # first guess.
            end = float(np.clip(np.sqrt(2.0 * limit * spread), NEAREST, FARTHEST / FIRST[1]))
            near = _requests_for(end * FIRST, end, limit)
            asked.append(np.concatenate([side * near[::side] for side in sides]))
            # From the optimum the way is long, and cut by the most that a step may be; from near places it is not.
            far = AFAR[near[-1] < AFAR]
            later.append(np.concatenate([side * far[::side] for side in sides]))
        states = [{side: _Side() for side in sides} for _ in traces]
        # Along the linear profile, on which most traces stay: the first guess then needs a step or two.
        ahead = shifts / variance[:, None]  # how far the coordinates move for a unit of log loss
        tolerance = TOLERANCE * limits / np.maximum(self.least, limits)
        for turn in range(ROUNDS):
            of_row = np.repeat(np.arange(len(traces)), [len(values) for values in asked])
            if not len(of_row):
                break
            shift = np.concatenate(asked)
            wanted = centres[of_row] + shift
            start, at = self._nearest(traces, of_row, wanted)
            far = np.isin(np.abs(shift), AFAR) & (turn == 1)
            if turn == 0:
                start = self._better(start, best + shift[:, None] * ahead[of_row], rows, of_row, wanted)
            elif far.any():
                along = start + np.where(far, wanted - at, 0.0)[:, None] * ahead[of_row]
                start = self._better(start, along, rows, of_row, wanted)
            # Afar it is enough that a descent will not come below the limit; near, the rise itself is read.
            most = np.where(far, self.least + limits[of_row], np.inf)
            self._add_ends(traces, rows, of_row, self._descend(rows, of_row, wanted, start, (tolerance[of_row], most)))
            for i, trace in enumerate(traces):
                if len(asked[i]):
                    away = trace.log_loss - centres[i]
                    next_ones = [
                        side * _next_requests(side * away, trace, limits[i], states[i][side]) for side in sides
                    ]
                    asked[i] = np.concatenate([*next_ones, later[i]])
            later = [np.zeros(0)] * len(traces)
        return traces

    def log_losses(self, parameters: Array, rows: Letters) -> Array:
        """Return the log losses at places, (places, n); far out, a law with falling terms may cross 0."""
        law = self.goal.problem.law
        named = law.fitted({name: parameters[:, [i]] for i, name in enumerate(law.parameters)})
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            losses = np.asarray(law.evaluate(named, rows), dtype=float)
        size = self.goal.problem.moved_to(rows).n
        logs: Array = np.log(np.maximum(np.broadcast_to(losses, (len(parameters), size)), 1e-300))
        return logs

    def _nearest(self, traces: list[Trace], of_row: NDArray[np.int_], wanted: Array) -> tuple[Array, Array]:
        """Return the place of the row's trace that is best for each wanted value, and the log loss there."""
        starts, at = np.empty((len(wanted), self.optima.shape[1])), np.empty(len(wanted))
        for i in np.unique(of_row):
            trace, mine = traces[i], of_row == i
            # By the objective of the descent to come: a place with a low rise far from the wanted loss is no better
            # start than one beside it that lies higher.
            penalty = 0.5 * STIFFNESS * (trace.log_loss - wanted[mine, None]) ** 2
            place = (trace.rise + penalty).argmin(axis=1)
            starts[mine], at[mine] = trace.at[place], trace.log_loss[place]
        return starts, at

    def _better(self, start: Array, guess: Array, rows: Letters, of_row: NDArray[np.int_], wanted: Array) -> Array:
        """Return the better of two starts of each descent."""
        problem = self.goal.problem
        guess = np.clip(guess, problem.low, problem.high)
        both = np.concatenate([start, guess])
        goal = self._pulled_to(rows, np.tile(of_row, 2), np.tile(wanted, 2))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            total = goal.evaluate(both, 1)["total"].reshape(2, -1)
        # A guess of the linear profile can lie across a bend, and what was met before it need not.
        return np.where((total[1] < total[0])[:, None], guess, start)

    def _pulled_to(self, rows: Letters, of_row: NDArray[np.int_], wanted: Array) -> Objective:
        problem, penalty = self.goal.problem, self.goal.penalty
        fitted = problem if penalty is None or penalty.along is None else penalty.along.beside
        beside = fitted.beside(rows) if side_by_side(rows) else None
        forecast = ForecastPenalty(problem.moved_to(rows), beside, of_row, wanted, STIFFNESS)
        return replace(self.goal, forecast=forecast)

    def _descend(
        self, rows: Letters, of_row: NDArray[np.int_], wanted: Array, start: Array, ends: tuple[Array, Array]
    ) -> newton.Descent:
        """Descend to the wanted values, and return where that ended."""
        k = self.goal.problem.k
        return newton.descend(self._pulled_to(rows, of_row, wanted), start[:, :k], start[:, k:], STEPS, *ends)

    def _add_ends(self, traces: list[Trace], rows: Letters, of_row: NDArray[np.int_], ended: newton.Descent) -> None:
        """Add where each descent ended to the trace of its row."""
        at, named = np.concatenate([ended.c, ended.z], axis=1), self.goal.problem.parameters(ended.c, ended.z)
        there = self.log_losses(named, rows)[np.arange(len(at)), of_row]
        rise = ended.objective + penalty_of(self.goal.problem, at, self.goal.penalty) - self.least
        finished = ended.status != newton.OUT_OF_STEPS
        for i in np.unique(of_row):
            trace, mine = traces[i], of_row == i
            trace.at = np.concatenate([trace.at, at[mine]])
            trace.parameters = np.concatenate([trace.parameters, named[mine]])
            trace.log_loss = np.concatenate([trace.log_loss, there[mine]])
            trace.rise = np.concatenate([trace.rise, rise[mine]])
            trace.finished = np.concatenate([trace.finished, finished[mine]])


@dataclass
class _Side:
    """How the search on one side of a trace goes: the gap that is left, and rounds that left it as it was."""

    gap: float = np.inf
    rounds_in_vain: int = 0


def side_by_side(rows: Letters) -> bool:
    """Say whether inputs can be stacked, a row for each problem; whole schedules, and tables of them, cannot."""
    return all(
        isinstance(column, Positive) or (isinstance(column, np.ndarray) and column.ndim == 1)
        for column in vars(rows).values()
    )


def _requests_for(distance: Array, end: float, limit: float) -> Array:
    """Return the distances to request so that descents end at `distance`, the rise being `limit` at `end`; each once.

    The penalty is no wall: the profile's own slope holds the forecast back, the farther the steeper.
    """
    asked = distance * (1.0 + 2.0 * limit / (end * end * STIFFNESS))
    return np.unique(np.minimum(asked, np.maximum(distance, FARTHEST)))


def _next_requests(distance: Array, trace: Trace, limit: float, side: _Side) -> Array:
    """Return distances on one side to ask for next: from the farthest one allowed to beyond the end of the profile.

    Only places whose descent finished can say what is not allowed. The search goes past others. Where two rounds bring
    nothing, as where the profile jumps, no more is asked.
    """
    last, height, beyond, high = _bracket(distance, trace.rise, trace.finished, limit)
    wall = FARTHEST if beyond is None else beyond
    gap = np.log(wall / max(last, NEAREST))
    side.rounds_in_vain = side.rounds_in_vain + 1 if gap > STUCK * side.gap else 0
    side.gap = gap
    if last >= 0.9 * FARTHEST or wall - last <= CLOSE * last or side.rounds_in_vain > 1:
        return np.zeros(0)
    if beyond is None:
        step = min(wall - last, max(2.0 * last, NEAREST))
        return _requests_for(last + step * np.array([0.25, 0.5, 1.0, 1.5]), last + step, limit)
    # The root of the rise is close to linear in the distance: ask a little to either side of where it meets the limit,
    # and half-way on a scale of ratios, where the wall is far.
    end = last + (np.sqrt(limit) - height) / (high - height) * (beyond - last)
    near = np.array([end - 0.35 * CLOSE * end, end + 0.35 * CLOSE * end])
    if beyond > FAR_WALL * last:
        near = np.append(near, np.sqrt(max(last, NEAREST, 1e-3 * beyond) * beyond))
    return _requests_for(np.clip(near, last + 0.1 * (end - last), beyond), end, limit)


def _bracket(
    distance: Array, rise: Array, finished: NDArray[np.bool_], limit: float
) -> tuple[float, float, float | None, float]:
    """Return the farthest distance allowed and the nearest one refused beyond it, each with the root of its rise."""
    root = np.sqrt(np.maximum(rise, 0.0))
    allowed = np.flatnonzero((distance >= 0) & (rise <= limit))
    last, height = 0.0, 0.0
    if len(allowed):
        j = allowed[distance[allowed].argmax()]
        last, height = float(distance[j]), float(root[j])
    refused = np.flatnonzero((distance > last) & (rise > limit) & finished)
    if not len(refused):
        return last, height, None, np.inf
    j = refused[distance[refused].argmin()]
    return last, height, float(distance[j]), float(root[j])


def _farthest_allowed(distance: Array, rise: Array, limits: Array) -> Array:
    """Return the largest distance on one side at which the profile is still below the limit of each row, (n,).

    Parameters
    ----------
    distance
        Of the places from each row's own loss, (places, n).
    """
    root, low, row = np.sqrt(np.maximum(rise, 0.0)), rise[:, None] <= limits, np.arange(len(limits))
    allowed = np.where(low & (distance >= 0), distance, -1.0)
    at = allowed.argmax(axis=0)
    last, height = np.maximum(allowed[at, row], 0.0), np.where(allowed[at, row] < 0, 0.0, root[at])
    refused = np.where(~low & (distance > last), distance, np.inf)
    at = refused.argmin(axis=0)
    beyond, high = refused[at, row], root[at]
    with np.errstate(invalid="ignore", divide="ignore"):
        # The root of the rise is close to linear in the distance, so it is interpolated up to the nearest place
        # refused.
        ends = last + (np.sqrt(limits) - height) / (high - height) * (beyond - last)
    ends = np.where(np.isfinite(beyond), ends, np.where(last >= 0.9 * FARTHEST, np.inf, last))
    return np.where(np.isfinite(limits), ends, np.inf)  # without a limit the forecast lies beyond all bounds
