"""Judge laws by what they forecast: hold-out by filter, with anchors, or by splits over levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, FitError, UsageError, refuse_others, require_type
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.folds import Fold
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.blocks import trainings
from cptlaw.fitting.solving.huber import huber
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.forecasting.comparing.all_laws import with_all
from cptlaw.forecasting.comparing.auto_folds import NamedForecast, adapted, fit_auto_in_fold, with_base_models
from cptlaw.forecasting.comparing.baselines import ALIKE, BASELINES, have_budgets, regret
from cptlaw.forecasting.comparing.comparison import ComparisonFrame
from cptlaw.forecasting.comparing.coverage import held, points_of_fold
from cptlaw.forecasting.comparing.hold_out import HowToCompare, folds_of, refuse_contradictions
from cptlaw.forecasting.comparing.metrics import METRIC_DELTA, METRICS, mean_and_error, mean_of_known, metrics
from cptlaw.forecasting.scores import resolve_score_or_eval, scoring
from cptlaw.laws import Law, law
from cptlaw.laws.calculus import Array
from cptlaw.result import Progress
from cptlaw.runs import Runs
from cptlaw.runs.table import RunsLike
from cptlaw.signatures import spell_out

if TYPE_CHECKING:
    from cptlaw_scores import ScoreComparisonFrame

JUDGED = ["run", "base_model", "loss", "merge_weight", *ALIKE]
AUTO = "auto"
CLEAR = 2.0  # standard errors by which a law must be behind the best to be called worse


@dataclass(frozen=True, eq=False)
class _Scored:
    """Forecasts of one law in one fold; `test` has the rows that were forecast, with run and loss.

    `held` says at a few of them whether the 90 % interval holds what was measured.
    """

    predicted: Array
    test: pd.DataFrame
    n_fit: int
    n_free: int
    held: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Forecasts of one law by fold, and what was noticed on the way."""

    law: Law | NamedForecast
    folds: dict[str, _Scored]
    findings: tuple[Finding, ...]


def compare(
    laws: Any,
    runs: RunsLike | None = None,
    on: str | None = None,
    *,
    where: str | None = None,
    progress: Progress | None = None,
    **how: Unpack[HowToCompare],
) -> ComparisonFrame | ScoreComparisonFrame:
    """Fit laws on some runs and score their forecasts of others.

    Parameters
    ----------
    laws
        Names of laws with their options, or one comma-separated text; the runs in its place stand for law auto;
        ``all`` for law auto and every law that the columns allow. ``ptpp-nearest`` is the blind law on the highest
        fitted budget alone; ``ptpp-oracle`` is fitted on the test rows, a bound and no forecast.
    runs
        A runs table: `Runs`, a DataFrame or a path.
    on
        The eval, by name or by role; where it is left out, the only one.
    fit_where, test_where
        Filters of the rows to fit on and to forecast.
    anchors_where
        Filter of a few rows that join the fit and leave the test, such as small runs at the test budget.
        ``ptpp-nearest`` does not use them.
    cv
        A split instead of the two filters; see `cptlaw.fitting.folds.split`. Test points of all folds are pooled.
    where
        Filter applied to all rows first.
    progress
        Called with a line of text after each fit.
    **how
        delta, starts, seed as in `fit`, and schedules (by run, or a file) for law auto and laws of loss curves.

    Returns
    -------
    DataFrame
        Of a score see `cptlaw_scores.compare_scores`: errors in points. Of a loss
        one row per law, best ``huber_log`` first: law, huber_log, rmse_log, mae_rel, mape_clip, intercept, slope, r2,
        coverage_90, regret, n_fit (mean over folds), n_test, n_params_free, difference, difference_se, diagnostics,
        findings. A law that could not be fitted comes last, without scores, with the reason among its
        findings. Baselines without a law (`cptlaw.forecasting.comparing.baselines`) always stand beside.
        ``coverage_90`` is the share of held-out losses inside the 90 % interval, at up to sixteen points; ``regret``
        is what is lost, as a share of the loss, by choosing replay, rate, budget or size by the forecast.

        ``difference`` is how much higher ``huber_log`` is than that of the best law that is a forecast, and
        ``difference_se`` its standard error: points of a run, runs of a base model, and points of a held-out level err
        together, and the largest counts, of those with three or more. ``diagnostics`` names what stands against a law
        in short.

    Raises
    ------
    UsageError
        If the filters and the split contradict each other or select nothing.
    FitError
        If no law could be fitted.
    """
    refuse_others(how, HowToCompare.__annotations__, "compare")
    refuse_contradictions(how)
    if runs is None:  # compare(runs, on="target", cv=..), as fit(runs, on="target")
        laws, runs = AUTO, laws
    named = _listed(laws)
    given, on, _ = resolve_score_or_eval(runs, on)  # without copies: one in another fold would be known beforehand
    schedules = how.get("schedules")
    if on in given.scores:
        return scoring.compare_scores([str(one) for one in named], given, on, where, how, progress)
    named = with_all(named, given, on, where, schedules)
    # All names are read before anything is fitted: a misspelt last one must not cost the hours of the others.
    chosen = [law(item) for item in named if item != AUTO]
    # By spec and not by name: one law may be compared with itself under other options.
    outcomes = {one.spec: _or_why_not(_outcome_of, one, given, on, where, how, progress) for one in chosen}
    frame = adapted(given, on, where)
    plain = [] if frame is None else folds_of(how, frame, given)[0]
    if AUTO in named:
        outcomes[AUTO] = _outcome_of_auto(given, on, frame, plain, how, progress)
    common = _common_folds(outcomes)
    if frame is not None and (AUTO in named or not all(one.on_base_models for one in chosen)):
        outcomes |= _baseline_folds(frame, [pair for pair in plain if pair[0].label in common])
    rows = [_row(name, outcome, common) for name, outcome in outcomes.items()]
    table = pd.DataFrame(rows).sort_values("huber_log", kind="stable", na_position="last", ignore_index=True)
    judged = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, _Outcome)}
    return ComparisonFrame(_with_differences(table, judged, common))


