"""Points to forecast: like rows of a runs table, but nothing has been measured there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, escape_hidden, quote
from cptlaw.runs.corpora import check_sums
from cptlaw.runs.dataframe import TableLike, from_dataframe, index_as_columns
from cptlaw.runs.naming import Naming, name_columns
from cptlaw.runs.numbers import checked_numbers
from cptlaw.runs.problems import Problems
from cptlaw.runs.read import load_table
from cptlaw.runs.schema import COLUMNS, canonical_name, column_of, mix_columns
from cptlaw.runs.table import Runs, RunsLike
from cptlaw.units import parse_quantity

PointsLike: TypeAlias = Runs | TableLike | Mapping[str, object] | str  # what `as_points` reads


def point(text: str) -> pd.DataFrame:
    """Read one point as the command line takes it.

    Parameters
    ----------
    text
        Such as ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"``; the letters of the papers and the other aliases of
        columns are accepted.

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
        values[name] = escape_hidden(value.strip()) if is_text else parse_quantity(value, f"--at {key.strip()}")
    frame = pd.DataFrame([values])
    _check(frame, "--at")
    return frame


def read_points(source: RunsLike) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read a table of points: a file or a DataFrame with the columns of a runs table, without losses.

    Numbers may carry units; other columns are kept as they are.

    Returns
    -------
    frame
        One row per point.
    notes
        Which columns were read under other names.

    Raises
    ------
    DataError
        If the file cannot be read, or values are bad: file, row and column are named.
    """
    raw = load_table(source, None)
    frame = _renamed(raw.frame, raw.naming)
    _check(frame, raw.label)
    return frame.drop(columns=["loss", "lo", "hi", "findings"], errors="ignore"), (*raw.naming.notes, *raw.notes)


def as_points(source: PointsLike) -> pd.DataFrame:
    """Return rows to forecast as the laws read them: canonical columns, plain numbers.

    Parameters
    ----------
    source
        A DataFrame of pandas or polars, a pyarrow Table, `Runs`, a mapping from columns to values, or one point as
        text. Aliases of columns, and numbers with units, are accepted; other columns are kept as they are.

    Returns
    -------
    DataFrame
        The source itself where nothing has to be read; an index of pandas is kept, but for levels that are inputs.

    Raises
    ------
    DataError
        If a number cannot be read or is impossible: row and column are named.
    UsageError
        If the source is not a table.

    Examples
    --------
    >>> as_points({"N": "8.1B", "replay": ["25%", "34%"]}).to_dict("records")
    [{'n_params': 8100000000.0, 'replay': 0.25}, {'n_params': 8100000000.0, 'replay': 0.34}]
    """
    if isinstance(source, str):
        return point(source)
    if isinstance(source, Runs):
        return source.frame
    if isinstance(source, Mapping):
        source = _table_of(source)
    frame = source if isinstance(source, pd.DataFrame) else from_dataframe(source).frame
    frame = index_as_columns(frame, of_ours=True)
    if not frame.columns.is_unique:
        name_columns(map(str, frame.columns), None, "points")  # which says what is there twice
    # Asked at every forecast: reading a column costs more than its type.
    names = frame.columns.tolist()
    if all(_is_plain(str(name), dtype, names) for name, dtype in zip(names, frame.dtypes.tolist(), strict=True)):
        return frame
    frame = _renamed(frame, name_columns(map(str, frame.columns), None, "points"))
    _check(frame, "points", needed=False)
    return frame


def in_tokens(points: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return points that count samples in tokens as well, where measured rows say how many tokens one sample has.

    Examples
    --------
    >>> rows = pd.DataFrame({"samples": [0.0, 200.0], "tokens": [0.0, 102400.0]})
    >>> in_tokens(point("samples=1600"), rows).to_dict("records")
    [{'samples': 1600.0, 'tokens': 819200.0}]
    """
    if "samples" not in points.columns or "tokens" in points.columns or not {"samples", "tokens"} <= set(rows.columns):
        return points
    each = (rows["tokens"] / rows["samples"])[rows["samples"] > 0]
    alike = each.size > 0 and each.max() - each.min() <= 1e-9 * each.max()
    return points.assign(tokens=points["samples"] * each.max()) if alike else points


def _table_of(source: Mapping[str, object]) -> pd.DataFrame:
    """Return a mapping from columns to one value or to equally many as a table."""
    columns = {name: value for name, value in source.items() if isinstance(value, Iterable) and not _is_one(value)}
    lengths = {name: len(list(value)) for name, value in columns.items()}
    if len(set(lengths.values())) > 1:
        counted = ", ".join(f"{quote(name)} {length}" for name, length in lengths.items())
        raise UsageError(f"points: the columns have different numbers of values ({counted}). Expected one for all.")
    # Single values hold for all rows, so that one size can be asked at many tokens.
    n = next(iter(lengths.values()), 1)
    for name, value in source.items():
        if name not in columns and not _is_one(value) and value is not None:
            raise UsageError(f"points: {quote(name)} is {quote(value)}. Expected a number, or a list of numbers.")
    cells = {name: list(columns[name]) if name in columns else [value] * n for name, value in source.items()}
    return pd.DataFrame({escape_hidden(str(name)): _column_of(values) for name, values in cells.items()})


def _column_of(values: list[object]) -> pd.Series:
    plain = [escape_hidden(value) if isinstance(value, str) else value for value in values]
    return pd.Series(plain, dtype=None if plain else np.float64)


def _is_one(value: object) -> bool:
    return isinstance(value, str) or not pd.api.types.is_list_like(value)


def _is_plain(name: str, dtype: object, names: Container[object]) -> bool:
    """Whether a column needs no reading: not an alias of one that is missing, and numbers where they are expected."""
    canonical = canonical_name(name)
    if canonical is None or (canonical != name and canonical in names):
        return True
    return canonical == name and (not column_of(name).numeric or (isinstance(dtype, np.dtype) and dtype.kind in "fiu"))


def _renamed(frame: pd.DataFrame, naming: Naming) -> pd.DataFrame:
    """Return a copy under canonical names, with a column that serves as two of them under both."""
    columns: dict[str, pd.Series] = {}
    for column in frame.columns:
        # One column may serve as two, as a run's name for its domain; a law then finds each under its own.
        names = [name for name, place in naming.file_columns.items() if place == column]
        columns |= dict.fromkeys(names or [str(column)], frame[column])
    return pd.DataFrame(columns, index=frame.index)


def _check(frame: pd.DataFrame, label: str, needed: bool = True) -> None:
    """Turn the number columns of `frame` into numbers, in place, or raise for all bad values together."""
    problems = Problems(label, of_points=True)
    numbers = [name for name, column in COLUMNS.items() if column.numeric and name != "loss"]
    for name in frame.columns:
        if name in numbers or mix_columns([name]):
            column = column_of(str(name))
            frame[name] = checked_numbers(frame[name], column, problems)
            remedy = "Fill in the value; a forecast needs every input."
            empty = np.isnan(frame[name].to_numpy()) & needed
            problems.add_rows(f"column {name!r}", frame[name], empty, column.expected, remedy)
    check_sums(frame, problems)
    problems.raise_if_any()
