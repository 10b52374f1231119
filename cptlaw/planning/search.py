"""Functions of one number: their global minimum, and the first argument at which they are no longer positive.

Plans are minima of kinked functions that are infinite where a limit fails: the larger of two branches, inside a
feasible range whose ends are themselves kinks. Sampling copes with all of that, needs no derivative and no list of
crossings, and evaluates whole arrays, so it is also fast. Axes: ``n`` = points, ``m`` = brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array

Function = Callable[[Array], Array]

GRID = 257
MOST_MINIMA = 12
HALF = 1024  # samples on either side of the best point of a bracket, each round: a call costs more than its length
FINER = 1e9  # times finer than the grid is the answer
ROUNDS = 5  # of a look into a dip
CLOSE = 1e-13
SAME = 1e-10  # relative gap to the minimum within which an end of the range is as good
STEEP = 4.0  # times what a dip rises to its neighbours: one that lies higher than that above a root has none
DIP = 33  # samples with which a local minimum is looked into for a root
ITERATIONS = 60


def minimise(
    objective: Function,
    low: float,
    high: float,
    violation: Function | None = None,
    points: int = GRID,
    half: int = HALF,
    finer: float = FINER,
) -> tuple[float, float]:
    """Return the argument and the value of the least `objective` on [low, high].

    Parameters
    ----------
    objective
        Maps (n,) to (n,); infinite where a point is not allowed.
    low, high
        Ends of the range, both included.
    violation
        Maps (n,) to (n,); at most zero exactly where `objective` is allowed. With it, allowed ranges narrower than
        the grid are found too.
    points, half
        Size of the grid, and samples on either side of the best point of a bracket, each round.
    finer
        How many times finer than the grid the answer is.

    Returns
    -------
    tuple of float
        The value is infinite where no point is allowed.
    """
    grid = np.linspace(low, high, points) if high > low else np.array([float(low)])
    value = objective(grid)
    # Several minima and not the lowest sample: two branches of a limit may lie within a grid step of each other.
    starts = _local_minima(value)
    left, middle, right = _neighbours(grid, starts)
    if violation is not None and not np.isfinite(value).all():
        excess = violation(grid)
        with np.errstate(invalid="ignore"):  # between two infinities
            rise = np.abs(np.diff(excess, prepend=excess[:1], append=excess[-1:]))
        # A dip whose neighbours rise by little cannot hide a root far below it: only those that may are looked into.
        near = excess <= STEEP * np.nan_to_num(np.maximum(rise[:-1], rise[1:]), nan=np.inf)
        hidden = np.array([i for i in _local_minima(excess) if excess[i] > 0 and near[i]], dtype=np.intp)
        if len(hidden):
            found, reached = _zoom(violation, half, *_neighbours(grid, hidden), enough=0.0)
            allowed = reached <= 0
            outer_left, _, outer_right = _neighbours(grid, hidden[allowed])
            left = np.concatenate([left, outer_left])
            middle = np.concatenate([middle, found[allowed]])
            right = np.concatenate([right, outer_right])
    if not len(middle):
        return float(grid[0]), float("inf")
    argument, least = _zoom(objective, half, left, middle, right, finer=finer)
    best = int(np.argmin(least))
    # An end of the range is a plain answer; a billionth beside it, where a law clips its inputs, is not.
    for end in (0, -1):
        if np.isfinite(value[end]) and value[end] - least[best] <= SAME * abs(least[best]):
            return float(grid[end]), float(value[end])
    return float(argument[best]), float(least[best])


def _local_minima(value: Array) -> NDArray[np.intp]:
    """Return the indices of the deepest local minima, plateaus by their first point, (m,)."""
    padded = np.concatenate([[np.inf], value, [np.inf]])
    falls, rises = padded[1:-1] < padded[:-2], padded[1:-1] <= padded[2:]
    index = np.flatnonzero(np.isfinite(value) & falls & rises)
    return index[np.argsort(value[index], kind="stable")][:MOST_MINIMA]


def _neighbours(grid: Array, index: NDArray[np.intp]) -> tuple[Array, Array, Array]:
    return grid[np.maximum(index - 1, 0)], grid[index], grid[np.minimum(index + 1, len(grid) - 1)]


def _zoom(
    function: Function,
    half: int,
    left: Array,
    middle: Array,
    right: Array,
    enough: float | None = None,
    finer: float = FINER,
) -> tuple[Array, Array]:
    """Sample each bracket, narrow it to the neighbours of its best point, and repeat.

    Returns
    -------
    tuple of arrays (m,)
        Arguments and values. Brackets whose value is at most `enough`, or can no longer fall to it, may stop early.
    """
    rows = np.arange(len(middle))
    toward = np.linspace(0.0, 1.0, half + 1)
    value = np.full(len(middle), np.inf)
    for _ in range(math.ceil(math.log(finer) / math.log(half))):
        # The best point so far stays a sample, so that a range too narrow to be hit again is not lost.
        below = left[:, None] + (middle - left)[:, None] * toward[:-1]
        above = middle[:, None] + (right - middle)[:, None] * toward
        samples = np.concatenate([below, above], axis=1)
        values = function(samples.ravel()).reshape(samples.shape)
        best = np.argmin(values, axis=1)
        middle, value = samples[rows, best], values[rows, best]
        # By value, not by index: at an end of the range many samples are one point.
        chosen = middle[:, None]
        # Infinite on the wrong side, so that argmax and argmin give the nearest sample on the right one.
        before, after = np.where(samples < chosen, samples, -np.inf), np.where(samples > chosen, samples, np.inf)
        at_left, at_right = before.argmax(axis=1), after.argmin(axis=1)
        left, right = before[rows, at_left], after[rows, at_right]
        with np.errstate(invalid="ignore"):
            rise = np.maximum(
                np.where(np.isfinite(left), values[rows, at_left] - value, 0.0),
                np.where(np.isfinite(right), values[rows, at_right] - value, 0.0),
            )
        left, right = np.where(np.isfinite(left), left, middle), np.where(np.isfinite(right), right, middle)
        if np.all(right - left <= CLOSE * np.maximum(np.abs(middle), 1e-3)):
            break
        if enough is not None and np.all((value <= enough) | (value - enough > STEEP * rise)):
            break
    return middle, value


def first_kept(excess: Function, low: Array, high: Array, points: int = 2, close: float = CLOSE) -> Array:
    """Return the least argument at which an excess is not positive, for several functions side by side, (n,).

    Parameters
    ----------
    excess
        Maps arguments (m, n), one column for each function, to (m, n).
    low, high
        Ends of the range, (n,).
    points
        Size of the scan. Two will do where the excess only falls; else it should resolve rises and falls. A dip between
        two samples is found where the samples show a local minimum.
    close
        Relative width of the bracket, at least absolute, at which a root is taken.

    Returns
    -------
    array
        Infinity where the excess stays positive.
    """
    arguments = low + (high - low) * np.linspace(0.0, 1.0, points)[:, None]
    values = excess(arguments)
    column = np.arange(values.shape[1])
    kept = values <= 0
    # `points`, one beyond the last sample, stands for a function that is kept nowhere on the grid.
    place = np.where(kept.any(axis=0), kept.argmax(axis=0), points)
    left, right = (arguments[np.clip(place - shift, 0, points - 1), column] for shift in (1, 0))
    found = np.where(place == 0, low, np.inf)
    # Before the first sample that is kept, the deepest dip may be too.
    if points > 2:
        inner = np.full(values.shape, np.inf)
        dips = (values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])
        before = np.arange(1, points - 1)[:, None] < place
        inner[1:-1] = np.where(dips & before, values[1:-1], np.inf)
        deepest = inner.argmin(axis=0)
        open_dip = np.flatnonzero(np.isfinite(inner[deepest, column]))
        if len(open_dip):
            at = deepest[open_dip]
            bottom = _bottom(excess, column, open_dip, arguments[at - 1, open_dip], arguments[at + 1, open_dip])
            below = np.isfinite(bottom)
            place[open_dip[below]] = at[below]
            left[open_dip[below]] = arguments[at[below] - 1, open_dip[below]]
            right[open_dip[below]] = bottom[below]
    crossing = (place > 0) & (place < points)
    if crossing.any():
        left, right = np.where(crossing, left, low), np.where(crossing, right, low)
        found = np.where(crossing, _root(excess, left, right, close), found)
    return found


def _bottom(excess: Function, column: Any, chosen: Any, left: Array, right: Array) -> Array:
    """Return an argument at which a dip is not positive, for the chosen columns; infinity where it is."""
    found = np.full(len(chosen), np.inf)
    for _ in range(ROUNDS):
        samples = np.zeros((DIP, len(column)))
        samples[:, chosen] = left + (right - left) * np.linspace(0.0, 1.0, DIP)[:, None]
        # The functions that are not asked are evaluated somewhere all the same: one call takes all columns.
        samples[:, np.setdiff1d(column, chosen)] = samples[0, chosen[0]]
        values = excess(samples)[:, chosen]
        best = np.clip(values.argmin(axis=0), 1, DIP - 2)
        kept = values <= 0
        found = np.where(kept.any(axis=0), samples[kept.argmax(axis=0), chosen], found)
        left, right = samples[best - 1, chosen], samples[best + 1, chosen]
        if np.isfinite(found).all() or np.all(right - left <= CLOSE * np.maximum(np.abs(right), 1.0)):
            break
    return found


def _root(excess: Function, left: Array, right: Array, close: float) -> Array:
    """Return roots between arguments where the excess is positive and where it is not, (n,), on the side that is not.

    Chandrupatla 1997: inverse quadratic interpolation where it is safe, else bisection.
    """

    def at(argument: Array) -> Array:
        found: Array = excess(argument[None])[0]
        return found

    a, b = right.copy(), left.copy()
    fa, fb = at(a), at(b)
    c, fc, share = b.copy(), fb.copy(), np.full(len(a), 0.5)
    with np.errstate(all="ignore"):
        for _ in range(ITERATIONS):
            x = a + share * (b - a)
            fx = at(x)
            same = (fx <= 0) == (fa <= 0)
            c, fc = np.where(same, a, b), np.where(same, fa, fb)
            b, fb = np.where(same, b, a), np.where(same, fb, fa)
            a, fa = x, fx
            nearest = np.where(np.abs(fa) < np.abs(fb), a, b)
            least = close * np.maximum(np.abs(nearest), 1.0) / np.abs(b - a)
            if np.all((least > 0.5) | ~np.isfinite(least)):
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            # Interpolation is trusted where it must land between the two ends; elsewhere the bracket is halved.
            safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(inverse)
            least = np.minimum(np.nan_to_num(least, nan=0.5, posinf=0.5), 0.5)
            share = np.clip(np.where(safe, inverse, 0.5), least, 1.0 - least)
    return np.where(fa <= 0, a, b)
