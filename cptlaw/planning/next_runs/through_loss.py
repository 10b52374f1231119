"""Next runs for a score: those that narrow the forecast of the loss that carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.forecasting.scores import known_score_laws, scoring, with_derived
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike
from cptlaw.units import format_percent

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

LITTLE = 0.3  # share of a score's doubt that is about the loss, below which runs for the loss help little


def score_to_sharpen(
    table: Runs, on: str, where: str | None, law_name: str, *, seed: int, schedules: SchedulesLike | None
) -> ScoreFit | None:
    """Return the fitted score that is meant; ``None`` where `on` is a loss.

    Raises
    ------
    UsageError
        If no loss carries the score, so that no next runs can be chosen for it.
    """
    table = with_derived(table, [on])
    if on not in table.scores:
        return None
    of_scores = isinstance(law_name, str) and law_name.partition(":")[0] in known_score_laws()
    law = law_name if of_scores else "auto"
    fit = scoring.fit_scores(table, on, where, law, seed=seed, schedules=schedules)
    if fit.carrier is None:
        losses = [name for name in table.evals if name not in table.scores]
        advice = (
            f"Ask for one of the losses instead: --on {losses[0]}."
            if losses
            else "Add rows with a loss of the same models, or measure larger models and more questions."
        )
        raise UsageError(
            f"on={on!r} (--on) is a score, and runs are chosen for it by the loss that carries it; law {fit.law.spec} "
            f"reads none here. {advice}"
        )
    return fit


def through_loss_finding(score: ScoreFit, at: pd.DataFrame) -> Finding:
    """Return what is to be said: whose forecast is narrowed, and how much of the doubt about the score that is."""
    text = f"runs are chosen to narrow the forecast of the {score.carrier} loss, which carries {score.on}"
    if not set(score.law.inputs) <= set(at.columns):
        return Finding("info", "through-loss", f"{text}; the interval is that of the loss.")
    forecast = score.forecast(at).iloc[0]
    share = float(forecast["doubt_loss"])
    median, lo, hi = (format_percent(forecast[name]) for name in ("loss", "lo", "hi"))
    of_loss = format_percent(round(share, 2))
    text += f" (forecast {median}, {lo} to {hi}); {of_loss} of the doubt about that score is about the loss."
    if share >= LITTLE:
        return Finding("info", "through-loss", text)
    return Finding(
        "warning",
        "through-loss",
        text,
        f"These runs narrow {score.on} little: score more questions, or models nearer to this one.",
    )