spell_out(compare, HowToCompare, {"seed": 0})


def _outcome_of(
    candidate: Law, given: Runs, on: str, where: str | None, how: HowToCompare, progress: Progress | None
) -> _Outcome:
    """Return what a law forecasts."""
    schedules = how.get("schedules") if candidate.needs_schedules else None
    training = training_rows(candidate, given, on, where, schedules)
    usual = Restraint().with_usual_priors(training.law, training.role)  # a law that is never fitted without its priors
    options = Options.build(training.law, how.get("delta"), how.get("starts"), how.get("seed", 0), usual)
    folds, notes = folds_of(how, training.frame, given)
    frame = with_base_models(training.frame)

    def fit(fold: Fold, anchors: np.ndarray) -> LawFit:
        test = frame[fold.test]
        rows = training.chosen(fold.fit, test).frame
        if rows is not test and len(rows) == int(fold.fit.sum()):  # a law with rows of its own takes no anchors
            rows = frame[fold.fit | anchors]
        return fit_rows(replace(training, frame=rows), options)

    outcome = _forecast_folds(training.law, frame, folds, fit, progress)
    return replace(outcome, findings=(*notes, *outcome.findings))


def _outcome_of_auto(
    given: Runs,
    on: str,
    frame: pd.DataFrame | None,
    folds: list[tuple[Fold, np.ndarray]],
    how: HowToCompare,
    progress: Progress | None,
) -> _Outcome | str:
    """Return what law auto forecasts, or why it cannot."""
    if frame is None:
        return f"law auto needs rows of trained models, and no row of {on!r} has tokens above 0."

    def fit(fold: Fold, anchors: np.ndarray) -> Average:
        return fit_auto_in_fold(given, on, frame[fold.fit | anchors], how.get("seed", 0), how.get("schedules"))

    return _or_why_not(_forecast_folds, NamedForecast(AUTO, True), frame, folds, fit, progress)


def _or_why_not(outcome: Callable[..., _Outcome], *given: object) -> _Outcome | str:
    """Return what a law forecasts, or why it cannot: one that fails does not keep the others from being compared."""
    try:
        return outcome(*given)
    except UsageError:
        raise
    except CptlawError as error:
        return str(error)


