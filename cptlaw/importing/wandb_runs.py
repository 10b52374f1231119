"""Weights & Biases: exported CSV, ``wandb-history.jsonl``, and, only when asked by name, the public API."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError, needed_for
from cptlaw.importing.history import STEP_NAMES, History, Record, first_of, numbers_of
from cptlaw.importing.plain_table import json_lines
from cptlaw.importing.reader import Reader, csv_header, files_below, rows_by_step, run_name
from cptlaw.importing.settings import load_config
from cptlaw.reading import flatten

API = "wandb:"
_SPREAD = ("__MIN", "__MAX")


class WandbHistory(Reader):
    """``wandb-history.jsonl`` of run folders, one object per step."""

    name = "wandb"
    title = "Weights & Biases history"
    looks_for = "wandb-history.jsonl in the folders of runs (or wandb:ENTITY/PROJECT for the public API)"
    order = 40
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the history files."""
        return files_below(source, ["wandb-history.jsonl"])

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them; runs go by the names of their folders."""
        histories = []
        for path in files:
            folder = path.parent.parent if path.parent.name == "files" else path.parent
            rows, notes = json_lines(path)
            records = tuple(_record(entry) for entry in rows)
            histories.append(History(run_name(folder, source), path, records, _config(path.parent), notes=notes))
        return histories


class WandbChart(Reader):
    """A chart exported as CSV: the column Step, then ``RUN - METRIC`` with its ``__MIN`` and ``__MAX``."""

    name = "wandb-chart"
    title = "Weights & Biases chart exported as CSV"
    looks_for = "a CSV with the columns Step and RUN - METRIC, RUN - METRIC__MIN, RUN - METRIC__MAX"
    order = 100

    def find(self, source: Path) -> list[Path]:
        """Return the CSV files with such a header."""
        return [path for path in files_below(source, ["*.csv"]) if _charted(csv_header(path))]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read them; several charts of one project, one metric each, make one run of what belongs together."""
        by_run: dict[str, list[Record]] = defaultdict(list)
        for path in files:
            for step, values in rows_by_step(path):
                for name, value in values.items():
                    if " - " in name and not name.endswith(_SPREAD):
                        run, _, metric = name.rpartition(" - ")
                        by_run[run].append(Record(step, {metric: value}))
        return [History(run, source, tuple(records)) for run, records in by_run.items()]


def read_project(place: str) -> list[History]:
    """Read all runs of a project through the public API; the only reader that touches the network.

    Parameters
    ----------
    place
        ``ENTITY/PROJECT`` or ``ENTITY/PROJECT/RUN_ID``.
    """
    with needed_for("wandb:ENTITY/PROJECT", "wandb"):
        import wandb
    parts = place.strip("/").split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"wandb:{place}: expected wandb:ENTITY/PROJECT or wandb:ENTITY/PROJECT/RUN_ID.")
    try:
        api: Any = wandb.Api()
        runs = list(api.runs("/".join(parts))) if len(parts) == 2 else [api.run("/".join(parts))]
        return [
            History(
                str(run.name or run.id),
                Path(f"wandb:{place}"),
                tuple(_record(entry) for entry in run.scan_history()),
                flatten(dict(run.config)),
                state=getattr(run, "state", None),
            )
            for run in runs
        ]
    except (wandb.errors.CommError, wandb.errors.UsageError, ValueError) as error:
        raise DataError(
            f"wandb:{place}: Weights & Biases answered: {error}. Check the name and `wandb login`."
        ) from None


def _record(entry: dict[str, object]) -> Record:
    values = numbers_of(flatten(entry, joint="/"))
    return Record(first_of(values, STEP_NAMES), values)


def _config(folder: Path) -> dict[str, object]:
    """Return config.yaml of a run, where each setting stands under ``value`` beside its description."""
    path = folder / "config.yaml"
    if not path.is_file():
        return {}
    return {
        key.replace(".value.", ".").removesuffix(".value"): value
        for key, value in load_config(path).items()
        if not key.startswith(("_wandb", "wandb_version")) and not key.endswith(".desc")
    }


def _charted(header: list[str]) -> bool:
    names = [name for name in header if " - " in name]
    return header[:1] == ["Step"] and any(name.endswith("__MIN") for name in names)
