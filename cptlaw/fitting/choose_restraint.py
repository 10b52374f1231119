"""Restraint chosen by rollout: fit the lower levels of the fitting data and see what forecasts the higher ones best.

A freer law always fits better and often forecasts worse. Nothing but the rows that are fitted is looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.checking.cuts import apart, cuts, of_whole_runs
from cptlaw.errors import FitError
from cptlaw.findings import Finding
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws.base import Law, Role
from cptlaw.laws.calculus import Array
from cptlaw.learned.priors import learned_priors
from cptlaw.solving.options import Options
from cptlaw.solving.restraint import Prior, Restraint
from cptlaw.solving.student import t_quantile
from cptlaw.solving.training_rows import TrainingRows

TIES = (("alpha", "beta"), ("alpha_N", "alpha_D"))
DIRECTIONS = ("flops", "tokens_per_param", "ptpp", "n_params")
SHARES = (0.4, 0.5, 0.6, 0.7, 0.8)  # of the runs that a rollout fits, as far as levels allow
CURVE_SHARES = (0.4, 0.6, 0.8)  # of the steps of loss curves
SPARE = 2  # points that a rollout fits beyond the free parameters of the least restrained candidate
STARTS = 16
LEVEL = 0.9  # one-sided level at which a candidate is shown to forecast worse than the best
FLOOR = 1e-5  # log error below which forecasts are equally good


@dataclass(frozen=True)
class CandidateRestraint:
    """A restraint that is offered: the user's own and what is added to it."""

    name: str
    restraint: Restraint


@dataclass(frozen=True, eq=False)
class LevelCut:
    """Runs at the lower levels of one direction, which are fitted, and at the higher ones, which are forecast."""

    direction: str
    label: str
    fit: NDArray[np.bool_]
    test: NDArray[np.bool_]


def candidates(law: Law, own: Restraint, lowest_loss: float, role: Role = "target") -> list[CandidateRestraint]:
    """Return the restraints on offer, the one to prefer first.

    Parameters
    ----------
    own
        The user's restraint. It is part of every candidate; parameters that it names are left as they are.
    lowest_loss
        The lowest fitted loss, the unit of the floor.
    """
    # What the user says of a parameter is not to be bettered by a choice.
    taken = {*own.fixed, *own.bounds, *own.priors, *(name for group in own.tied for name in group)}
    if law.needs_schedules:
        return _curve_candidates(law, own, taken)
    tied = tuple(tie for tie in TIES if all(name in law.shapes and name not in taken for name in tie))
    learned = learned_priors(law, lowest_loss, role)
    priors = {name: prior for name, prior in learned.items() if name not in taken and name not in law.derived}

    def add(name: str, ties: bool, weak: bool = False) -> CandidateRestraint:
        joined = (*own.tied, *(tied if ties else ()))
        followers = {name for group in (tied if ties else ()) for name in group[1:]}
        added = {key: prior for key, prior in priors.items() if weak and key not in followers}
        return CandidateRestraint(name, Restraint(own.fixed, joined, own.bounds, {**own.priors, **added}))

    found = []
    if tied and priors:
        found.append(add("tied exponents, weak priors", True, weak=True))
    if tied:
        found.append(add("tied exponents", True))
    if priors:
        found.append(add("weak priors", False, weak=True))
    # The freest comes last: of candidates that forecast alike the most restrained is kept.
    return [*found, add("none", False)]


def _curve_candidates(law: Law, own: Restraint, taken: set[str]) -> list[CandidateRestraint]:
    usual = {name: Prior(*moments) for name, moments in law.usual.items() if name not in taken}
    held = {name: prior.mean for name, prior in usual.items() if law.shapes[name].held}
    found = []
    if held:
        fixed = Restraint({**own.fixed, **held}, own.tied, own.bounds, own.priors)
        values = ", ".join(f"{name} {value:g}" for name, value in held.items())
        found.append(CandidateRestraint(f"{values} held", fixed))
    if usual:
        found.append(
            CandidateRestraint("weak priors", Restraint(own.fixed, own.tied, own.bounds, {**own.priors, **usual}))
        )
    return [*found, CandidateRestraint("none", own)]


