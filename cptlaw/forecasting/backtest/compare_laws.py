"""Judge laws by what they forecast: hold-out by filter, with anchors, or by splits over levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from cptlaw.errors import CptlawError, FitError, UsageError, refuse_others, require_type
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.fit_auto import fit_auto
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.folds import Fold, go_with
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.blocks import trainings
from cptlaw.fitting.solving.components import base_models
from cptlaw.fitting.solving.huber import huber
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.forecasting.backtest.all_laws import with_all
from cptlaw.forecasting.backtest.baselines import BASELINES, have_budgets
from cptlaw.forecasting.backtest.comparison import COLUMNS, ComparisonFrame
from cptlaw.forecasting.backtest.held_out import SHARE, HeldOut, backtest, guessed, scores
from cptlaw.forecasting.backtest.metrics import METRIC_DELTA, mean_and_error
from cptlaw.forecasting.backtest.splits import HowToCompare, folds_of, refuse_contradictions
from cptlaw.forecasting.scores import resolve_score_or_eval, scoring
from cptlaw.laws import Law, law
from cptlaw.result import Progress
from cptlaw.runs import Runs
from cptlaw.runs.table import RunsLike
from cptlaw.signatures import spell_out

if TYPE_CHECKING:
    from cptlaw_scores import ScoreComparisonFrame

AUTO = "auto"
CLEAR = 2.0  # standard errors by which a law must be behind the best to be called worse


@dataclass(frozen=True, eq=False)
class Judged:
    """Forecasts of one law by fold, what was noticed on the way, and whether it is more than a bound or a guess."""

    folds: Mapping[str, HeldOut]
    findings: Sequence[Finding] = ()
    forecasts: bool = False


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
        findings. Baselines without a law (`cptlaw.forecasting.backtest.baselines`) always stand beside.
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
    if on in given.scores:
        return scoring.compare_scores([str(one) for one in named], given, on, where, how, progress)
    named = with_all(named, given, on, where, how.get("schedules"))
    # All names are read before anything is fitted: a misspelt last one must not cost the hours of the others.
    chosen = [law(item) for item in named if item != AUTO]
    # By spec and not by name: one law may be compared with itself under other options.
    trials: dict[str, Callable[[], Judged]] = {
        one.spec: partial(_law_in_folds, one, given, on, where, how, progress) for one in chosen
    }
    frame = _adapted(given, on, where)
    plain = [] if frame is None else folds_of(how, frame, given)[0]
    if AUTO in named:
        trials[AUTO] = partial(_auto_in_folds, given, on, frame, plain, how, progress)
    judged: dict[str, Judged] = {}
    failed: dict[str, str] = {}
    for name, trial in trials.items():
        try:
            judged[name] = trial()
        except UsageError:
            raise
        except CptlawError as error:  # a law that fails does not keep the others from being compared
            failed[name] = str(error)
    if not judged:
        raise FitError(" | ".join(f"{name}: {reason}" for name, reason in failed.items()))
    # Only where every law was fitted: one that fails in the hardest fold would else look the best.
    first, *others = judged.values()
    common = [label for label in first.folds if all(label in one.folds for one in others)]
    if not common:
        raise FitError("the laws could not be fitted in any fold together; compare them one at a time.")
    if frame is not None and (AUTO in named or not all(one.on_base_models for one in chosen)):
        judged |= _guesses(frame, [fold for fold in plain if fold.label in common])
    rows = [_row(name, one, common) for name, one in judged.items()]
    none = dict.fromkeys(("n_fit", "n_test", "n_params_free"), 0)
    for name, reason in failed.items():
        rows.append({"law": name, **none, "findings": (Finding("error", "not-fitted", reason),)})
    table = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("huber_log", kind="stable", ignore_index=True)
    return ComparisonFrame(_with_differences(table, judged, common))


spell_out(compare, HowToCompare, {"seed": 0})


def _law_in_folds(
    chosen: Law, given: Runs, on: str, where: str | None, how: HowToCompare, progress: Progress | None
) -> Judged:
    """Return what a law forecasts."""
    training = training_rows(chosen, given, on, where, how.get("schedules") if chosen.needs_schedules else None)
    usual = Restraint().with_usual_priors(training.law, training.role)  # a law that is never fitted without its priors
    options = Options.build(training.law, how.get("delta"), how.get("starts"), how.get("seed", 0), usual)
    folds, notes = folds_of(how, training.frame, given)
    frame = _with_base_models(training.frame)

    def fit(fold: Fold) -> LawFit:
        test = frame[fold.test]
        rows = training.chosen(fold.fit, test).frame
        if rows is not test and len(rows) == int(fold.fit.sum()):  # a law with rows of its own takes no anchors
            rows = frame[fold.fit | fold.anchors]
        return fit_rows(replace(training, frame=rows), options)

    forecasts = chosen.forecasts
    held, findings = backtest(training.law.spec, frame, folds, fit, (SHARE,) if forecasts else (), progress)
    if not forecasts:
        bound = "fitted on the test rows themselves: a bound for this shape of law, no forecast."
        findings = [Finding("info", "oracle", bound), *(one for one in findings if one.code == "folds-skipped")]
    return Judged(held, (*notes, *findings), forecasts)


def _auto_in_folds(
    given: Runs,
    on: str,
    frame: pd.DataFrame | None,
    folds: Sequence[Fold],
    how: HowToCompare,
    progress: Progress | None,
) -> Judged:
    """Return what law auto forecasts, with laws of schedules where schedules are given."""
    if frame is None:
        raise FitError(f"law auto needs rows of trained models, and no row of {on!r} has tokens above 0.")
    seed, schedules = how.get("seed", 0), how.get("schedules")

    def fit(fold: Fold) -> Average:
        table = given.keep(go_with(given.frame, frame[fold.fit | fold.anchors]))
        result = fit_auto(table, on, seed=seed, schedules=schedules)
        # What a fold tests are other runs, whose schedules are known all the same.
        return result if schedules is None else result.with_schedules(schedules)

    return Judged(*backtest(AUTO, frame, folds, fit, progress=progress), forecasts=True)


def _guesses(frame: pd.DataFrame, folds: Sequence[Fold]) -> dict[str, Judged]:
    """Return what the baselines forecast: every law must beat them."""
    parts = {fold.label: (frame[fold.fit | fold.anchors], frame[fold.test]) for fold in folds}
    budgets = all(have_budgets(*pair) for pair in parts.values())
    named = [name for name in BASELINES if parts and (budgets or name != "nearest-budget")]
    return {name: Judged({label: guessed(name, *pair) for label, pair in parts.items()}) for name in named}


def _adapted(table: Runs, on: str, where: str | None) -> pd.DataFrame | None:
    """Return the rows of adapted models with their base models, as law auto and the baselines read them; else None."""
    rows = table.on(on)
    frame = (rows if where is None else rows.where(where)).frame
    if "tokens" not in frame.columns or not (frame["tokens"] > 0).any():
        return None
    return _with_base_models(frame[(frame["tokens"] > 0).to_numpy()])


def _with_base_models(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the name of their base model; their run where it is not known."""
    base = base_models(frame)
    return frame.assign(base_model=frame["run"] if base is None else base)


