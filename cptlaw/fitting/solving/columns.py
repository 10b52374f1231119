"""Terms of a law as columns with derivatives, made dense, and the scales by which amplitudes are measured.

Terms come as jets, sparse in the parameters. Stacked once, what a step needs of them is a handful of matrix products:
the tables are small, and what counts is how often NumPy is called.

Axes: s = problems side by side, n = rows, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array, Computed, Jet


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
    def of(cls, term: Computed, s: int, n: int) -> Column:
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

    def rows(self, taken: slice) -> Column:
        """Return the column at some of the rows."""
        return Column(self.parts[:, :, taken], self.slopes, self.curves)

    @property
    def value(self) -> Array:
        """The term itself, (s, n)."""
        return self.parts[:, 0]

    @property
    def moves(self) -> Array:
        """First derivatives, (s, slopes, n)."""
        return self.parts[:, 1 : 1 + len(self.slopes)]

    def divided(self, scale: Scale) -> tuple[Array, NDArray[np.intp], Array]:
        """Return the term over its scale, the coordinates that move it, and its first derivatives by them."""
        value = self.value / scale.value[:, None]
        moves = self.moves / scale.value[:, None, None]
        if scale.slopes is None:
            return value, self.slopes, moves
        if not len(self.slopes):  # a term that is constant here, though not over the fitted rows
            return value, scale.at, -scale.slopes[:, scale.at, None] * value[:, None, :]
        # Subtracted row by row: over exponents near 0 little is left of two large numbers.
        return value, self.slopes, moves - scale.slopes[:, self.slopes, None] * value[:, None, :]

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
    at
        Coordinates that move it.
    slopes, curves
        Relative derivatives, (s, v) and (s, v, v); None where the scale is a number.
    """

    value: Array
    at: NDArray[np.intp]
    slopes: Array | None = None
    curves: Array | None = None

    @classmethod
    def of(cls, column: Column, natural: bool, size: int) -> Scale:
        """Return the scale of a column; 1 where its amplitude is `natural`, having bounds of its own."""
        value, none = column.value, column.slopes[:0]
        s, n = value.shape
        if natural:
            return cls(np.ones(s), none)
        if not len(column.slopes):
            mean = np.abs(value).mean(axis=1)
            return cls(np.where(mean == 0, 1.0, mean), none)
        # A term that lowers the loss has the sign -1; its amplitude stays positive all the same.
        sign = np.ones((s, n)) if value.min() >= 0 else np.sign(value)
        mean, slopes, curves = column.drawn(sign / n, size)
        # A column that is zero in every row keeps its scale: there is nothing to divide by.
        mean = np.where(mean == 0, 1.0, mean)
        return cls(mean, column.slopes, slopes / mean[:, None], curves / mean[:, None, None])

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
