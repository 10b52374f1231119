"""trackio: the SQLite file of a project, in its folder under the cache of Hugging Face."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History, Record, numbers_of
from cptlaw.importing.mlflow_database import open_read_only, tables_of
from cptlaw.importing.reader import Reader, files_below
from cptlaw.reading import flatten, plain_json


class TrackioDatabase(Reader):
    """A SQLite file with trackio's table metrics (run_name, step, metrics as JSON) and its table configs."""

    name = "trackio"
    title = "trackio database"
    looks_for = "*.db with the table metrics of trackio, as in ~/.cache/huggingface/trackio/PROJECT.db"
    order = 32
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the databases of trackio; the tables of MLflow are others."""
        files = files_below(source, ["*.db", "*.sqlite"])
        return [path for path in files if "metrics" in (held := tables_of(path)) and "params" not in held]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read all runs, in the order in which they began."""
        return [history for path in files for history in _histories(path)]


def _histories(path: Path) -> list[History]:
    records: dict[str, list[Record]] = defaultdict(list)
    config: dict[str, dict[str, object]] = {}
    try:
        with closing(open_read_only(path)) as database:
            for run, step, metrics in database.execute("select run_name, step, metrics from metrics order by id"):
                values = numbers_of(flatten(plain_json(metrics), joint="/"))
                records[str(run)].append(Record(float(step), values))
            if "configs" in tables_of(path):
                for run, held in database.execute("select run_name, config from configs"):
                    own = flatten(plain_json(held)).items()
                    config[str(run)] = {key: one for key, one in own if not key.startswith("_")}
    except sqlite3.Error as error:
        raise DataError(f"{path}: the database cannot be read ({error}). Copy the file, or sync the project.") from None
    return [History(run, path, tuple(of_run), config.get(run, {})) for run, of_run in records.items()]
