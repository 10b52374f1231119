"""Models trained too briefly for any law: the fewest tokens, where losses lie far off the curve of the others.

A run of few steps spends a large share of them in the warm-up, or at a batch that is too large for it, and ends above
what the other rows forecast of it. Four such rows in eighteen turn every exponent, and each rollout that rests on them.
Base models of a few hundred steps still have a loss near that of any model that has only begun, below what a power of
their tokens makes of it; runs of CPT from them make the law too steep in budget and size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import CptlawError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.auto.candidates import Candidate, middle_of_cpt, middle_of_pre_training
from cptlaw.fitting.auto.rows import Chosen
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.fit_cache import FITS
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.law_fit import LawFit
from cptlaw.fitting.rollouts import distinct_levels, log_errors, refit_parts
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.priors import priors_on
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.units import counted, format_quantity

MOST_SHARE = 1 / 3  # of the rows that may be left out
LEAST_KEPT = 7
FALLS_TO = 0.7  # of the residuals' spread, that of the other rows when they are fitted alone
ABOVE = 2.0  # spreads by which the rows left out lie above that fit on average; below it, of base models
MOST_ROWS = 400  # that are looked at
PROMISED = 1.1 * FALLS_TO  # of the spread, to which it must nearly fall for the others to be fitted alone
STEPS, TOLERANCE = 30, 1e-4  # that tell how far
COUNTED = 3  # parameters that the spread is corrected for: exponent and two amplitudes, the floor having a prior
TO_SPREAD = 1.2533  # standard deviation over mean absolute deviation of normal errors


def without_under_trained(rows: Chosen, role: Role) -> Chosen:
    """Return the rows without those of models trained so briefly that no law fits them.

    Levels are left out from the lowest up, where the spread of the residuals falls to seven tenths without them and
    they lie off the fit of the others by two spreads on average; never more than a third of the rows. Of models from
    scratch levels are tokens per parameter, and those left out lie above the fit; of CPT they are the tokens of
    pre-training of the base models, those left out lie below, and no size or budget is left out as a whole.

    Parameters
    ----------
    rows
        The chosen rows; those of mixes and of loss curves are returned as they are.
    role
        Of the eval.
    """
    if rows.is_cpt:
        return _without_short_pretraining(rows, role)
    frame = rows.frame
    known = {"n_params", "tokens"} <= set(frame.columns)
    if rows.is_curves or rows.of_mixes or not known or len(frame) <= LEAST_KEPT:
        return rows
    ratio = (frame["tokens"] / frame["n_params"]).to_numpy(dtype=float)
    if not (np.isfinite(ratio) & (ratio > 0)).all():
        return rows
    level = np.log(ratio)
    edge = _lowest_kept(rows, level, middle_of_pre_training(), lambda part, kept, above: above)
    kept = level >= edge
    if kept.all():
        return rows
    message = (
        f"left out: {counted(int((~kept).sum()), 'row')} below {np.exp(edge):.3g} tokens per parameter, whose losses "
        "lie far above what the others forecast, as those of runs too short for their warm-up or batch do."
    )
    advice = "To fit them all the same, name a law with restraint none."
    finding = Finding("info", "under-trained", message, advice)
    return rows.without(kept, finding)


def _without_short_pretraining(rows: Chosen, role: Role) -> Chosen:
    frame = rows.frame
    known = {"n_params", "ptpp", "tokens"} <= set(frame.columns)
    if role == "other" or rows.of_mixes or not known or frame[["n_params", "ptpp"]].isna().any(axis=None):
        return rows
    tokens = (frame["n_params"] * frame["ptpp"]).to_numpy(dtype=float)
    if not (tokens > 0).all() or trained(frame).sum() <= LEAST_KEPT:
        return rows

    def below(part: pd.DataFrame, kept: NDArray[np.bool_], above: float) -> float:
        whole, left = part[trained(part)], part[trained(part) & kept]
        gone = any(left[name].nunique() < whole[name].nunique() for name in ("n_params", "ptpp"))
        return -np.inf if gone else -above

    edge = _lowest_kept(rows, np.log(tokens), middle_of_cpt(frame), below)
    kept = np.log(tokens) >= edge
    if kept.all():
        return rows
    least = format_quantity(float(tokens[kept].min()))
    finding = Finding(
        "info",
        "under-trained",
        f"left out: {counted(int((~kept).sum()), 'row')} of base models below {least} tokens of pre-training, whose "
        "losses lie far below what the others forecast, as those of models do that have only begun to learn.",
        "To fit them all the same, name a law with restraint none.",
        remedy=Remedy("law"),
    )
    undertrained = frame[~kept & trained(frame)]
    return replace(rows.without(kept, finding), pretraining=float(tokens[kept].min()), of_undertrained=undertrained)


def _lowest_kept(
    rows: Chosen, level: Array, middle: Candidate, off: Callable[[pd.DataFrame, NDArray[np.bool_], float], float]
) -> float:
    """Return the level from which rows are kept: looked for once, whatever law is then fitted to them.

    Parameters
    ----------
    level
        Of each row, (n,).
    middle
        The law that is fitted to all rows and, from there, to those of the higher levels.
    off
        Of rows, which of them are kept, and by how much the others lie above the fit on average in logs: how far that
        speaks for leaving them out.
    """
    return FITS.fitted(lambda: _lowest(rows, level, middle, off), rows.runs, "under-trained", rows.is_cpt)


def _lowest(
    rows: Chosen, level: Array, middle: Candidate, off: Callable[[pd.DataFrame, NDArray[np.bool_], float], float]
) -> float:
    seen = np.unique(np.linspace(0, len(level) - 1, min(len(level), MOST_ROWS)).round().astype(int))
    frame, level = rows.frame.iloc[seen], level[seen]
    edges = distinct_levels(np.unique(level)) - 1e-9

    def may_go(kept: NDArray[np.bool_]) -> bool:
        enough = kept.mean() >= 1.0 - MOST_SHARE and kept.sum() >= LEAST_KEPT
        return bool(enough and off(frame, kept, 0.0) > -np.inf)

    if len(edges) < 2 or not may_go(level >= edges[1]):  # as of one base model: no fit could say so
        return float(edges[0])
    spread, _, fit = _spread(rows, frame, np.ones(len(frame), dtype=bool), middle)
    lowest = 0
    step = 1
    while lowest + step < len(edges):
        kept = level >= edges[lowest + step]
        if not may_go(kept):
            break
        without, above = np.inf, 0.0
        if fit is None or _promised(fit, frame, kept) <= PROMISED * spread:
            without, above, fit = _spread(rows, frame, kept, middle, fit)
        # Both: rows that only lie high may be a steep law, rows whose absence only helps may be any few.
        if without <= FALLS_TO * spread and off(frame, kept, above) >= ABOVE * without:
            lowest, spread, step = lowest + step, without, 1
        else:
            step *= 2  # of many levels, as along runs, not each is tried
    return float(edges[lowest])


def _promised(fit: LawFit, frame: pd.DataFrame, kept: NDArray[np.bool_]) -> float:
    """Return nearly the spread of the residuals of the rows kept, fitted without the others.

    Mostly it hardly falls, and some steps from the fit to more rows show that for a fifth of what a fit costs. Priors
    count less there, as they do where residuals are smaller.
    """
    law, rows = fit.law, frame[kept]
    loss = rows["loss"].to_numpy(dtype=float)
    problem = Problem(law, law.bind(fit.completed(rows), fit.role), loss, fit.options.restraint)
    c, z = problem.coordinates(fit.params)
    goal = Objective(problem, fit.options.delta, penalty=priors_on(problem, FALLS_TO**2 * fit.prior_weight))
    residual = log_errors(problem, refit_parts(goal, np.concatenate([c, z])[None], STEPS, TOLERANCE))[0]
    return _size(residual)


def _size(residual: Array) -> float:
    """Return the spread of residuals of a fit to their rows."""
    # Mean absolute deviation: one row that is far off must not make the rest look well fitted.
    count = len(residual)
    return TO_SPREAD * float(np.mean(np.abs(residual))) * count / max(count - COUNTED, 1)


def _spread(
    rows: Chosen, frame: pd.DataFrame, kept: NDArray[np.bool_], middle: Candidate, before: LawFit | None = None
) -> tuple[float, float, LawFit | None]:
    """Return the spread of the residuals of a fit to the rows kept, by how much the others lie above it, and the fit.

    The search starts where the fit to more rows ended.
    """
    runs = replace(rows.runs, frame=frame[kept])
    try:
        training = training_rows(middle.law, runs, str(frame["eval"].iloc[0]), None)
        options = Options.build(training.law, starts=2, restraint=middle.restraint(training))
        fit = fit_rows(training, options, checked=False, near=before)
    except (CptlawError, np.linalg.LinAlgError):
        return np.inf, 0.0, before
    with np.errstate(invalid="ignore"):  # of a loss that is forecast below zero nothing is said, so that all rows stay
        above = np.log(frame["loss"].to_numpy(dtype=float)) - np.log(fit.predict(frame))
    return _size(above[kept]), float(np.mean(above[~kept])) if (~kept).any() else 0.0, fit
