"""Points to forecast: like rows of a runs table, but nothing has been measured there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.runs.problems import Problems
from cptlaw.runs.read import load_table
from cptlaw.runs.schema import COLUMNS, canonical_name
from cptlaw.runs.validate import checked_numbers
from cptlaw.units import parse_quantity


def point(text: str) -> pd.DataFrame:
    """Read one point as the command line takes it.

    Parameters
    ----------
    text
        Such as ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"``; the letters of the papers and the other aliases of
        columns are accepted.

    Returns
    -------
    DataFrame of one row

    Raises
    ------
    UsageError
        If a pair cannot be read, or a value is impossible.

    Examples
    --------
    >>> point("N=8.1B,r=34%").to_dict("records")
    [{'n_params': 8100000000.0, 'replay': 0.34}]
    """
    values: dict[str, float | str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--at {pair!r}: expected NAME=VALUE, as in n_params=8.1B,tokens=72B,replay=34%,ptpp=279.")
        name = canonical_name(key) or key.strip()
        if name in values:
            raise UsageError(f"--at: {name} is given twice.")
        is_text = name in COLUMNS and not COLUMNS[name].numeric
        values[name] = value.strip() if is_text else parse_quantity(value, f"--at {key.strip()}")
    frame = pd.DataFrame([values])
    _check(frame, "--at")
    return frame


def read_points(source: Any) -> pd.DataFrame:
    """Read a table of points: a file or a DataFrame with the columns of a runs table, without losses.

    Numbers may carry units; other columns are kept as they are.

    Raises
    ------
    DataError
        If the file cannot be read, or values are bad: file, row and column are named.
    """
    raw, naming = load_table(source, None)
    frame = raw.frame.rename(columns={found: name for name, found in naming.file_columns.items()})
    _check(frame, raw.label)
    return frame.drop(columns=[name for name in ("loss", "lo", "hi", "findings") if name in frame.columns])


def _check(frame: pd.DataFrame, label: str) -> None:
    """Turn the number columns of `frame` into numbers, in place, or raise for all bad values together."""
    problems = Problems(label)
    for name in frame.columns:
        if name in COLUMNS and COLUMNS[name].numeric and name != "loss":
            values = checked_numbers(frame[name], COLUMNS[name], problems)
            frame[name] = values
            problems.add_rows(
                f"column {name!r}",
                frame.index,
                np.isnan(values),
                lambda _: "nothing",
                COLUMNS[name].expected,
                "Fill in the value; a forecast needs every input.",
            )
    problems.raise_if_any()