def _common_folds(outcomes: Mapping[str, _Outcome | str]) -> list[str]:
    """Return the folds that every law could be fitted in: laws are judged on the same rows."""
    fitted = [outcome for outcome in outcomes.values() if isinstance(outcome, _Outcome)]
    if not fitted:
        raise FitError(" | ".join(f"{name}: {reason}" for name, reason in outcomes.items()))
    # Only where every law was fitted: one that fails in the hardest fold would else look the best.
    common = [label for label in fitted[0].folds if all(label in outcome.folds for outcome in fitted)]
    if not common:
        raise FitError("the laws could not be fitted in any fold together; compare them one at a time.")
    return common


def _row(name: str, outcome: _Outcome | str, common: list[str]) -> dict[str, object]:
    """Return one row of the table: scores pooled over the common folds."""
    if isinstance(outcome, str):
        failed = Finding("error", "not-fitted", outcome)
        scores = dict.fromkeys((*METRICS, "coverage_90", "regret"), np.nan)
        counts = dict.fromkeys(("n_fit", "n_test", "n_params_free"), 0)
        return {"law": name, **scores, **counts, "findings": (failed,)}
    folds = [outcome.folds[label] for label in common]
    observed = np.concatenate([fold.test["loss"].to_numpy(dtype=float) for fold in folds])
    findings = list(outcome.findings)
    unshared = [label for label in outcome.folds if label not in common]
    if unshared:
        findings.append(
            Finding(
                "info",
                "folds-not-shared",
                f"{len(unshared)} folds ({', '.join(unshared[:3])}) are left out of the scores, because another law "
                f"could not be fitted in them.",
            )
        )
    return {
        "law": name,
        **metrics(np.concatenate([fold.predicted for fold in folds]), observed),
        "coverage_90": mean_of_known(np.concatenate([fold.held for fold in folds])),
        "regret": mean_of_known([regret(fold.test, fold.predicted) for fold in folds]),
        "n_fit": round(float(np.mean([fold.n_fit for fold in folds]))),
        "n_test": len(observed),
        "n_params_free": max(fold.n_free for fold in folds),
        "findings": by_severity(findings),
    }


def _with_differences(table: pd.DataFrame, outcomes: dict[str, _Outcome], common: list[str]) -> pd.DataFrame:
    """Add each law's difference from the best with its standard error, and the codes of its findings."""
    errors = pd.concat({name: _log_errors(outcome, common) for name, outcome in outcomes.items()}, axis=1)
    errors = errors.dropna()  # rows that every law has forecast
    tests = pd.concat({label: next(iter(outcomes.values())).folds[label].test for label in common})
    levels, run = errors.index.get_level_values(0), pd.Series(trainings(tests), tests.index).reindex(errors.index)
    base = tests["base_model"].reindex(errors.index).astype(str)
    forecasts = [name for name in table["law"] if name in outcomes and outcomes[name].law.forecasts]
    scores = pd.DataFrame(huber(errors.to_numpy(), METRIC_DELTA), errors.index, errors.columns)
    difference, error, words = [], [], []
    for name, findings in zip(table["law"], table["findings"], strict=True):
        remarks = [finding.code for finding in findings if finding.severity != "info"]
        apart, doubt = float("nan"), float("nan")
        if name in outcomes and forecasts:
            # Of paired differences: rows that are hard for all laws say nothing of which is better.
            apart, doubt = mean_and_error((scores[name] - scores[forecasts[0]]).to_numpy(), run, base, levels)
            if name != forecasts[0] and name in forecasts and apart <= CLEAR * doubt:
                remarks.insert(0, "as good as the best within noise")
        difference.append(apart)
        error.append(doubt)
        words.append(", ".join(dict.fromkeys(remarks)))
    added: dict[str, list[float] | list[str]] = {"difference": difference, "difference_se": error, "diagnostics": words}
    return table.assign(**added)[[*(name for name in table.columns if name != "findings"), *added, "findings"]]


