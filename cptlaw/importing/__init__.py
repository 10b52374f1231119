"""Logs of other trainers and trackers, turned into runs tables; one file per source."""

from cptlaw.importing.import_logs import READERS, import_logs

__all__ = ["READERS", "import_logs"]
