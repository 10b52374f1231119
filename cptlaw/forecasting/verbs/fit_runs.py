"""Fit runs, from the table to a fit: one law, what the columns allow, or a score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from cptlaw.errors import UsageError
from cptlaw.findings import by_severity
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.check_auto import refuse_restraint
from cptlaw.fitting.auto.fit_auto import fit_auto
from cptlaw.fitting.auto.fit_one import fit_one
from cptlaw.fitting.fit_cache import FITS, what_decides
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.learned.forgetting_and_gain import check_shift
from cptlaw.fitting.prior_fit import KnownBase, PriorFit, Quantity, prior_fit
from cptlaw.fitting.solving.options import HowToFit
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.forecasting.scores import known_score_laws, resolve_score_or_eval, scoring
from cptlaw.forecasting.verbs.arguments import parse_fit_arguments
from cptlaw.laws import law
from cptlaw.laws.base import Law
from cptlaw.runs import Runs, unread_findings
from cptlaw.runs.data_errors import data_errors
from cptlaw.runs.table import RunsLike
from cptlaw.schedules import SchedulesLike
from cptlaw.signatures import options_checked

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit


@options_checked
def fit(
    law_name: str | Law | type[Law] | RunsLike | None = None,
    runs: RunsLike | None = None,
    on: str | None = None,
    where: str | None = None,
    *,
    delta: Quantity = None,
    starts: int | None = None,
    seed: int = 0,
    schedules: SchedulesLike | None = None,
    fix: Mapping[str, object] | Iterable[str] | None = None,
    tie: Iterable[object] | None = None,
    bound: Mapping[str, object] | Iterable[str] | None = None,
    prior: Mapping[str, object] | Iterable[str] | None = None,
    restraint: str | None = None,
    shift: str | None = None,
    n_params: Quantity = None,
    ptpp: Quantity = None,
    lr_peak: Quantity = None,
    lr_pretrain: Quantity = None,
    base_source_loss: Quantity = None,
    base_target_loss: Quantity = None,
    replay_of: str | None = None,
) -> LawFit | Average | ScoreFit | PriorFit:
    """Fit a law to the losses of one eval; without a law, what the columns allow.

        fit(runs, on="target")                   one law, or the average of several: an `Average`
        fit("dcpt-l3", runs, on="target")        one law: a `LawFit`
        fit(None, on="target", shift="language", n_params="8B", ptpp=1875)
                                                 no runs: what studies of others say, a `PriorFit`

    Variable projection searches the shape parameters from many starts; every distinct optimum is then polished on the
    stated objective, the sum over points of Huber(delta) of the log residual.

    Parameters
    ----------
    law_name
        A law's name with its options, or a law (of a score: ``score-sigmoid`` and others); ``"auto"``, or the runs in
        its place, for `cptlaw.fitting.auto`, which chooses restraint and starts itself.
    runs
        A runs table: `Runs`, a DataFrame or a path. Without one, and without a law, studies of others speak.
    on
        The eval whose loss is fitted: its name, or ``source`` or ``target``, which is meant without runs.
    where
        Filter of rows, such as ``"ptpp <= 31 and replay > 0"``. Where it chooses one of several domains, as in
        ``"domain == 'law'"``, base models without a domain stay, and what the other domains' rows under the same
        filter say of `shared-tokens`, by name or in law auto, is a prior; not with restraint none.
    delta
        Huber threshold on log residuals; the law's published value where absent.
    starts
        Number of starting points of the global search; the law's own number, mostly 64, where absent.
    seed
        Seed of the starting points, 0 where absent. The same seed gives the same bits on one machine. Fits with a prior
        on every shape parameter, as law auto's, begin at the same points whatever it is.
    fix, tie, bound, prior
        Restraint by parameter name: ``{"alpha": 0.34}``, ``[("alpha", "beta")]``, ``{"lambda": (0, 0.9)}``,
        ``{"E": (1.8, 0.1)}`` (mean, standard deviation); or the command line's texts.
    restraint
        ``"none"`` fits the rows and what is said here alone. Where absent, what other studies say of the parameters
        of a law is added as weak priors, and its intervals are those that it has within law auto.
    shift
        Without runs, or for law auto where runs of CPT are few: the kind of new domain, ``"language"``, ``"domain"``,
        ``"code"`` or ``"near"``. What studies of others saw of such shifts is then a prior.
    schedules
        For laws of loss curves: learning-rate schedules by run, or a schedules file. Runs that are not in it take
        theirs from the column ``lr``, or from ``lr_schedule``, ``lr_peak``, ``warmup``, ``lr_end`` and tokens.
    n_params, ptpp, lr_peak, lr_pretrain, base_source_loss, base_target_loss, replay_of
        Without runs: the base model, the rates, its losses and whether it has read the replayed text, as in
        `cptlaw.answer`.

    Returns
    -------
    LawFit, Average, PriorFit or ScoreFit
        A `Fit` of one law, of several or of no rows, or the link of a score to losses.

    Raises
    ------
    DataError, UsageError
        If rows, names or options are unusable.
    FitError
        If the rows cannot determine the law: too few points, or an input with a single level.
    """
    base = KnownBase(n_params, ptpp, lr_peak, lr_pretrain, base_source_loss, base_target_loss, replay_of)
    # Read at the door: however it is spelt, the same restraint is the same question.
    of_one: HowToFit = {"delta": delta, "starts": starts}
    of_one |= cast("HowToFit", Restraint.read(fix, tie, bound, prior).given)
    if runs is None and (law_name is None or (isinstance(law_name, str) and law_name == "auto")):
        of_rows = {"where": where, **of_one, "schedules": schedules, "restraint": restraint}
        _refuse_given(of_rows, "is for a fit to runs, and no runs were given")
        return prior_fit(on or "target", base, shift)
    _refuse_given(vars(base), "says what a base model is without runs; with runs their rows say it")
    named, runs, on, where = parse_fit_arguments(law_name, runs, on, where)
    if restraint not in (None, "none"):
        raise UsageError(f"restraint={restraint!r}: expected none, which fits the rows alone.")
    table, on, copied = resolve_score_or_eval(runs, on)
    how: HowToFit = {**of_one, "seed": seed, "schedules": schedules, "restraint": restraint}
    result = _fit_to_rows(named, table, on, where, how, check_shift(shift))
    return replace(result, findings=by_severity([*copied, *result.findings])) if copied else result


def _fit_to_rows(
    law_name: str | Law, table: Runs, on: str, where: str | None, how: HowToFit, shift: str | None
) -> LawFit | Average | ScoreFit:
    """Return the fit of a law, of several, or of a score, made before where the same was asked of the same rows."""
    is_score = _is_score(law_name, table, on)
    averaged = isinstance(law_name, str) and law_name == "auto"
    seed, schedules = how["seed"], how["schedules"]
    if is_score or averaged:
        of_one = {name: value for name, value in how.items() if name not in ("seed", "schedules", "restraint")}
        refuse_restraint(of_one, "scores are fitted with their own priors" if is_score else "law auto fits several")
    if shift is not None and (is_score or not averaged):
        raise UsageError("shift (--shift) is read where losses are fitted without a law's name, by law auto.")
    chosen = None if is_score or averaged else law(law_name)

    def fitted() -> LawFit | Average | ScoreFit:
        about = unread_findings(table, where)
        if is_score:
            result: LawFit | Average | ScoreFit = scoring.fit_scores(
                table, on, where, str(law_name), schedules=schedules, seed=seed
            )
        elif chosen is not None:
            result = fit_one(chosen, table, on, where, how)
        else:
            result = fit_auto(table, on, where, seed=seed, schedules=schedules, about=StudyPrior(shift=shift))
        if not is_score:
            about += data_errors(table if where is None else table.where(where), on)
        return replace(result, findings=by_severity([*about, *result.findings])) if about else result

    if chosen is not None and not type(chosen).__module__.startswith("cptlaw."):
        return fitted()  # whoever writes a law changes it between fits
    name = str(law_name) if chosen is None else chosen.spec
    return FITS.fitted(fitted, table, "fit", name, on, where, what_decides(how | {"shift": shift}))


def _refuse_given(options: Mapping[str, object], why: str) -> None:
    """Refuse the first of some options that was given."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name} (--{name.replace('_', '-')}) {why}.")


def _is_score(law_name: object, table: Runs, on: str) -> bool:
    """Say whether a score is asked for, and refuse laws of losses for scores and the other way round."""
    is_score = on in table.scores
    of_scores = isinstance(law_name, str) and law_name.partition(":")[0] in known_score_laws()
    if is_score and not of_scores and law_name != "auto":
        raise UsageError(
            f"{on!r} is a score ({table.scores[on]}), and law {getattr(law_name, 'name', law_name)} is one of losses. "
            f"Leave the law out, or choose a law of scores: {', '.join(known_score_laws())}."
        )
    if of_scores and not is_score:
        raise UsageError(
            f"law {law_name} is one of scores, and {on!r} is a loss. Scores of this table: "
            f"{', '.join(table.scores) or 'none; a column metric says which rows are scores'}."
        )
    return is_score
