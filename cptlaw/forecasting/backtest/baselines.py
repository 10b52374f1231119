"""Forecasts without a law, which every law must beat: the nearest measured run, budget, and the largest scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from cptlaw.fitting.checking.distance import directions_of, scaled
from cptlaw.laws.calculus import Array

INPUTS = ("n_params", "tokens", "replay", "ptpp", "lr_peak")
ALIKE = (*INPUTS, "lr_schedule", "domain")  # in which runs must agree, but for what is decided, to be alternatives
FAR = 1e6  # weight of a direction that comes before all others

Baseline = Callable[[pd.DataFrame, pd.DataFrame], Array]


def nearest_run(fitted: pd.DataFrame, asked: pd.DataFrame, first: tuple[str, ...] = ()) -> Array:
    """Return the losses of the fitted rows nearest to those asked for, (n,), ratios of inputs counting alike."""
    fitted = fitted[fitted["tokens"] > 0] if "tokens" in fitted.columns else fitted
    known = [one for one in INPUTS if one in fitted.columns and one in asked.columns and fitted[one].notna().all()]
    along = [one for one in directions_of(known) if len(one.powers) == 1]
    apart = np.zeros((len(asked), len(fitted)))
    for direction in along:
        gap = scaled(fitted, asked, direction)[:, None] - scaled(fitted, fitted, direction)[None, :]
        apart += np.nan_to_num(gap) ** 2 * (FAR if direction.name in first else 1.0)
    losses = fitted["loss"].to_numpy(dtype=float)
    # Repeats at the same place are averaged.
    close = apart <= apart.min(axis=1, keepdims=True) + 1e-9
    values: Array = (close @ losses) / close.sum(axis=1)
    return values


def nearest_budget(fitted: pd.DataFrame, asked: pd.DataFrame) -> Array:
    """Return the loss of the nearest row at the nearest pre-training budget."""
    return nearest_run(fitted, asked, ("ptpp",))


def largest_scale(fitted: pd.DataFrame, asked: pd.DataFrame) -> Array:
    """Return the loss of the nearest row at the largest measured size: its ranking is what most people plan by."""
    if "n_params" not in fitted.columns:
        return nearest_run(fitted, asked)
    # Which option is best at the largest measured size is taken for the answer at the next.
    largest = fitted[fitted["n_params"] == fitted["n_params"].max()]
    return nearest_run(largest, asked.assign(n_params=float(largest["n_params"].iloc[0])))


def have_budgets(fitted: pd.DataFrame, asked: pd.DataFrame) -> bool:
    """Whether rows tell budgets apart, so that one is the nearest."""
    return "ptpp" in fitted.columns and pd.concat([fitted, asked])["ptpp"].nunique() > 1


BASELINES: dict[str, Baseline] = {
    "nearest-run": nearest_run,
    "nearest-budget": nearest_budget,
    "largest-scale": largest_scale,
}
