"""The loss at rows with its slopes by the free coordinates, and its curvature under a lever, for problems side by side.

Columns of a law come as jets, sparse in the parameters. Here they are made dense once, so that what a step needs of
them is a handful of matrix products: the tables are small, and what counts is how often NumPy is called.

Axes: s = problems, n = rows, v = coordinates (c, then z), k = free amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array, Jet
from cptlaw.solving.problem import Problem


@dataclass(frozen=True, eq=False)
class Column:
    """One term of the loss with its derivatives by the shapes.

    Parameters
    ----------
    parts
        Its value, first and second derivatives, (s, 1 + slopes + curves, n).
    slopes
        Coordinates of the first derivatives.
    curves
        Pairs of coordinates of the second derivatives, (pairs, 2).
    """

    parts: Array
    slopes: NDArray[np.intp]
    curves: NDArray[np.intp]

    @classmethod
    def of(cls, term: Any, s: int, n: int) -> Column:
        """Return a jet, an array or a number with an axis for its derivatives."""
        if not isinstance(term, Jet):
            parts = np.empty((s, 1, n))
            parts[:, 0] = term
            return cls(parts, np.empty(0, dtype=np.intp), np.empty((0, 2), dtype=np.intp))
        curves = term.curves or {}
        parts = np.empty((s, 1 + len(term.slopes) + len(curves), n))
        for place, part in enumerate((term.value, *term.slopes.values(), *curves.values())):
            parts[:, place] = part
        pairs = np.array(list(curves), dtype=np.intp).reshape(-1, 2)
        return cls(parts, np.array(list(term.slopes), dtype=np.intp), pairs)

    def drawn(self, lever: Array, size: int) -> tuple[Array, Array, Array]:
        """Return the sums over rows, each times its lever, of the value (s,), slopes (s, v) and curves (s, v, v)."""
        sums = np.matmul(self.parts, lever[:, :, None])[:, :, 0]
        first, found = 1 + len(self.slopes), np.zeros((len(sums), size, size))
        slopes = np.zeros((len(sums), size))
        slopes[:, self.slopes] = sums[:, 1:first]
        i, j = self.curves.T
        found[:, i, j] = found[:, j, i] = sums[:, first:]
        return sums[:, 0], slopes, found


@dataclass(frozen=True, eq=False)
class Scale:
    """The mean size of a column over the fitted rows, by which its amplitude is measured.

    Parameters
    ----------
    value
        (s,).
    slopes, curves
        Relative derivatives, (s, v) and (s, v, v); None where the scale is a number.
    """

    value: Array
    slopes: Array | None = None
    curves: Array | None = None

    @classmethod
    def of(cls, column: Column, natural: bool, size: int) -> Scale:
        """Return the scale of a column as `Problem.normalised` has it; 1 where the amplitude is `natural`."""
        value = column.parts[:, 0]
        s, n = value.shape
        if natural:
            return cls(np.ones(s))
        if not len(column.slopes):
            mean = np.abs(value).mean(axis=1)
            return cls(np.where(mean == 0, 1.0, mean))
        # A term that lowers the loss has the sign -1; its amplitude stays positive all the same.
        sign = np.ones((s, n)) if value.min() >= 0 else np.sign(value)
        mean, slopes, curves = column.drawn(sign / n, size)
        # A column that is zero in every row keeps its scale: there is nothing to divide by.
        mean = np.where(mean == 0, 1.0, mean)
        return cls(mean, slopes / mean[:, None], curves / mean[:, None, None])

    def moves_amplitude(self, natural: Array, index: int, size: int, of_log: bool) -> tuple[Array, Array]:
        """Return how the natural amplitude c / scale, or its log, moves as the shapes do, (s, v) and (s, v, v).

        Derivatives by c alone are left to the caller.
        """
        if self.slopes is None or self.curves is None:
            return np.zeros((len(natural), size)), np.zeros((len(natural), size, size))
        square = self.slopes[:, :, None] * self.slopes[:, None, :]
        if of_log:
            return -self.slopes, square - self.curves
        curves = natural[:, None, None] * (2.0 * square - self.curves)
        mixed = -self.slopes / self.value[:, None]
        curves[:, index] += mixed
        curves[:, :, index] += mixed
        return -natural[:, None] * self.slopes, curves


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
    def of(cls, problem: Problem, v: Array, order: int, scales: list[Scale] | None = None) -> LossAt:
        """Evaluate a law.

        Parameters
        ----------
        v
            Coordinates, (s, v).
        order
            Of the derivatives that are wanted: 2 for `curvature`.
        scales
            Of the fitted rows, where the rows of the problem are others.
        """
        s, n, k, size = len(v), problem.n, problem.k, problem.size
        offset, terms = problem.columns(v[:, k:], order)
        columns = [Column.of(term, s, n) for term in (*terms, offset)]
        if scales is None:
            scales = [Scale.of(column, bool(problem.natural[i]), size) for i, column in enumerate(columns[:k])]
        loss, slopes, amplitudes = np.zeros((s, n)), np.zeros((s, size, n)), np.ones((s, k + 1))
        for i, column in enumerate(columns):
            value, at = column.parts[:, 0], column.slopes
            if i < k:
                scale = scales[i]
                amplitudes[:, i] = v[:, i] / scale.value
                slopes[:, i] = value / scale.value[:, None]
            amplitude = amplitudes[:, i, None]
            part = amplitude * value
            loss += part
            if len(at):
                slopes[:, at] += amplitude[:, :, None] * column.parts[:, 1 : 1 + len(at)]
            if i < k and scale.slopes is not None:
                # Subtracted row by row: over exponents near 0 little is left of two large numbers.
                moved = at if len(at) else slice(k, None)
                slopes[:, moved] -= scale.slopes[:, moved, None] * part[:, None, :]
        return cls(loss, slopes, amplitudes[:, :k], columns, scales)

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
