"""Which figures a report has, and what each of them is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.fitting.fit import Fit
from cptlaw.laws import Context
from cptlaw.laws.curve_rows import Schedules
from cptlaw.planning import pareto
from cptlaw.planning.scenario import Pareto, options_of
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.calibration import calibration
from cptlaw.reporting.figures.forgetting_map import forgetting_map
from cptlaw.reporting.figures.interval_fan import interval_fan
from cptlaw.reporting.figures.loss_curves import loss_curves
from cptlaw.reporting.figures.observed_fitted import observed_fitted
from cptlaw.reporting.figures.pareto_front import pareto_front
from cptlaw.reporting.points import IN_POINTS
from cptlaw.reporting.subject import MODEL, Subject
from cptlaw.result import Progress
from cptlaw.runs import Runs

FRONT_POINTS = 15


def draw(
    subject: Subject, held_out: Mapping[str, pd.DataFrame | None], schedules: Schedules | None, tell: Progress
) -> list[Figure]:
    """Draw all figures of a report.

    Parameters
    ----------
    subject
        The runs, their fits, the plan and the mix that matters.
    held_out
        Rows by eval that were held out of the fits.
    schedules
        Schedules by run, for the loss curves.
    tell
        Called with the name of each part before it is drawn.
    """
    table, fits, mix, interval = subject.table, subject.fits, subject.mix, subject.interval
    drawn: list[Figure] = []
    if len(fits) > 1 and "n_params" in mix and "replay" in mix:
        drawn += _of_mixes(subject, tell)
    for fit in fits:
        if "tokens" in fit.law.inputs:
            tell(f"interval fan, {fit.on}")
            drawn.append(interval_fan(fit, mix, _measured(table, fit, mix)))
    # Both fits of a kind stand side by side.
    kinds: dict[str, Callable[[Fit], Figure]] = {
        "calibration": lambda fit: calibration(fit, held_out[fit.on], interval),
        "observed and fitted": lambda fit: observed_fitted(fit, interval),
        "loss curves": lambda fit: loss_curves(table, fit.on, schedules=schedules, fit=fit),
    }
    for kind, figure in kinds.items():
        for fit in fits:
            # Forecasts of rows that were fitted say little; curves add something where rates change along a run.
            steps = schedules is not None or getattr(fit.law, "correlated_along", None) is not None
            if {"calibration": held_out[fit.on] is not None, "loss curves": steps}.get(kind, True):
                tell(f"{kind}, {fit.on}")
                drawn.append(figure(fit))
    return drawn


def _of_mixes(subject: Subject, tell: Progress) -> list[Figure]:
    """Draw what both losses say of mixes: the map of forgetting, and the front that no mix beats."""
    drawn: list[Figure] = []
    target, source = subject.fits
    plan, mix, interval = subject.plan, subject.mix, subject.interval
    limits = {name: value for name, value in subject.limits.items() if name not in IN_POINTS}
    model = {name: mix[name] for name in MODEL if name in mix}
    try:
        tell("forgetting map")
        asked = {name: value for name, value in limits.items() if name != "max_tokens"}
        drawn.append(forgetting_map(target, source, plan=plan, **model, **asked))
    except UsageError:
        if plan is not None and plan.fitted_mix.low < plan.fitted_mix.high:
            raise
        # Without a reference for forgetting there is no map, nor over one share of replay; a plan would have asked for
        # the first.
    tell("Pareto front")
    # The front has no limit here that could hold with a probability.
    asked = {name: limits[name] for name in options_of(Pareto) if name in limits and name != "risk"}
    front = pareto(target, source, **model, budget=subject.flops, points=FRONT_POINTS, interval=interval, **asked)
    return [*drawn, pareto_front(front)] if len(front.points) > 1 else drawn


def _measured(table: Runs, fit: Fit, mix: Mapping[str, float]) -> pd.DataFrame | None:
    """Return what was measured at the point, apart from tokens, and not fitted."""
    if not {*fit.law.inputs, "tokens"} <= set(table.frame.columns):
        return None
    rows: pd.DataFrame = table.on(fit.on).frame
    rows = fit.law.inputs_of(rows, Context(rows=rows))
    rows = rows[(rows["tokens"] > 0) & ~rows["run"].astype(str).isin(set(fit.data["run"].astype(str)))]
    rows = rows.dropna(subset=[name for name in fit.law.inputs if name in rows.columns])
    for name, value in mix.items():
        if name != "tokens" and name in rows.columns:
            rows = rows[np.isclose(rows[name].astype(float), float(value), rtol=1e-6, atol=0)]
    # What the fit's own filter leaves out, such as warm-up, is no test of it: keep the fitted range of tokens.
    own = fit.data["tokens"].astype(float)
    if "n_params" in fit.data.columns and "n_params" in mix:
        own = own / fit.data["n_params"].astype(float) * float(mix["n_params"])
    return rows[rows["tokens"] >= 0.99 * float(own.min())]
