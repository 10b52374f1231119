"""Answers in points: the scores that a question limits, fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cptlaw.answering.question import Asked
from cptlaw.errors import DataError, did_you_mean
from cptlaw.findings import Finding
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.fit_cache import FITS, what_decides
from cptlaw.forecasting.scores import scoring, with_derived
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit


def fitted_scores(
    runs: Runs,
    question: Asked,
    where: str | None,
    seed: int,
    schedules: SchedulesLike | None,
    losses: Mapping[str, Fit] | None = None,
) -> tuple[dict[str, ScoreFit], list[Finding]]:
    """Fit the scores that limits name, and say which of them carry no signal.

    Without a limit in points no score is fitted.

    Parameters
    ----------
    losses
        Fits of losses of the same rows, by eval, which scores are then carried by.

    Raises
    ------
    DataError
        If a score is not in the table.
    """
    names = question.benchmarks
    if not names:
        return {}, []
    runs = with_derived(runs, names)
    for name in names:
        if name not in runs.scores:
            raise DataError(
                f"{runs.label}: there is no score {name!r}.{did_you_mean(name, runs.scores)} Scores found: "
                f"{', '.join(runs.scores) or 'none; a column metric says which rows are scores'}."
            )
    how = what_decides({"seed": seed, "schedules": schedules})
    fits = FITS.fitted(
        lambda: scoring.fit_all_scores(runs, names, where, seed=seed, schedules=schedules, losses=losses),
        runs,
        "scores",
        names,
        where,
        how,
    )
    judged = {one.name: one for one in scoring.check_scores(runs, names[0], where).tasks}
    silent = [f"{name}: {judged[name].verdict}" for name in names if name in judged and not judged[name].carries]
    if not silent:
        return fits, []
    return fits, [
        Finding(
            "warning",
            "no-signal",
            f"limits rest on scores that carry little signal at these scales: {'; '.join(silent)}.",
            "`cptlaw check` says more; limit the loss instead, or measure larger models.",
        )
    ]
