"""What every reader hands over: one training run as it was logged, before anything is chosen from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The words of the trainers for what every one of them logs.
STEP_NAMES = (
    *("step", "_step", "global_step", "iteration", "iter", "Step"),
    *("current_steps", "global_step/max_steps"),  # LLaMA-Factory, ms-swift
)
SAMPLES_NAMES = ("consumed_samples", "consumed samples", "consumed_train_samples")
TOKENS_NAMES = (
    *("tokens", "num_input_tokens_seen", "tokens_seen", "consumed_tokens", "consumed tokens", "n_tokens_seen"),
    *("train/num_input_tokens_seen", "train/tokens_seen", "total_tokens", "train/total_tokens"),
)
LR_NAMES = ("lr", "learning_rate", "learning rate", "learning-rate", "train/lr", "train/learning_rate")


@dataclass(frozen=True)
class Score:
    """One score of a benchmark: its value, its metric, and the questions behind it, where they are known."""

    value: float
    metric: str
    n_items: float | None


@dataclass(frozen=True)
class Record:
    """What was logged at one moment of a run.

    Parameters
    ----------
    step
        The optimiser step, where it is known.
    values
        Metric -> number, under the names of the log.
    losses
        Eval -> loss, where the source itself tells losses by eval, as a runs table does.
    scores
        Eval -> score of a benchmark.
    """

    step: float | None
    values: Mapping[str, float]
    losses: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """One training run.

    Parameters
    ----------
    run
        Its name: that of its folder or file, relative to what was imported, or the one that the tracker gave it.
    path
        The file or folder that it was read from.
    records
        In the order in which they were logged.
    config
        The trainer's settings, nested keys joined by dots.
    constants
        Columns of a runs table that the source itself gives for the whole run.
    notes
        What was left out on reading.
    state
        How the tracker says that the run ended, where it says so: finished, crashed, failed, killed, running.
    how_to_measure
        How this trainer is told to measure validation losses, for logs that hold none.
    """

    run: str
    path: Path
    records: tuple[Record, ...]
    config: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    state: str | None = None
    how_to_measure: str = ""


def numbers_of(values: Mapping[str, object]) -> dict[str, float]:
    """Return what is a number, text such as ``"NaN"`` included; other text and lists are left out."""
    result = {}
    for name, value in values.items():
        # True would be read as 1, and a flag of a trainer as a metric.
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            continue
        if isinstance(value, str) and name in STEP_NAMES:
            value = value.partition("/")[0]  # "50/500": the step, and the last one
        try:
            result[name] = float(value)
        except (ValueError, OverflowError):  # text, or a whole number beyond all bounds
            continue
    return result


def mapping_of(value: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return what stands under a key where it is an object, as it should be, else an empty one."""
    result = value.get(key)
    return result if isinstance(result, dict) else {}


def first_of(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    """Return the value of the first name that is there."""
    return next((values[name] for name in names if name in values), None)
