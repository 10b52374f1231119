"""Curves that trackers export as CSV: one of TensorBoard holds one curve, one of SwanLab those of several runs."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from cptlaw.errors import DataError, quote
from cptlaw.importing.history import History, Record, numbers_of
from cptlaw.importing.reader import Reader, csv_header, csv_rows, file_run_name, files_below, rows_by_step

# What TensorBoard calls the file of a curve; slashes of a tag become underscores.
_OF_CURVE = re.compile(r"run-(?P<run>.+)-tag-(?P<tag>.+)")
_STEP_OF, _TIME_OF = "_step", "_timestamp"


class TensorBoardCsv(Reader):
    """``run-RUN-tag-TAG.csv`` with the columns Wall time, Step and Value; several curves of a run belong together."""

    name = "tensorboard-csv"
    title = "curves exported from TensorBoard as CSV"
    looks_for = "*.csv with the columns Wall time, Step, Value (its name says run and tag)"
    order = 101

    def find(self, source: Path) -> list[Path]:
        """Return the files of curves."""
        return [path for path in files_below(source, ["*.csv"]) if csv_header(path) == ["Wall time", "Step", "Value"]]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them, curve by curve."""
        by_run: dict[str, list[Record]] = defaultdict(list)
        for path in files:
            match = _OF_CURVE.fullmatch(path.stem)
            # Newer versions name the file as the browser was told; then the folder is the run, and the file the tag.
            run = match["run"] if match else path.parent.resolve().name if path.parent != source else "run"
            tag = match["tag"] if match else file_run_name(path, path.parent)
            for number, row in enumerate(csv_rows(path), 2):
                values = numbers_of({"step": row["Step"], tag: row["Value"]})
                if len(values) < 2:
                    raise DataError(
                        f"{path}, row {number}: found {quote(row)}. Expected numbers for Step and Value. Export again."
                    )
                by_run[run].append(Record(values["step"], {tag: values[tag]}))
        return [History(run, source, tuple(records)) for run, records in by_run.items()]


class SwanLabCsv(Reader):
    """A chart or ``export_csv`` of SwanLab: step, then ``RUN-METRIC_step`` (its value) and ``RUN-METRIC_timestamp``."""

    name = "swanlab"
    title = "curves exported from SwanLab as CSV"
    looks_for = "*.csv with the columns step, RUN-METRIC_step, RUN-METRIC_timestamp"
    order = 102

    def find(self, source: Path) -> list[Path]:
        """Return the files whose columns come in such pairs."""
        return [path for path in files_below(source, ["*.csv"]) if _curves(csv_header(path))]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them; of RUN-METRIC the last part is the metric, as runs have dashes in their names."""
        by_run: dict[str, list[Record]] = defaultdict(list)
        for path in files:
            curves = {name: _run_and_metric(name) for name in _curves(csv_header(path))}
            for step, values in rows_by_step(path):
                for name, (run, metric) in curves.items():
                    if name + _STEP_OF in values:
                        by_run[run].append(Record(step, {metric: values[name + _STEP_OF]}))
        return [History(run, source, tuple(records)) for run, records in by_run.items()]


def _curves(header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    if not names or names[0].lower() != "step":
        return []
    return [
        name.removesuffix(_STEP_OF)
        for name in names
        if name.endswith(_STEP_OF) and name.removesuffix(_STEP_OF) + _TIME_OF in names
    ]


def _run_and_metric(curve: str) -> tuple[str, str]:
    run, _, metric = curve.rpartition("-")
    return (run, metric) if run else ("run", curve)
