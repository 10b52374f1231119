"""Models that were trained too briefly for any law: the fewest tokens per parameter, where losses lie far above.

A run of few steps spends a large share of them in the warm-up, or at a batch that is too large for it, and ends above
what the other rows foretell of it. Four such rows in eighteen turn every exponent, and each rollout that rests on them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.auto.candidates import middle_of_pre_training
from cptlaw.auto.common_rollouts import distinct
from cptlaw.auto.rows import Chosen
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.solving.options import Options
from cptlaw.solving.training_rows import training_rows

MOST_SHARE = 1 / 3  # of the rows that may be left out
LEAST_KEPT = 7
FALLS_TO = 0.7  # of the residuals' spread, that of the other rows when they are fitted alone
ABOVE = 2.0  # spreads by which the rows left out lie above that fit on average
MOST_ROWS = 400  # that are looked at
COUNTED = 3  # parameters that the spread is corrected for: exponent and two amplitudes, the floor having a prior
TO_SPREAD = 1.2533  # standard deviation over mean absolute deviation of normal errors


def without_under_trained(rows: Chosen, role: Role) -> Chosen:
    """Return the rows of models from scratch without those of the fewest tokens per parameter that no law fits.

    Levels are left out from the lowest up, where the spread of the residuals falls to seven tenths without them and
    they lie above the fit of the others by two spreads on average; never more than a third of the rows.

    Parameters
    ----------
    rows
        The chosen rows; those of CPT, of mixes and of loss curves are returned as they are.
    role
        Of the eval.
    """
    frame = rows.frame
    known = {"n_params", "tokens"} <= set(frame.columns)
    if rows.is_cpt or rows.is_curves or rows.of_mixes or not known or len(frame) <= LEAST_KEPT:
        return rows
    ratio = (frame["tokens"] / frame["n_params"]).to_numpy(dtype=float)
    if not (np.isfinite(ratio) & (ratio > 0)).all():
        return rows
    level = np.log(ratio)
    edge = _lowest_kept(rows, level, role)
    kept = level >= edge
    if kept.all():
        return rows
    message = (
        f"{int((~kept).sum())} rows below {np.exp(edge):.3g} tokens per parameter are left out: their losses lie far "
        "above what the others foretell, as those of runs too short for their warm-up or batch do."
    )
    advice = "To fit them all the same, name a law (--law LAW)."
    finding = Finding("info", "under-trained", message, advice)
    return replace(rows, runs=replace(rows.runs, frame=frame[kept]), findings=(*rows.findings, finding))


def _lowest_kept(rows: Chosen, level: Array, role: Role) -> float:
    """Return the level from which rows are kept."""
    seen = np.unique(np.linspace(0, len(level) - 1, min(len(level), MOST_ROWS)).round().astype(int))
    frame, level = rows.frame.iloc[seen], level[seen]
    edges = distinct(np.unique(level)) - 1e-9
    spread = _spread(rows, frame, level >= edges[0], role)[0]
    lowest = 0
    step = 1
    while lowest + step < len(edges):
        kept = level >= edges[lowest + step]
        if kept.mean() < 1.0 - MOST_SHARE or kept.sum() < LEAST_KEPT:
            break
        without, above = _spread(rows, frame, kept, role)
        # Both: rows that only lie high may be a steep law, rows whose absence only helps may be any few.
        if without <= FALLS_TO * spread and above >= ABOVE * without:
            lowest, spread, step = lowest + step, without, 1
        else:
            step *= 2  # of many levels, as along runs, not each is tried
    return float(edges[lowest])


def _spread(rows: Chosen, frame: pd.DataFrame, kept: NDArray[np.bool_], role: Role) -> tuple[float, float]:
    """Return the spread of the residuals of a fit to the rows kept, and by how much the others lie above it."""
    # A bend in the middle of those on offer, so that neither end of them decides what is left out.
    middle = middle_of_pre_training()
    runs = replace(rows.runs, frame=frame[kept])
    try:
        training = training_rows(middle.law, runs, str(frame["eval"].iloc[0]), None)
        fit = fit_rows(training, Options.build(training.law, starts=2, restraint=middle.restraint(training)))
    except (CptlawError, np.linalg.LinAlgError):
        return np.inf, 0.0
    above = np.log(frame["loss"].to_numpy(dtype=float)) - np.log(fit.predict(frame))
    count = int(kept.sum())
    # Mean absolute deviation: one row that is far off must not make the rest look well fitted.
    spread = TO_SPREAD * float(np.mean(np.abs(above[kept]))) * count / max(count - COUNTED, 1)
    return spread, float(np.mean(above[~kept])) if (~kept).any() else 0.0
