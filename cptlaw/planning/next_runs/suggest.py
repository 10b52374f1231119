"""The next experiments: which runs shrink the doubt about one forecast most for a given compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.options import HowToFit
from cptlaw.forecasting.scores import known_score_laws
from cptlaw.forecasting.verbs import fit as fit_law
from cptlaw.forecasting.verbs import load_fit
from cptlaw.forecasting.verbs.arguments import parse_fit_arguments as law_and_runs
from cptlaw.forecasting.verbs.load_file import is_fit_file
from cptlaw.laws import Law, law
from cptlaw.planning.next_runs.cells import Bases, Offer, candidates
from cptlaw.planning.next_runs.open_forecast import open_forecast
from cptlaw.planning.next_runs.suggestion import Suggestion
from cptlaw.planning.next_runs.through_loss import score_to_sharpen, through_loss_finding
from cptlaw.planning.options import label
from cptlaw.planning.result import Plan
from cptlaw.planning.scenario import NextRuns, Numbers, PlanQuestion, documented, read_scenario
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.points import in_tokens, point
from cptlaw.runs.table import RunsLike

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

AUTO = "auto"
INPUTS = ("n_params", "tokens", "replay", "ptpp", "lr_peak")
HOW_TO_FIT = tuple(HowToFit.__annotations__)


class HowToSuggest(NextRuns, HowToFit, total=False):
    """What `suggest` is asked: a forecast, a budget, and how to fit."""


def suggest(
    law_name: str | Path | Law | type[Law] | RunsLike | Fit | ScoreFit | None,
    runs: RunsLike | None = None,
    on: str | None = None,
    where: str | None = None,
    **asked: Unpack[HowToSuggest],
) -> Suggestion:
    """Choose the runs that shrink the interval of one forecast most for a compute budget.

    Parameters
    ----------
    law_name, runs, on, where
        What is fitted, as for `cptlaw.fit`; the runs alone stand for law auto, of whose laws the heaviest one is
        sharpened; for a score that of the loss that carries it. In their place also a fit, or its file.
    **asked
        The forecast that matters and the budget, which are needed; what to choose from; and how to fit. Levels are such
        as ``"241M,517M"``, sensible ones where absent, see `docs/suggest.md`; `at` may also be a mapping, a row, or a
        plan, whose optimum is meant.

    Returns
    -------
    Suggestion
        Without cells, and with a finding that says why, where the budget is too small for any.

    Raises
    ------
    UsageError, DataError, FitError
        If an argument or the data is unusable.

    Notes
    -----
    The doubt is the covariance of the law's parameters, scaled to the interval of the forecast; a cell is worth what a
    regression of the forecast on its losses explains of it, given the noise of its points, which share their run's
    error. Expected, not promised: the losses may come out otherwise.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (15, 31) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9"
    >>> ask = "n_params=125K,tokens=1M,replay=25%,ptpp=279"
    >>> found = cl.suggest("ptpp-floor", runs, on="target", where=rows, at=ask, budget="1e13", n=3, starts=16)
    >>> max(cell.ptpp for cell in found.cells)
    279.0
    """
    given = read_scenario(NextRuns, {name: value for name, value in asked.items() if name not in HOW_TO_FIT}, "suggest")
    how: dict[str, Any] = {name: value for name, value in asked.items() if name in HOW_TO_FIT}
    levels: dict[str, Numbers] = {name: getattr(given, name) for name in ("sizes", "ptpps", "replays", "tokens")}
    fitted = _fit_given(law_name if runs is None else runs)
    if fitted is not None:
        others = {"on": on, "where": where, **how} | ({"runs": runs} if isinstance(law_name, Fit) else {})
        return _from_fit(fitted, [name for name, value in others.items() if value], given, levels)
    asked_law, runs, on, where = law_and_runs(law_name, runs, on, where)
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    at = in_tokens(_point(given.at), table.frame)
    on = table.resolve_eval(on)
    table = table.with_inferred_role(on)
    seed, schedules = asked.get("seed", 0), asked.get("schedules")
    score = score_to_sharpen(table, on, where, asked_law, seed=seed, schedules=schedules)
    if score is not None:
        on, asked_law = (
            str(score.carrier),
            AUTO if asked_law in (AUTO, *known_score_laws(), score.law.spec) else asked_law,
        )
    if asked_law == AUTO:
        # Of how to fit, `auto` chooses the rest itself.
        own = None if score is None else score.carrier_fit
        whole: Any = fit_law(AUTO, table, on, where, seed=seed, schedules=schedules) if own is None else own
        fit, at = _heaviest_that_reads(whole.fits, at)
        notes = [_heaviest(fit)]
    else:
        chosen = law(asked_law)
        _check_kind(chosen)
        whole = fit_law(chosen, table, on, where, **how)
        fit, notes = whole, []
    _check_point(fit.law, at)  # fitted, for a law of k corpora takes those of the table
    result = candidates(fit, table.frame, at.iloc[0], **levels, n_active=given.n_active)
    offer = Offer(result, Bases.of(table.frame))
    answer = open_forecast(fit, at, given.interval, offer, whole).answer(given.budget, given.n)
    notes += [] if score is None else [through_loss_finding(score, at)]
    return replace(answer, findings=(*answer.findings, *notes)) if notes else answer


def _fit_given(source: object) -> Fit | ScoreFit | None:
    """Return a fit that was given in the place of runs, read where it is a file; ``None`` where it is none."""
    if isinstance(source, str | Path) and is_fit_file(source):
        return load_fit(source)
    return source if isinstance(source, Fit) else None


def _from_fit(
    whole: Fit | ScoreFit, others: Sequence[str], given: PlanQuestion, levels: Mapping[str, Numbers]
) -> Suggestion:
    """Choose the runs that sharpen a forecast of a fit, by the rows that it was made of."""
    if others:
        raise UsageError(f"suggest: {label(others[0])} says how to fit, and a fit was given. Leave it out.")
    if not isinstance(whole, Fit) or whole.data.empty:
        raise UsageError(
            f"suggest: the fit on {whole.on} is of a score, or of no runs. Give the runs; without any, `cptlaw answer` "
            f"names the first ones."
        )
    fit, at = _heaviest_that_reads(whole.fits, in_tokens(_point(given.at), whole.data))
    _check_point(fit.law, at)
    rows = pd.concat([whole.data, whole.base.assign(tokens=0.0)], ignore_index=True)
    result = candidates(fit, rows, at.iloc[0], **levels, n_active=given.n_active)
    offer = Offer(result, Bases.of(rows))
    answer = open_forecast(fit, at, given.interval, offer, whole).answer(given.budget, given.n)
    return replace(answer, findings=(*answer.findings, *([_heaviest(fit)] if fit is not whole else [])))


def _heaviest_that_reads(fits: Any, at: pd.DataFrame) -> tuple[LawFit, pd.DataFrame]:
    """Return the fit of the heaviest law that can forecast a point, and the point with what all runs have alike."""
    at = _with_single_levels(at, fits[0])
    # The heaviest law comes first; one that reads what the point does not say cannot forecast it.
    fit: LawFit = next((one for one in fits if set(one.law.inputs) <= set(at.columns)), fits[0])
    _check_kind(fit.law)
    return fit, at


def _with_single_levels(at: pd.DataFrame, fit: LawFit) -> pd.DataFrame:
    """Return the point with inputs that it does not say and of which all runs have one value, such as a rate."""
    for name in fit.law.inputs:
        if name not in at.columns and name in fit.data.columns and fit.data[name].nunique() == 1:
            at = at.assign(**{name: float(fit.data[name].iloc[0])})
    return at


def _heaviest(fit: LawFit) -> Finding:
    return Finding(
        "info",
        "heaviest-law",
        f"runs are chosen to sharpen {fit.law.spec}, the heaviest of the averaged laws that read this point.",
        "Give another law to sharpen that one.",
        remedy=Remedy("law"),
    )


def _point(at: object) -> pd.DataFrame:
    """Read the forecast that matters as one row."""
    if isinstance(at, str):
        return point(at)
    if isinstance(at, Plan):
        values = {name: getattr(at, name, None) for name in INPUTS}
        if values["n_params"] is None or values["tokens"] is None:
            raise UsageError("at: the plan has no optimum, so there is no forecast to sharpen. Give a point instead.")
        at = values
    elif isinstance(at, pd.DataFrame):
        if len(at) != 1:
            raise UsageError(f"at: {len(at)} rows were given. Expected one point.")
        at = at.iloc[0].to_dict()
    elif isinstance(at, pd.Series):
        at = at.to_dict()
    if not isinstance(at, Mapping):
        raise UsageError(f"at (--at): {at!r} is no point. Expected n_params=8.1B,tokens=72B,replay=34%,ptpp=279.")
    given = {str(name): value for name, value in at.items() if value is not None and str(name) != "loss"}
    read = point(",".join(f"{name}={value}" for name, value in given.items() if not _is_text(value)))
    for name, value in given.items():
        if _is_text(value):
            read[name] = value
    return read


def _is_text(value: object) -> bool:
    """Say whether a value is a word, such as the name of a domain, and no quantity."""
    return isinstance(value, str) and not any(character.isdigit() for character in value)


def _check_kind(chosen: Law) -> None:
    if chosen.on_base_models or "tokens" not in chosen.inputs:
        raise UsageError(
            f"law {chosen.name} does not describe runs of continual pre-training, so no run would sharpen it. "
            f"Expected a law that reads tokens; `cptlaw laws` lists them."
        )


def _check_point(chosen: Law, asked: pd.DataFrame) -> None:
    missing = [name for name in chosen.inputs if name not in asked.columns]
    if missing:
        raise UsageError(
            f"at (--at): law {chosen.name} needs {', '.join(missing)} too. "
            f"Expected {','.join(f'{name}=..' for name in chosen.inputs)}."
        )


documented(suggest, NextRuns)
