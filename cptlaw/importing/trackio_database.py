"""trackio: the SQLite file of a project, in its folder under the cache of Hugging Face."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History, Record, numbers_of
from cptlaw.importing.mlflow_database import open_read_only, tables_of
from cptlaw.importing.reader import Reader, files_below, with_distinct_names
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
    names: dict[str, str] = {}
    records: dict[str, list[Record]] = defaultdict(list)
    config: dict[str, dict[str, object]] = {}
    try:
        with closing(open_read_only(path)) as database:
            # Newer versions give runs ids; in older ones the name is theirs alone.
            columns = {str(name) for _, name, *_ in database.execute("pragma table_info(metrics)")}
            own = "coalesce(run_id, run_name)" if "run_id" in columns else "run_name"
            for key, run, step, metrics in database.execute(
                f"select {own}, run_name, step, metrics from metrics order by id"
            ):
                names[str(key)] = str(run)
                records[str(key)].append(Record(float(step), numbers_of(flatten(_json(metrics), joint="/"))))
            if "configs" in tables_of(path):
                for key, held in database.execute(f"select {own}, config from configs"):
                    settings = flatten(_json(held)).items()
                    config[str(key)] = {name: one for name, one in settings if not name.startswith("_")}
    except sqlite3.Error as error:
        raise DataError(f"{path}: the database cannot be read ({error}). Copy the file, or sync the project.") from None
    histories = [
        (History(names[key], path, tuple(of_run), config.get(key, {})), key) for key, of_run in records.items()
    ]
    return with_distinct_names([(history, key[:8]) for history, key in histories])


def _json(text: str | bytes) -> object:
    # Newer versions store the bytes of the JSON.
    return plain_json(text.decode("utf-8") if isinstance(text, bytes) else text)
