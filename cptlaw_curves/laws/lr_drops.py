"""Sums over all changes of a learning rate, at few nodes: what the multi-power law reads off a schedule.

    sum_{k<=t} (eta_k - eta_{k-1}) F(eta_k, s_t - s_{k-1}),      s = cumsum(eta)

A schedule of 24,000 steps has as many changes, and each row sums over all before it. F is smooth, so changes long past
are summed in panels: within a panel F is its interpolant through a few of the panel's own steps, and each of these gets
as weight the sum over the panel of (change x Lagrange polynomial), which is exact for every polynomial of that degree.
Panels grow with their distance from the row, and where the schedule itself is no smooth function of the step (a corner,
a staircase, the first steps of a warm-up) they are halved until they hold single steps. No step is left out.

Axes: ``n`` = rows, ``q`` = nodes of all rows, one row after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cptlaw.laws.calculus import Array, Number

ORDER = 5  # steps of a panel at which F is evaluated: a few 1e-9 nats of the multi-power loss
DISTANCE = 1.0  # of a panel from the row, in lengths of the panel, from which it may be summed as one
SMOOTH = 1e-6  # relative error allowed in the schedule's interpolant over a panel
LOG_OF_ZERO_RATE = -690.0  # the logarithm of a learning rate of zero: F is then at its limit


@dataclass(frozen=True, eq=False)
class Drops:
    """The nodes of rows, one row after the other.

    Parameters
    ----------
    weight
        Sum of changes that the node stands for, (q,).
    log_rate
        log eta_k, (q,).
    log_area
        log(s_t - s_{k-1}), (q,).
    first
        Where each row begins, (n + 1,).
    """

    weight: Array
    log_rate: Array
    log_area: Array
    first: NDArray[np.intp]

    @classmethod
    def of_rows(cls, rows: Sequence[Drops] | NDArray[np.object_]) -> Drops:
        """Join the nodes of rows, each of shape (nodes, 3): weight, log rate, log area."""
        lengths = [len(row) for row in rows]
        joined = np.concatenate([*rows, np.zeros((0, 3))])
        weight, log_rate, log_area = np.ascontiguousarray(joined.T)
        return cls(weight, log_rate, log_area, np.concatenate([[0], np.cumsum(lengths)]).astype(int))

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, rows: int | slice | NDArray[np.integer] | NDArray[np.bool_]) -> Drops:
        chosen = np.arange(len(self))[rows]
        parts = [np.arange(self.first[i], self.first[i + 1]) for i in chosen]
        nodes = np.concatenate([*parts, np.zeros(0, dtype=int)]).astype(int)
        first = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(int)
        return Drops(self.weight[nodes], self.log_rate[nodes], self.log_area[nodes], first)

    def sum(self, values: Number) -> Array:
        """Return the sum of weight x value by row, (n,)."""
        result = np.zeros(len(self))
        filled = self.first[1:] > self.first[:-1]
        if filled.any():
            result[filled] = np.add.reduceat(self.weight * values, self.first[:-1][filled])
        return result


def drops_of(lr: Array, at: ArrayLike) -> list[Array]:
    """Return the nodes of some steps of a schedule, each of shape (nodes, 3): weight, log rate, log area.

    Parameters
    ----------
    lr
        Learning rate at each step from 0, (steps + 1,).
    at
        Steps, (n,).
    """
    change = np.diff(lr, prepend=lr[:1])
    before = np.concatenate([[0.0], np.cumsum(lr)])  # before[k] = s_{k-1}
    log_rate = np.where(lr > 0, np.log(np.maximum(lr, 1e-300)), LOG_OF_ZERO_RATE)
    steps = np.flatnonzero(change)
    # Changes long past act almost as one: panels of them are summed by 5 interpolatory nodes, wider the longer ago.
    # Against the plain sum over 24,000 steps the loss differs by 1.5e-9 nats, at 210 nodes a row.
    roots = [_Panel(block, change, log_rate, before) for block in _blocks(steps)]
    result = []
    for t in np.asarray(at, dtype=int):
        nodes: list[NDArray[np.intp]] = []
        weights: list[Array] = []
        for root in roots:
            root.collect(int(t), nodes, weights)
        k = np.concatenate([*nodes, np.zeros(0, dtype=int)]).astype(int)
        area = before[t + 1] - before[k]
        # Between steps of learning rate zero nothing has been trained: the area is zero and so is F.
        log_area = np.where(area > 0, np.log(np.maximum(area, 1e-300)), LOG_OF_ZERO_RATE)
        result.append(np.stack([np.concatenate([*weights, np.zeros(0)]), log_rate[k], log_area], axis=1))
    return result


def _blocks(steps: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Cut steps at which the rate changes into pieces without a gap."""
    return np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1) if len(steps) else []