def _row(name: str, judged: Judged, common: list[str]) -> dict[str, object]:
    """Return one row of the table: scores pooled over the common folds."""
    findings = list(judged.findings)
    if unshared := [label for label in judged.folds if label not in common]:
        message = (
            f"{len(unshared)} folds ({', '.join(unshared[:3])}) are left out of the scores, because another law could "
            f"not be fitted in them."
        )
        findings.append(Finding("info", "folds-not-shared", message))
    return {"law": name, **scores([judged.folds[label] for label in common]), "findings": by_severity(findings)}


def _with_differences(table: pd.DataFrame, judged: Mapping[str, Judged], common: list[str]) -> pd.DataFrame:
    """Add each law's difference from the best with its standard error, and the codes of its findings."""
    errors = pd.concat(
        {name: pd.concat({label: one.folds[label].log_error for label in common}) for name, one in judged.items()},
        axis=1,
    ).dropna()  # rows that every law has forecast
    tests = pd.concat([next(iter(judged.values())).folds[label].rows for label in common], keys=common)
    levels, run = errors.index.get_level_values(0), pd.Series(trainings(tests), tests.index).reindex(errors.index)
    base = tests["base_model"].reindex(errors.index).astype(str)
    forecasts = [name for name in table["law"] if name in judged and judged[name].forecasts]
    losses = pd.DataFrame(huber(errors.to_numpy(), METRIC_DELTA), errors.index, errors.columns)
    # Of paired differences: rows that are hard for all laws say nothing of which is better.
    behind = {
        name: mean_and_error((losses[name] - losses[forecasts[0]]).to_numpy(), run, base, levels)
        for name in (judged if forecasts else ())
    }
    apart, doubt = pd.DataFrame(behind, range(2)).reindex(columns=table["law"]).to_numpy(dtype=float)
    words = []
    for name, findings, off, error in zip(table["law"], table["findings"], apart, doubt, strict=True):
        remarks = [finding.code for finding in findings if finding.severity != "info"]
        if name in forecasts[1:] and off <= CLEAR * error:
            remarks.insert(0, "as good as the best within noise")
        words.append(", ".join(dict.fromkeys(remarks)))
    return table.assign(difference=apart, difference_se=doubt, diagnostics=words)


def _listed(laws: str | Iterable[str | Law]) -> list[str | Law]:
    """Return the laws that were named."""
    require_type(laws, Iterable, "laws", "names of laws, such as ['ptpp-floor', 'auto']")
    named = [one.strip() for one in laws.split(",") if one.strip()] if isinstance(laws, str) else list(laws)
    if not named:
        raise UsageError("compare needs at least one law, as in --laws ptpp-floor,ptpp-blind.")
    return list(named)
