"""MLflow: the database of a local tracking server (``sqlite:///mlflow.db``)."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History, Record
from cptlaw.importing.reader import Reader, files_below, first_bytes, with_distinct_names

MAGIC = b"SQLite format 3\x00"


class MLflowDatabase(Reader):
    """A SQLite file with MLflow's tables runs, metrics, params and tags; it is opened for reading only."""

    name = "mlflow-db"
    title = "MLflow database"
    looks_for = "*.db or *.sqlite with the tables runs, metrics and params, as in sqlite:///mlflow.db"
    order = 30
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the databases that hold MLflow's tables."""
        needed = {"runs", "metrics", "params", "tags"}
        return [path for path in files_below(source, ["*.db", "*.sqlite", "*.sqlite3"]) if needed <= tables_of(path)]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read all runs that are not deleted; a run goes by its name where that is its own, else with its id."""
        return [history for path in files for history in _histories(path)]


def tables_of(path: Path) -> set[str]:
    """Return the tables of a SQLite file; none where it is no such file."""
    if first_bytes(path, len(MAGIC)) != MAGIC:
        return set()
    try:
        with closing(open_read_only(path)) as database:
            return {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    except (OSError, sqlite3.Error):
        return set()


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a database to read from: a tracking server may be writing to the same file."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def _histories(path: Path) -> list[History]:
    try:
        with closing(open_read_only(path)) as database:
            runs = database.execute(
                "select runs.run_uuid, coalesce(tags.value, runs.name), "
                f"{'runs.status' if _has_status(database) else 'null'} from runs left join tags on "
                "tags.run_uuid = runs.run_uuid and tags.key = 'mlflow.runName' "
                "where coalesce(runs.lifecycle_stage, 'active') = 'active' order by runs.start_time, runs.run_uuid"
            ).fetchall()
            params: dict[str, dict[str, object]] = defaultdict(dict)
            for run, key, value in database.execute("select run_uuid, key, value from params"):
                params[run][str(key)] = value
            steps: dict[str, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
            # The last value at a step counts, as in MLflow's own charts; NaN is stored as 0 with a mark.
            for run, step, key, value, is_nan in database.execute(
                "select run_uuid, step, key, value, is_nan from metrics order by timestamp"
            ):
                steps[run][float(step)][str(key)] = float("nan") if is_nan else float(value)
    except sqlite3.Error as error:
        raise DataError(f"{path}: the database cannot be read ({error}). Close the server, or copy the file.") from None
    histories = [
        History(
            name or "run",
            path,
            tuple(Record(step, values) for step, values in sorted(steps[run].items())),
            params[run],
            state=status and str(status).lower(),
        )
        for run, name, status in runs
    ]
    return with_distinct_names([(history, run[:8]) for history, (run, *_) in zip(histories, runs, strict=True)])


def _has_status(database: sqlite3.Connection) -> bool:
    return "status" in {str(name) for _, name, *_ in database.execute("pragma table_info(runs)")}
