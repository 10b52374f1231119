"""How every plan is found: a grid over what may be chosen, zoomed in on the best point that keeps the limits.

Losses are asked for many points at once, so that a law, an average and its doubt are all the same to a plan: none needs
an inverse or a slope. Where nothing keeps the limits, the grid zooms in on the point that comes nearest, and the lowest
values that it reaches are the certificate. Spaces of many shares, and of points that are dear, are searched by descents
(`cptlaw.planning.descent`) instead of a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.descent import Domain, descend

# Named columns of one length: replay, tokens, ..
Points: TypeAlias = Mapping[str, Array]

FIRST_SIZES = {1: (257,), 2: (49, 129)}  # points along each axis, by the number of axes that are open
ZOOMED_SIZES = {1: 65, 2: 33}  # the same once the grid zooms in
REACH = 0.75  # of a step: how far from a point of the grid a better one is looked for; a half, and a margin for bends
SLOWEST = 3.0  # the window shrinks by at least this factor in each round
LEAST_GAIN = 1e-6  # relative to the value: what a further round must gain
PATIENCE = 2  # rounds without such a gain that end the search
FINE = 1e-5  # of the range: steps from which the search may end
FINEST = 1e-12  # of the range: steps that nothing tells apart
ROUNDS = 24
TIE = 1e-12  # relative: values nearer than this are one
LEAST_SCALE = 1e-2  # of a limited quantity, for what is relative to it: forgetting may be limited to 0
ON_LIMIT = 1e-4  # relative to that scale: a quantity nearer than this binds


@dataclass(frozen=True)
class Axis:
    """A range to choose from; both ends belong to it."""

    name: str
    low: float
    high: float
    log: bool = False

    @property
    def open(self) -> bool:
        """Whether there is anything to choose."""
        return self.high > self.low

    def at(self, share: Array) -> Array:
        """Return the values at shares of the range; the ends are exact."""
        if self.log:
            result = self.low * np.exp(share * np.log(self.high / self.low))
        else:
            result = self.low + share * (self.high - self.low)
        return np.asarray(np.where(share <= 0, self.low, np.where(share >= 1, self.high, result)), dtype=float)


@dataclass(frozen=True)
class Space:
    """What may be chosen.

    Parameters
    ----------
    axes
        The ranges.
    derived
        Adds the columns that follow from those chosen, such as tokens from replay.
    reach
        How descents search it; ``None`` where a grid does.
    """

    axes: tuple[Axis, ...]
    derived: Callable[[dict[str, Array]], Points] = field(default=dict)
    reach: Domain | None = None

    def points(self, shares: Array) -> Points:
        """Return the points at shares of the open ranges, (n, open axes)."""
        columns = iter(shares.T)
        return self.derived(
            {one.name: one.at(next(columns) if one.open else np.zeros(len(shares))) for one in self.axes}
        )

    def widened(self, **ranges: tuple[float, float]) -> Space:
        """Return the space with other ranges."""
        axes = (replace(one, low=ranges[one.name][0], high=ranges[one.name][1]) if one.name in ranges else one
                for one in self.axes)  # fmt: skip
        return replace(self, axes=tuple(axes))

    @property
    def n_open(self) -> int:
        """How many ranges there are to choose from."""
        return sum(one.open for one in self.axes)


@dataclass(frozen=True)
class Limit:
    """An upper limit on a quantity.

    Parameters
    ----------
    name
        As the option is called on the command line, such as ``"max-forgetting"``.
    value
        The most that is allowed.
    reached
        Returns the quantity at points, (n,): the value that is kept with the probability asked for.
    about
        What it is a limit on, such as ``"forgetting"``, as `best_reachable` of a plan names it.
    """

    name: str
    value: float
    reached: Callable[[Points], Array]
    about: str = ""

    def excess(self, points: Points) -> Array:
        """Return by how much it fails at points, relative to its scale, (n,); at most 0 where it is kept."""
        reached = np.nan_to_num(self.reached(points), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        with np.errstate(over="ignore"):  # what is beyond any number is beyond any limit
            return np.asarray((reached - self.value) / max(abs(self.value), LEAST_SCALE), dtype=float)


@dataclass(frozen=True)
class Best:
    """The best point, or the one that comes nearest to keeping the limits.

    Attributes
    ----------
    point
        Its columns.
    value
        What was minimised, there.
    kept
        Whether it keeps all limits.
    excess
        By how much the worst limit fails there, relative to its scale.
    """

    point: Mapping[str, float]
    value: float
    kept: bool
    excess: float

    @property
    def points(self) -> Points:
        """The point as columns of one row."""
        return {name: np.array([value]) for name, value in self.point.items()}


def worst_excess(limits: Sequence[Limit], points: Points) -> Array:
    """Return by how much the worst limit fails at points, (n,); minus infinity without limits."""
    count = len(next(iter(points.values())))
    parts = [np.full(count, -np.inf), *(limit.excess(points) for limit in limits)]
    return np.asarray(np.max(parts, axis=0), dtype=float)


def solve(space: Space, value: Callable[[Points], Array], limits: Sequence[Limit] = ()) -> Best:
    """Return the point of a space with the least value among those that keep the limits.

    Parameters
    ----------
    space
        What may be chosen.
    value
        Returns what is minimised at points, (n,). Of points with one value that with the most room is taken.
    limits
        What must be kept. Where no cell of two grids in a row may hold a point that keeps them, the search ends near
        the point that comes nearest.
    """
    if space.reach is not None:
        return _descended(space, space.reach, value, limits)
    count = max(space.n_open, 1)
    low, high, sizes = np.zeros(count), np.ones(count), FIRST_SIZES[count]
    best, at, rounds_without_gain, infeasible_rounds = None, np.zeros((0, count)), 0, 0
    for _ in range(ROUNDS if space.n_open else 1):
        sides = [np.linspace(start, stop, size) for start, stop, size in zip(low, high, sizes, strict=True)]
        grid = np.stack([one.ravel() for one in np.meshgrid(*sides, indexing="ij")], axis=1)
        shares = np.concatenate([grid, at])  # the best so far stays: a finer grid need not hit it again
        points = space.points(shares)
        excess = worst_excess(limits, points)
        values = np.nan_to_num(value(points), nan=np.inf, posinf=np.inf)
        result, place = _best(points, values, excess)
        gained = np.inf if best is None or best.kept != result.kept else _rank(best) - _rank(result)
        best, at = result, shares[place][None]
        rounds_without_gain = rounds_without_gain + 1 if gained <= LEAST_GAIN * max(abs(_rank(best)), LEAST_GAIN) else 0
        steps = (high - low) / (np.array(sizes) - 1)
        if np.all(steps < FINE) and (rounds_without_gain >= PATIENCE or np.all(steps < FINEST)):
            break
        on_grid = [column[: len(grid)].reshape(sizes) for column in (values, excess)]
        infeasible_rounds = infeasible_rounds + 1 if _cell_minimum(on_grid[1]).min() > 0 else 0
        if infeasible_rounds >= PATIENCE:
            break
        near = _may_be_better(best, *on_grid).ravel()
        inside = np.concatenate([grid[near], at])
        # A window that hardly shrinks, as where all is flat, is cut about the best.
        cut = np.maximum((high - low) / SLOWEST, steps)
        low, high = (
            np.maximum(np.maximum(inside.min(axis=0) - steps, at[0] - cut), 0.0),
            np.minimum(np.minimum(inside.max(axis=0) + steps, at[0] + cut), 1.0),
        )
        sizes = (ZOOMED_SIZES[count],) * count
    assert best is not None
    return best


def _descended(space: Space, reach: Domain, value: Callable[[Points], Array], limits: Sequence[Limit]) -> Best:
    """Return what `solve` does, by descents."""
    low, high = (np.array([getattr(one, end) for one in space.axes if one.open]) for end in ("low", "high"))
    fixed = sum(one.low for one in space.axes if not one.open)

    def table(shares: Array) -> Array:
        points = space.points(shares)
        columns = [np.broadcast_to(value(points), (len(shares),)), *(limit.excess(points) for limit in limits)]
        return np.stack(columns, axis=1)

    within = reach.within(low, high, fixed)
    points = space.points(descend(table, within)[None])
    best, _ = _best(points, np.broadcast_to(value(points), (1,)), worst_excess(limits, points))
    return replace(best, kept=False) if within.empty else best


def _rank(one: Best) -> float:
    """Return what a round must lower: the value, or the excess while no point keeps the limits."""
    return one.value if one.kept else one.excess


def _best(points: Points, values: Array, excess: Array) -> tuple[Best, int]:
    """Return the best of some points, and which it is; of equal ones the one with the most room."""
    kept = (excess <= 0) & np.isfinite(values)
    if kept.any():
        least = values[kept].min()
        good = kept & (values <= least + TIE * abs(least))
        place = int(np.argmin(np.where(good, excess, np.inf)))
    else:
        place = int(np.argmin(excess))
    point = {name: float(np.broadcast_to(column, excess.shape)[place]) for name, column in points.items()}
    return Best(point, float(values[place]), bool(kept.any()), float(excess[place])), place


def _may_be_better(best: Best, values: Array, excess: Array) -> Array:
    """Return a mask of the grid: the points whose cell may hold a better point than `best`."""
    if not best.kept:
        return np.asarray(_cell_minimum(excess) <= best.excess)
    return np.asarray((_cell_minimum(excess) <= 0) & (_cell_minimum(values) <= best.value))


def _cell_minimum(values: Array) -> Array:
    """Return a lower bound of values inside the cell of each point of a grid; infinite where the value is."""
    return np.subtract(values, _cell_variation(values), out=values.copy(), where=values < np.inf)


def _cell_variation(values: Array) -> Array:
    """Return by how much values may vary inside the cell of each point of a grid, by the steps to its neighbours."""
    result = np.zeros(values.shape)
    for axis in range(values.ndim):
        with np.errstate(invalid="ignore"):  # between two infinities
            step = np.nan_to_num(np.abs(np.diff(values, axis=axis)), nan=0.0, posinf=np.inf)
        ends = [(0, 0)] * values.ndim
        before, after = (
            np.pad(step, [*ends[:axis], pad, *ends[axis + 1 :]], constant_values=0.0) for pad in ((1, 0), (0, 1))
        )
        result += REACH * np.maximum(before, after)
    return result


@dataclass(frozen=True)
class Certificate:
    """Why there is no answer.

    Attributes
    ----------
    blocking
        Bounds of which lifting any one is enough or, where none alone is, limits that cannot be kept.
    lowest
        The lowest value of each limited quantity with the other limits kept.
    feasible_from
        For each blocking bound the value from which there is an answer.
    """

    blocking: tuple[str, ...]
    lowest: dict[str, float]
    feasible_from: dict[str, float]


# Name of a bound of a space -> the space without it, and a function that returns what it bounds at points, (n,).
RelaxedBounds: TypeAlias = Mapping[str, tuple[Space, Callable[[Points], Array]]]


def certificate(
    space: Space, limits: Sequence[Limit], nearest: Best, relaxed: RelaxedBounds, certain: Sequence[Limit] = ()
) -> Certificate:
    """Return why nothing in a space keeps the limits.

    Parameters
    ----------
    nearest
        The point that comes nearest to keeping them, or one near it where a grid was searched.
    relaxed
        Bounds of the space that may block too, each with the space that has none.
    certain
        The limits by the forecasts alone, where doubt about these makes them harder to keep, and dear to look at.
    """
    lowest, granted = {}, {}
    for limit in limits:
        solution = solve(space, limit.reached, [other for other in limits if other is not limit])
        if solution.kept:
            granted[limit.name] = solution.value
        lowest[limit.name] = solution.value if solution.kept else solve(space, limit.reached).value
    for name, (larger, bound) in relaxed.items():
        if certain and not solve(_added(space, larger), bound, certain).kept:
            continue
        solution = solve(larger, bound, limits)
        if solution.kept:
            granted[name] = abs(solution.value)
    if granted:
        return Certificate(tuple(granted), lowest, granted)
    # Limits that each can be kept alone contradict one another only together; then all of them are named.
    if space.reach is None:
        nearest = solve(space, partial(worst_excess, limits))
    alone = [limit for limit in limits if lowest[limit.name] > limit.value]
    together = {limit.name: float(limit.reached(nearest.points)[0]) for limit in alone or limits}
    return Certificate(tuple(together), lowest, together)


def _added(space: Space, larger: Space) -> Space:
    """Return what a larger space has beyond a space, of which it moves one end of one range."""
    axes = [
        replace(new, low=old.high) if new.high > old.high else replace(new, high=old.low) if new.low < old.low else new
        for old, new in zip(space.axes, larger.axes, strict=True)
    ]
    return replace(larger, axes=tuple(axes))
