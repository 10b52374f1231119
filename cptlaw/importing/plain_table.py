"""CSV and JSON Lines of any trainer: one record per row, metrics in columns."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError, shown
from cptlaw.importing.history import STEP_NAMES, History, Record, first_of, numbers_of
from cptlaw.importing.reader import Reader, csv_rows, file_run_name, files_below
from cptlaw.reading import flatten, plain_json, read_utf8
from cptlaw.runs.schema import COLUMNS
from cptlaw.units import parse_quantity

RUN_COLUMNS = ("run", "run_id", "run_name")


class PlainTable(Reader):
    """Tables with a row per step; a file is a run, or several where a column ``run`` tells them apart."""

    name = "table"
    title = "table of metrics"
    looks_for = "*.csv, *.tsv, *.jsonl or *.ndjson with a row per step"
    # Last in turn: any log can be a table, so that whatever says more of itself is asked first.
    order = 110

    def find(self, source: Path) -> list[Path]:
        """Return the tables."""
        result = files_below(source, ["*.csv", "*.tsv", "*.jsonl", "*.ndjson", "*.csv.gz", "*.jsonl.gz"])
        # In a folder an empty file says nothing, and is no reason to read nothing at all.
        return result if source.is_file() else [path for path in result if path.stat().st_size]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each table."""
        histories = []
        for path in files:
            rows, notes = json_lines(path) if "json" in path.name.lower() else (list(_csv_rows(path)), ())
            by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                named = next((str(row[name]) for name in RUN_COLUMNS if row.get(name) not in (None, "")), None)
                by_run[named or file_run_name(path, source)].append(row)
            for run, of_run in by_run.items():
                records = tuple(_record(row) for row in of_run)
                histories.append(History(run, path, records, constants=_texts(of_run), notes=notes))
        return histories


def json_lines(path: Path) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the object of each line, and a note if the last line was cut off, as by a killed trainer.

    Raises
    ------
    DataError
        If any other line is not a JSON object.
    """
    content = read_utf8(path).decode("utf-8")
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    rows: list[dict[str, Any]] = []
    for number, line in lines:
        try:
            value = plain_json(line)
        except ValueError as error:
            if rows and number == lines[-1][0]:
                return rows, (f"{path}: the last line (row {number}) is cut off and left out",)
            raise DataError(f"{path}, row {number}: not JSON ({error}). Expected one object per line.") from None
        if not isinstance(value, dict):
            raise DataError(f"{path}, row {number}: found {shown(line)}. Expected one object per line.")
        rows.append(value)
    return rows, ()


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    reader = csv_rows(path)
    for row in reader:
        if None in row:
            raise DataError(
                f"{path}, row {reader.line_num}: more fields than the header has ({len(reader.fieldnames or ())}). "
                f"Put text that holds a delimiter in double quotes."
            )
        yield {str(name).strip(): text for name, text in row.items() if text not in (None, "")}


def _record(row: dict[str, Any]) -> Record:
    flat = flatten(row, joint="/")
    values = numbers_of(flat)
    for name, value in flat.items():
        if name not in values and isinstance(value, str):
            with contextlib.suppress(UsageError):  # text that is no quantity
                values[name] = parse_quantity(value)
    # A long table names the eval in a column and has its loss beside it; wide ones have a column for each eval.
    losses = {str(row["eval"]): values["loss"]} if row.get("eval") and "loss" in values else {}
    return Record(first_of(values, STEP_NAMES), values, losses)


def _texts(rows: list[dict[str, Any]]) -> dict[str, object]:
    """Return the text columns of a runs table that hold one value in all rows of a run."""
    names = [name for name, column in COLUMNS.items() if not column.numeric and name not in ("run", "eval")]
    held = {name: {row[name] for row in rows if row.get(name) not in (None, "")} for name in names}
    return {name: values.pop() for name, values in held.items() if len(values) == 1}
