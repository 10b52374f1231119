"""The scores of a report: their fits, what they come to at the mix that matters, and how likely their limits hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.fitting.uncertainty.chances import probability_above
from cptlaw.forecasting.scores import scoring
from cptlaw.planning.options import points
from cptlaw.planning.points import score_fits
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.score_link import score_link
from cptlaw.result import Table
from cptlaw.runs import Runs
from cptlaw.units import format_percent

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

LIMITS_IN_POINTS = ("min_score", "max_drop")
IN_POINTS = ("scores", *LIMITS_IN_POINTS, "base_score")
MOST_LINKS = 4  # figures of scores; the table has all of them


def limits_in_points(limits: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """Return the limits on scores by option and eval: shares, and shares to lose."""
    return {name: points(limits[name], name) for name in LIMITS_IN_POINTS if limits.get(name)}


def fits_of_scores(
    table: Runs, limits: Mapping[str, object], where: str | None
) -> tuple[dict[str, ScoreFit], list[Finding]]:
    """Return the fits of scores that a report shows: those that were given, else those of the table.

    Scores that limits name come first and must be fitted; of the others a finding says why they are not.

    Raises
    ------
    UsageError, DataError, FitError
        If a score that a limit names cannot be fitted.
    """
    named = list(dict.fromkeys(name for of in limits_in_points(limits).values() for name in of))
    given = limits.get("scores") or ()
    if given:
        fits = score_fits(given)
        return {name: fits[name] for name in sorted(fits, key=lambda name: name not in named)}, []
    if named:
        return scoring.fit_all_scores(table, named, where), []
    if not table.scores:
        return {}, []
    try:
        return scoring.fit_all_scores(table, None, where), []
    except CptlawError as error:
        return {}, [Finding("info", "scores-not-fitted", f"The table has scores that were not fitted: {error}")]


def expected_scores(
    fits: Mapping[str, ScoreFit], held: Mapping[str, tuple[str, float]], mix: Mapping[str, object], interval: float
) -> pd.DataFrame:
    """Return one row per score and limit: on, metric, score, lo, hi, limit in words, least, probability that it holds.

    Without a limit the probability is that of a score above chance.

    Parameters
    ----------
    held
        Limits in words and with the probability that each holds, by name.
    """
    row, rows = pd.DataFrame([dict(mix)]), []
    for name, fit in fits.items():
        forecast = fit.forecast(row, interval).iloc[0]
        expected = {"on": name, "metric": fit.metric, **{one: float(forecast[one]) for one in ("loss", "lo", "hi")}}
        limits = [held[limit] for limit in (f"min {name}", f"max-drop {name}") if limit in held]
        rows += [
            {**expected, "limited": bool(limits), "limit": words.removeprefix(f"{name} "), "probability": chance}
            for words, chance in limits or [("above chance", probability_above(fit, row, fit.chance))]
        ]
    return pd.DataFrame(rows).rename(columns={"loss": "score"})


def score_table(expected: pd.DataFrame, interval: float) -> Table:
    """Return the scores as a page shows them."""
    rows = tuple(
        (
            f"{row['on']} ({row['metric']})",
            *(format_percent(row[name]) for name in ("score", "lo", "hi")),
            row["limit"],
            format_chance(row["probability"]),
        )
        for row in expected.to_dict("records")
    )
    return Table(
        ("score", "forecast", "lower end", "upper end", "limit", "probability"),
        rows,
        f"Scores at the mix that matters; a measured score lies between the ends with {format_percent(interval)} "
        f"probability",
    )


def links(fits: Mapping[str, ScoreFit], mix: Mapping[str, object], interval: float) -> list[Figure]:
    """Draw how the first few scores follow their losses, with the forecast at the mix that matters."""
    through = [fit for fit in fits.values() if any(member.carrier is not None for member in fit.members)]
    return [score_link(fit, pd.DataFrame([dict(mix)]), interval) for fit in through[:MOST_LINKS]]


def format_chance(probability: float | None) -> str:
    """Print a probability as far as quantiles tell it: ``above 99%`` rather than 100 %."""
    if pd.isna(probability):
        return "-"
    if probability > 0.99 or probability < 0.01:
        return "above 99%" if probability > 0.5 else "below 1%"
    return format_percent(float(np.round(probability, 2)))
