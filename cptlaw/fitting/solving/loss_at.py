"""The loss at rows with its slopes by the free coordinates, and its curvature under a lever, for problems side by side.

Axes: s = problems, n = rows, v = coordinates (c, then z), k = free amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.solving.columns import Column, Scale
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array


@dataclass(frozen=True, eq=False)
class LossAt:
    """The loss at rows.

    Parameters
    ----------
    value
        (s, n).
    slopes
        By the coordinates, (s, v, n).
    amplitudes
        Natural ones, (s, k).
    columns
        One for each amplitude, then what has none.
    scales
        Of the columns with an amplitude.
    """

    value: Array
    slopes: Array
    amplitudes: Array
    columns: list[Column]
    scales: list[Scale]

    @classmethod
    def of(
        cls, problem: Problem, v: Array, order: int, scales: list[Scale] | None = None, fitted: int | None = None
    ) -> LossAt:
        """Evaluate a law.

        Parameters
        ----------
        v
            Coordinates, (s, v).
        order
            Of the derivatives that are wanted: 2 for `curvature`.
        scales
            Of the fitted rows, where the rows of the problem are others.
        fitted
            How many rows, the first, are the fitted ones; all where not given.
        """
        s, n, k, size = len(v), problem.n, problem.k, problem.size
        columns = problem.columns(v[:, k:], order)
        if scales is None:
            scales = problem.scales_of(columns if fitted is None else [one.rows(slice(fitted)) for one in columns])
        loss, slopes, amplitudes = np.zeros((s, n)), np.zeros((s, size, n)), np.empty((s, k))
        for i, column in enumerate(columns[:k]):
            value, at, moves = column.divided(scales[i])
            loss += v[:, i, None] * value
            slopes[:, i] = value
            slopes[:, at] += v[:, i, None, None] * moves
            amplitudes[:, i] = v[:, i] / scales[i].value
        offset = columns[k]
        loss += offset.value
        slopes[:, offset.slopes] += offset.moves
        return cls(loss, slopes, amplitudes, columns, scales)

    def rows(self, taken: slice) -> LossAt:
        """Return the loss at some of the rows."""
        columns = [one.rows(taken) for one in self.columns]
        return LossAt(self.value[:, taken], self.slopes[:, :, taken], self.amplitudes, columns, self.scales)

    def curvature(self, lever: Array) -> Array:
        """Return the second derivatives of the loss by the coordinates, summed over rows times a lever, (s, v, v)."""
        size = self.slopes.shape[1]
        found = np.zeros((len(lever), size, size))
        for i, column in enumerate(self.columns):
            if i == len(self.scales):
                found += column.drawn(lever, size)[2]
                continue
            scale, amplitude = self.scales[i], self.amplitudes[:, i, None, None]
            value, slopes, curves = column.drawn(lever, size)
            mixed = slopes / scale.value[:, None]
            if scale.slopes is not None and scale.curves is not None:
                # (q/s)'' with the natural amplitude c/s: the scale moves along with the shapes.
                cross = slopes[:, :, None] * scale.slopes[:, None, :]
                square = scale.slopes[:, :, None] * scale.slopes[:, None, :]
                bent = value[:, None, None] * (2.0 * square - scale.curves)
                curves = curves - cross - cross.transpose(0, 2, 1) + bent
                mixed = mixed - (value / scale.value)[:, None] * scale.slopes
            found += amplitude * curves
            found[:, i] += mixed
            found[:, :, i] += mixed
        return found
