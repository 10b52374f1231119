"""How a plan searches where there is much to choose or a point is dear: many are looked at, the best descend.

Points are shares of ranges, 0 to 1 each. Of a mix the shares of the corpora add up to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array

DRAWN = 512  # mixes that are looked at first, beside those that were measured
LOOKS = 16, 256  # points of other ranges: so many times two for each of them, and at most so many
DESCENTS = 4
APART = 0.15  # of the ranges, between the points that descents start from
POLISH = (0.02, 0.005, 1e-3, 2e-4)
ROOM = 5e-4  # of the step, in relative excess: what a descent leaves free, so that rounding breaks no limit at its end
PRECISE = 1e-4  # of the step: the fall of the goal, relative to its steepest slope, that ends a descent
ROUNDING = 1e-9
WORST = 1e6  # in place of what is not finite

# Maps shares of ranges, (n, d), to what is minimised and the excess over each limit, (n, 1 + limits).
Values = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Domain:
    """Where descents search.

    Parameters
    ----------
    step
        Of the ranges, for slopes; where counts are rounded, finer differences would take that for a slope.
    total
        What the values add up to, as the shares of a mix do; ``None`` where each is free.
    measured
        Values that are looked at besides, (n, ranges).
    seed
        Of the points that are looked at.
    low, high
        Ends of the open ranges, once they are known.
    """

    step: float
    total: float | None = None
    measured: Array = field(default_factory=lambda: np.empty((0, 0)))
    seed: int = 0
    low: Array = field(default_factory=lambda: np.empty(0))
    high: Array = field(default_factory=lambda: np.empty(0))

    def within(self, low: Array, high: Array, fixed: float) -> Domain:
        """Return the same with its ranges, where others are fixed and take their part of the total."""
        return replace(self, low=low, high=high, total=None if self.total is None else self.total - fixed)

    @property
    def empty(self) -> bool:
        """Whether nothing adds up to the total."""
        return self.total is not None and not self.low.sum() - ROUNDING <= self.total <= self.high.sum() + ROUNDING

    def project(self, values: Array) -> Array:
        """Return the nearest values that lie in the ranges and add up to the total, (n, d), by least squares."""
        least, most = (np.full(len(values), sign * 2.0) for sign in (-1.0, 1.0))
        for _ in range(60):  # the shift that makes clipped values add up, by halving
            shift = 0.5 * (least + most)
            over = np.clip(values + shift[:, None], self.low, self.high).sum(axis=1) > self.total
            least, most = np.where(over, least, shift), np.where(over, shift, most)
        return np.asarray(np.clip(values + most[:, None], self.low, self.high))

    def shares(self, values: Array) -> Array:
        """Return values as shares of the ranges."""
        return np.asarray((values - self.low) / (self.high - self.low))

    def clip(self, shares: Array) -> Array:
        """Return shares in their ranges that add up, (n, d), whatever rounding did to them."""
        if self.total is None:
            return np.clip(shares, 0.0, 1.0)
        return self.shares(self.project(self.low + np.clip(shares, 0.0, 1.0) * (self.high - self.low)))

    def candidates(self) -> Array:
        """Return shares of the ranges to look at, (n, d)."""
        d = len(self.low)
        if self.total is not None:
            # Below one, so that corners and edges are drawn too: the best mix often leaves a corpus out.
            drawn = np.random.default_rng(self.seed).dirichlet(np.full(d, 0.7), DRAWN)
            measured = self.measured if self.measured.shape[1] == d else np.empty((0, d))
            return self.shares(self.project(np.concatenate([measured, np.full((1, d), 1.0 / d), np.eye(d), drawn])))
        from scipy.stats import qmc  # heavy: loaded when the first plan is made

        drawn = qmc.Sobol(d, seed=self.seed).random(min(LOOKS[0] * 2**d, LOOKS[1]))
        return np.concatenate([np.full((1, d), 0.5), np.zeros((1, d)), np.ones((1, d)), drawn])


def descend(values: Values, reach: Domain) -> Array:
    """Return the point with the least value that keeps the limits, or with the least excess over them: shares, (d,)."""
    if not len(reach.low) or reach.empty:
        return np.full(len(reach.low), 0.5)

    seen: list[tuple[Array, Array]] = []

    def table(shares: Array) -> Array:
        result = np.nan_to_num(values(shares), nan=WORST, posinf=WORST, neginf=-WORST)
        seen.append((shares, result))
        return result

    looked = reach.candidates()
    result = table(looked)
    order = np.lexsort((result[:, 0], _excess(result)))
    starts = _separated(looked[order])
    if _excess(result)[order[0]] > 0:  # nothing that was looked at keeps the limits: is there anything that does?
        starts = [_descent(table, reach, starts[0], worst_first=True)]
    ends = [looked[order[0]], *starts, *(_descent(table, reach, start, worst_first=False) for start in starts)]
    if reach.total is not None:
        return np.asarray(ends[_first(table(np.array(ends)))])
    # Where counts are rounded a descent ends within a count of a limit, on either side of it: all that was seen counts.
    table(np.array(ends))
    at, result = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    return _polished(table, at[_first(result)])


def _excess(table: Array) -> Array:
    """Return by how much the worst limit fails, (n,); 0 where all are kept."""
    return np.asarray(table[:, 1:].max(axis=1, initial=0.0))


def _first(table: Array) -> int:
    """Return the place of the best row: by excess first, and by value among those that keep the limits."""
    return int(np.lexsort((table[:, 0], _excess(table)))[0])


def _separated(ranked: Array) -> list[Array]:
    """Return good points that are not neighbours, (d,) each."""
    chosen = [ranked[0]]
    for one in ranked:
        if len(chosen) < DESCENTS and np.abs(np.array(chosen) - one).max(axis=1).min() > APART:
            chosen.append(one)
    return chosen


def _polished(table: Values, best: Array) -> Array:
    """Return the best point that single steps along the ranges lead to."""
    for step in POLISH:
        while True:
            near = np.clip(best + step * np.concatenate([np.eye(len(best)), -np.eye(len(best))]), 0.0, 1.0)
            at = np.concatenate([best[None], near])
            place = _first(table(at))
            if not place:
                break
            best = at[place]
    return best


def _descent(table: Values, reach: Domain, start: Array, worst_first: bool) -> Array:
    """Return the end of a descent by sequential quadratic programming, of the value or of the worst excess."""
    from scipy import optimize  # heavy: loaded when the first plan is made

    d, left = len(start), ROOM * reach.step

    @lru_cache(maxsize=2)
    def value(at: bytes) -> Array:
        return np.asarray(table(np.frombuffer(at)[None])[0])

    @lru_cache(maxsize=2)
    def slope(at: bytes) -> Array:
        """Return slopes, (1 + limits, d), by differences inside the ranges."""
        here = np.frombuffer(at)
        above, below = np.minimum(here + reach.step, 1.0), np.maximum(here - reach.step, 0.0)
        result = table(np.concatenate([np.where(np.eye(d, dtype=bool), end, here) for end in (above, below)]))
        return np.asarray(((result[:d] - result[d:]) / (above - below)[:, None]).T)

    def values_at(u: Array) -> Array:
        return value(np.ascontiguousarray(u[:d]).tobytes())

    def slopes_at(u: Array) -> Array:
        return slope(np.ascontiguousarray(u[:d]).tobytes())

    first, slopes = values_at(start), slopes_at(start)
    limits = len(first) - 1
    # Its tolerance is absolute: divided by how far it can fall, a goal in nats and one in points end alike.
    size = max(float(np.abs(slopes[0]).max(initial=0.0)), 1e-9)
    bounds: list[tuple[float | None, float | None]] = [(0.0, 1.0)] * d
    if worst_first:  # the worst excess t is a further variable
        bounds.append((None, None))
        room = {
            "type": "ineq",
            "fun": lambda u: u[d] - values_at(u)[1:],
            "jac": lambda u: np.c_[-slopes_at(u)[1:], np.ones(limits)],
        }
        begin, goal = np.r_[start, first[1:].max()], (lambda u: float(u[d]), lambda u: np.r_[np.zeros(d), 1.0])
    else:
        room = {"type": "ineq", "fun": lambda u: -left - values_at(u)[1:], "jac": lambda u: -slopes_at(u)[1:]}
        begin, goal = start, (lambda u: float(values_at(u)[0]) / size, lambda u: slopes_at(u)[0] / size)
    constraints: Any = [room] if limits else []
    if reach.total is not None:
        widths, rest = reach.high - reach.low, reach.total - reach.low.sum()
        along = np.r_[widths, np.zeros(len(begin) - d)]
        constraints.append({"type": "eq", "fun": lambda u: widths @ u[:d] - rest, "jac": lambda u: along})
    with np.errstate(all="ignore"):
        ended: Any = optimize.minimize(
            goal[0], begin, jac=goal[1], bounds=bounds, constraints=constraints, method="SLSQP",
            options={"maxiter": 60, "ftol": PRECISE * reach.step},
        )  # fmt: skip
    end = np.asarray(ended.x[:d], dtype=float)
    return reach.clip(end[None])[0] if np.isfinite(end).all() else start
