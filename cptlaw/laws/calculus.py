"""Exact first and second derivatives of a law's terms, carried along with their values.

A law writes its terms once, with ordinary arithmetic. Evaluated on arrays the terms give numbers; evaluated on
`Jet` objects the same lines also give derivatives with respect to the parameters. There is no second formula that
could drift from the first, no step size, and only the few parameters that a term depends on cost anything.

Axes: ``s`` = parameter vectors evaluated side by side, ``n`` = rows of data. Values have shape (s, n) or broadcast
to it; parameters come as (s, 1).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Number: TypeAlias = Array | float
Computed: TypeAlias = "Jet | Array | float"
Value: TypeAlias = "Jet | Positive | Array | float"  # what a law calculates with


class Letters(SimpleNamespace):
    """Inputs or parameters of a law, by the letters of its paper."""

    if TYPE_CHECKING:
        D: Positive | Jet
        r: Positive | Jet
        of_source: Array
        stated: NDArray[np.bool_]

        def __getattribute__(self, name: str) -> Value: ...


# Stands for log(0): finite, so that 0**a is 0 for every a > 0 with derivatives 0 instead of 0 * inf = nan.
LOG_OF_ZERO = -1e30


# Why not a complex step: it costs one complex evaluation of all terms per parameter, and gives no second derivatives,
# which the polish and the curvature of intervals need.
class Jet:
    """A value, its slopes by parameter, and its curvatures by pair of parameters.

    Parameters
    ----------
    value
        Array that broadcasts to (s, n).
    slopes
        First derivatives by parameter index; an absent index means zero.
    curves
        Second derivatives by index pair ``(i, j)`` with ``i <= j``; an absent pair means zero. ``None`` where second
        derivatives are not wanted.
    """

    __slots__ = ("curves", "slopes", "value")

    def __array_ufunc__(self, function: np.ufunc, method: str, *given: Value, **options: object) -> object:
        """Let NumPy's own arithmetic and functions take this, as in ``np.exp(-p.k * x.r)``."""
        return _as_numpy(function, method, given, options)

    def __init__(self, value: Number, slopes: dict[int, Number], curves: dict[tuple[int, int], Number] | None) -> None:
        self.value = value
        self.slopes = slopes
        self.curves = curves

    def chain(self, value: Number, first: Number, second: Number | None) -> Jet:
        """Return f(self), given f, f' and f'' at this value."""
        slopes = {i: first * slope for i, slope in self.slopes.items()}
        if self.curves is None:
            return Jet(value, slopes, None)
        curves = {pair: first * curve for pair, curve in self.curves.items()}
        if second is not None:
            for i, slope_i in self.slopes.items():
                for j, slope_j in self.slopes.items():
                    # A pair is kept once, with i <= j; the symmetric entry is written where a matrix is made of it.
                    if i <= j:
                        bend, pair = second * (slope_i * slope_j), (i, j)
                        curves[pair] = curves[pair] + bend if pair in curves else bend
        return Jet(value, slopes, curves)

    def __neg__(self) -> Jet:
        curves = None if self.curves is None else {pair: -curve for pair, curve in self.curves.items()}
        return Jet(-self.value, {i: -slope for i, slope in self.slopes.items()}, curves)

    def __add__(self, other: Computed) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.value + other, self.slopes, self.curves)
        slopes = _sum(self.slopes, other.slopes)
        curves = None if self.curves is None or other.curves is None else _sum(self.curves, other.curves)
        return Jet(self.value + other.value, slopes, curves)

    __radd__ = __add__

    def __sub__(self, other: Computed) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Computed) -> Jet:
        return (-self) + other

    def __mul__(self, other: Computed) -> Jet:
        if not isinstance(other, Jet):
            return self.chain(self.value * other, other, None)
        slopes = _sum(_times(self.slopes, other.value), _times(other.slopes, self.value))
        curves = None
        if self.curves is not None and other.curves is not None:
            curves = _sum(_times(self.curves, other.value), _times(other.curves, self.value))
            for i, slope_i in self.slopes.items():
                for j, slope_j in other.slopes.items():
                    # Of (u v)_ij with i < j the loops meet u_i v_j and u_j v_i, one each; of (u v)_ii they meet u_i v_i
                    # once, which counts twice.
                    product, pair = slope_i * slope_j, (i, j) if i <= j else (j, i)
                    if i == j:
                        product = product + product
                    curves[pair] = curves[pair] + product if pair in curves else product
        return Jet(self.value * other.value, slopes, curves)

    __rmul__ = __mul__

    def __truediv__(self, other: Value) -> Jet:
        return self * reciprocal(other)

    def __rtruediv__(self, other: Number) -> Computed:
        return reciprocal(self) * other

    def __pow__(self, exponent: Value) -> Computed:
        # By way of the logarithm, so that the exponent may be a parameter: its derivative is then log(base) times the
        # power.
        return exp(exponent * log(self))

    def __rpow__(self, base: Computed) -> Computed:
        return exp(self * log(base))


