"""One page to send: question, answer, cost, doubts, figures, and how to repeat it all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from cptlaw.errors import UsageError, require_type
from cptlaw.findings import Finding, by_severity, has_error, said_by
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.fitting.one_corpus import fit_of_corpus
from cptlaw.fitting.uncertainty.chances import likelihood
from cptlaw.forecasting.verbs import load_fit
from cptlaw.laws import Context
from cptlaw.planning import MixPlan, Suggestion, suggest
from cptlaw.planning.cost import Hardware, hardware
from cptlaw.planning.loss import FitLike
from cptlaw.planning.plan_fields import PLAN_FIELDS
from cptlaw.planning.report_scenario import ReportOfRuns
from cptlaw.planning.scenario import Quantity, documented, read_scenario
from cptlaw.reporting import words
from cptlaw.reporting.drawings import draw
from cptlaw.reporting.figures.calibration import as_doubt
from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.figures.suggested_cells import suggested_cells
from cptlaw.reporting.page import Report
from cptlaw.reporting.points import expected_scores, fits_of_scores, links
from cptlaw.reporting.repeat import commands
from cptlaw.reporting.subject import Subject, limits_of
from cptlaw.result import Progress
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.metrics import unit_of
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import read_schedules

MOST_CELLS = 12


def report(
    runs: RunsLike,
    target: FitLike,
    source: FitLike | None = None,
    *,
    plan: MixPlan | None = None,
    progress: Progress | None = None,
    **asked: Unpack[ReportOfRuns],
) -> Report:
    """Make a report on fits of a runs table.

    Parameters
    ----------
    runs
        The runs table: `Runs`, a DataFrame or a path. Its scores are fitted and shown, unless their fits are given.
    target, source
        Fits of the two losses, or their files.
    plan
        A plan that was made before under the limits that are given, for the fewest tokens that keep them; ``title`` is
        then what was asked of it.
    progress
        Called with the name of each part before it is computed.
    **asked
        The model and the limits, as for `cptlaw.plan.min_tokens`: with at least one limit there is a plan. Without,
        the forecast is at ``at``, as ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"`` or a mapping, or else at the
        largest size, budget and length that were fitted.

    Returns
    -------
    Report

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    >>> target = cl.fit("ptpp-floor", runs, on="target", where=rows)
    >>> page = cl.report(runs, target, at="n_params=125K,tokens=1M,replay=25%,ptpp=279")  # doctest: +SKIP
    >>> page.save("report.html")  # doctest: +SKIP
    """
    report_progress = progress or (lambda part: None)
    given = {name: value for name, value in asked.items() if value is not None}
    given.pop("domain", None)
    domain = asked.get("domain")
    page = read_scenario(ReportOfRuns, given, "report")
    devices = hardware(page.gpus, page.mfu, page.gpu_hour)  # a wrong one is said before minutes of work
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    given_fits: list[Any] = [
        load_fit(fit) if isinstance(fit, str | Path) else fit for fit in (target, source) if fit is not None
    ]
    for fit in given_fits:
        require_type(fit, Forecaster, "target, source", "fits, as cl.fit(...) gives them, or their files")
    fits: tuple[Fit, ...] = tuple(fit_of_corpus(fit, domain) for fit in given_fits)
    report_progress("scores")
    scores, unfitted = fits_of_scores(table, limits_of(given), fits[0].provenance.get("where"))
    report_progress("plan")
    subject = Subject.of(table, fits, scores, given, interval=page.interval, plan=plan)
    held_out = {fit.on: _held_out(table, fit, page.test_where) for fit in fits}
    report_progress("forecasts")
    forecasts = _forecast_losses(subject)
    schedules = None if page.schedules is None else read_schedules(page.schedules)
    figures = draw(subject, held_out, schedules, report_progress)
    if scores:
        report_progress("scores and losses")
        figures += links(scores, subject.mix, subject.interval)
    suggestion = None
    if page.suggest_budget is not None:
        report_progress("suggested cells")
        suggestion = _suggested_runs(subject, page.suggest_budget)
        figures.append(suggested_cells(suggestion, fits[0].data))
    repeated_options = {**subject.model, **subject.limits, "domain": domain, "scores": scores}
    repeated_options |= {name: getattr(page, name) for name in ("test_where", "suggest_budget")}
    findings = by_severity(
        [*_coverage_findings(figures, subject), *unfitted, *_page_findings(subject, forecasts, suggestion)]
    )
    kept = words.limits_kept(subject.plan, subject.mix)
    expected = expected_scores(scores, kept, subject.mix, subject.interval)
    if unsaid := has_error(findings):
        expected = expected.assign(probability=None)
    kind = "a forecast" if subject.plan is None else "a plan"
    return Report(
        heading=(page.title if plan is None else None) or f"Continual pre-training: {kind}",
        question=(page.title if plan is not None else None) or words.question(subject.plan, subject.mix),
        answer=words.answer(subject.plan, forecasts, unit_of(*fits)),
        cost=_cost_text(subject, devices),
        chances=tuple((limit, likelihood(None if unsaid else chance)) for limit, chance in kept.values()),
        plan=subject.plan,
        suggestion=suggestion,
        forecasts=forecasts,
        findings=findings,
        figures=tuple(figures),
        fits=fits,
        runs=table,
        commands=commands(table, fits, None if page.at is None else subject.mix, repeated_options, subject.interval),
        interval=subject.interval,
        scores=expected,
    )


documented(report, ReportOfRuns)


def _forecast_losses(subject: Subject) -> pd.DataFrame:
    """Return the losses at the mix that matters, one row per fit."""
    row = pd.DataFrame([subject.mix])
    each = []
    for fit in subject.fits:
        table = fit.forecast(row, subject.interval).assign(on=fit.on, law=fit.law.spec)
        each.append(table)
    frame: pd.DataFrame = pd.concat(each, ignore_index=True)
    return frame


def _cost_text(subject: Subject, devices: Hardware) -> str:
    """Return what the mix costs; nothing where there is no mix to train."""
    infeasible = subject.plan is not None and not subject.plan.feasible
    if subject.flops is None or infeasible:
        return ""
    return f"{PLAN_FIELDS['flops'].text(subject.flops)} FLOPs: {devices.cost_text(subject.flops)}; {devices.assumed}"


def _page_findings(subject: Subject, forecasts: pd.DataFrame, suggestion: Suggestion | None) -> Iterator[Finding]:
    """Yield the findings about forecasts, fits, plan, data and suggestion."""
    yield from (finding for row in forecasts["findings"] for finding in row)
    yield from said_by((fit.on, fit.findings) for fit in (*subject.fits, *subject.scores.values()))
    yield from () if subject.plan is None else subject.plan.findings
    yield from _other_data(subject.table, subject.fits)
    yield from () if suggestion is None else suggestion.findings


def _coverage_findings(figures: list[Figure], subject: Subject) -> Iterator[Finding]:
    """Say of each calibration figure how many of the held-out losses lie in their intervals."""
    for figure in figures:
        kind, _, on = figure.name.partition("-")
        result = as_doubt(figure, on, subject.interval) if kind == "calibration" else None
        if result is not None:
            yield result


def _suggested_runs(subject: Subject, budget: Quantity) -> Suggestion:
    """Ask for the next runs as the target was fitted: the same rows and restraint."""
    fit, mix = subject.fits[0].leading, subject.mix
    options = fit.options
    return suggest(
        fit.law,
        subject.table,
        fit.on,
        fit.provenance.get("where"),
        at=",".join(f"{name}={mix[name]!r}" for name in mix if name in (*fit.law.inputs, "tokens")),
        budget=budget,
        n=MOST_CELLS,
        interval=subject.interval,
        delta=options.delta,
        starts=options.starts,
        seed=options.seed,
        fix=options.restraint.fixed,
        tie=options.restraint.tied,
        bound=options.restraint.bounds,
        prior=options.restraint.priors,
    )


def _held_out(table: Runs, fit: Fit, test_where: str | None) -> pd.DataFrame | None:
    if test_where is None:
        return None
    adapted = table.on(fit.on).adapted()
    rows = replace(adapted, frame=fit.law.inputs_of(adapted.frame, Context(rows=adapted.frame))).where(test_where).frame
    seen = rows["run"].astype(str).isin(set(fit.data["run"].astype(str)))
    if seen.any():
        raise UsageError(
            f"test_where (--test-where): {int(rows.loc[seen, 'run'].nunique())} of its runs were fitted, such as "
            f"{rows.loc[seen, 'run'].iloc[0]}. Expected rows that were held out of the {fit.on} fit."
        )
    return rows


def _other_data(table: Runs, fits: tuple[Fit, ...]) -> list[Finding]:
    return [
        Finding(
            "warning",
            "other-data",
            f"the {fit.on} fit was made on a table with fingerprint {str(fit.provenance['fingerprint'])[:12]}, and "
            f"{table.label} has {table.fingerprint[:12]}.",
            "Fit again on this table, or give the table of the fit.",
        )
        for fit in fits
        if fit.provenance.get("fingerprint") not in (None, table.fingerprint)
    ]
