"""Minimum of a smooth function of a few numbers in the unit box, under limits: a scan, descents, and a last polish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array

SCAN = 6  # log2 of the points that are scanned per variable beyond the first, at most 2**10
DESCENTS = 4
# Steps of a schedule are whole numbers: with finer differences their rounding would be taken for a slope.
STEP = 2e-3  # of the central differences
POLISH = (0.02, 0.005, 1e-3, 2e-4)
KEPT = 1e-9  # excess over a limit that counts as keeping it

# Maps a point of the unit box, (d,), to the value and the excess over each limit, (limits,); kept where <= 0.
Evaluate = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class Best:
    """The best point, its value, and how far it exceeds the limits: at most 0 where it keeps them."""

    u: Array
    value: float
    excess: Array

    @property
    def kept(self) -> bool:
        """Whether all limits are kept."""
        return bool(np.all(self.excess <= KEPT))


def minimise_in_box(evaluate: Evaluate, dimensions: int, seed: int = 0) -> Best:
    """Return the least value under the limits, or, where nothing keeps them, the least excess over them.

    Parameters
    ----------
    evaluate
        Value and excess at a point. Both should be smooth on the scale of `STEP`.
    dimensions
        Number of variables; with none there is nothing to choose.
    seed
        Of the scan.
    """
    seen: dict[bytes, Best] = {}

    def at(u: Array) -> Best:
        u = np.clip(u, 0.0, 1.0)
        key = np.round(u, 12).tobytes()
        if key not in seen:
            seen[key] = Best(u, *evaluate(u))
        return seen[key]

    if not dimensions:
        return at(np.zeros(0))
    count = min(2 ** (4 + dimensions), 2**SCAN * 4)
    from scipy.stats import qmc

    scan = qmc.Sobol(dimensions, seed=seed).random(count)
    corners = [np.full(dimensions, 0.5), np.zeros(dimensions), np.ones(dimensions)]
    found = sorted((at(u) for u in [*corners, *scan]), key=_rank)
    spread = float(np.ptp([best.value for best in found])) or 1.0
    ends = [found[0]]
    for start in _apart(found, DESCENTS):
        ends.append(at(_descend(at, start.u, spread)))
    best = min([*ends, *seen.values()], key=_rank)
    for step in POLISH:
        improved = True
        while improved:
            improved = False
            for k in range(dimensions):
                for sign in (-1.0, 1.0):
                    moved = best.u.copy()
                    moved[k] += sign * step
                    other = at(moved)
                    if _rank(other) < _rank(best):
                        best, improved = other, True
    return best


def _rank(best: Best) -> tuple[float, float]:
    """Order points: those that keep the limits by value, before others by excess."""
    over = float(np.sum(np.maximum(best.excess - KEPT, 0.0)))
    return (over, best.value)


def _apart(found: list[Best], count: int) -> list[Best]:
    """Choose good points that are not neighbours."""
    chosen: list[Best] = []
    for best in found:
        if all(np.abs(best.u - other.u).max() > 0.15 for other in chosen):
            chosen.append(best)
        if len(chosen) == count:
            break
    return chosen


def _descend(at: Callable[[Array], Best], start: Array, spread: float) -> Array:
    def slopes(u: Array, part: Callable[[Best], Array]) -> Array:
        columns = []
        for k in range(len(u)):
            low, high = u.copy(), u.copy()
            low[k], high[k] = max(0.0, u[k] - STEP), min(1.0, u[k] + STEP)
            columns.append((part(at(high)) - part(at(low))) / (high[k] - low[k]))
        return np.stack(columns, axis=-1)

    def value(best: Best) -> Array:
        return np.asarray(best.value / spread)

    def room(best: Best) -> Array:
        return -best.excess / spread

    limits: Any = []
    if len(at(start).excess):
        limits = [{"type": "ineq", "fun": lambda u: room(at(u)), "jac": lambda u: slopes(u, room)}]
    from scipy import optimize

    minimize: Any = optimize.minimize  # the stubs know no functions of closures
    found = minimize(
        lambda u: float(value(at(u))),
        start,
        jac=lambda u: slopes(u, value),
        bounds=[(0.0, 1.0)] * len(start),
        constraints=limits,
        # It takes limits with slopes, and a candidate costs one to three milliseconds: no second derivatives are
        # needed.
        method="SLSQP",
        options={"maxiter": 60, "ftol": 1e-10},
    )
    return np.asarray(found.x, dtype=float)
