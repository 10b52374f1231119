"""One page to send: question, answer, plan, doubts, figures, and how to repeat it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting import Fit, load_fit
from cptlaw.laws import Known
from cptlaw.planning import MinTokensPlan, Suggestion, min_tokens, pareto, suggest
from cptlaw.planning.scenario import Pareto, options_of
from cptlaw.reporting import figures
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.repeat import commands, versions
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.points import point
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import REPORT, write_text

LIMITS = ("max_forgetting", "max_target_loss", "max_source_loss")
FRONT_POINTS = 15
MOST_CELLS = 12
Progress = Callable[[str], None]


@dataclass(frozen=True, repr=False)
class Report:
    """A report, ready to be written as a page.

    Attributes
    ----------
    title, question, answer
        What it is about, what was asked, and the answer in one sentence.
    plan
        The plan, where limits were given.
    suggestion
        The runs to make next, where they were asked for.
    forecasts
        Losses with their intervals at the mix that matters: one row per eval.
    doubts
        Findings about data, fits, forecasts and plan, the worst first.
    figures
        What there is to see.
    fits
        The fits that it rests on, the target first.
    runs
        The runs table.
    commands
        The commands that repeat it.
    versions
        Package -> version.
    """

    title: str
    question: str
    answer: str
    plan: MinTokensPlan | None
    suggestion: Suggestion | None
    forecasts: pd.DataFrame
    doubts: tuple[Finding, ...]
    figures: tuple[Figure, ...]
    fits: tuple[Fit, ...]
    runs: Runs
    commands: tuple[str, ...]
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_html(self) -> str:
        """Return the page: one self-contained HTML document that asks no other machine for anything."""
        from cptlaw.reporting.page import page

        return page(self)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the page, in one step or not at all. Only `force` overwrites what is no report."""
        return write_text(path, self.to_html(), REPORT, force=force)

    def save_figures(self, folder: str | Path, ending: str = "png", force: bool = False) -> list[Path]:
        """Write each figure as an image: ``"png"``, ``"pdf"`` or ``"svg"``."""
        from cptlaw.reporting.images import write_images

        return write_images(self.figures, folder, ending, force=force)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "title": self.title,
            "question": self.question,
            "answer": self.answer,
            "plan": None if self.plan is None else self.plan.to_dict(),
            "suggestion": None if self.suggestion is None else self.suggestion.to_dict(),
            "points": self.forecasts.drop(columns="findings").to_dict("records"),
            "findings": [finding.to_dict() for finding in self.doubts],
            "figures": [figure.name for figure in self.figures],
            "fingerprint": self.runs.fingerprint,
            "versions": dict(self.versions),
            "commands": list(self.commands),
        }

    def __repr__(self) -> str:
        counts = f"{len(self.figures)} figures, {len(self.doubts)} doubts"
        return f"{self.title}\n  {self.question}\n  {self.answer}\n  {counts}"

    def _repr_html_(self) -> str:
        from cptlaw.reporting.page import summary

        return summary(self)


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
    interval: float = 0.9,
    progress: Progress | None = None,
    **limits: Any,
) -> Report:
    """Make a report on fits of a runs table.

    Parameters
    ----------
    runs
        The runs table: `Runs`, a DataFrame or a path.
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
    interval
        Coverage of all intervals.
    progress
        Called with the name of each part before it is computed.
    limits
        As for `cptlaw.plan.min_tokens`: max_forgetting, max_target_loss, max_source_loss, base_source_loss, reference,
        base_law, forgetting, min_replay, max_replay, max_tokens, risk. With at least one limit there is a plan.

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
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    target, source = (load_fit(fit) if isinstance(fit, str | Path) else fit for fit in (target, source))
    limits = {name: value for name, value in limits.items() if value is not None}
    fits = tuple(fit for fit in (target, source) if fit is not None)
    given = {} if at is None else _point(at)
    model: dict[str, Any] = {
        "n_params": given.get("n_params") if n_params is None else n_params,
        "ptpp": given.get("ptpp") if ptpp is None else ptpp,
    }
    plan = None
    if any(limits.get(name) is not None for name in LIMITS):
        if model["n_params"] is None:
            raise UsageError(
                "a plan needs n_params (--n-params), the parameters of the model that is planned for, such as 8.1B."
            )
        tell("plan")
        plan = min_tokens(target, source, **model, **limits, interval=interval)
    elif limits:
        raise UsageError(
            f"{', '.join(limits)}: these belong to a plan, and a plan needs a limit: max_forgetting "
            f"(--max-forgetting), max_target_loss (--max-target-loss) or max_source_loss (--max-source-loss)."
        )
    here = _where_it_matters(fits, given, model, plan)
    held_out = {fit.on: _held_out(table, fit, test_where) for fit in fits}
    tell("forecasts")
    forecasts = pd.concat(
        [fit.forecast(pd.DataFrame([here]), interval).assign(on=fit.on, law=fit.law.spec) for fit in fits],
        ignore_index=True,
    )
    drawn = _figures(table, fits, plan, here, limits, held_out, _schedules(schedules), interval, tell)
    doubts = [finding for row in forecasts["findings"] for finding in row]
    for fit in fits:
        doubts += [replace(finding, message=f"{fit.on} fit: {finding.message}") for finding in fit.findings]
    doubts += () if plan is None else plan.findings
    doubts += _other_data(table, fits)
    suggestion = None
    if suggest_budget is not None:
        tell("suggested cells")
        suggestion = _suggestion(table, fits[0], here, suggest_budget, interval)
        drawn.append(figures.suggested_cells(suggestion, fits[0].data))
        doubts += suggestion.findings
    question, answer = _question(plan, here, limits), _answer(plan, forecasts, here)
    return Report(
        title=title or "Continual pre-training: " + ("a plan" if plan else "a forecast"),
        question=question,
        answer=answer,
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
            {**model, **limits, "test_where": test_where, "suggest_budget": suggest_budget},
            interval,
        ),
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


def _figures(
    table: Runs,
    fits: tuple[Fit, ...],
    plan: MinTokensPlan | None,
    here: Mapping[str, Any],
    limits: Mapping[str, Any],
    held_out: Mapping[str, pd.DataFrame | None],
    schedules: Any,
    interval: float,
    tell: Progress,
) -> list[Figure]:
    drawn: list[Figure] = []
    target, source = fits[0], fits[1] if len(fits) > 1 else None
    model = {name: here[name] for name in ("n_params", "ptpp") if name in here}
    if source is not None and "n_params" in model and "replay" in here:
        try:
            tell("forgetting map")
            drawn.append(figures.forgetting_map(target, source, plan=plan, **model, **_of_setting(limits)))
        except UsageError:
            if plan is not None:
                raise
            # Without a reference for forgetting there is no map; the plan would have asked for one.
        tell("Pareto front")
        budget = 6.0 * float(here["n_params"]) * float(here["tokens"])
        front = pareto(
            target, source, **model, budget=budget, points=FRONT_POINTS, interval=interval, **_of_front(limits)
        )
        drawn.append(figures.pareto_front(front))
    for fit in fits:
        if "tokens" in fit.law.inputs:
            tell(f"interval fan, {fit.on}")
            drawn.append(figures.interval_fan(fit, here, _measured(table, fit, here)))
    for fit in fits:
        tell(f"observed and fitted, {fit.on}")
        drawn.append(figures.observed_fitted(fit, interval))
        drawn.append(figures.residuals(fit))
        tell(f"calibration, {fit.on}")
        drawn.append(figures.calibration(fit, held_out[fit.on], interval))
        tell(f"identifiability, {fit.on}")
        drawn.append(figures.identifiability(fit, interval))
        drawn.append(figures.loss_curves(table, fit.on, schedules=schedules, fit=fit))
    return drawn


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


def _of_setting(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in limits.items() if name not in ("max_tokens", "interval")}


def _of_front(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: limits[name] for name in options_of(Pareto) if name in limits}


def _unfitted(table: Runs, fit: Fit) -> pd.DataFrame:
    rows = table.on(fit.on).frame
    rows = fit.law.inputs_of(rows, Known(rows=rows))
    rows = rows[(rows["tokens"] > 0) & ~rows["run"].astype(str).isin(set(fit.data["run"].astype(str)))]
    return rows.dropna(subset=[name for name in fit.law.inputs if name in rows.columns])


def _measured(table: Runs, fit: Fit, here: Mapping[str, Any]) -> pd.DataFrame | None:
    """Return what was measured at the point, apart from tokens, and not fitted."""
    if not {*fit.law.inputs, "tokens"} <= set(table.frame.columns):
        return None
    rows = _unfitted(table, fit)
    for name, value in here.items():
        if name != "tokens" and name in rows.columns:
            rows = rows[np.isclose(rows[name].astype(float), float(value), rtol=1e-6, atol=0)]
    # What the fit's own filter leaves out, such as warm-up, is no test of it: keep the fitted range of tokens.
    own = fit.data["tokens"].astype(float)
    if "n_params" in fit.data.columns and "n_params" in here:
        own = own / fit.data["n_params"].astype(float) * float(here["n_params"])
    return rows[rows["tokens"] >= 0.99 * float(own.min())]


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


def _model_text(here: Mapping[str, Any]) -> str:
    text = f"a model of {format_quantity(float(here['n_params']), 4)} parameters" if "n_params" in here else "the model"
    return text + (f" pre-trained on {float(here['ptpp']):g} tokens per parameter" if "ptpp" in here else "")


def _question(plan: MinTokensPlan | None, here: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    if plan is None:
        return f"What losses will {_model_text(here)} reach {_mix_text(here)}?"
    kept = " and ".join(f"{name.replace('_', '-')} {limits[name]}" for name in LIMITS if name in limits)
    sure = "" if plan.risk is None else f", each with {format_percent(plan.risk)} probability"
    return f"What are the fewest tokens, and the replay, with which {_model_text(here)} keeps {kept}{sure}?"


def _mix_text(here: Mapping[str, Any]) -> str:
    text = f"after {format_quantity(float(here['tokens']), 4)} adaptation tokens" if "tokens" in here else "here"
    return text + (f" with {format_percent(float(here['replay']))} replay" if "replay" in here else "")


def _answer(plan: MinTokensPlan | None, forecasts: pd.DataFrame, here: Mapping[str, Any]) -> str:
    if plan is not None and not plan.feasible:
        values = plan.feasible_from or {}
        relative = plan.forgetting_measure == "relative"
        granted = " and ".join(
            f"{name} {format_percent(value) if name == 'max-forgetting' and relative else format_quantity(value, 4)}"
            for name, value in values.items()
        )
        return f"No mix keeps all limits: {plan.blocking} blocks." + (
            f" One exists beyond {granted}." if granted else ""
        )
    losses = []
    for row in forecasts.to_dict("records"):
        ends = "" if pd.isna(row["lo"]) else f" ({row['lo']:.4f} to {row['hi']:.4f})"
        losses.append(f"{row['on']} loss {row['loss']:.4f}{ends}")
    text = " and ".join(losses)
    if plan is None:
        return f"{text[:1].upper()}{text[1:]} nats per token."
    mix = f"{format_quantity(float(plan.tokens or 0), 4)} tokens"
    mix += "" if plan.replay is None else f" with {format_percent(plan.replay)} replay"
    forgotten = ""
    if plan.forgetting is not None:
        relative = plan.forgetting_measure == "relative"
        forgotten = f", forgetting {format_percent(plan.forgetting) if relative else f'{plan.forgetting:.4g} nats'}"
    return f"Train on {mix}: expect {text} nats per token{forgotten}."
