"""Fit one law to a table: rows, what the source and other studies say, and search."""

from __future__ import annotations

from dataclasses import replace

from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.auto.candidates import Candidate
from cptlaw.fitting.auto.fit_auto import STARTS
from cptlaw.fitting.auto.other_corpora import CorpusPrior, add_corpus_prior, as_fitted, by_corpus, corpora_used
from cptlaw.fitting.auto.rows import Chosen, main_kind, why_cpt
from cptlaw.fitting.auto.under_trained import without_under_trained
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.from_source import usual, with_source
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.options import HowToFit, Options
from cptlaw.fitting.solving.origin import provenance_of
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows, training_rows
from cptlaw.laws import Law
from cptlaw.laws.shared_tokens import SharedTokens
from cptlaw.runs import Runs

TIGHT_PRIORS = ("chinchilla", "kaplan")  # laws of models from scratch, whose rows err together however many they are


def fit_one(chosen: Law, table: Runs, on: str, where: str | None, how: HowToFit) -> LawFit:
    """Return the fit of one law; see `cptlaw.fit`."""
    seed, plain, starts = how.get("seed", 0), how.get("restraint") == "none", how.get("starts")
    everything, hears = table, isinstance(chosen, SharedTokens) and not plain
    # Of one kind, as law auto hears them: runs of another vocabulary say nothing here.
    others = by_corpus(main_kind(table, where)[0], on, where)[1] if hears else {}
    table, _ = by_corpus(table, on, where)
    training = training_rows(chosen, table, on, where, how.get("schedules"))
    if not plain and reads_priors(chosen):
        training, table = without_undertrained_rows(training, table, where)
    candidate = Candidate(chosen, tight_priors=chosen.name in TIGHT_PRIORS)
    candidate = add_corpus_prior(candidate, training.frame, as_fitted(others, training.on), training.on, seed)
    if isinstance(candidate, CorpusPrior):
        findings = (*training.findings, *corpora_used([candidate]))
        training = replace(training, law=candidate.law.for_rows(training.frame), findings=findings)
    of_source = usual if plain else lambda rows: with_priors(rows, Restraint(), candidate) or usual(rows)
    from_source = with_source(training, table, where, seed, None if plain else STARTS, of_source)
    training, chosen = from_source.training, from_source.training.law
    given = Restraint.build(chosen, how.get("fix"), how.get("tie"), how.get("bound"), how.get("prior"))
    training = training.chosen()
    informed = given.with_known(chosen, from_source.known)
    learned = None if plain else with_priors(training, informed, candidate)
    restraint = given.with_usual_priors(chosen, training.role, from_source.known) if learned is None else learned
    if starts is None and learned is not None and set(learned.priors) >= {one[0] for one in learned.groups(chosen)}:
        starts = STARTS  # with a prior on every parameter, searches agree
    options = Options.build(chosen, how.get("delta"), starts, seed, restraint)
    fitted = fit_rows(
        training, options, base=table.base_losses(training.on), provenance=provenance_of(everything, training.on, where)
    )
    if learned is None:
        return fitted
    added = tuple(name for name in learned.priors if name not in informed.priors)
    told = "corpora and " if isinstance(candidate, CorpusPrior) else ""
    note = Finding(
        "info",
        "learned-priors",
        f"what other {told}studies say of {', '.join(added)} is added as weak priors, as law auto does.",
        "restraint none fits the rows alone.",
    )
    return replace(fitted, learned=added, findings=by_severity([*fitted.findings, note]), _cache={})


def without_undertrained_rows(training: TrainingRows, table: Runs, where: str | None) -> tuple[TrainingRows, Runs]:
    """Return rows and table without models that were trained too briefly for any law, as law auto leaves them out."""
    rows = table.on(training.on)
    rows = rows if where is None else rows.where(where)
    is_cpt = why_cpt(table, rows.without_empty_columns().frame) is not None
    kept = without_under_trained(Chosen(rows, is_cpt, ()), training.role)
    left = training.frame[training.frame.index.isin(kept.frame.index)]
    if len(left) == len(training.frame) or left.empty:
        return training, table
    if kept.pretraining:
        known = table.frame["n_params"] * table.frame["ptpp"] >= kept.pretraining
        table = replace(table, frame=table.frame[known.to_numpy()])
    return replace(training, frame=left, findings=(*training.findings, *kept.findings)), table


def reads_priors(law: Law) -> bool:
    """Say whether what other studies say is added to a law that is named.

    Laws of base models, and those fitted on the rows that they are tested on, stay as they are.
    """
    return not law.on_base_models and law.forecasts


def with_priors(training: TrainingRows, given: Restraint, candidate: Candidate) -> Restraint | None:
    """Return a restraint with priors on all that it leaves open; None for laws of which nothing is known."""
    law = training.law
    if not reads_priors(law):
        return None
    known, open_ = candidate.restraint(training), set(law.parameters) - given.named
    weak = {name: prior for name, prior in known.priors.items() if name in open_}
    pairs = {pair: alike for pair, alike in known.correlations.items() if set(pair) <= set(weak)}
    if not weak:
        return None
    return replace(
        given,
        priors={**given.priors, **weak},
        correlations={**given.correlations, **pairs},
        along_tokens=known.along_tokens,
        noise=known.noise,
    )
