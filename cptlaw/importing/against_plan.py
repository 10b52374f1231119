"""What was run beside what was planned: a trainer that took another rate than it was told says nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from cptlaw.errors import DataError
from cptlaw.importing.history import LR_NAMES, History
from cptlaw.reading import read_json
from cptlaw.units import INPUT_WORDS, format_percent, input_text

NEAR = 0.05  # of a rate, tokens or parameters: logs round, and a last step may be left out
NEAR_REPLAY = 0.005
ADVICE = {
    "lr_peak": "; a trainer that goes on from a checkpoint may keep its rates, as Megatron-LM does unless told "
    "--override-opt_param-scheduler",
    "tokens": "; an unfinished run, or a batch that counts other tokens",
}


def differences_from_plan(histories: Sequence[History], frame: pd.DataFrame, plan: str | Path) -> tuple[str, ...]:
    """Return where runs differ from a plan.

    Parameters
    ----------
    histories, frame
        The runs as they were logged, and their table.
    plan
        The file of ``cptlaw answer --json``, or the manifest of a pilot.

    Raises
    ------
    DataError
        If the file holds neither.
    """
    planned = _planned(Path(plan))
    logged = {
        history.run: [record.values[name] for record in history.records for name in LR_NAMES if name in record.values]
        for history in histories
    }
    notes = []
    for run, rows in frame.groupby("run", observed=True):
        known = {name: float(rows[name].max()) for name in ("n_params", "replay", "tokens", "lr_peak") if name in rows}
        rates = logged.get(str(run))
        result = {**known, "lr_peak": max(rates)} if rates else known
        differs = [name for name, value in result.items() if name in planned and not _near(name, value, planned[name])]
        notes += [_in_words(str(run), name, result[name], planned[name]) for name in differs]
        if not differs:
            notes.append(f"{run} is as {Path(plan).name} planned it ({', '.join(sorted({*result} & {*planned}))}).")
    return tuple(notes)


def _planned(path: Path) -> dict[str, float]:
    document = read_json(path)
    if not isinstance(document, Mapping) or not isinstance(document.get("tokens"), int | float):
        raise DataError(
            f"{path}: this plans no run. Expected what `cptlaw answer .. --json` prints, or the manifest of a pilot."
        )
    known: dict[str, object] = {name: document.get(name) for name in ("n_params", "replay", "tokens", "lr_peak")}
    if known["n_params"] is None and isinstance(document.get("atpp"), int | float):
        known["n_params"] = document["tokens"] / document["atpp"]
    return {name: float(value) for name, value in known.items() if isinstance(value, int | float)}


def _near(name: str, value: float, planned: float) -> bool:
    if math.isnan(value):
        return True
    return abs(value - planned) <= (NEAR_REPLAY if name == "replay" else NEAR * planned)


def _in_words(run: str, name: str, taken: float, planned: float) -> str:
    write = format_percent if name == "replay" else lambda value: input_text(name, value)
    beside = f"{write(taken)}, {write(planned)} was planned{ADVICE.get(name, '')}"
    return f"{run} differs from its plan: {INPUT_WORDS[name]} {beside}."
