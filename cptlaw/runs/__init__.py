"""The runs table: columns, readers, row checks and the filter language."""

from cptlaw.runs.parquet_file import check_parquet_size
from cptlaw.runs.read import read_runs
from cptlaw.runs.table import Runs

__all__ = ["Runs", "check_parquet_size", "read_runs"]
