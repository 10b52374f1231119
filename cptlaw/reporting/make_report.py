"""One page to send: question, answer, cost, doubts, figures, and how to repeat it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting import Fit, load_fit
from cptlaw.laws import Known
from cptlaw.planning import MinTokensPlan, Suggestion, min_tokens, suggest
from cptlaw.reporting import words
from cptlaw.reporting.answer import Report
from cptlaw.reporting.cost import GPU, MFU, cost_text
from cptlaw.reporting.drawings import Progress, draw, leading
from cptlaw.reporting.figures.suggested_cells import suggested_cells
from cptlaw.reporting.points import (
    IN_POINTS,
    LIMITS_IN_POINTS,
    chances_in_points,
    expected_scores,
    fits_of_scores,
    limits_in_points,
    links,
)
from cptlaw.reporting.repeat import commands
from cptlaw.reporting.words import LIMITS
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.metrics import unit_of
from cptlaw.runs.points import point

MOST_CELLS = 12


def report(
    runs: Any,
    target: Any,
    source: Any = None,
    *,
    at: str | Mapping[str, Any] | None = None,
    n_params: Any = None,
    ptpp: Any = None,
    test_where: str | None = None,
    schedules: Any = None,
    suggest_budget: Any = None,
    title: str | None = None,
    gpu: str = GPU,
    mfu: Any = MFU,
    interval: float = 0.9,
    progress: Progress | None = None,
    **limits: Any,
) -> Report:
    """Make a report on fits of a runs table.

    Parameters
    ----------
    runs
        The runs table: `Runs`, a DataFrame or a path. Its scores are fitted and shown, unless their fits are given.
    target, source
        Fits of the two losses, or their files.
    at
        The forecast that matters, as ``"n_params=8.1B,tokens=72B,replay=34%,ptpp=279"`` or a mapping. Where absent the
        mix of the plan or, without limits, the largest size, budget and length that were fitted.
    n_params, ptpp
        The model that is planned for; those of `at` where absent.
    test_where
        Filter of rows that were held out of the fits, on which to judge calibration.
    schedules
        A schedules file, or schedules by run, for the loss curves.
    suggest_budget
        FLOPs for which to suggest the runs that would narrow the forecast of the target loss most.
    title
        Of the page.
    gpu, mfu
        The device to say the cost in, such as ``"h100"``, and the share of its peak that training reaches.
    interval
        Coverage of all intervals.
    progress
        Called with the name of each part before it is computed.
    limits
        As for `cptlaw.plan.min_tokens`: max_forgetting, max_target_loss, max_source_loss, base_source_loss, reference,
        base_law, forgetting, min_replay, max_replay, max_tokens, risk, min_score, max_drop, base_score,
        scores. With at least one limit there is a plan.

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
    tell = progress or (lambda part: None)
    cost_text(0.0, gpu, mfu)  # a wrong device is said before minutes of work
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    target, source = (load_fit(fit) if isinstance(fit, str | Path) else fit for fit in (target, source))
    limits = {name: value for name, value in limits.items() if value is not None}
    fits = tuple(fit for fit in (target, source) if fit is not None)
    tell("scores")
    scores, unfitted = fits_of_scores(table, limits, target.provenance.get("where"))
    losses_limited = {name: value for name, value in limits.items() if name not in IN_POINTS}
    given = {} if at is None else _point(at)
    model: dict[str, Any] = {
        "n_params": given.get("n_params") if n_params is None else n_params,
        "ptpp": given.get("ptpp") if ptpp is None else ptpp,
    }
    plan = None
    if any(limits.get(name) for name in (*LIMITS, *LIMITS_IN_POINTS)):
        if model["n_params"] is None:
            raise UsageError(
                "a plan needs n_params (--n-params), the parameters of the model that is planned for, such as 8.1B."
            )
        tell("plan")
        # Which next runs would pay for themselves is asked for by suggest_budget: it takes longer than all the rest.
        if limits_in_points(limits):
            limits["scores"] = scores
        plan = min_tokens(target, source, **model, **limits, interval=interval, savings=False)
    elif losses_limited:
        raise UsageError(
            f"{', '.join(losses_limited)}: these belong to a plan, and a plan needs a limit: max_forgetting "
            f"(--max-forgetting), max_target_loss (--max-target-loss), max_source_loss (--max-source-loss), "
            f"min_score (--min) or max_drop (--max-drop)."
        )
    all_fits: tuple[Any, ...] = (*fits, *scores.values())
    here = _where_it_matters(all_fits, given, model, plan)
    held_out = {fit.on: _held_out(table, fit, test_where) for fit in fits}
    tell("forecasts")
    forecasts = pd.concat(
        [fit.forecast(pd.DataFrame([here]), interval).assign(on=fit.on, law=fit.law.spec) for fit in fits],
        ignore_index=True,
    )
    expected = expected_scores(scores, plan, here, limits, interval)
    drawn = draw(table, fits, plan, here, losses_limited, held_out, _schedules(schedules), interval, tell)
    if scores:
        tell("scores and losses")
        drawn += links(scores, here, interval)
    doubts = [*unfitted, *(finding for row in forecasts["findings"] for finding in row)]
    for fit in all_fits:
        doubts += [replace(finding, message=f"{fit.on} fit: {finding.message}") for finding in fit.findings]
    doubts += () if plan is None else plan.findings
    doubts += _other_data(table, fits)
    suggestion = None
    if suggest_budget is not None:
        tell("suggested cells")
        suggestion = _suggestion(table, leading(fits[0]), here, suggest_budget, interval)
        drawn.append(suggested_cells(suggestion, fits[0].data))
        doubts += suggestion.findings
    flops = 6.0 * float(here["n_params"]) * float(here["tokens"]) if {"n_params", "tokens"} <= set(here) else None
    return Report(
        heading=title or "Continual pre-training: " + ("a plan" if plan else "a forecast"),
        question=words.question(plan, here, limits),
        answer=words.answer(plan, forecasts, unit_of(*fits)),
        cost="" if flops is None or (plan is not None and not plan.feasible) else cost_text(flops, gpu, mfu),
        chances=(*words.chances(plan, {fit.role: fit for fit in fits}, here, limits), *chances_in_points(expected)),
        plan=plan,
        suggestion=suggestion,
        forecasts=forecasts,
        doubts=by_severity(doubts),
        figures=tuple(drawn),
        fits=fits,
        runs=table,
        commands=commands(
            table,
            fits,
            here if at is not None else None,
            {**model, **limits, "scores": scores, "test_where": test_where, "suggest_budget": suggest_budget},
            interval,
        ),
        interval=interval,
        scores=expected,
    )


