"""Reading Parquet, with pyarrow where it is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, needed_for
from cptlaw.runs.dataframe import from_dataframe
from cptlaw.runs.raw_table import RawTable

MOST_ROWS = 20_000_000
# Columns of a table with the most rows; fewer rows may have more.
MOST_COLUMNS = 50


def read_parquet(path: Path, label: str) -> RawTable:
    """Read a Parquet file.

    Returns
    -------
    RawTable
        The index holds the position of each row, from 0.

    Raises
    ------
    DataError
        If the file is truncated, not Parquet, or beyond `MOST_ROWS`.
    UsageError
        If pyarrow is not installed.
    """
    with _opened(path, label) as file:
        check_size(file, label, MOST_ROWS)
        # Without what pandas noted in it: an index of long ago would hide a column.
        table = file.read().replace_schema_metadata(None)
        table.validate(full=True)  # text that is no UTF-8 would else be met cell by cell
    return RawTable(from_dataframe(table, label).frame, label, path)


def check_parquet_size(path: Path, label: str, most_rows: int) -> None:
    """Refuse a file that unpacks to more than can be held, before any of it is unpacked; see `read_parquet`."""
    with _opened(path, label) as file:
        check_size(file, label, most_rows)


def check_size(file: Any, label: str, most_rows: int) -> None:
    """Refuse an opened file by what its end says of its rows and columns: little unpacks to very much."""
    rows, columns = file.metadata.num_rows, file.metadata.num_columns
    if rows > most_rows or rows * columns > most_rows * MOST_COLUMNS:
        raise DataError(
            f"{label}: {rows:,} rows of {columns:,} columns. Here {most_rows:,} rows of {MOST_COLUMNS} columns are "
            f"read at most; take the rows and columns that matter."
        )


@contextlib.contextmanager
def _opened(path: Path, label: str) -> Iterator[Any]:
    with needed_for(f"{label}: reading Parquet", "cptlaw[parquet]"):
        # Late: it takes longer to import than all else here, and few files need it.
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
    try:
        # Opened here: a reader that meets damage at once leaves its file open.
        with pa.OSFile(str(path)) as opened, pq.ParquetFile(opened) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        what = "the file is empty" if path.stat().st_size == 0 else "the file is truncated, or not Parquet"
        raise DataError(f"{label}: {what} ({error}). Write or copy it again, or save the table as CSV.") from None
