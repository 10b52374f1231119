"""Levels of a factor: numbers that differ by rounding alone are the same level."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

RELATIVE_TOLERANCE = 1e-9


def same_level(values: npt.ArrayLike, level: float) -> npt.NDArray[np.bool_]:
    """Return where ``values`` equal ``level`` up to rounding; missing values equal nothing.

    Parameters
    ----------
    values
        Numbers of any shape.
    level
        A finite number.

    Examples
    --------
    >>> same_level([0.3, 0.1 + 0.2, 0.31, float("nan")], 0.3).tolist()
    [True, True, False, False]
    """
    array = np.asarray(values, dtype=np.float64)
    # Relative to the level alone: relative to the values, infinity would equal everything.
    return np.abs(array - level) <= RELATIVE_TOLERANCE * abs(level)


def among_levels(values: npt.ArrayLike, levels: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return where ``values`` equal one of some ``levels`` up to rounding.

    Parameters
    ----------
    values
        Numbers, shape (n,).
    levels
        Finite numbers, shape (k,), k >= 1.

    Examples
    --------
    >>> among_levels([0.3, 0.1 + 0.2, 0.31, float("nan")], [0.3, 0.5]).tolist()
    [True, True, False, False]
    """
    array, known = np.asarray(values, dtype=np.float64), np.unique(np.asarray(levels, dtype=np.float64))
    # 0.1 + 0.2 is not 0.3, and spreadsheets round: levels are compared up to a relative tolerance.
    above = np.searchsorted(known, array)
    # The level that a value equals is the next one above or below it.
    near = (known[np.minimum(above, len(known) - 1)], known[np.maximum(above - 1, 0)])
    result = [np.abs(array - level) <= RELATIVE_TOLERANCE * np.abs(level) for level in near]
    return np.asarray(result[0] | result[1], dtype=np.bool_)


def distinct_levels(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sorted levels among ``values``, missing ones left out.

    Examples
    --------
    >>> distinct_levels([0.25, 0.3, 0.1 + 0.2, float("nan")]).tolist()
    [0.25, 0.3]
    """
    array: npt.NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    levels = np.unique(array[~np.isnan(array)])
    if levels.size < 2:
        return levels
    with np.errstate(invalid="ignore"):
        is_new = np.diff(levels) > RELATIVE_TOLERANCE * np.abs(levels[1:])
    # The step to infinity is infinite, and so is its tolerance.
    first = np.concatenate([np.ones(1, dtype=np.bool_), is_new | np.isinf(levels[1:])])
    return np.asarray(levels[first], dtype=np.float64)