class _Panel:
    """Consecutive steps, halved where needed."""

    def __init__(self, steps: NDArray[np.intp], change: Array, log_rate: Array, before: Array) -> None:
        self.steps, self._schedule = steps, (change, log_rate, before)
        self.weights = change[steps]
        self.nodes: NDArray[np.intp] | None = None  # None: not smooth, must be halved
        self._halves: tuple[_Panel, _Panel] | None = None
        if len(steps) > ORDER:
            self._compress()

    def _compress(self) -> None:
        change, log_rate, before = self._schedule
        chosen, basis = _basis(len(self.steps))
        rate, area = log_rate[self.steps], before[self.steps]
        span = float(area[-1] - area[0])
        if span <= 0:
            return
        if np.abs(basis @ area[chosen] - area).max() > SMOOTH * span:
            return
        # Both the area and the log rate must be smooth: a panel across the corner of a schedule is halved until the
        # corner lies between two.
        if np.abs(basis @ rate[chosen] - rate).max() <= SMOOTH:
            self.nodes, self.compressed = self.steps[chosen], change[self.steps] @ basis

    def collect(self, t: int, nodes: list[NDArray[np.intp]], weights: list[Array]) -> None:
        """Add the nodes that row t needs of this panel."""
        first, last = int(self.steps[0]), int(self.steps[-1])
        if first > t:
            return
        if self.nodes is not None and t - last >= DISTANCE * (last - first):
            nodes.append(self.nodes)
            weights.append(self.compressed)
        elif len(self.steps) <= ORDER:
            seen = int(np.searchsorted(self.steps, t, side="right"))
            nodes.append(self.steps[:seen])
            weights.append(self.weights[:seen])
        else:
            if self._halves is None:
                middle = len(self.steps) // 2
                self._halves = (
                    _Panel(self.steps[:middle], *self._schedule),
                    _Panel(self.steps[middle:], *self._schedule),
                )
            for half in self._halves:
                half.collect(t, nodes, weights)


@lru_cache(maxsize=256)
def _basis(m: int) -> tuple[NDArray[np.intp], Array]:
    """Return the nodes of a panel of m steps, and their Lagrange polynomials at all steps, (m, nodes)."""
    # Chebyshev points, rounded to steps: evenly spread nodes would let the interpolant swing at the ends of the panel.
    angle = np.pi * (np.arange(ORDER) + 0.5) / ORDER
    chosen = np.unique(np.round(0.5 * (m - 1) * (1.0 - np.cos(angle))).astype(int))
    return chosen, _lagrange(np.linspace(-1.0, 1.0, m), chosen)


def _lagrange(u: Array, chosen: NDArray[np.intp]) -> Array:
    """Return the Lagrange polynomials of some of the points u, at all of them, (points, chosen)."""
    nodes = u[chosen]
    gaps = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(gaps, 1.0)
    # The barycentric form is stable however close a step lies to a node (Berrut and Trefethen 2004).
    barycentric = 1.0 / gaps.prod(axis=1)
    away = u[:, None] - nodes[None, :]
    on = away == 0
    share = barycentric / np.where(on, 1.0, away)
    basis = share / share.sum(axis=1, keepdims=True)
    hit = on.any(axis=1)
    basis[hit] = on[hit]
    return np.asarray(basis, dtype=float)
