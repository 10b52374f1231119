"""Fit the law of the losses, or the several that the columns allow, which common rollouts weigh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import CptlawError, FitError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.candidates import Candidate, candidates
from cptlaw.fitting.auto.curve_tables import as_curves
from cptlaw.fitting.auto.other_corpora import add_corpus_prior, as_fitted, by_corpus, corpora_used
from cptlaw.fitting.auto.rows import (
    Chosen,
    choose_rows,
    levels,
    main_kind,
    with_source_rows,
    without_lone_base_models,
)
from cptlaw.fitting.auto.under_trained import without_under_trained
from cptlaw.fitting.base_models import measured_bases
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.from_source import with_source
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.members import Member
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.rollouts import directions, rollout_errors, rollouts
from cptlaw.fitting.shared_error import AREA, undertrained_bases
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.origin import provenance_of
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.fitting.study_prior import MANY, StudyPrior
from cptlaw.fitting.weights import RolloutScores, left_by_rollouts
from cptlaw.laws.calculus import Array
from cptlaw.laws.shared_tokens import FULL_TRAINING, SharedTokens
from cptlaw.progress import track
from cptlaw.runs import Runs
from cptlaw.runs.schema import mix_columns
from cptlaw.schedules import SchedulesLike
from cptlaw.units import counted, input_text

STARTS = 4  # of each law: with a prior on every parameter, searches agree
FEW_ROWS = 4  # below which a forecast is what other studies say, moved to these rows
OF_ROWS = ("suspected-units", "suspected-mix-up")  # findings about rows, whichever law reads them
HEAVY = 0.05  # weight from which a law decides what forecasts see
MANY_ROWS = 400  # from which fewer starts do
INPUTS = ("n_params", "tokens", "samples", "replay", "ptpp", "lr_peak", "lr_pretrain", *FULL_TRAINING, AREA)

Places = NDArray[np.int_]


def fit_auto(
    table: Runs,
    on: str,
    where: str | None = None,
    *,
    seed: int = 0,
    schedules: SchedulesLike | None = None,
    about: StudyPrior | None = None,
) -> Average:
    """Fit every law that the columns allow to the losses of one eval, and average them by common rollouts.

    Parameters
    ----------
    about
        What is known of a study of CPT beside its runs: from few of them, what other studies say is a prior.

    Raises
    ------
    FitError
        If no law can be fitted; the reasons of all are given.
    """
    everything, (table, notes) = table, main_kind(table, where)
    together, others = by_corpus(table, on, where)
    rows = choose_rows(together, on, where, schedules is not None)
    rows = replace(rows, findings=(*notes, *rows.findings))
    rows = as_curves(rows, schedules) or rows
    name = str(rows.frame["eval"].iloc[0])
    role = table.role(name)
    rows = without_under_trained(without_lone_base_models(rows, role), role)
    frame = rows.frame
    refuse_untrained(table, rows, where)
    paired = with_source_rows(together, rows, where, schedules is not None)
    place = pd.Series(np.arange(len(frame)), index=frame.index)
    fits: list[tuple[Candidate, LawFit, Places]] = []
    sources: dict[str, LawFit] = {}
    skipped: dict[str, str] = {}
    provenance = provenance_of(everything, name, where)
    base = together.base_losses(name)
    every = [*candidates(rows, role, schedules is not None)]
    others = as_fitted(others, name) if any(isinstance(one.law, SharedTokens) for one in every) else {}
    for candidate in track(every, f"fitting laws to {name}"):
        try:
            candidate = add_corpus_prior(candidate, frame, others, name, seed)
            needed = schedules if candidate.law.needs_schedules else None
            # With a prior on every parameter searches agree; on many rows each costs more and finds the same.
            starts = STARTS if len(frame) <= MANY_ROWS else STARTS // 2
            training = training_rows(candidate.law, paired, name, None, needed)
            sourced = with_source(training, paired, None, seed, starts, candidate.restraint)
            training = sourced.training
            # Each law keeps its own rows; where they stand among the common ones lets all be judged by the same
            # rollouts.
            at = place.reindex(training.frame.index)
            if at.isna().any():
                raise FitError("it reads rows that the others do not.")
            options = Options.build(
                training.law,
                starts=starts,
                seed=seed,
                restraint=candidate.restraint(training, sourced.known),
            )
            fitted = fit_rows(training, options, base=base, provenance=provenance)
            fits.append((candidate, fitted, at.to_numpy(dtype=int)))
            if sourced.fit is not None:
                sources[fitted.law.spec] = sourced.fit
        except (CptlawError, np.linalg.LinAlgError) as error:
            skipped[candidate.law.spec] = str(error)
    if not fits:
        raise FitError(f"no law can be fitted to the {len(frame)} rows of {name!r}: " + reasons_in_words(skipped))
    rows = replace(rows, findings=(*rows.findings, *corpora_used(candidate for candidate, _, _ in fits)))
    result = _averaged(rows, fits, sources=sources, skipped=skipped, table=together, name=name, provenance=provenance)
    # Runs on other corpora of the table are nearer than other studies.
    return result if others else _with_study_prior(result, rows, together, about)


def _with_study_prior(fit: Average, rows: Chosen, table: Runs, about: StudyPrior | None) -> Average:
    """Return the average with what other studies say of CPT from as few runs, where they can say it."""
    known = {"n_params", "ptpp", "tokens"} <= set(fit.data.columns)
    if not rows.is_cpt or fit.role == "other" or fit.n_runs > MANY or not known:
        return fit
    if fit.data[["n_params", "ptpp", "tokens"]].isna().any(axis=None):
        return fit
    prior = about or StudyPrior()
    evals = {table.role(name): name for name in table.evals}
    if prior.novelty is None and {"source", "target"} <= set(evals):
        source, target = (measured_bases(table.base_losses(evals[role])) for role in ("source", "target"))
        both = source.merge(target, on=["n_params", "ptpp"], suffixes=("_source", "_target"))
        if len(both):
            prior = replace(prior, novelty=float(np.log(both["loss_target"] / both["loss_source"]).mean()))
    told = f"of a shift of kind {prior.shift}" if prior.shift else "of shifts of any kind, for none was told"
    leave = "leaves" if fit.n_runs == 1 else "leave"
    note = Finding(
        "info",
        "studies-as-prior",
        f"{counted(fit.n_runs, 'run')} {leave} open much that studies of others have seen {told}: what those say "
        "counts as a prior, less with every run.",
        "Say what the new text is; more runs of your own count more than any study.",
        remedy=Remedy("shift", prior.shift or "language"),
    )
    return replace(fit, study_prior=prior, findings=by_severity([*fit.findings, note]), _cache={})


def refuse_untrained(table: Runs, rows: Chosen, where: str | None) -> None:
    """Refuse a table that counts steps where no law can read them, or has no row with tokens."""
    if not rows.is_curves and "tokens" not in rows.frame.columns and "step" in rows.frame.columns:
        raise FitError(
            f"{table.label} counts steps and no tokens. Say how many a step trains on, as in --columns "
            f"batch_tokens=2M (columns= in the library), or name the column of the tokens: --columns tokens=NAME. Laws "
            f"of loss curves read steps; they need the schedules (--schedules)."
        )
    if not ((rows.is_curves or "tokens" in rows.frame.columns) and trained(rows.frame).any()):
        name, kept = str(rows.frame["eval"].iloc[0]), "" if where is None else f" that answers {where!r}"
        raise FitError(f"no row of {name!r}{kept} has tokens above 0: law auto needs a run, in column tokens.")


def reasons_in_words(skipped: Mapping[str, str]) -> str:
    """Return why laws cannot be fitted, a reason once with the laws that it holds for."""
    laws: dict[str, list[str]] = {}
    for law, reason in skipped.items():
        laws.setdefault(reason, []).append(law)
    return " | ".join(f"{', '.join(names)}: {reason}" for reason, names in laws.items())


def _averaged(
    rows: Chosen,
    fits: list[tuple[Candidate, LawFit, Places]],
    *,
    sources: Mapping[str, LawFit],
    skipped: dict[str, str],
    table: Runs,
    name: str,
    provenance: Provenance,
) -> Average:
    frame = rows.frame
    adapted = frame[trained(frame)]
    along = directions(adapted)
    folds = rollouts(frame, along) if len(fits) > 1 else []  # they say which law is ahead
    judged = track(fits, f"weighing laws of {name}")
    errors = np.array([rollout_errors(fit, at, folds) for _, fit, at in judged])
    errors = errors.reshape(len(fits), len(folds))
    # A rollout says which law is ahead only where all were in it; one that few can join is left out, not they.
    if len(folds) and not np.isfinite(errors).all(axis=0).any():
        stays = _in_most_rollouts(errors)
        few = [fit.law.spec for (_, fit, _), kept in zip(fits, stays, strict=True) if not kept]
        skipped |= dict.fromkeys(few, "no rollout of these rows can be fitted with so many parameters.")
        fits, errors = [one for one, kept in zip(fits, stays, strict=True) if kept], errors[stays]
    common = np.isfinite(errors).all(axis=0)
    folds, errors = [fold for fold, stays in zip(folds, common, strict=True) if stays], errors[:, common]
    reach = np.array([fold.reach for fold in folds]).reshape(len(folds), len(along))
    share = np.array([candidate.share_of(fit) for candidate, fit, _ in fits])
    if all(candidate.tight_priors for candidate, _, _ in fits):
        # Of models from scratch alone: the few forms for CPT are taken in because they err on two sides.
        share = share * left_by_rollouts(errors)
    scores = RolloutScores(share, errors, reach)
    weight = scores.weights(np.zeros((1, len(along))))[0]
    order = np.argsort(-weight, kind="stable")
    scores = RolloutScores(scores.share[order], scores.error[order], scores.reach)
    # Geometric, as the weights count errors: a rollout far out must not decide alone.
    mean = np.exp(np.log(np.maximum(errors, 1e-12)).mean(axis=1)) if len(folds) else np.full(len(fits), np.nan)
    members = tuple(Member(fits[i][1], float(weight[i]), float(mean[i])) for i in order)
    of_source = [sources[member.fit.law.spec] for member in members if member.fit.law.spec in sources]
    result = Average(
        on=name,
        role=table.role(name),
        members=members,
        scores=scores,
        folds=tuple(folds),
        data=_inputs_and_losses(adapted, any(fit.law.needs_schedules for _, fit, _ in fits)),
        base=table.base_losses(name),
        findings=by_severity(
            [*rows.findings, *design_findings(rows, adapted), *_row_findings(members), *_unread_factors(members)]
        ),
        provenance=provenance,
        skipped=skipped,
        # Base models are known however the rows are chosen.
        sources=tuple(replace(fit, base=table.base_losses(fit.on)) for fit in of_source),
    )
    left_out = rows.of_undertrained
    if not len(left_out):
        return result
    # Rows that are left out for the forecasts of others still correct those of their own base models.
    return replace(result, undertrained=undertrained_bases(left_out, result.predict(left_out)), _cache={})


def _inputs_and_losses(rows: pd.DataFrame, steps: bool) -> pd.DataFrame:
    """Return what a fit keeps of its rows: run, inputs, with steps where a law reads schedules, shares and loss."""
    inputs = (*INPUTS, "step") if steps else INPUTS
    kept = ["run", *(one for one in inputs if one in rows.columns), *mix_columns(rows.columns), "loss"]
    return rows[kept].reset_index(drop=True)


def _in_most_rollouts(errors: Array) -> NDArray[np.bool_]:
    """Return which laws joined as many rollouts as any, (laws,); all of them where none joined one."""
    count = np.isfinite(errors).sum(axis=1)
    most: NDArray[np.bool_] = (count == count.max()) | (count.max() == 0)
    return most


def design_findings(rows: Chosen, adapted: pd.DataFrame) -> Iterator[Finding]:
    """Say what the rows cannot tell, whatever the law."""
    if len(adapted) < FEW_ROWS:
        yield Finding(
            "warning",
            "few-runs",
            f"the eval has {len(adapted)} row{'s' * (len(adapted) > 1)} with tokens: how losses go on from there "
            "is what other studies say, and intervals are wide.",
            "Add runs at another size, budget, rate or mix.",
            data={"rows": len(adapted)},
        )
    if rows.is_cpt and levels(adapted, "ptpp") == 2:
        yield Finding(
            "warning",
            "two-budgets",
            "two pre-training budgets do not show how losses go on to a third: what other studies say does.",
            "Runs at a third budget would show it.",
        )
    for name in ("n_params", "ptpp"):
        if levels(adapted, name) == 1:
            yield Finding(
                "info",
                "one-level",
                f"all rows have one {name}, {input_text(name, float(adapted[name].iloc[0]))}: what it changes "
                "joins the constant, and forecasts elsewhere rest on priors.",
                f"Runs at another {name} would show it.",
            )


def _row_findings(members: tuple[Member, ...]) -> list[Finding]:
    """Return the findings about the rows themselves, which are the same whichever law reads them."""
    return [one for one in members[0].fit.findings if one.code in OF_ROWS]


def _unread_factors(members: tuple[Member, ...]) -> list[Finding]:
    """Return the factors that move the loss and that no law of weight reads."""
    heavy = [member.fit for member in members if member.weight >= HEAVY] or [members[0].fit]
    if not all(any(one.code == "unread-factor" for one in fit.findings) for fit in heavy):
        return []
    return [one for one in heavy[0].findings if one.code == "unread-factor"]
