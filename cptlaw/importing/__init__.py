"""Logs of other trainers and trackers, turned into runs tables; one file per source."""

from cptlaw.importing.import_logs import import_logs
from cptlaw.importing.reader import Reader, readers

__all__ = ["Reader", "import_logs", "readers"]
