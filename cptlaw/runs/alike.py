"""Runs that no column tells apart, and all the same in loss: then a setting is missing from the table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from cptlaw.runs.convert import hashable
from cptlaw.runs.within import rounded

# Of a log loss at the end of a run: by how much seeds and the order of text move one. Of models of 125,000 parameters,
# as small as anybody fits, .038 was measured (the example pilot), of larger ones .0008; with one seed .005.
NOISE, NOISE_OF_SMALL, SMALL, NOISE_OF_SEED = 0.02, 0.05, 1e7, 0.01
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
    rows = frame if along is None else frame.iloc[np.argsort(frame[along].to_numpy(dtype=float), kind="stable")]
    ends = rows[~rows.duplicated(["run", "eval"], keep="last")].reset_index(drop=True)
    codes = {
        str(name): pd.factorize(hashable(ends[name].astype(object)))[0]
        for name in ends.columns
        if name not in OF_POINTS or name == "eval"
    }
    if "lr" in rows.columns:  # a schedule that no column names
        peaks = rows.groupby("run", observed=True)["lr"].max()
        codes["lr"] = pd.factorize(ends["run"].map(peaks.to_dict()).astype(float))[0]
    if along is not None:
        codes["along"] = pd.factorize(rounded(ends[along]))[0]
    largest = pd.to_numeric(frame["n_params"], errors="coerce").max() if "n_params" in frame.columns else np.inf
    loss = pd.Series(np.log(ends["loss"].to_numpy(dtype=float)), ends.index)
    seeds = {"seed": pd.factorize(hashable(ends["seed"].astype(object)))[0]} if "seed" in ends.columns else None
    for beside, noise in (({}, NOISE_OF_SMALL if largest < SMALL else NOISE), (seeds, NOISE_OF_SEED)):
        if beside is None:
            return None
        alike = pd.DataFrame(codes | beside, index=ends.index).groupby([*codes, *beside]).ngroup()
        apart = loss.groupby(alike).transform("max") - loss.groupby(alike).transform("min")
        if apart.max() > noise:
            break
    else:
        return None
    found = ends[alike == alike.iloc[int(apart.to_numpy().argmax())]].sort_values("loss", kind="stable")
    runs, losses = found["run"].astype(str).tolist(), found["loss"].tolist()
    name = str(found["eval"].iloc[0])
    return AlikeRuns(sorted(runs), name, runs[0], runs[-1], float(losses[0]), float(losses[-1]))
