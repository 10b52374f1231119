"""Taking over a table from pandas, polars, pyarrow or whatever turns into one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pandas as pd

from cptlaw.errors import DataError, UsageError, needed_for
from cptlaw.runs.raw_table import ROW, RawTable
from cptlaw.runs.schema import canonical_name

if TYPE_CHECKING:
    import polars


class ToPandas(Protocol):
    """A table of another library, as of polars or pyarrow."""

    def to_pandas(self) -> object:
        """Return it as a DataFrame of pandas."""


class Lazy(Protocol):
    """A table that is computed when it is asked for, as of polars."""

    def collect(self) -> object:
        """Return the table."""


TableLike: TypeAlias = pd.DataFrame | ToPandas | Lazy


def from_dataframe(source: object, label: str = "DataFrame") -> RawTable:
    """Take over a table of another library, by what it can do rather than by its class.

    Parameters
    ----------
    source
        A pandas or polars DataFrame, a pyarrow Table, or anything else with a method ``to_pandas``.

    Returns
    -------
    RawTable
        The index holds the position of each row, from 0. Levels of the source's index that have a name are columns.

    Raises
    ------
    DataError
        If the table has no rows, or columns of several levels.
    UsageError
        If the source is not a table.
    """
    frame = _to_pandas(source)
    if isinstance(frame.columns, pd.MultiIndex):
        raise DataError(f"{label}: the columns have several levels. Expected one name per column; flatten them.")
    if frame.empty:
        raise DataError(f"{label}: the table has no rows. Expected one row per measured loss.")
    frame = index_as_columns(frame)
    # Only the labels are replaced: the source keeps its own.
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    return RawTable(frame.set_axis(pd.RangeIndex(len(frame), name=ROW), axis="index"), label)


def index_as_columns(frame: pd.DataFrame, *, of_ours: bool = False) -> pd.DataFrame:
    """Return a table with the named levels of its index as columns, where none is called so; all, or those of ours."""
    levels = [name for name in frame.index.names if name not in (None, ROW, *frame.columns)]
    levels = [name for name in levels if not of_ours or canonical_name(str(name)) is not None]
    return frame.reset_index(levels) if levels else frame


def to_polars(frame: pd.DataFrame) -> polars.DataFrame:
    """Return a table as a DataFrame of polars.

    Parameters
    ----------
    frame
        Numbers and text are kept, what is missing is null, and findings become lists of their codes.

    Raises
    ------
    UsageError
        If polars is not installed.
    """
    with needed_for("a DataFrame of polars", "polars"):
        import polars
    columns: dict[str, object] = {}
    for name in frame.columns:
        values = frame[name]
        if pd.api.types.is_numeric_dtype(values):
            columns[str(name)] = values.to_numpy()
        else:
            columns[str(name)] = [_plain(value) for value in values]
    return polars.DataFrame(columns, nan_to_null=True)


def _plain(value: Any) -> object:
    if isinstance(value, tuple):
        return [getattr(item, "code", str(item)) for item in value]
    return value if isinstance(value, str) else None if pd.isna(value) else str(value)


def _to_pandas(source: Any) -> pd.DataFrame:
    if isinstance(source, pd.DataFrame):
        return source
    if callable(getattr(source, "collect", None)):
        source = source.collect()
    if callable(getattr(source, "get_column", None)):
        # polars would ask for pyarrow to make a DataFrame; its columns need nothing.
        return pd.DataFrame({name: source.get_column(name).to_numpy() for name in source.columns})
    if callable(getattr(source, "to_pandas", None)):
        frame = source.to_pandas()
        if isinstance(frame, pd.DataFrame):
            return frame
    raise UsageError(
        f"Runs cannot be read from a {type(source).__name__}. Expected a path to a .csv, .tsv, .parquet or .jsonl "
        "file, or a DataFrame of pandas, polars or pyarrow."
    )
