"""Global minimum of a function of one number: a scan, then a zoom into every local minimum at once.

Plans are minima of kinked functions that are infinite where a limit fails: the larger of two branches, inside a
feasible stretch whose ends are themselves kinks. Sampling copes with all of that, needs no derivative and no list of
crossings, and evaluates whole arrays, so it is also fast. Axes: ``n`` = points, ``m`` = brackets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array

Objective = Callable[[Array], Array]

GRID = 257
MOST_MINIMA = 12
HALF = 32  # samples on either side of the best point of a bracket, each round
ROUNDS = 6  # 32**6 = 1e9 times finer than the grid
CLOSE = 1e-13


def minimise(
    objective: Objective, low: float, high: float, violation: Objective | None = None, points: int = GRID
) -> tuple[float, float]:
    """Return the argument and the value of the least `objective` on [low, high].

    Parameters
    ----------
    objective
        Maps (n,) to (n,); infinite where a point is not allowed.
    low, high
        Ends of the range, both included.
    violation
        Maps (n,) to (n,); at most zero exactly where `objective` is allowed. With it, allowed stretches narrower than
        the grid are found too.
    points
        Size of the grid.

    Returns
    -------
    tuple of float
        The value is infinite where no point is allowed.
    """
    grid = np.linspace(low, high, points) if high > low else np.array([float(low)])
    value = objective(grid)
    starts = _local_minima(value)
    left, middle, right = _neighbours(grid, starts)
    if violation is not None:
        excess = violation(grid)
        hidden = np.array([i for i in _local_minima(excess) if excess[i] > 0], dtype=np.intp)
        if len(hidden):
            found, reached = _zoom(violation, *_neighbours(grid, hidden), enough=0.0)
            allowed = reached <= 0
            outer_left, _, outer_right = _neighbours(grid, hidden[allowed])
            left = np.concatenate([left, outer_left])
            middle = np.concatenate([middle, found[allowed]])
            right = np.concatenate([right, outer_right])
    if not len(middle):
        return float(grid[0]), float("inf")
    argument, least = _zoom(objective, left, middle, right)
    best = int(np.argmin(least))
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
    function: Objective, left: Array, middle: Array, right: Array, enough: float | None = None
) -> tuple[Array, Array]:
    """Sample each bracket, narrow it to the neighbours of its best point, and repeat.

    Returns
    -------
    tuple of arrays (m,)
        Arguments and values. Brackets whose value is at most `enough` may stop early.
    """
    rows = np.arange(len(middle))
    toward = np.linspace(0.0, 1.0, HALF + 1)
    value = np.full(len(middle), np.inf)
    for _ in range(ROUNDS):
        # The best point so far stays a sample, so that a stretch too narrow to be hit again is not lost.
        below = left[:, None] + (middle - left)[:, None] * toward[:-1]
        above = middle[:, None] + (right - middle)[:, None] * toward
        samples = np.concatenate([below, above], axis=1)
        values = function(samples.ravel()).reshape(samples.shape)
        best = np.argmin(values, axis=1)
        middle, value = samples[rows, best], values[rows, best]
        # By value, not by index: at an end of the range many samples are one point.
        chosen = middle[:, None]
        left = np.where(samples < chosen, samples, -np.inf).max(axis=1)
        right = np.where(samples > chosen, samples, np.inf).min(axis=1)
        left, right = np.where(np.isfinite(left), left, middle), np.where(np.isfinite(right), right, middle)
        if np.all(right - left <= CLOSE * np.maximum(np.abs(middle), 1e-3)):
            break
        if enough is not None and np.all(value <= enough):
            break
    return middle, value
