"""A law bound to data and to restraint, as functions of free coordinates.

Free coordinates are the free amplitudes ``c`` and the free shapes ``z`` on their search axes. Pinned parameters are
constants; tied parameters share one coordinate. Nothing here searches: `varpro` and `newton` do.

Axes: s = coordinate vectors side by side, n = rows, k = free amplitudes, m = free shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cptlaw.fitting.solving.columns import Column, Scale
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array, Computed, Jet, Letters, Number, Positive


class Problem:
    """Columns of the linear part, their derivatives, bounds, and the way back to named parameters.

    Parameters
    ----------
    x
        Inputs of n rows as `Law.bind` returns them.
    loss
        Observed losses, shape (n,), positive.
    restraint
        Pins, ties, bounds and priors by parameter name.
    """

    def __init__(self, law: Law, x: Letters, loss: Array, restraint: Restraint) -> None:
        self.law, self.x, self.restraint = law, x, restraint
        self.loss = np.asarray(loss, dtype=float)
        self.log_loss = np.log(self.loss)
        self.n = len(self.loss)
        fixed, groups = restraint.fixed, restraint.groups(law)
        amplitudes, shapes = set(law.amplitudes), law.shapes
        self.amplitude_groups = [group for group in groups if group[0] in amplitudes]
        self.shape_groups = [group for group in groups if group[0] in shapes]
        self.k, self.m = len(self.amplitude_groups), len(self.shape_groups)
        self.fixed = {name: float(value) for name, value in fixed.items()}
        self.free = [group[0] for group in (*self.amplitude_groups, *self.shape_groups)]
        self.size = self.k + self.m
        # Tied amplitudes share a column: their terms are added before anything is solved, so that one number multiplies
        # both.
        self._column_of = {name: k for k, group in enumerate(self.amplitude_groups) for name in group}
        self._axes = [law.shapes[group[0]] for group in self.shape_groups]
        scales = np.array([axis.scale for axis in self._axes])
        self._alike = [(axis, scales == axis.scale) for axis in {one.scale: one for one in self._axes}.values()]
        shape_ranges = [restraint.range(law, group) for group in self.shape_groups]
        self.z_low = np.array([a.to_axis(low) for a, (low, _) in zip(self._axes, shape_ranges, strict=True)])
        self.z_high = np.array([a.to_axis(high) for a, (_, high) in zip(self._axes, shape_ranges, strict=True)])
        # A column whose amplitude has bounds of its own keeps its natural scale, so that the bounds stay constant.
        self.c_low, self.c_high = np.zeros(self.k), np.full(self.k, np.inf)
        self.natural = np.zeros(self.k, dtype=bool)
        for k, group in enumerate(self.amplitude_groups):
            low, high = restraint.range(law, group)
            self.c_low[k], self.c_high[k] = low, high
            self.natural[k] = low > 0 or np.isfinite(high)
        self.low = np.concatenate([self.c_low, self.z_low])
        self.high = np.concatenate([self.c_high, self.z_high])

    def at(self, letter: str, column: Positive | Array) -> Problem:
        """Return the same problem with one input column replaced."""
        moved = copy.copy(self)
        moved.x = copy.copy(self.x)
        setattr(moved.x, letter, column)
        return moved

    def moved_to(self, x: Letters) -> Problem:
        """Return the law, with the same coordinates, at other rows, (n,) or (s, n); their losses are unknown."""
        moved = copy.copy(self)
        moved.x = x
        moved.n = next(column.value.shape[-1] for column in vars(x).values() if isinstance(column, Positive))
        return moved

    def beside(self, x: Letters) -> Problem:
        """Return the law at the rows of the problem, then at others: a law costs by the call and hardly by the row."""
        here = vars(self.x)
        both = {name: (here[name], column) for name, column in vars(x).items()}
        return self.moved_to(
            Letters(
                **{
                    name: Positive(np.concatenate([one.value for one in pair]))
                    if isinstance(pair[0], Positive)
                    else np.concatenate(pair)
                    for name, pair in both.items()
                }
            )
        )

    def subset(self, rows: NDArray[np.int_]) -> Problem:
        """Return the same problem on some of its rows."""
        taken = copy.copy(self)
        taken.x = Letters(**{name: column[rows] for name, column in vars(self.x).items()})
        taken.loss, taken.log_loss, taken.n = self.loss[rows], self.log_loss[rows], len(rows)
        return taken

    def thinned(self, most: int, optima: Array) -> tuple[NDArray[np.int_], Problem, Array]:
        """Return which rows are kept, evenly taken where there are more than `most`; the problem on them, and optima.

        Amplitudes are on a scale that is the mean of their column over the rows, so coordinates change with the rows.
        """
        if self.n <= most:
            return np.arange(self.n), self, optima
        rows = np.unique(np.linspace(0, self.n - 1, most).round().astype(int))
        few, moved = self.subset(rows), optima.copy()
        moved[:, : self.k] *= few.scales(optima[:, self.k :]) / self.scales(optima[:, self.k :])
        return rows, few, moved

    def at_ratio(self, shift: float) -> Problem:
        """Return the same problem with the law's ratio moved by `shift`, kept within [0, 1]."""
        return self.at("r", Positive(np.clip(self.x.r.value + shift, 0.0, 1.0)))

    def starts(self, count: int, rng: np.random.Generator) -> Array:
        """Draw starting shapes by Latin hypercube over the start ranges, on the search axes: shape (count, m)."""
        # One start in each of `count` equal strata of every shape, paired at random.
        strata = (rng.permuted(np.tile(np.arange(count), (self.m, 1)), axis=1).T + rng.random((count, self.m))) / count
        z = np.empty((count, self.m))
        for m, (axis, group) in enumerate(zip(self._axes, self.shape_groups, strict=True)):
            low, high = (float(axis.to_axis(end)) for end in axis.start_range)
            low, high = np.clip([low, high], self.z_low[m], self.z_high[m])
            if group[0] in self.restraint.priors:  # start where the prior is
                prior = self.restraint.priors[group[0]]
                ends = (prior.centre - prior.sd, prior.centre + prior.sd)
                low, high = (
                    float(np.clip(axis.to_axis(np.clip(end, axis.low, axis.high)), self.z_low[m], self.z_high[m]))
                    for end in (ends if prior.scale == "value" else np.exp(ends))
                )
            z[:, m] = low + (high - low) * strata[:, m]
        return z

    def shapes(self, z: Array, order: int) -> Letters:
        """Return the law's shape parameters at z (s, m) as Jets of shape (s, 1), pinned ones as numbers."""
        values: dict[str, Computed] = dict(self.fixed)
        along = zip(self._axes, self.shape_groups, *(one[:, :, None] for one in self.shapes_along(z)), strict=True)
        for index, (axis, group, value, slope, curve) in enumerate(along, self.k):
            curves: dict[tuple[int, int], Number] = {} if axis.scale == "linear" else {(index, index): curve}
            # Tied shapes share one Jet, so that their slopes add up by themselves.
            values.update(dict.fromkeys(group, Jet(value, {index: slope}, None if order < 2 else curves)))
        return Letters(**values)

    def shapes_along(self, z: Array) -> Array:
        """Return the free shapes at z (s, m), with first and second derivatives along their search axes, (3, m, s)."""
        # With those of one shape side by side in memory: NumPy before 2 takes another exponential for strided columns
        # where input and output happen to lie close together in memory, and the same fit would end in other last digits
        # from one call to the next.
        across, found = np.ascontiguousarray(z.T), np.empty((3, self.m, len(z)))
        for axis, places in self._alike:
            value = axis.from_axis(across[places])
            found[:, places] = value, *axis.derivatives(value)
        return found

    def columns(self, z: Array, order: int = 1) -> list[Column]:
        """Evaluate the terms at z: a column per free amplitude, tied ones summed, then the part without one.

        A column over its mean size (`scales_of`) is what a coordinate multiplies, which uncouples amplitudes from
        exponents: A varies over orders of magnitude as alpha moves, A times its mean column hardly does, whatever the
        units of N and D.
        """
        shape = self.shapes(z, order)
        offset: Computed = 0.0
        columns: dict[int, Computed] = {}
        names = self.law.amplitudes
        for t, term in enumerate(self.law.terms(self.x, shape)):
            if isinstance(term, Positive):  # an input as it stands, as the term of C r
                term = term.value
            # The last term of a law may have no amplitude, and a fixed amplitude is no coordinate: both are part of the
            # offset.
            k = self._column_of.get(names[t]) if t < len(names) else None
            if k is not None:
                columns[k] = columns[k] + term if k in columns else term
            else:
                offset = offset + (term * self.fixed[names[t]] if t < len(names) else term)
        return [Column.of(term, len(z), self.n) for term in (*(columns[k] for k in range(self.k)), offset)]

    def scales_of(self, columns: list[Column]) -> list[Scale]:
        """Return the mean size of each column with an amplitude: natural amplitude = c / scale."""
        return [Scale.of(columns[i], bool(self.natural[i])) for i in range(self.k)]

    def scales(self, z: Array) -> Array:
        """Return the divisors of the columns at z, shape (s, k)."""
        found = [scale.value for scale in self.scales_of(self.columns(z))]
        return np.stack(found, axis=1) if found else np.empty((len(z), 0))

    def parameters(self, c: Array, z: Array) -> Array:
        """Return all parameters of the law, in its order and natural scale, shape (s, parameters).

        `c` counts the mean size of its column, as `newton` uses it.
        """
        scales = self.scales(z)
        found: dict[str, Array] = {name: np.full(len(z), value) for name, value in self.fixed.items()}
        for k, group in enumerate(self.amplitude_groups):
            found.update(dict.fromkeys(group, c[:, k] / scales[:, k]))
        for value, group in zip(self.shapes_along(z)[0], self.shape_groups, strict=True):
            found.update(dict.fromkeys(group, value))
        result = self.law.published(found)
        return np.stack([np.broadcast_to(result[name], len(z)) for name in self.law.parameters], axis=1)

    def coordinates(self, params: Mapping[str, float]) -> tuple[Array, Array]:
        """Return the coordinates (c, z) of parameters of the law: the inverse of `parameters`, shapes (k,) and (m,)."""
        given = self.law.fitted(params)
        z = np.array(
            [axis.to_axis(given[group[0]]) for axis, group in zip(self._axes, self.shape_groups, strict=True)],
            dtype=float,
        )
        natural = np.array([float(given[group[0]]) for group in self.amplitude_groups])
        return natural * self.scales(z[None])[0], z