class Positive:
    """A non-negative input column that remembers its logarithm, since every law raises it to fitted powers.

    Parameters
    ----------
    value
        Array of shape (n,), zero or positive.
    """

    __slots__ = ("log", "value")

    def __array_ufunc__(self, function: np.ufunc, method: str, *given: Value, **options: object) -> object:
        """Let NumPy's own arithmetic and functions take this."""
        return _as_numpy(function, method, given, options)

    def __init__(self, value: Array) -> None:
        self.value = value
        with np.errstate(divide="ignore"):
            self.log = np.where(value > 0, np.log(value), LOG_OF_ZERO)

    def __getitem__(self, rows: int | slice | NDArray[np.integer] | NDArray[np.bool_]) -> Positive:
        taken = Positive.__new__(Positive)
        taken.value, taken.log = self.value[rows], self.log[rows]
        return taken

    def __neg__(self) -> Computed:
        return -self.value

    def __pow__(self, exponent: Value) -> Computed:
        return exp(exponent * self.log)

    def __rpow__(self, base: Computed) -> Computed:
        return exp(log(base) * self.value)

    def __add__(self, other: Value) -> Computed:
        return other + self.value

    __radd__ = __add__

    def __sub__(self, other: Value) -> Computed:
        return -other + self.value

    def __rsub__(self, other: Value) -> Computed:
        return other - self.value

    def __mul__(self, other: Value) -> Computed:
        return other * self.value

    __rmul__ = __mul__

    def __truediv__(self, other: Value) -> Computed:
        return reciprocal(other) * self.value

    def __rtruediv__(self, other: Value) -> Computed:
        return other * (1.0 / self.value)


Key = TypeVar("Key")


def _times(parts: dict[Key, Number], factor: Number) -> dict[Key, Number]:
    return {key: part * factor for key, part in parts.items()}


def _sum(parts: dict[Key, Number], others: dict[Key, Number]) -> dict[Key, Number]:
    total = dict(parts)
    for key, other in others.items():
        total[key] = total[key] + other if key in total else other
    return total


def exp(u: Value) -> Computed:
    """Exponential of a number, array or Jet."""
    if isinstance(u, Jet):
        value = np.exp(u.value)
        return u.chain(value, value, value)
    result: Number = np.exp(u.value if isinstance(u, Positive) else u)
    return result


def log(u: Value) -> Computed:
    """Natural logarithm of a number, array, input column or Jet."""
    if isinstance(u, Positive):
        return u.log
    if isinstance(u, Jet):
        inverse = 1.0 / u.value
        return u.chain(np.log(u.value), inverse, -inverse * inverse)
    return np.log(u)


def log1p(u: Value) -> Computed:
    """Logarithm of 1 + u, exact for small u, of a number, array or Jet."""
    if isinstance(u, Jet):
        # log(1 + u) would lose all digits of a small u, as of an area at the first step of CPT.
        inverse = 1.0 / (1.0 + u.value)
        return u.chain(np.log1p(u.value), inverse, -inverse * inverse)
    result: Number = np.log1p(u.value if isinstance(u, Positive) else u)
    return result


def expm1(u: Value) -> Computed:
    """Exponential of u less 1, exact for small u, of a number, array or Jet."""
    if isinstance(u, Jet):
        slope = np.exp(u.value)
        return u.chain(np.expm1(u.value), slope, slope)
    result: Number = np.expm1(u.value if isinstance(u, Positive) else u)
    return result


