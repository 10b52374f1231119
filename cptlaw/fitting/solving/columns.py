"""Terms of a law as columns with derivatives, made dense, and the scales by which amplitudes are measured.

Terms come as jets, sparse in the parameters. Stacked once, what a step needs of them is a handful of matrix products:
the tables are small, and what counts is how often NumPy is called.

Axes: s = problems side by side, n = rows, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array, Computed, Jet

NOWHERE = np.empty(0, dtype=np.intp)  # coordinates of what no shape moves
NO_PAIRS = np.empty((0, 2), dtype=np.intp)


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
        Pairs of the second derivatives, (pairs, 2), by their places in `slopes`.
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
            return cls(parts, NOWHERE, NO_PAIRS)
        curves, place = term.curves or {}, {index: i for i, index in enumerate(term.slopes)}
        parts = np.empty((s, 1 + len(place) + len(curves), n))
        for at, part in enumerate((term.value, *term.slopes.values(), *curves.values())):
            parts[:, at] = part
        pairs = np.array([(place[i], place[j]) for i, j in curves], dtype=np.intp) if curves else NO_PAIRS
        return cls(parts, np.array(list(place), dtype=np.intp), pairs)

    def rows(self, taken: slice) -> Column:
        """Return the column at some of the rows."""
        return Column(self.parts[:, :, taken], self.slopes, self.curves)

    def row_of_each(self, rows: NDArray[np.intp]) -> Column:
        """Return the column at one row of each problem."""
        return Column(self.parts[np.arange(len(rows)), :, rows][:, :, None], self.slopes, self.curves)

    def along(self, coordinates: NDArray[np.intp]) -> Column:
        """Return the column with derivatives by these coordinates, 0 where it has none."""
        s, _, n = self.parts.shape
        first, known = 1 + len(self.slopes), coordinates.tolist()
        place = np.array([known.index(one) for one in self.slopes], dtype=np.intp)
        parts = np.zeros((s, 1 + len(coordinates) + len(self.curves), n))
        parts[:, 0], parts[:, 1 + place] = self.value, self.moves
        parts[:, 1 + len(coordinates) :] = self.parts[:, first:]
        return Column(parts, coordinates, place[self.curves])

    @property
    def value(self) -> Array:
        """The term itself, (s, n)."""
        return self.parts[:, 0]

    @property
    def moves(self) -> Array:
        """First derivatives, (s, slopes, n)."""
        return self.parts[:, 1 : 1 + len(self.slopes)]

    def divided(self, scale: Scale, out: Array) -> Array:
        """Return the term over its scale, written into `out`."""
        return np.divide(self.value, scale.value[:, None], out=out)

    def slopes_divided(self, scale: Scale, divided: Array) -> Array:
        """Return the first derivatives of the term over its scale, (s, slopes, n), given that term."""
        result: Array = self.moves / scale.value[:, None, None]
        if scale.slopes is not None:
            # Subtracted row by row: over exponents near 0 little is left of two large numbers.
            result -= scale.slopes[:, :, None] * divided[:, None]
        return result

    def drawn(self, lever: Array) -> tuple[Array, Array, Array]:
        """Return the sums over rows, each times its lever, of value (s,), slopes (s, q) and curves (s, q, q)."""
        sums, first = np.matmul(self.parts, lever[:, :, None])[:, :, 0], 1 + len(self.slopes)
        found = np.zeros((len(sums), first - 1, first - 1))
        if len(self.curves):
            i, j = self.curves.T
            found[:, i, j] = found[:, j, i] = sums[:, first:]
        return sums[:, 0], sums[:, 1:first], found


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
        Relative derivatives by these, (s, q) and (s, q, q); None where the scale is a number.
    """

    value: Array
    at: NDArray[np.intp]
    slopes: Array | None = None
    curves: Array | None = None

    @classmethod
    def of(cls, column: Column, natural: bool) -> Scale:
        """Return the scale of a column; 1 where its amplitude is `natural`, having bounds of its own."""
        value = column.value
        s, n = value.shape
        if natural:
            return cls(np.ones(s), NOWHERE)
        if not len(column.slopes):
            mean = np.abs(value).mean(axis=1)
            return cls(np.where(mean == 0, 1.0, mean), NOWHERE)
        # A term that lowers the loss has the sign -1; its amplitude stays positive all the same.
        lever = np.full((s, n), 1.0 / n) if value.min() >= 0 else np.sign(value) / n
        mean, slopes, curves = column.drawn(lever)
        # A column that is zero in every row keeps its scale: there is nothing to divide by.
        mean = np.where(mean == 0, 1.0, mean)
        return cls(mean, column.slopes, slopes / mean[:, None], curves / mean[:, None, None])

    @cached_property
    def square(self) -> Array:
        """Slopes by pairs, (s, q, q)."""
        assert self.slopes is not None
        return self.slopes[:, :, None] * self.slopes[:, None, :]

    @cached_property
    def bend(self) -> Array:
        """Second derivatives of 1 / scale, relative to it, (s, q, q)."""
        assert self.curves is not None
        return np.asarray(2.0 * self.square - self.curves)

    def moves_amplitude(self, natural: Array, index: int, size: int, of_log: bool) -> tuple[Array, Array]:
        """Return how the natural amplitude c / scale, or its log, moves as the shapes do, (s, v) and (s, v, v).

        Derivatives by c alone are left to the caller.
        """
        slopes, curves = np.zeros((len(natural), size)), np.zeros((len(natural), size, size))
        if self.slopes is None or self.curves is None:
            return slopes, curves
        along = self.at[:, None], self.at
        if of_log:
            slopes[:, self.at] = -self.slopes
            curves[:, *along] = self.square - self.curves
            return slopes, curves
        slopes[:, self.at] = -natural[:, None] * self.slopes
        curves[:, *along] = natural[:, None, None] * self.bend
        curves[:, index, self.at] = curves[:, self.at, index] = -self.slopes / self.value[:, None]
        return slopes, curves