def _log_errors(outcome: _Outcome, common: list[str]) -> pd.Series[float]:
    """Return log(predicted) - log(observed) of the rows of the common folds, by fold and row."""
    folds = [outcome.folds[label] for label in common]
    predicted = pd.concat([pd.Series(np.log(one.predicted), one.test.index) for one in folds], keys=common)
    observed = pd.concat([one.test["loss"] for one in folds], keys=common)
    errors: pd.Series[float] = predicted - np.log(observed.astype(float))
    return errors


def _forecast_folds(
    candidate: Law | NamedForecast,
    frame: pd.DataFrame,
    folds: Sequence[tuple[Fold, np.ndarray]],
    fit: Callable[[Fold, np.ndarray], Fit],
    progress: Progress | None,
) -> _Outcome:
    """Return what a law forecasts in each fold; `fit` gives its fit to what a fold and its anchors leave.

    Raises
    ------
    FitError
        If it could not be fitted in any fold.
    """
    scored: dict[str, _Scored] = {}
    by_fold: list[list[Finding]] = []
    skipped: list[str] = []
    for fold, anchors in folds:
        test = frame[fold.test]
        try:
            fitted = fit(fold, anchors)
            inside = held(fitted, test, points_of_fold(len(folds))) if candidate.forecasts else np.zeros(0)
            judged = test if isinstance(candidate, NamedForecast) else test.filter(JUDGED)
            counts = fitted.n_points, fitted.leading.n_free
            scored[fold.label] = _Scored(fitted.predict(test), judged, *counts, inside)
            by_fold.append([finding for finding in fitted.findings if finding.code != "base-rows"])
        except CptlawError as error:
            if len(folds) == 1 or isinstance(error, UsageError):
                raise
            # One fold without levels must not end a comparison of twenty.
            skipped.append(f"{fold.label} ({error})")
        if progress is not None:
            progress(f"{candidate.spec}: {fold.label}")
    if not scored:
        raise FitError(f"law {candidate.spec} could not be fitted in any fold: {'; '.join(skipped[:2])}")
    findings = _once_with_counts(by_fold) if len(folds) > 1 else by_fold[0]
    if not candidate.forecasts:
        findings = [
            Finding("info", "oracle", "fitted on the test rows themselves: a bound for this shape of law, no forecast.")
        ]
    if skipped:
        findings.append(
            Finding(
                "warning",
                "folds-skipped",
                f"{len(skipped)} of {len(folds)} folds could not be fitted and are left out of the scores: "
                f"{'; '.join(skipped[:2])}",
                "Add levels, or choose a split with more levels to fit on.",
            )
        )
    return _Outcome(candidate, scored, tuple(findings))


def _once_with_counts(by_fold: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Return one finding per code, the first of its kind, with the number of folds that have it in its message."""
    first: dict[str, Finding] = {}
    count: Counter[str] = Counter()
    for findings in by_fold:
        count.update({finding.code for finding in findings})
        for finding in findings:
            first.setdefault(finding.code, finding)
    return [
        replace(finding, message=f"in {count[code]} of {len(by_fold)} folds, first: {finding.message}")
        for code, finding in first.items()
    ]


def _baseline_folds(frame: pd.DataFrame, folds: Sequence[tuple[Fold, np.ndarray]]) -> dict[str, _Outcome]:
    """Return what the baselines forecast: every law must beat them."""
    parts = {fold.label: (frame[fold.fit | anchors], frame[fold.test]) for fold, anchors in folds}
    result = {}
    for name, forecast in BASELINES.items() if parts else ():
        if name != "nearest-budget" or all(have_budgets(*pair) for pair in parts.values()):
            scored = {
                label: _Scored(forecast(fitted, test), test, len(fitted), 0) for label, (fitted, test) in parts.items()
            }
            result[name] = _Outcome(NamedForecast(name, False), scored, ())
    return result


def _listed(laws: str | Iterable[str | Law]) -> list[str | Law]:
    """Return the laws that were named."""
    require_type(laws, Iterable, "laws", "names of laws, such as ['ptpp-floor', 'auto']")
    named = [one.strip() for one in laws.split(",") if one.strip()] if isinstance(laws, str) else list(laws)
    if not named:
        raise UsageError("compare needs at least one law, as in --laws ptpp-floor,ptpp-blind.")
    return list(named)