def saturation(u: Value) -> Computed:
    """1 - exp(-u), exact for small u, of a number, array or Jet."""
    if isinstance(u, Jet):
        slope = np.exp(-u.value)
        return u.chain(-np.expm1(-u.value), slope, -slope)
    result: Number = -np.expm1(-(u.value if isinstance(u, Positive) else u))
    return result


def reciprocal(u: Value) -> Computed:
    """Return 1 / u for a number, array or Jet."""
    if isinstance(u, Jet):
        inverse = 1.0 / u.value
        squared = inverse * inverse
        return u.chain(inverse, -squared, 2.0 * squared * inverse)
    return 1.0 / (u.value if isinstance(u, Positive) else u)


def expit(u: Computed) -> Computed:
    """Logistic function 1 / (1 + exp(-u)), stable for large ``|u|``."""
    if isinstance(u, Jet):
        value = special.expit(u.value)
        first = value * (1.0 - value)
        return u.chain(value, first, first * (1.0 - 2.0 * value))
    return special.expit(u)


def maximum(u: Value, floor: Computed) -> Computed:
    """Clip from below; where the clip binds, the derivatives are those of the floor: zero for a number."""
    if isinstance(floor, Jet):
        if not isinstance(u, Jet):
            return maximum(floor, u.value if isinstance(u, Positive) else u)
        above = np.asarray(u.value > floor.value, dtype=float)
        return u * above + floor * (1.0 - above)
    if isinstance(u, Jet):
        # At the kink itself the derivative of the flat side is taken, so that a parameter at its clip is left alone.
        free = np.asarray(u.value > floor, dtype=float)
        return u.chain(np.maximum(u.value, floor), free, None)
    result: Number = np.maximum(u.value if isinstance(u, Positive) else u, floor)
    return result


def minimum(u: Computed, ceiling: Computed) -> Computed:
    """Clip from above; where the clip binds, the derivatives are zero."""
    return -1.0 * maximum(-1.0 * u, -1.0 * ceiling)


def weighted_sum(terms: Sequence[Value], amplitudes: Sequence[Value]) -> Computed:
    """Return the sum of a law's terms, each times its amplitude; those beyond the last amplitude stand as they are."""
    total: Computed = 0.0
    for k, term in enumerate(terms):
        total = total + (term * amplitudes[k] if k < len(amplitudes) else term)
    return total


def _reflected(forward: Callable[[Value, Value], Value], backward: str) -> Callable[[Value, Value], Value]:
    def apply(first: Value, second: Value) -> Value:
        # An array on the left would ask NumPy again: the right operand answers for it.
        return forward(first, second) if isinstance(first, (Jet, Positive)) else getattr(second, backward)(first)

    return apply


# What a law may write with NumPy as it stands. Anything else is refused by NumPy, by the name of the function.
_ARITHMETIC: dict[np.ufunc, Callable[..., Value]] = {
    np.add: _reflected(operator.add, "__radd__"),
    np.subtract: _reflected(operator.sub, "__rsub__"),
    np.multiply: _reflected(operator.mul, "__rmul__"),
    np.true_divide: _reflected(operator.truediv, "__rtruediv__"),
    np.power: _reflected(operator.pow, "__rpow__"),
    np.negative: operator.neg,
    np.sqrt: lambda u: u**0.5,
    np.log: log,
}
_FUNCTIONS: dict[np.ufunc, Callable[..., Value]] = {
    np.reciprocal: reciprocal,
    np.square: lambda u: u * u,
    np.exp: exp,
    np.expm1: expm1,
    np.log1p: log1p,
    np.maximum: maximum,
    np.minimum: minimum,
    special.expit: expit,
}


def _as_numpy(function: np.ufunc, method: str, given: tuple[Value, ...], options: dict[str, object]) -> object:
    if method == "__call__" and not options:
        if function in _ARITHMETIC:
            return _ARITHMETIC[function](*given)
        if function in _FUNCTIONS:
            return _FUNCTIONS[function](*(one.value if isinstance(one, Positive) else one for one in given))
    return NotImplemented
