"""Law auto and the baselines in a comparison: what they forecast in folds that other laws are judged in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.auto.fit_auto import fit_auto
from cptlaw.fitting.solving.components import base_models
from cptlaw.runs import Runs
from cptlaw.schedules import SchedulesLike


@dataclass(frozen=True)
class NamedForecast:
    """What stands where a law is expected: a forecast without an equation of its own.

    Attributes
    ----------
    spec
        Its name.
    forecasts
        Whether it takes part in weights; baselines do not.
    """

    spec: str
    forecasts: bool


def fit_auto_in_fold(
    table: Runs, on: str, fitted: pd.DataFrame, seed: int, schedules: SchedulesLike | None = None
) -> Average:
    """Fit law auto to what a fold fits, with laws of schedules where schedules are given."""
    frame = table.frame
    seen = pd.MultiIndex.from_frame(fitted[["run", "tokens"]].astype({"run": str}))
    rows = pd.MultiIndex.from_frame(frame[["run", "tokens"]].astype({"run": str}))
    # The other eval's rows go with the fold's, and base models' losses with those of their budget.
    kept = rows.isin(seen)
    keys = [name for name in ("n_params", "ptpp") if name in frame.columns and name in fitted.columns]
    if keys:
        known = pd.MultiIndex.from_frame(fitted[keys])
        # Base models of a held-out budget stay out with it: their loss alone would tell most of the forecast.
        kept |= (frame["tokens"] == 0).to_numpy() & pd.MultiIndex.from_frame(frame[keys]).isin(known)
    result = fit_auto(table.keep(np.asarray(kept)), on, seed=seed, schedules=schedules)
    # What a fold tests are other runs, whose schedules are known all the same.
    return result if schedules is None else result.with_schedules(schedules)


def adapted(table: Runs, on: str, where: str | None) -> pd.DataFrame | None:
    """Return the rows of adapted models with their base models, as law auto and the baselines read them; else None."""
    rows = table.on(on)
    rows = rows if where is None else rows.where(where)
    if "tokens" not in rows.frame.columns or not (rows.frame["tokens"] > 0).any():
        return None
    return with_base_models(rows.frame[(rows.frame["tokens"] > 0).to_numpy()])


def with_base_models(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the name of their base model; their run where it is not known."""
    base = base_models(frame)
    return frame.assign(base_model=frame["run"] if base is None else base)
