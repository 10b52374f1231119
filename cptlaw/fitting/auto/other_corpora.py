"""What the other corpora of a table say of a law: priors for a corpus that has few runs of its own.

Runs on several corpora from the same base models share much of a law: all that is said of the source loss of base
models, how forgetting goes with size, rate and budget, and what size and tokens are worth on any corpus. The law is
fitted to each of the others; the mean of these fits, with their doubt and with what corpora differ by, is the prior for
the one that is asked about. With many rows of its own it decides itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError, join_names
from cptlaw.findings import Finding
from cptlaw.fitting.auto.candidates import Candidate
from cptlaw.fitting.auto.rows import choose_rows, with_source_rows, without_lone_base_models
from cptlaw.fitting.auto.under_trained import without_under_trained
from cptlaw.fitting.base_models import KEYS
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.curvature import ALIKE, SURE, estimates_and_covariance
from cptlaw.fitting.fit_rows import FEW_STARTS, fit_rows
from cptlaw.fitting.from_source import with_source
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.solving.huber import noise_variance
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.priors import TINY
from cptlaw.fitting.solving.restraint import Prior, Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows, training_rows
from cptlaw.laws.calculus import Array
from cptlaw.laws.shared_tokens import USUAL, SharedTokens, middle_size
from cptlaw.runs import Runs
from cptlaw.runs.where import parse

LEAST_ROWS = 6  # of CPT, from which a corpus is heard
MOST_CORPORA = 6  # that are fitted: those of most rows
# What size and tokens are worth. Of the source loss it is the base models' own, whatever follows; of the target loss
# nothing else is heard of others, for how far CPT goes on a corpus is its own (studies/bench.md).
WORTH = ("E", "F", "A", "g", "a")
DIFFER = 0.25  # of the learned spread between studies, by which corpora of one table differ; amplitudes by all of it


@dataclass(frozen=True)
class CorpusPrior(Candidate):
    """A law with its restraint, which fits of the law to other corpora narrow.

    Parameters
    ----------
    others
        The fits to both losses of other corpora.
    corpora
        Which corpora these are.
    """

    others: tuple[LawFit, ...] = ()
    corpora: tuple[str, ...] = ()

    def restraint(self, training: TrainingRows, known: Restraint | None = None) -> Restraint:
        """Return ties, what the source loss tells, and what other corpora and other studies say of the rest."""
        plain = super().restraint(training, known)
        of_source = training.role == "source"
        fits = [fit for fit in self.others if fit.role == training.role]
        names = [name for name in plain.priors if of_source or name in WORTH]
        names = [name for name in names if all(name in fit.problem().free for fit in fits)]
        if not fits or not names:
            return plain
        kinds = tuple("log" if plain.priors[one].scale == "share" else plain.priors[one].scale for one in names)
        linear = np.array([name in training.law.amplitudes for name in names])
        rows = training.frame[trained(training.frame)]
        loss = np.log(rows["loss"].to_numpy(dtype=float))
        of_corpus = linear & ~np.isin(names, WORTH if of_source else ())
        spread = np.array([plain.priors[name].sd for name in names]) * np.where(of_corpus, 1.0, DIFFER)
        # The target losses of another corpus have another level, which amplitudes follow. At one rate far from its own
        # runs a fit may forecast anything, even a loss below zero.
        levels = [
            0.0 if of_source else float(np.median(loss - np.log(np.maximum(fit.predict(rows), TINY)))) for fit in fits
        ]
        mean, covariance = _pooled(fits, names, kinds, spread, [level * linear for level in levels])
        # Three rows leave no residuals; those of other corpora say what laws miss and seeds differ by here too.
        around = [noise_variance(fit.residuals(), fit.n_points - fit.rank) for fit in fits]
        noise = float(np.exp(0.5 * np.mean(np.log(around))))
        return replace(_with_priors(plain, names, kinds, mean, covariance), noise=noise)


def _with_priors(
    plain: Restraint, names: Sequence[str], kinds: tuple[str, ...], mean: Array, covariance: Array
) -> Restraint:
    """Return a restraint with a joint prior on some parameters, of a mean and covariance on their scales."""
    sd = np.sqrt(np.diag(covariance))
    alike = ALIKE * covariance / np.outer(sd, sd)
    pairs = [(i, j) for i in range(len(names)) for j in range(i) if abs(alike[i, j]) > SURE]
    told = {
        name: Prior(float(centre if kind == "value" else np.exp(centre)), float(width), kind)
        for name, centre, width, kind in zip(names, mean, sd, kinds, strict=True)
    }
    return replace(
        plain,
        priors={**plain.priors, **told},
        correlations={**plain.correlations, **{(names[i], names[j]): float(alike[i, j]) for i, j in pairs}},
    )


def _pooled(
    fits: Sequence[LawFit], names: Sequence[str], kinds: tuple[str, ...], spread: Array, offsets: Sequence[Array]
) -> tuple[Array, Array]:
    """Return the mean of parameters over fits, (k,), and the covariance with which a further corpus has them, (k, k).

    Parameters
    ----------
    fits, names, kinds
        Of which parameters, on which scales.
    spread
        Standard deviations between corpora, (k,).
    offsets
        What is added to the parameters of each fit, (k,) each.
    """
    precision, pull, sure = np.zeros((len(names), len(names))), np.zeros(len(names)), []
    for fit, offset in zip(fits, offsets, strict=True):
        at, slopes, of_fit = estimates_and_covariance(fit, names, kinds)
        doubt = slopes @ of_fit @ slopes.T
        weight = np.linalg.inv(doubt + np.diag(spread**2))
        precision, pull = precision + weight, pull + weight @ (at + offset)
        sure.append(1.0 / (np.diag(doubt) + spread**2))
    together = np.linalg.inv(precision)
    # Fits of one law may err alike, and all hold what other studies say: together they are as sure as one of those
    # that tell a parameter. How many these are is Kish's count, in which fits that hardly see it have no part.
    count = np.sqrt(np.sum(sure, axis=0) ** 2 / np.sum(np.square(sure), axis=0))
    return together @ pull, np.outer(count, count) * together + np.diag(spread**2)


def by_corpus(table: Runs, on: str, where: str | None) -> tuple[Runs, dict[str, Runs]]:
    """Return the runs with the base models that belong to the chosen corpus, and by name the runs on the others.

    Where the rows of a filter are of one of several domains, base models without a domain are of that one too, those of
    other domains are left out if it has its own, and rows of the others are those that the filter would keep if they
    were of that domain, under the same schedules. Elsewhere the runs are as given.
    """
    frame = table.frame
    if where is None or not {"domain", "tokens"} <= set(frame.columns) or frame["domain"].nunique() < 2:
        return table, {}
    condition, adapted = parse(where), (frame["tokens"] != 0).to_numpy()
    chosen = frame.loc[condition.mask(frame) & adapted, "domain"]
    if chosen.nunique() != 1 or chosen.isna().any():
        return table, {}
    own = str(chosen.iloc[0])
    # A column that base models fill and no run of this corpus does would have to be read of all.
    unsaid = [name for name in USUAL if name in frame.columns and frame.loc[chosen.index, name].isna().all()]
    of_all = (frame["domain"].isna() & ~adapted & frame[unsaid].isna().all(axis=1)).to_numpy()
    alike = condition.mask(frame.assign(domain=own)) & frame.get("n_params", frame["tokens"]).notna().to_numpy()
    if "lr_schedule" in frame.columns:  # of runs under another schedule no law here could tell
        alike &= ~adapted | frame["lr_schedule"].isin(frame.loc[chosen.index, "lr_schedule"].unique()).to_numpy()
    of_eval = (frame["eval"] == table.on(on).frame["eval"].iloc[0]) & (frame["tokens"] > 0)
    asked = frame[alike & of_eval & (frame["domain"] != own)].astype({"domain": str})
    counts = asked.groupby("domain")["loss"].agg(["size", "sum"])
    # Those of most rows; of as many, by their losses, for a name must not decide.
    most = counts[counts["size"] >= LEAST_ROWS].sort_values(["size", "sum"], ascending=False).index[:MOST_CORPORA]
    others = {name: table.keep(alike & (of_all | (frame["domain"] == name).to_numpy())) for name in sorted(most)}
    foreign = ~adapted & (frame["domain"].notna() & (frame["domain"] != own)).to_numpy()
    # Where this corpus has base models of its own, those of others go; but the old text's loss of a base model is the
    # same whatever corpus it stands beside, so that of each model any measurement stays.
    of_old = frame["eval"].isin([name for name in table.evals if table.role(name) == "source"])
    keys = {name: frame[name].where(of_old).fillna(0.0) for name in KEYS if name in frame.columns}
    model = pd.MultiIndex.from_frame(pd.DataFrame({"eval": frame["eval"].astype(str), **keys}))
    measured = model.isin(model[~adapted & ~foreign])
    kept = frame.assign(domain=frame["domain"].where(~of_all, own))[~(foreign & measured)]
    return replace(table, frame=kept), others


def as_fitted(others: Mapping[str, Runs], on: str) -> dict[str, Runs]:
    """Return the rows of other corpora that law auto would fit, of the eval and of the source loss beside it."""
    result = {}
    for name, runs in others.items():
        rows, role = choose_rows(runs, on, None), runs.role(on)
        if trained(rows.frame).sum() >= LEAST_ROWS:
            rows = without_under_trained(without_lone_base_models(rows, role), role)
            result[name] = with_source_rows(runs, rows, None)
    return result


def add_corpus_prior(
    candidate: Candidate, frame: pd.DataFrame, others: Mapping[str, Runs], on: str, seed: int
) -> Candidate:
    """Return a candidate with what the other corpora say of its law, as it is where they say nothing.

    Parameters
    ----------
    frame
        The rows that are fitted.
    others
        The runs on other corpora, by name, as they are fitted.
    on
        The eval.
    """
    if not others or not isinstance(candidate.law, SharedTokens):
        return candidate
    # The law is read at one reference size, and up to one largest size and budget, by all of them.
    whole = candidate.law.for_rows(pd.concat([frame, *(runs.on(on).frame for runs in others.values())]))
    around = middle_size(frame) or whole.around
    law = candidate.law.with_options(around=around, largest=whole.largest, longest=whole.longest)
    plain, fits = replace(candidate, law=law), {}
    for name, runs in others.items():
        with suppress(CptlawError, np.linalg.LinAlgError):  # too little was measured there
            fits[name] = _fitted(plain, runs, on, seed)
    told = [fit for one in fits.values() for fit in one]
    return CorpusPrior(**{**vars(plain), "others": tuple(told), "corpora": tuple(fits)}) if fits else candidate


def corpora_used(candidates: Iterable[Candidate]) -> tuple[Finding, ...]:
    """Say which other corpora candidates hear, if any."""
    names = sorted({name for one in candidates if isinstance(one, CorpusPrior) for name in one.corpora})
    called = join_names([repr(name) for name in names], 3)
    message = f"what the runs on {called} say of the laws is a prior for this corpus."
    advice = "To fit it alone, give a table without the others."
    return (Finding("info", "other-corpora", message, advice, data={"corpora": names}),) if names else ()


def _fitted(candidate: Candidate, runs: Runs, on: str, seed: int) -> list[LawFit]:
    """Return the fits of a law to one corpus: to the eval and, of a target loss, to its source loss."""
    training = training_rows(candidate.law, runs, on)
    sourced = with_source(training, runs, None, seed, FEW_STARTS, candidate.restraint)
    restraint = candidate.restraint(sourced.training, sourced.known)
    options = Options.build(sourced.training.law, starts=FEW_STARTS, seed=seed, restraint=restraint)
    fits = [fit_rows(sourced.training, options, checked=False), sourced.fit]
    return [fit for fit in fits if fit is not None]
