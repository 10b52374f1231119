"""CSV, JSON Lines and Parquet of any trainer or tracker: a record per row, metrics in columns."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from cptlaw.errors import DataError, UsageError, needed_for, quote
from cptlaw.importing.history import (
    SAMPLES_NAMES,
    STEP_NAMES,
    TOKENS_NAMES,
    History,
    Record,
    first_of,
    numbers_of,
)
from cptlaw.importing.names_of_losses import is_loss_like
from cptlaw.importing.reader import Reader, csv_rows, file_run_names, files_below, with_distinct_names
from cptlaw.importing.settings import config_beside
from cptlaw.importing.training_losses import OF_LLAMAFACTORY, OF_SWIFT
from cptlaw.reading import flatten, plain_json, read_utf8
from cptlaw.runs.schema import COLUMNS
from cptlaw.units import parse_quantity

# Keys of the lines of a trainer -> how it is told to measure validation losses.
TRAINERS = {"current_steps": OF_LLAMAFACTORY, "global_step/max_steps": OF_SWIFT}
RUN_COLUMNS = ("run", "run_id", "run_name", "Name")
# What Weights & Biases says of each run in the table that it exports, beside settings and last values of metrics.
OF_TRACKER = frozenset(
    "Name,State,Notes,User,Tags,Created,Updated,Runtime,Sweep,ID,Group,Host,Description,Commit,GitHub,Python,OS,"
    "Job Type,End Time,Start Time,GPU Count,GPU Type,_runtime,_timestamp,timestamp,id".split(",")
)
_NO_SETTINGS = OF_TRACKER.union(RUN_COLUMNS, STEP_NAMES, TOKENS_NAMES, SAMPLES_NAMES, "eval metric loss phase".split())


class PlainTable(Reader):
    """Tables with a row per step; a file is a run, or several where a column ``run`` tells them apart.

    A table with a column ``State`` has a row per run, as Weights & Biases exports it.
    """

    name = "table"
    title = "table of metrics"
    looks_for = "*.csv, *.tsv, *.jsonl, *.ndjson or *.parquet with a row per step, or a row per run with its State"
    # Last in turn: any log can be a table, so that whatever says more of itself is asked first.
    order = 110

    def find(self, source: Path) -> list[Path]:
        """Return the tables."""
        endings = ["*.csv", "*.tsv", "*.jsonl", "*.ndjson", "*.csv.gz", "*.jsonl.gz", "*.parquet"]
        result = files_below(source, endings)
        # In a folder an empty file says nothing, and is no reason to read nothing at all.
        return result if source.is_file() else [path for path in result if path.stat().st_size]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each table."""
        names = file_run_names(files, source)
        return [history for path in files for history in _histories(path, names[path])]


def _histories(path: Path, named_after_file: str) -> list[History]:
    rows, notes = _rows(path)
    by_run: dict[tuple[str, int | None], list[dict[str, object]]] = defaultdict(list)
    for number, row in enumerate(rows):
        named = next((str(row[name]) for name in RUN_COLUMNS if row.get(name) not in (None, "")), named_after_file)
        by_run[(named, number) if "State" in row else (named, None)].append(row)
    # Settings that lie beside a table are those of its run, where it has one.
    beside = config_beside(path.parent) if len(by_run) == 1 else {}
    result: list[tuple[History, str]] = []
    for (run, _), of_run in by_run.items():
        flat = [flatten(row, joint="/") for row in of_run]
        records = tuple(_record(row, one) for row, one in zip(of_run, flat, strict=True))
        config = beside | _settings(flat)
        state = str(of_run[-1].get("State") or "").lower() or None
        how = next((how for key, how in TRAINERS.items() if key in of_run[0]), "")
        history = History(run, path, records, config, _texts(of_run), notes, state=state, how_to_measure=how)
        result.append((history, str(of_run[0].get("ID") or len(result) + 1)))
    return with_distinct_names(result)


def _rows(path: Path) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    if path.suffix == ".parquet":
        with needed_for(f"{path}: Parquet", "cptlaw[parquet]"):
            import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]
        return pyarrow.parquet.read_table(path).to_pylist(), ()
    return json_lines(path) if "json" in path.name.lower() else (list(_csv_rows(path)), ())


def json_lines(path: Path) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    """Return the object of each line, and a note if the last line was cut off, as by a killed trainer.

    Raises
    ------
    DataError
        If any other line is not a JSON object.
    """
    content = read_utf8(path).decode("utf-8")
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    rows: list[dict[str, object]] = []
    for number, line in lines:
        try:
            value = plain_json(line)
        except ValueError as error:
            if rows and number == lines[-1][0]:
                return rows, (f"{path}: the last line (row {number}) is cut off and left out",)
            raise DataError(f"{path}, row {number}: not JSON ({error}). Expected one object per line.") from None
        if not isinstance(value, dict):
            raise DataError(f"{path}, row {number}: found {quote(line)}. Expected one object per line.")
        rows.append(value)
    return rows, ()


def _csv_rows(path: Path) -> Iterator[dict[str, object]]:
    reader = csv_rows(path)
    for row in reader:
        if None in row:
            raise DataError(
                f"{path}, row {reader.line_num}: more fields than the header has ({len(reader.fieldnames or ())}). "
                f"Put text that holds a delimiter in double quotes."
            )
        yield {str(name).strip(): text for name, text in row.items() if text not in (None, "")}


def _record(row: dict[str, object], flat: dict[str, object]) -> Record:
    values = numbers_of(flat)
    for name, value in flat.items():
        if name not in values and isinstance(value, str):
            with contextlib.suppress(UsageError):  # text that is no quantity
                values[name] = parse_quantity(value)
    # A long table names the eval in a column and has its loss beside it; wide ones have a column for each eval.
    losses = {str(row["eval"]): values["loss"]} if row.get("eval") and "loss" in values else {}
    return Record(first_of(values, STEP_NAMES), values, losses)


def _settings(flat: list[dict[str, object]]) -> dict[str, object]:
    """Return the columns that hold one value in all rows of a run and are no measurement."""
    result: dict[str, object] = {}
    for name in dict.fromkeys(name for row in flat for name in row):
        held = {str(row[name]): row[name] for row in flat if row.get(name) not in (None, "")}
        if len(held) == 1 and name not in _NO_SETTINGS and not is_loss_like(name):
            result[name] = next(iter(held.values()))
    return result


def _texts(rows: list[dict[str, object]]) -> dict[str, object]:
    """Return the text columns of a runs table that hold one value in all rows of a run."""
    names = [name for name, column in COLUMNS.items() if not column.numeric and name not in ("run", "eval")]
    held = {name: {row[name] for row in rows if row.get(name) not in (None, "")} for name in names}
    return {name: values.pop() for name, values in held.items() if len(values) == 1}
