"""Rates that a question leaves open: those of the fitted runs nearest in size, by one rule for forecasts and plans.

Larger models are run at lower rates as a rule, and a law cannot tell what the size does from what the rate does where
every size has its own: a rate of another size would be a question about a run that nobody would make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.fitting.cached import cached_stat
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit
    from cptlaw.fitting.solving.law_on_rows import LawOnRows

# Pre-training's is the base model's, which exists; the peak of CPT is chosen, where runs of that size had several.
RATES = ("lr_pretrain", "lr_peak")


def at_size(rows: pd.DataFrame, name: str, sizes: Array) -> list[Array]:
    """Return for each size, (n,), the rates of the fitted runs nearest to it; of all runs where it is NaN.

    Between sizes that were run they follow the line through the medians of these, so that no answer jumps where another
    size becomes the nearest.
    """
    rates, places, groups = cached_stat(rows, ("rates", name), lambda: _measured(rows, name))
    if not len(places):
        return [rates] * len(sizes)
    medians = np.array([np.median(one) for one in groups])
    nearest = np.abs(np.log(sizes)[:, None] - places).argmin(axis=1)
    moved = np.exp(np.interp(np.log(sizes), places, np.log(medians)) - np.log(medians)[nearest])
    result = []
    for i, size, factor in zip(nearest, sizes, moved, strict=True):
        if np.isnan(size):
            result.append(rates)
        elif abs(factor - 1.0) < 1e-12:
            result.append(groups[i])
        else:  # to the digits that are printed: the same rate whoever types it again
            result.append(np.array([float(f"{factor * rate:.3g}") for rate in groups[i]]))
    return result


def _measured(rows: pd.DataFrame, name: str) -> tuple[Array, Array, list[Array]]:
    """Return the rates of fitted runs, the logs of their sizes, and the rates of each size; no size where not known."""
    known = rows[name].notna()
    if "tokens" in rows.columns:
        known &= rows["tokens"] > 0  # base models have no rate, and a fit may have filled one in
    rates = rows.loc[known, name].to_numpy(dtype=float)
    sizes = rows.loc[known, "n_params"].to_numpy(dtype=float) if "n_params" in rows.columns else np.zeros(0)
    places, back = np.unique(np.log(sizes), return_inverse=True)
    return rates, places, [rates[back == i] for i in range(len(places))]


def with_rates(fit: Fit | LawOnRows, frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the rates that they leave open and the fit's law reads.

    Pre-training's is the median of those at this size; the peak the one at which the fit's loss is lowest, as a plan
    takes it.
    """
    rows = fit.data
    for name in RATES:
        if name not in rows.columns or rows.empty or name not in fit.law.inputs:
            continue
        own, sizes = (
            np.asarray(frame[one], dtype=float) if one in frame.columns else np.full(len(frame), np.nan)
            for one in (name, "n_params")
        )
        if not np.isnan(own).any() and name in frame.columns:
            continue
        values = at_size(rows, name, sizes)
        taken = _best(fit, frame, values) if name == "lr_peak" else [float(np.median(one)) for one in values]
        frame = frame.assign(**{name: np.where(np.isnan(own), taken, own)})
    return frame


def _best(fit: Fit | LawOnRows, frame: AnyRows, values: list[Array]) -> Array:
    """Return of each row's rates the one at which the forecast is lowest, (n,)."""
    levels = [np.unique(one) for one in values]
    most = max(map(len, levels), default=0)
    rates = np.array([np.resize(one, most) for one in levels]).reshape(len(levels), most)
    if most < 2:
        return rates.ravel()
    with np.errstate(all="ignore"):
        losses = [fit.predict(frame.assign(lr_peak=rates[:, j])) for j in range(most)]
    lowest = np.where(np.isnan(losses), np.inf, losses).argmin(axis=0)
    best: Array = rates[np.arange(len(rates)), lowest]
    return best
