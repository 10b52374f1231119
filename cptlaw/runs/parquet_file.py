"""Reading Parquet, with pyarrow where it is installed."""

from __future__ import annotations

from pathlib import Path

from cptlaw.errors import DataError, UsageError
from cptlaw.runs.dataframe import from_dataframe
from cptlaw.runs.raw_table import RawTable


def read_parquet(path: Path, label: str) -> RawTable:
    """Read a Parquet file.

    Parameters
    ----------
    path
        The file.
    label
        What stands for the file in messages.

    Returns
    -------
    RawTable
        The index holds the position of each row, from 0.

    Raises
    ------
    DataError
        If the file is truncated or not Parquet.
    UsageError
        If pyarrow is not installed.
    """
    try:
        # Late: it takes longer to import than all else here, and few files need it.
        import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise UsageError(
            f"{label}: reading Parquet needs pyarrow, which is not installed. "
            "Install it with: pip install 'cptlaw[parquet]'. Or save the table as CSV."
        ) from None
    try:
        # Without what pandas noted in it: an index of long ago would hide a column.
        table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    except (pa.ArrowException, OSError, ValueError) as error:
        what = "the file is empty" if path.stat().st_size == 0 else "the file is truncated, or not Parquet"
        raise DataError(f"{label}: {what} ({error}). Write or copy it again, or save the table as CSV.") from None
    return RawTable(from_dataframe(table, label).frame, label, path)