def rollouts(frame: pd.DataFrame, least: int, curves: bool = False) -> list[LevelCut]:
    """Cut the runs into lower and higher levels along each direction in which people extrapolate.

    Parameters
    ----------
    frame
        The fitted rows. Whole runs are cut: the level of a run is its highest.
    least
        Fewest rows to fit.
    curves
        The rows are loss curves. They are extrapolated in two directions: to schedules that were not run (one run is
        left out at a time), and to later steps (the first 40, 60 and 80 % of the longest run's are fitted).
    """
    if curves:
        return _curve_rollouts(frame, least)
    found: list[LevelCut] = []
    for direction in DIRECTIONS:
        values = _direction(frame, direction)
        if values is None:
            continue
        level = of_whole_runs(np.log(values.to_numpy(dtype=float)), frame["run"].astype(str).to_numpy())
        edges = apart(level)
        for last, fit in cuts(level, edges, SHARES):
            if fit.sum() < least or any(np.array_equal(fit, other.fit) for other in found):
                continue
            found.append(LevelCut(direction, f"{direction} above {np.exp(edges[last]):.3g}", fit, ~fit))
    return found


def _curve_rollouts(frame: pd.DataFrame, least: int) -> list[LevelCut]:
    if not {"run", "step"} <= set(frame.columns):
        return []
    run, step = frame["run"].astype(str).to_numpy(), frame["step"].to_numpy(dtype=float)
    names = list(dict.fromkeys(run))
    # With two curves, leaving one out leaves a schedule to extrapolate from, and none to compare with.
    cuts = [("run", f"run {name}", run != name) for name in names if len(names) > 2]
    # Steps count from the start of their phase; all of pre-training lies before CPT.
    later = (frame["phase"].astype(str) == "cpt").to_numpy() if "phase" in frame.columns else np.ones(len(frame), bool)
    if not later.any():
        later = ~later
    last = step[later].max()
    cuts += [("step", f"steps above {share * last:g}", ~later | (step <= share * last)) for share in CURVE_SHARES]
    found = []
    for direction, label, fit in cuts:
        if fit.sum() >= least and (~fit).sum() >= SPARE:
            found.append(LevelCut(direction, label, fit, ~fit))
    return found


def _direction(frame: pd.DataFrame, name: str) -> pd.Series | None:
    if name in ("flops", "tokens_per_param"):
        if "tokens" not in frame.columns or "n_params" not in frame.columns:
            return None
        size, tokens = frame["n_params"].astype(float), frame["tokens"].astype(float)
        values = 6.0 * size * tokens if name == "flops" else tokens / size
    elif name in frame.columns:
        values = frame[name].astype(float)
    else:
        return None
    return values.reset_index(drop=True) if bool((values > 0).all()) else None


