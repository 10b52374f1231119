"""Runs that no column tells apart, and all the same in loss: then a setting is missing from the table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from cptlaw.runs.convert import row_codes
from cptlaw.runs.within import LARGE, ONE_SEED, SEEDS_MOST, SEEDS_MOST_OF_LARGE, rounded

# What is measured or counted along a run, and seeds: runs that differ in one alone are to have one loss.
OF_POINTS = ("run", "eval", "loss", "step", "tokens", "flops", "samples", "metric", "n_items", "chance", "lr", "seed")


class AlikeRuns(NamedTuple):
    """Runs alike in every column, of which two differ in loss by more than noise: those that differ most."""

    runs: list[str]
    eval: str
    low: str
    high: str
    lowest: float
    highest: float


def furthest_alike(frame: pd.DataFrame) -> AlikeRuns | None:
    """Return the runs that end with the most different losses though no column tells them apart; None within noise.

    Parameters
    ----------
    frame
        A row a loss, base models and scores left out.

    Examples
    --------
    >>> table = pd.DataFrame({"run": ["a", "b"], "eval": "source", "tokens": 1e6, "replay": 0.0, "loss": [2.0, 2.5]})
    >>> furthest_alike(table)
    AlikeRuns(runs=['a', 'b'], eval='source', low='a', high='b', lowest=2.0, highest=2.5)
    """
    along = next((name for name in ("tokens", "step") if name in frame.columns and frame[name].notna().any()), None)
    order = np.arange(len(frame)) if along is None else np.argsort(frame[along].to_numpy(dtype=float), kind="stable")
    curve = row_codes(frame[["run", "eval"]])
    last = np.zeros(curve.max(initial=-1) + 1, dtype=np.intp)
    last[curve[order]] = order
    ends = frame.iloc[last].reset_index(drop=True)
    settings = ends[[name for name in ends.columns if name not in OF_POINTS or name == "eval"]]
    if "lr" in frame.columns:  # a schedule that no column names
        settings = settings.assign(lr=ends["run"].map(frame.groupby("run", observed=True)["lr"].max()).astype(float))
    if along is not None:
        settings = settings.assign(along=rounded(ends[along]))
    sizes = pd.to_numeric(frame["n_params"], errors="coerce") if "n_params" in frame.columns else pd.Series([np.inf])
    seeds = SEEDS_MOST if sizes.max() < LARGE else SEEDS_MOST_OF_LARGE
    loss = pd.Series(np.log(ends["loss"].to_numpy(dtype=float)), ends.index)
    of_seed = [(settings.assign(seed=ends["seed"]), ONE_SEED)] if "seed" in ends.columns else []
    for columns, noise in [(settings, seeds), *of_seed]:
        alike = row_codes(columns)
        apart = loss.groupby(alike).transform("max") - loss.groupby(alike).transform("min")
        if apart.max() > noise:
            break
    else:
        return None
    found = ends[alike == alike[int(apart.to_numpy().argmax())]].sort_values("loss", kind="stable")
    runs, losses = found["run"].astype(str).tolist(), found["loss"].tolist()
    name = str(found["eval"].iloc[0])
    return AlikeRuns(sorted(runs), name, runs[0], runs[-1], float(losses[0]), float(losses[-1]))
