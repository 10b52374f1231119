"""Values of any origin to float64 numbers and to text categories."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import UsageError, escape_hidden
from cptlaw.units import parse_quantity
from cptlaw.writing import without_apostrophe

# Words that stand for a missing number, in lower case.
MISSING_WORDS = frozenset(
    {"", "na", "n/a", "nan", "-nan", "null", "none", "nil", "<na>", "#n/a", "#na", "-", "--"},
)


def to_numbers(column: pd.Series) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Read a column as numbers, quantities such as ``8.1B`` and ``34%`` included.

    Parameters
    ----------
    column
        Values of any kind, shape (n,).

    Returns
    -------
    values : ndarray of float64, shape (n,)
        NaN where nothing stands, or something that is not a number.
    unreadable : ndarray of bool, shape (n,)
        Where something stands that is not a number.

    Examples
    --------
    >>> values, unreadable = to_numbers(pd.Series(["8.1B", "34%", "many", None]))
    >>> values.tolist(), unreadable.tolist()
    ([8100000000.0, 0.34, nan, nan], [False, False, True, False])
    """
    dtype = column.dtype
    if pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(column), dtype=np.bool_)
    codes, distinct = _factorize(column)
    parsed = [_number(value) for value in distinct]
    # Code -1 marks a missing value and picks the last entry.
    values = np.array([*(np.nan if value is None else value for value in parsed), np.nan], dtype=np.float64)
    unreadable = np.array([*(value is None for value in parsed), False], dtype=np.bool_)
    return values[codes], unreadable[codes]


def to_text(column: pd.Series) -> pd.Categorical:
    """Read a column as text: whole numbers without a decimal point, no spaces around, empty text as missing.

    Returns
    -------
    Categorical
        Of length n, with sorted categories, each in use.

    Examples
    --------
    >>> to_text(pd.Series([17.0, None, 3.0])).tolist()
    ['17', nan, '3']
    """
    codes, distinct = _factorize(column)
    words = np.array([_word(value) for value in distinct], dtype=object)
    categories, code_of_word = np.unique(words.astype(str), return_inverse=True)
    if categories.size and categories[0] == "":
        categories, code_of_word = categories[1:], code_of_word - 1
    # Code -1 marks a missing value and picks the last entry.
    code_of_row = np.append(code_of_word, -1)[codes]
    return pd.Categorical.from_codes(code_of_row, categories=categories.tolist())


def hashable(column: pd.Series) -> pd.Series:
    """Return a column whose values can be compared and counted: what holds lists, from a nested file, as text."""
    if column.dtype != object:
        return column
    # Not as a column of text: pandas refuses one in which some text holds half a character.
    return pd.Series([str(value) for value in column], index=column.index, dtype=object)


def texts_in(column: pd.Series) -> set[str]:
    """Return the different texts of a column."""
    return {value for value in _factorize(column)[1] if isinstance(value, str)}


def with_cells(column: pd.Series, known: Mapping[str, object]) -> pd.Series:
    """Return a column with other values in the place of some of its texts."""
    cells = [known.get(cell.strip(), cell) if isinstance(cell, str) else cell for cell in column]
    return pd.Series(cells, index=column.index, dtype=object)


def row_codes(frame: pd.DataFrame) -> npt.NDArray[np.intp]:
    """Return a code for each combination of values, (n,); what is missing is a value too."""
    codes = np.zeros(len(frame), dtype=np.intp)
    for _, column in frame.items():
        own = pd.factorize(hashable(column), use_na_sentinel=False)[0]
        codes = pd.factorize(codes * (own.max(initial=0) + 1) + own)[0]
    return codes


def _factorize(column: pd.Series) -> tuple[npt.NDArray[np.intp], list[object]]:
    """Return the position of each value among the distinct ones, -1 for missing, and the distinct values."""
    try:
        codes, distinct = pd.factorize(column)
        return np.asarray(codes, dtype=np.intp), list(distinct)
    except (TypeError, OverflowError):
        # Lists and dicts, from a nested JSON file, cannot be hashed; integers beyond float64 stop some versions.
        values = (value if pd.api.types.is_scalar(value) else str(value) for value in column)
        codes, words = pd.factorize(np.fromiter(values, dtype=object, count=len(column)))
        return np.asarray(codes, dtype=np.intp), list(words)


def _number(value: object) -> float | None:
    """Return one value as a number, NaN if it stands for a missing one, ``None`` if it is something else."""
    if isinstance(value, str):
        if value.strip().lower() in MISSING_WORDS:
            return float("nan")
        try:
            return parse_quantity(value)
        except (UsageError, ArithmeticError):  # the latter from an exponent beyond all bounds
            return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | Decimal):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def _word(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))  # a missing id elsewhere in the column turns whole numbers into floats
    return escape_hidden(without_apostrophe(str(value).strip()))
