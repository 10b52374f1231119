"""Reading a schedules file: the phases of each run, in YAML or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean, quote, require_type
from cptlaw.reading import existing_file, read_document
from cptlaw.runs.csv_file import read_csv
from cptlaw.runs.schema import canonical_name
from cptlaw.schedules.phase import FILE, Phase
from cptlaw.schedules.schedule import Schedule
from cptlaw.schedules.shapes import Array
from cptlaw.units import parse_quantity

COLUMNS = "columns"  # stands for what the columns of the table tell
_KEYS = tuple(item.name for item in fields(Phase) if item.name != "points")
_EXAMPLE = "{phase: cpt, steps: 10000, schedule: cosine, peak: 2e-4, warmup: 200, end: 2e-5}"


SchedulesLike: TypeAlias = Mapping[str, Schedule] | str | Path  # by run, or a file


def read_schedules(given: SchedulesLike) -> dict[str, Schedule]:
    """Read the learning-rate schedules of runs.

    Parameters
    ----------
    given
        Schedules by run, returned as they are; "columns", for which there are none but those that columns of the table
        tell; or a YAML file (``.yaml``, ``.yml``) or a JSON file (``.json``): each
        run's name with the list of its phases, whose keys are those of `Phase`. Numbers may carry units (``20K``,
        ``2e-4``, ``10%``). A phase may name a CSV file of (step, lr) under ``file``, relative to this file, instead of
        a schedule.

    Returns
    -------
    dict
        Run -> schedule, in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be read; the message names the run, the phase and the key.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "schedules.yaml"
    >>> _ = file.write_text("run-a:\\n  - {phase: pretrain, steps: 2K, schedule: wsd, peak: 2e-4, decay: 20%}\\n")
    >>> read_schedules(file)
    {'run-a': Schedule(pretrain 2000 steps wsd peak 0.0002)}
    """
    if isinstance(given, Mapping):
        for run, one in given.items():
            require_type(one, Schedule, f"schedules, run {run!r}", "a Schedule")
        return dict(given)
    if str(given) == COLUMNS:
        return {}
    require_type(given, (str, Path), "schedules (--schedules)", f"a file, a mapping of Schedules, or {COLUMNS!r}")
    file = Path(given)
    document = read_document(file)
    if not isinstance(document, Mapping) or not document:
        raise DataError(f"{file}: expected each run's name with a list of its phases, such as 'run-a: [{_EXAMPLE}]'.")
    return {str(run): _schedule(phases, f"{file}, run {run!r}", file.parent) for run, phases in document.items()}


def _schedule(phases: object, where: str, folder: Path) -> Schedule:
    if not isinstance(phases, list) or not phases:
        raise DataError(f"{where}: expected a list of phases, such as '- {_EXAMPLE}'.")
    result = [_phase(item, f"{where}, phase {number}", folder) for number, item in enumerate(phases, 1)]
    try:
        return Schedule(result)
    except UsageError as error:
        raise DataError(f"{where}: {error}") from None


def _phase(item: object, where: str, folder: Path) -> Phase:
    if not isinstance(item, Mapping):
        raise DataError(f"{where}: found {quote(item)}. Expected a phase such as {_EXAMPLE}.")
    values = {str(key): value for key, value in item.items()}
    for key in values:
        if key not in _KEYS:
            raise DataError(
                f"{where}: unknown key {quote(key)}.{did_you_mean(key, _KEYS)} Known are {', '.join(_KEYS)}."
            )
    # A key without a value is how people leave one out in YAML.
    values = {key: value for key, value in values.items() if value is not None}
    if "file" in values:
        values["points"] = _points(folder / str(values["file"]), where)
        values.setdefault("schedule", FILE)
        # The file says how long its phase is, unless only a part of it was run.
        values.setdefault("steps", values["points"][0][-1])
    missing = [key for key in ("phase", "steps", "schedule") if key not in values]
    if missing:
        raise DataError(f"{where}: lacks {', '.join(missing)}. Expected a phase such as {_EXAMPLE}.")
    try:
        return Phase(**values)
    except UsageError as error:
        raise DataError(f"{where}: {error}") from None


def _points(path: Path, where: str) -> tuple[Array, Array]:
    """Read a CSV file of (step, lr)."""

    def all_as_text(header: list[str]) -> list[str]:
        # Before a row is read: of a file that is no schedule nothing is quoted, whoever wrote the schedules file.
        if not {"step", "lr"} <= {canonical_name(name) for name in header}:
            raise DataError(f"{where}: {path} has no columns step and lr. Expected a CSV file of (step, lr).")
        return header

    frame = read_csv(existing_file(path), str(path), all_as_text).frame
    columns = {canonical_name(str(name)): name for name in frame.columns}
    return _numbers(frame[columns["step"]], "step", path), _numbers(frame[columns["lr"]], "lr", path)


def _numbers(column: pd.Series, name: str, path: Path) -> Array:
    read = []
    for row, value in column.items():
        try:
            read.append(parse_quantity(value if isinstance(value, str) else "", name))
        except UsageError as error:
            raise DataError(f"{path}, row {row}: {error}") from None
    return np.array(read)
