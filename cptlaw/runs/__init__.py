"""The runs table: columns, readers, row checks and the filter language."""

from cptlaw.runs.parquet_file import check_parquet_size
from cptlaw.runs.question import Question, UnreadColumnError
from cptlaw.runs.questions import questions, refuse_unread, unread_findings
from cptlaw.runs.read import read_runs
from cptlaw.runs.table import Runs
from cptlaw.runs.understanding import Reading, understand

__all__ = [
    "Question",
    "Reading",
    "Runs",
    "UnreadColumnError",
    "check_parquet_size",
    "questions",
    "read_runs",
    "refuse_unread",
    "understand",
    "unread_findings",
]