def choose(training: TrainingRows, options: Options) -> tuple[Options, Finding]:
    """Choose a restraint for these rows.

    Every candidate forecasts the same rollouts. Its score is the mean over rollouts of the log of the root mean square
    log error, so that a rollout counts the same however large its errors are. The most restrained candidate is kept
    unless another one is ahead of it by more than luck explains: short rollouts cannot justify a freer fit by a little.

    Returns
    -------
    options
        With the chosen restraint, and the account of the choice as ``rollout``.
    finding
        What was chosen and why.
    """
    frame, own = training.frame.reset_index(drop=True), options.restraint
    training = replace(training, frame=frame)
    offered = candidates(training.law, own, float(frame["loss"].min()), training.role)
    size = max(len(candidate.restraint.groups(training.law)) for candidate in offered)
    folds = rollouts(frame, size + SPARE, training.law.correlated_along is not None)
    errors = np.full((len(offered), len(folds)), np.nan)
    for i, candidate in enumerate(offered):
        for j, fold in enumerate(folds):
            fitted = _fit(training, fold, candidate, options)
            if fitted is not None:
                errors[i, j] = np.sqrt(np.mean(_errors(fitted, frame[fold.test]) ** 2))
    # Rollouts that the freest candidate cannot be fitted in would favour it by leaving out what it fails at.
    judged = np.isfinite(errors).all(axis=0)
    folds = [fold for fold, kept in zip(folds, judged, strict=True) if kept]
    errors = errors[:, judged]
    if len(offered) == 1:
        return options, Finding("info", "restraint", "the restraint is as given: there is nothing to offer beyond it.")
    if not folds:
        # Where data is shortest what other studies say is needed most.
        return replace(options, restraint=offered[0].restraint), Finding(
            "info",
            "restraint",
            f"{offered[0].name}, the preferred restraint: no rollout can be fitted that would say otherwise.",
            "Rollouts need three or more levels of size, compute, tokens per parameter or ptpp, or loss curves.",
        )
    log_error = np.log(np.maximum(errors, FLOOR))
    # Of logarithms, so that a rollout counts the same however large its errors are.
    score = log_error.mean(axis=1)
    groups = np.unique([fold.direction for fold in folds], return_inverse=True)[1]
    ahead = score[0] - score
    # The best of many alternatives looks good by chance, so that each must pass a stricter test.
    margin = np.array([_noise_margin(row, groups, len(offered) - 1) for row in log_error - log_error[0]])
    proven = np.flatnonzero(ahead > margin)
    chosen = int(proven[score[proven].argmin()]) if len(proven) else 0
    record = {
        "chosen": offered[chosen].name,
        "own": own.to_dict(),
        "rollouts": [
            {"direction": f.direction, "label": f.label, "n_fit": int(f.fit.sum()), "n_test": int(f.test.sum())}
            for f in folds
        ],
        "candidates": [
            {
                "name": candidate.name,
                "restraint": candidate.restraint.to_dict(),
                "score": float(np.exp(score[i])),
                "ahead": float(ahead[i]),
                "noise_margin": float(margin[i]),
                "errors": [float(error) for error in errors[i]],
            }
            for i, candidate in enumerate(offered)
        ],
    }
    finding = Finding(
        "info",
        "restraint",
        f"chosen by {len(folds)} rollouts: {offered[chosen].name}, which misses by {np.exp(score[chosen]):.2%} "
        f"(none: {_score_of(offered, score, 'none'):.2%}).",
        "All candidates and scores are under settings.rollout of the fit's file; --restraint none turns this off.",
    )
    return replace(options, restraint=offered[chosen].restraint, rollout=record), finding


def _score_of(offered: list[CandidateRestraint], score: Array, name: str) -> float:
    return float(np.exp(score[[candidate.name for candidate in offered].index(name)]))


def _noise_margin(difference: Array, groups: NDArray[np.int_], alternatives: int) -> float:
    """Return by how much a candidate may be ahead of the preferred one by noise alone, in mean log error.

    Parameters
    ----------
    difference
        Log error of the candidate minus that of the preferred one, per rollout.
    groups
        Number of the direction of each rollout: rollouts of one direction count as one observation, unless there is
        only one direction.
    alternatives
        How many candidates could be ahead by chance.
    """
    count = int(groups.max()) + 1
    if count == 1:
        groups, count = np.arange(len(groups)), len(groups)
    if count == 1:
        return float("inf")
    sums = np.bincount(groups, weights=difference - difference.mean()).astype(float)
    error: float = float(np.sqrt(np.sum(sums**2) * count / (count - 1))) / len(difference)
    # Two or three directions may agree by accident; then the scatter of single rollouts says how little that means.
    error = max(error, float(np.std(difference, ddof=1)) / len(difference) ** 0.5)
    quantile: float = t_quantile(1 - 2 * (1 - LEVEL) / max(alternatives, 1), count - 1)
    return float(quantile * error)


def _fit(training: TrainingRows, fold: LevelCut, candidate: CandidateRestraint, options: Options) -> Fit | None:
    """Fit a candidate to the lower levels; None where these rows cannot determine the law."""
    lower = replace(training, frame=training.frame[fold.fit].reset_index(drop=True)).chosen()
    settings = replace(options, restraint=candidate.restraint, starts=min(STARTS, options.starts))
    try:
        return fit_rows(lower, settings)
    except FitError:
        return None


def _errors(fitted: Fit, rows: pd.DataFrame) -> Array:
    errors: Array = np.log(fitted.predict(rows)) - np.log(rows["loss"].to_numpy(dtype=float))
    return errors
