"""Minimum of a smooth function of a mix: shares that add up to one, each in its range, under limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array

DRAWN = 512  # mixes that are looked at first, beside those that were measured
STARTS = 4
STEP = 1e-6  # of a share, for slopes
KEPT = 1e-9  # excess over a limit that counts as keeping it
PRECISION = 1e-11

# Maps mixes, (n, k), to what is minimised in the first column and the excess over each limit, (n, 1 + limits).
Values = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class MixRange:
    """The mixes to choose from.

    Parameters
    ----------
    low, high
        Smallest and largest share of each corpus, (k,).
    measured
        Mixes to start from, (n, k).
    """

    low: Array
    high: Array
    measured: Array

    @property
    def empty(self) -> bool:
        """Whether no mix lies in it."""
        return bool(np.any(self.low > self.high) or self.low.sum() > 1.0 + KEPT or self.high.sum() < 1.0 - KEPT)

    def within(self, mixes: Array) -> Array:
        """Return the nearest mixes that lie in the range, (n, k), in the least-squares sense."""
        moved = np.array(mixes, dtype=float)
        least, most = np.full(len(moved), -2.0), np.full(len(moved), 2.0)
        for _ in range(60):  # the shift that makes clipped shares add up to one, by halving
            shift = 0.5 * (least + most)
            over = np.clip(moved + shift[:, None], self.low, self.high).sum(axis=1) > 1.0
            least, most = np.where(over, least, shift), np.where(over, shift, most)
        return np.asarray(np.clip(moved + most[:, None], self.low, self.high))

    def candidates(self, seed: int = 0) -> Array:
        """Return the measured mixes and many others of the range, (n, k)."""
        k = len(self.low)
        # Below one, so that corners and edges are drawn too: the best mix often leaves a corpus out.
        drawn = np.random.default_rng(seed).dirichlet(np.full(k, 0.7), DRAWN)
        return self.within(np.concatenate([self.measured, np.full((1, k), 1.0 / k), np.eye(k), drawn]))


def minimise(values: Values, mixes: MixRange) -> tuple[Array, Array]:
    """Return the mix with the least value that keeps the limits, or the least excess over them, and its values.

    Parameters
    ----------
    values
        What is minimised, and the excesses over limits, of many mixes at once.
    mixes
        The range; it is not empty.

    Returns
    -------
    mix, values
        (k,) and (1 + limits,).
    """
    candidates = mixes.candidates()
    table = values(candidates)
    worst = _worst(table)
    # By excess first and by value among those that keep the limits: lexsort reads its last key first.
    ranked = np.lexsort((table[:, 0], np.maximum(worst, KEPT)))[:STARTS]
    found = [candidates[ranked[0]]]
    if worst.min() > KEPT:  # nothing that was looked at keeps the limits: is there anything that does?
        found.append(_descend(values, mixes, found[0], worst_first=True))
        if _worst(values(found[-1][None]))[0] > KEPT:
            return found[-1], values(found[-1][None])[0]
        ranked = ranked[:1]
        candidates[ranked[0]] = found[-1]
    found += [_descend(values, mixes, start, worst_first=False) for start in candidates[ranked]]
    ends = np.array(found)
    table = values(ends)
    best = np.lexsort((table[:, 0], np.maximum(_worst(table), KEPT)))[0]
    return ends[best], table[best]


def _worst(table: Array) -> Array:
    """Return the largest excess over a limit, (n,); minus infinity where there is no limit."""
    worst: Array = table[:, 1:].max(axis=1, initial=-np.inf)
    return worst


def _descend(values: Values, mixes: MixRange, start: Array, worst_first: bool) -> Array:
    """Return the end of a descent by sequential quadratic programming, of the value or of the worst excess."""
    from scipy import optimize  # heavy: loaded when the first plan is made

    def looked(at: Array) -> tuple[Array, Array]:
        """Return values and their slopes, (1 + limits,) and (1 + limits, k), by one-sided steps within the range."""
        key = at.tobytes()
        if key not in seen:
            # One share at a time, off the simplex, and towards the inside of the range: no law is asked beyond the
            # fitted shares.
            inward = np.where(at + STEP <= mixes.high, STEP, -STEP)
            table = values(np.concatenate([at[None], at + np.diag(inward)]))
            seen.clear()
            seen[key] = table[0], ((table[1:] - table[0]) / inward[:, None]).T
        return seen[key]

    seen: dict[bytes, tuple[Array, Array]] = {}
    k, limits = len(start), values(start[None]).shape[1] - 1
    # SLSQP's tolerance is absolute; divided by its size a goal in nats and one in points end alike.
    size = max(abs(float(values(start[None])[0, 0])), 1.0)
    bounds: list[tuple[float | None, float | None]] = [*zip(mixes.low, mixes.high, strict=True)]
    sums = {"type": "eq", "fun": lambda u: u[:k].sum() - 1.0, "jac": lambda u: np.r_[np.ones(k), np.zeros(len(u) - k)]}
    goal: Callable[[Array], tuple[float, Array]]
    if worst_first:  # the worst excess t is a further variable
        bounds.append((None, None))
        below = {
            "type": "ineq",
            "fun": lambda u: u[k] - looked(u[:k])[0][1:],
            "jac": lambda u: np.c_[-looked(u[:k])[1][1:], np.ones(limits)],
        }
        u0 = np.r_[start, values(start[None])[0, 1:].max()]
        goal = lambda u: (float(u[k]), np.r_[np.zeros(k), 1.0])  # noqa: E731
    else:
        below = {"type": "ineq", "fun": lambda u: -looked(u)[0][1:], "jac": lambda u: -looked(u)[1][1:]}
        u0 = start
        goal = lambda u: (float(looked(u)[0][0]) / size, looked(u)[1][0] / size)  # noqa: E731
    constraints: Any = [sums, below] if limits else [sums]
    with np.errstate(all="ignore"):
        ended: Any = optimize.minimize(
            goal, u0, jac=True, bounds=bounds, constraints=constraints, method="SLSQP",
            options={"maxiter": 100, "ftol": PRECISION},
        )  # fmt: skip
    end = np.asarray(ended.x[:k], dtype=float)
    return mixes.within(end[None])[0] if np.isfinite(end).all() else start
