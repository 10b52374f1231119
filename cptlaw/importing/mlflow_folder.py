"""MLflow: a local ``mlruns`` folder, as the tracking client writes it without a server."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History, Record
from cptlaw.importing.reader import Reader, run_name, text_of
from cptlaw.importing.settings import load_config

# The numbers of MLflow's file store for how a run ended.
STATES = {"1": "running", "2": "scheduled", "3": "finished", "4": "failed", "5": "killed"}


class MLflowFolder(Reader):
    """Runs with ``meta.yaml``, ``metrics/NAME`` (lines of time, value, step), ``params/NAME`` and ``tags/``."""

    name = "mlflow"
    title = "MLflow folder"
    looks_for = "folders with meta.yaml and metrics/, as in mlruns/EXPERIMENT/RUN"
    order = 20
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the folders of runs."""
        if source.is_file():
            return []
        metas = [source / "meta.yaml", *source.rglob("meta.yaml")]
        return sorted({meta.parent for meta in metas if meta.is_file() and (meta.parent / "metrics").is_dir()})

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read metrics and parameters; a run goes by its MLflow name where that is its own, else by its folder."""
        names = {folder: _name(folder) or run_name(folder, source) for folder in files}
        given = list(names.values())
        histories = []
        for folder, name in names.items():
            # MLflow makes up names and lets them repeat; the folder is named after the run's id.
            unique = name if given.count(name) == 1 else run_name(folder, source)
            histories.append(History(unique, folder, _records(folder), _params(folder), state=_state(folder)))
        return histories


def _name(folder: Path) -> str | None:
    tag = folder / "tags" / "mlflow.runName"
    return tag.read_text(encoding="utf-8", errors="replace").strip() if tag.is_file() else None


def _state(folder: Path) -> str | None:
    """Return how a run ended; MLflow writes a number or its word."""
    said = load_config(folder / "meta.yaml").get("status")
    return STATES.get(str(said), None if said is None else str(said).lower())


def _params(folder: Path) -> dict[str, object]:
    params = folder / "params"
    files = [path for path in params.rglob("*") if path.is_file()] if params.is_dir() else []
    return {path.relative_to(params).as_posix(): text_of(path).strip() for path in files if path.stat().st_size}


def _records(folder: Path) -> tuple[Record, ...]:
    metrics = folder / "metrics"
    by_step: dict[float, dict[str, float]] = defaultdict(dict)
    for path in sorted(metrics.rglob("*")):
        if not path.is_file():
            continue
        metric = path.relative_to(metrics).as_posix()
        for number, line in enumerate(text_of(path).splitlines(), 1):
            fields = line.split()
            if not fields:
                continue
            try:
                value, step = float(fields[1]), float(fields[2])
            except (IndexError, ValueError):
                raise DataError(
                    f"{path}, row {number}: found {line[:60]!r}. Expected time, value and step. Was the file written "
                    f"to the end? Remove the line."
                ) from None
            by_step[step][metric] = value
    return tuple(Record(step, values) for step, values in sorted(by_step.items()))
