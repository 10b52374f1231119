"""The loss at rows with its slopes by the free coordinates, and its curvature under a lever, for problems side by side.

Axes: s = problems, n = rows, v = coordinates (c, then z), k = free amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        for i, scale in enumerate(scales):
            if len(scale.at) > len(columns[i].slopes):  # a term that is constant here, though not over the fitted rows
                columns[i] = columns[i].along(scale.at)
            c, value = v[:, i, None], slopes[:, i]
            loss += c * columns[i].divided(scale, value)
            if len(at := columns[i].slopes):
                slopes[:, at] += c[:, None] * columns[i].slopes_divided(scale, value)
            amplitudes[:, i] = v[:, i] / scale.value
        offset = columns[k]
        loss += offset.value
        slopes[:, offset.slopes] += offset.moves
        return cls(loss, slopes, amplitudes, columns, scales)

    def rows(self, taken: slice) -> LossAt:
        """Return the loss at some of the rows."""
        columns = [one.rows(taken) for one in self.columns]
        return LossAt(self.value[:, taken], self.slopes[:, :, taken], self.amplitudes, columns, self.scales)

    def row_of_each(self, rows: NDArray[np.intp]) -> LossAt:
        """Return the loss at one row of each problem."""
        each, columns = np.arange(len(rows)), [one.row_of_each(rows) for one in self.columns]
        slopes = self.slopes[each, :, rows][:, :, None]
        return LossAt(self.value[each, rows][:, None], slopes, self.amplitudes, columns, self.scales)

    def curvature(self, lever: Array) -> Array:
        """Return the second derivatives of the loss by the coordinates, summed over rows times a lever, (s, v, v)."""
        size = self.slopes.shape[1]
        found = np.zeros((len(lever), size, size))
        for i, column in enumerate(self.columns):
            at = column.slopes
            if not len(at):  # linear in its amplitude
                continue
            value, slopes, curves = column.drawn(lever)
            if i < len(self.scales):
                scale = self.scales[i]
                mixed = slopes / scale.value[:, None]
                if scale.slopes is not None:
                    # (q/s)'' with the natural amplitude c/s: the scale moves along with the shapes.
                    cross = slopes[:, :, None] * scale.slopes[:, None, :]
                    curves = curves - cross - cross.transpose(0, 2, 1) + value[:, None, None] * scale.bend
                    mixed -= (value / scale.value)[:, None] * scale.slopes
                curves *= self.amplitudes[:, i, None, None]
                found[:, i, at] = found[:, at, i] = mixed
            found[:, at[:, None], at] += curves
        return found
