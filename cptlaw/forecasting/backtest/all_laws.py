"""The laws that the columns of a table allow, for a comparison of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from cptlaw.errors import CptlawError, UsageError
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.laws import LAWS, Law, law
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike

ALL, AUTO = "all", "auto"


def with_all(
    named: Sequence[str | Law],
    runs: Runs,
    on: str,
    where: str | None,
    schedules: SchedulesLike | None,
) -> list[str | Law]:
    """Return the laws to compare, with ``all`` replaced by law auto and every law that the columns allow.

    Raises
    ------
    UsageError
        If all laws were asked for and the columns allow none.
    """
    if ALL not in named:
        return list(named)
    known = [one.name if isinstance(one, Law) else str(one).split(":")[0] for one in named]
    result = [name for name in LAWS if name not in known and _allowed(law(name), runs, on, where, schedules)]
    if not result and len(named) == 1:
        raise UsageError(f"{runs.label}: its columns allow no law for {on!r}. `cptlaw laws` says what each one reads.")
    rest = [one for one in named if one != ALL]
    return [*rest, *([] if AUTO in rest else [AUTO]), *result]


def _allowed(candidate: Law, runs: Runs, on: str, where: str | None, schedules: SchedulesLike | None) -> bool:
    """Say whether rows can be had on which a law can be bound; whether they determine it, the fit will say."""
    if candidate.on_base_models or not candidate.forecasts:
        return False
    if candidate.needs_schedules and schedules is None and "lr" not in runs.frame.columns:
        return False
    try:
        needed = schedules if candidate.needs_schedules else None
        training = training_rows(candidate, runs, on, where, needed)
        training.law.bind(training.frame, training.role)
    except CptlawError:
        return False
    return True