def _point(at: str | Mapping[str, Any]) -> dict[str, Any]:
    frame = point(at if isinstance(at, str) else ",".join(f"{name}={value}" for name, value in at.items()))
    return {str(name): value for name, value in frame.iloc[0].items()}


def _schedules(given: Any) -> Any:
    if given is None or isinstance(given, Mapping):
        return given
    from cptlaw.schedules import read_schedules

    return read_schedules(given)


def _where_it_matters(
    fits: tuple[Fit, ...], given: Mapping[str, Any], model: Mapping[str, Any], plan: MinTokensPlan | None
) -> dict[str, Any]:
    """Return the point of the forecasts: what was given, then the plan's mix, then the largest that was fitted."""
    from cptlaw.units import parse_quantity

    here: dict[str, Any] = {}
    for name in dict.fromkeys(name for fit in fits for name in fit.law.inputs):
        planned = None if plan is None else getattr(plan, name, None)
        asked = model.get(name)
        seen = pd.concat([fit.data[name] for fit in fits if name in fit.data.columns]).astype(float)
        if name in given:
            here[name] = given[name]
        elif planned is not None:
            here[name] = planned
        elif asked is not None:
            here[name] = parse_quantity(asked, name)
        else:
            levels = np.sort(seen.unique())
            here[name] = float(levels[len(levels) // 2] if name == "replay" else levels[-1])
    if model.get("ptpp") is not None and "ptpp" not in here:
        here["ptpp"] = parse_quantity(model["ptpp"], "ptpp")
    return here


def _suggestion(table: Runs, fit: Fit, here: Mapping[str, Any], budget: Any, interval: float) -> Suggestion:
    """Ask for the next runs as the fit was made: the same rows and restraint."""
    options = fit.options
    return suggest(
        fit.law,
        table,
        fit.on,
        fit.provenance.get("where"),
        at=",".join(f"{name}={here[name]!r}" for name in here if name in (*fit.law.inputs, "tokens")),
        budget=budget,
        n=MOST_CELLS,
        interval=interval,
        delta=options.delta,
        starts=options.starts,
        seed=options.seed,
        fix=options.restraint.fixed,
        tie=options.restraint.tied,
        bound=options.restraint.bounds,
        prior={name: (prior.mean, prior.sd) for name, prior in options.restraint.priors.items()},
    )


def _held_out(table: Runs, fit: Fit, test_where: str | None) -> pd.DataFrame | None:
    if test_where is None:
        return None
    adapted = table.on(fit.on).adapted()
    rows = replace(adapted, frame=fit.law.inputs_of(adapted.frame, Known(rows=adapted.frame))).where(test_where).frame
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
