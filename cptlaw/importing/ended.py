"""Runs that did not end as they were meant to: crashed, failed, still running, without a number, or collapsed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cptlaw.errors import DataError, join_names
from cptlaw.importing.history import History
from cptlaw.importing.names_of_losses import is_eval_loss, is_training_loss

FINISHED = ("finished", "completed", "complete", "success", "succeeded")
# A run has collapsed where each of its losses ends this much above its own lowest: in part of it, and in nats. Replayed
# text that is forgotten rises too, and seldom half as much; then the training loss falls.
COLLAPSE, COLLAPSE_NATS = 0.3, 0.5


def sound_runs(histories: Sequence[History], keep_all: bool) -> tuple[list[History], list[str]]:
    """Return the runs that count, and notes on those that are left out.

    Parameters
    ----------
    keep_all
        Whether all count, however they ended.

    Raises
    ------
    DataError
        If every run ends without a number or has collapsed.
    """
    why = {place: reason for place, one in enumerate(histories) if (reason := _why_not(one)) is not None}
    if not why:
        return list(histories), []
    names: dict[str, list[str]] = {}
    for place, reason in why.items():
        names.setdefault(reason, []).append(histories[place].run)
    said = "; ".join(f"{join_names(map(repr, runs), 4)} {reason}" for reason, runs in names.items())
    sound = [one for place, one in enumerate(histories) if place not in why]
    if keep_all:
        return list(histories), [f"kept though {said}"]
    if sound:
        counted = f"{len(why)} of {len(histories)} runs"
        return sound, [f"{counted} are left out: {said}. --all-runs keeps them"]
    if all(reason.startswith("is ") for reason in why.values()):
        return list(histories), [f"no run has finished: {said}. Their last losses are not those of finished runs"]
    raise DataError(
        f"{histories[0].path}: no run is left: {said}. Look at rate and batch, or read them with --all-runs."
    )


def stopped_early(history: History) -> str | None:
    """Say where a run stopped before the last step that its settings name."""
    steps = [record.step for record in history.records if record.step is not None]
    planned = next((history.config[key] for key in ("max_steps", "train_iters") if key in history.config), None)
    try:
        last = float(str(planned))
    except ValueError:
        return None
    if not steps or not last > max(steps) > 0:
        return None
    return f"run {history.run!r} stops at step {max(steps):g} of {last:g}: its rate had not come down to its end"


def _why_not(history: History) -> str | None:
    if history.state is not None and history.state not in FINISHED:
        return f"is {history.state}"
    curves: dict[str, list[float]] = {}
    for record in history.records:
        for name, value in record.values.items():
            if is_eval_loss(name) or is_training_loss(name):
                curves.setdefault(name, []).append(value)
        for name, value in record.losses.items():
            curves.setdefault(f"loss of {name}", []).append(value)
    if any(_ends_without_number(name, values) for name, values in curves.items()):
        return "ends without a number (NaN or infinite)"
    if curves and all(_has_collapsed(values) for values in curves.values()):
        return "has collapsed: all its losses end far above their lowest"
    return None


def _ends_without_number(name: str, values: list[float]) -> bool:
    # One batch may overflow and be skipped; several in a row at the end are a run that is lost.
    last = values[-3:] if is_training_loss(name) else values[-1:]
    return not any(math.isfinite(value) for value in last)


def _has_collapsed(values: list[float]) -> bool:
    lowest = min((value for value in values if math.isfinite(value)), default=math.nan)
    return len(values) > 2 and values[-1] > lowest * (1 + COLLAPSE) and values[-1] > lowest + COLLAPSE_NATS
