"""One column of a table as numbers, and whatever is wrong with it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.runs.convert import to_numbers
from cptlaw.runs.problems import Problems
from cptlaw.runs.question import as_flag
from cptlaw.runs.schema import SMALLEST_RAW_COUNT, Column
from cptlaw.units import LARGEST, SMALLEST

Floats = npt.NDArray[np.float64]


def checked_numbers(cells: pd.Series, column: Column, problems: Problems) -> Floats:
    """Read one column as numbers and add whatever is wrong with it to the problems."""
    # All at once and not row by row: a message then names every bad row of the column, and a million are read in a
    # second.
    values, unreadable = to_numbers(cells)

    def number(position: int) -> str:
        value = values[position]
        return "nothing, or NaN" if np.isnan(value) else f"{value:.10g}"

    where = place_of(cells, column)
    repair = "Repair the value, or remove the row."
    otherwise = "remove the row" if column.required else "leave the field empty if it is unknown"
    remedy = f"Write a plain number, or one with a unit (8.1B, 517M, 34%); or {otherwise}."
    problems.add_rows(where, cells, unreadable, column.expected, remedy)
    missing = np.isnan(values)
    outside = (values < column.lowest) | (values > column.highest) | np.isinf(values)
    if column.positive:
        outside |= values == 0
    # Sound columns lie far within; products and powers of what lies beyond would leave the range of numbers.
    size = np.abs(values)
    beyond = ((size > LARGEST) | ((size < SMALLEST) & (size > 0))) & np.isfinite(values) & ~outside
    problems.add_rows(where, cells, beyond, f"0, or a size from {SMALLEST:g} to {LARGEST:g}", repair, describe=number)
    if column.required:
        # What cannot be read has its own message already.
        outside |= missing & ~unreadable
    if column.whole:
        part = (values != np.round(values)) & np.isfinite(values) & ~outside
        problems.add_rows(
            where, cells, part, f"a whole number ({column.meaning})", _remedy(column, values), describe=number
        )
    known, percent = values[np.isfinite(values)], f"{column.name}={cells.name}%"
    of_hundred = bool(column.highest == 1 and 1 < known.max(initial=0) <= 100 and ((known == 0) | (known >= 1)).all())
    of_hundred &= not problems.of_points
    problems.offer([percent] if of_hundred else [])
    remedy = _remedy(column, values[outside], f", or {as_flag(percent)} for the whole column" * of_hundred)
    problems.add_rows(where, cells, outside, column.expected, remedy, describe=number)
    if column.raw_count:
        # A size of 8.1 is 8.1 billion in somebody's table: asked back, for a guess would be wrong by nine digits.
        small = (values > 0) & (values < SMALLEST_RAW_COUNT)
        first = f"{values[small][0]:g}" if small.any() else ""
        raw = f"raw {'tokens' if column.name == 'tokens' else 'parameters'}, at least {SMALLEST_RAW_COUNT:g}"
        remedy = f"If billions are meant write {first}B, if millions {first}M."
        if small.any() and (small | (values == 0) | missing).all() and not problems.of_points:
            units = ("B", "M") if known.max() < 10 else ("M", "B")
            choices = [f"{column.name}={cells.name}:{unit}" for unit in units]
            remedy += f" For the whole column: {' or '.join(map(as_flag, choices))}."
            problems.offer(choices)
        problems.add_rows(where, cells, small, raw, remedy, describe=number)
    return values


def place_of(cells: pd.Series, column: Column) -> str:
    """Return where a column is to be looked for, in the words of its file."""
    return f"column {column.name!r}" + ("" if cells.name == column.name else f" ({str(cells.name)!r} in the file)")


def _remedy(column: Column, bad: Floats, percent: str = "") -> str:
    if 0.9 < column.highest <= 1 and bad.size and 1 < bad[0] <= 100:
        return f"If {bad[0]:g} percent is meant write {bad[0]:g}% or {bad[0] / 100:g}{percent}."
    if column.required:
        return "Repair the value, or remove the row."
    return "Repair the value, or leave the field empty if it is unknown."
