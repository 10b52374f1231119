"""The runs table: columns, readers, row checks and the filter language."""

from cptlaw.runs.read import read_runs
from cptlaw.runs.table import Runs

__all__ = ["Runs", "read_runs"]
