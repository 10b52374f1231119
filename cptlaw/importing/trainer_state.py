"""Hugging Face Trainer: ``trainer_state.json`` of an output folder or of its checkpoints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError
from cptlaw.importing.ended import stopped_early
from cptlaw.importing.history import History, Record, numbers_of
from cptlaw.importing.reader import Reader, files_below, run_name
from cptlaw.importing.settings import config_beside
from cptlaw.importing.training_losses import OF_TRAINER
from cptlaw.reading import read_json

_CHECKPOINT = re.compile(r"checkpoint-\d+")


class TrainerState(Reader):
    """``log_history`` of the Trainer: one entry per logged step, evals under ``eval_loss`` or ``eval_NAME_loss``."""

    name = "trainer"
    title = "Hugging Face Trainer"
    looks_for = "trainer_state.json, in the folder of a run or in its checkpoints"
    order = 10
    by_file_name = True

    def find(self, source: Path) -> list[Path]:
        """Return the trainer states, those of checkpoints included."""
        return files_below(source, ["trainer_state.json"])

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read the longest state of each run: every checkpoint repeats what came before it."""
        states: dict[Path, tuple[float, Path, dict[str, Any]]] = {}
        for path in files:
            # A killed run has left checkpoints and no state of its own.
            folder = path.parent.parent if _CHECKPOINT.fullmatch(path.parent.name) else path.parent
            state = _load(path)
            reached = numbers_of(state).get("global_step", 0.0)
            if folder not in states or reached >= states[folder][0]:
                states[folder] = (reached, path, state)
        histories = []
        for folder, (_, path, state) in sorted(states.items()):
            # A source that is itself a checkpoint belongs to the run above it, which lies outside the source.
            inside = folder if folder.is_relative_to(source) or source.is_file() else source
            records = tuple(_record(entry, number, path) for number, entry in enumerate(state["log_history"]))
            beside = config_beside(folder, path.parent)
            history = History(run_name(inside, source), path, records, beside, how_to_measure=OF_TRAINER)
            early = stopped_early(replace(history, config={"max_steps": state.get("max_steps")}))
            histories.append(replace(history, notes=() if early is None else (early,)))
        return histories


def _load(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, object] = read_json(path)
    except DataError as error:
        raise DataError(f"{error} Without it the state of an earlier checkpoint counts.") from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise DataError(f"{path}: no list 'log_history'. Expected the trainer_state.json that the Trainer writes.")
    return state


def _record(entry: dict[str, object], number: int, path: Path) -> Record:
    values = numbers_of(entry)
    if "step" not in values:
        raise DataError(f"{path}: entry {number} of log_history has no step. Expected one, as the Trainer writes it.")
    return Record(values["step"], values)
