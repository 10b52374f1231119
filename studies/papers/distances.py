"""The distance between two corpora as a covariate of the shift: what the base model loses on the new one before CPT.

Of each shift, size and budget that was run alike (rates, seed, replay .1), the rise of the source loss and the fall of
the target loss after four tokens per parameter, beside the base model's target loss less its source loss. A line
through all other shifts forecasts the one left out, beside their mean.

    python -m studies distances             # prints the tables; seconds
    python -m studies distances --write     # keeps them for docs/what_we_found.md
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, show, write_result
from studies.papers.budgets_by_shift import NAMES, usual_rows

PER_PARAM, REPLAY = 4.0, 0.1
BUDGETS, SIZES = (15, 31, 124), (30352, 45936, 75072)


def cells() -> pd.DataFrame:
    """Return a row per shift, size and budget: distance, rise of the source loss and fall of the target loss, nats."""
    tables = {name: usual_rows(cl.examples.load(name)).frame for name in NAMES}
    tables["english to german"] = pd.read_csv(MEASURED / "german.csv")
    rows = []
    for name, frame in tables.items():
        if name == "en-fr-pilot":
            continue  # the shift of the ladder
        frame = frame[(frame["seed"] == 0) & frame["ptpp"].isin(BUDGETS) & frame["n_params"].isin(SIZES)]
        for (size, budget), part in frame.groupby(["n_params", "ptpp"], observed=True):
            base = part[part["tokens"] == 0].groupby(part["eval"].astype(str))["loss"].first()
            run = part[(part["replay"] == REPLAY) & (np.abs(part["tokens"] / size / PER_PARAM - 1) < 0.06)]
            end = run.groupby(run["eval"].astype(str))["loss"].mean()
            if {"source", "target"} <= set(base.index) & set(end.index):
                rows.append(
                    {"shift": name, "n_params": size, "budget": budget, "distance": base["target"] - base["source"],
                     "rise": end["source"] - base["source"], "fall": base["target"] - end["target"]}
                )  # fmt: skip
    return pd.DataFrame(rows)


def tables() -> dict[str, pd.DataFrame]:
    """Return the shifts, and what the distance forecasts of each."""
    every = cells()
    rows = []
    for name, part in every.groupby("shift", sort=False):
        row = {"shift": name, "cells": len(part), "distance": f"{part['distance'].mean():.2f}"}
        for what in ("rise", "fall"):
            line, mean = [], []
            for at in part.to_dict("records"):
                others = every[(every["shift"] != name) & (every["n_params"] == at["n_params"])]
                others = others[others["budget"] == at["budget"]]
                if len(others) < 3:
                    continue
                slope, start = np.polyfit(others["distance"], others[what], 1)
                line.append(abs(start + slope * at["distance"] - at[what]))
                mean.append(abs(others[what].mean() - at[what]))
            row |= {what: f"{part[what].mean():.2f}", f"{what}, by distance": f"{np.mean(line):.2f}" if line else "-"}
            row[f"{what}, by the mean"] = f"{np.mean(mean):.2f}" if mean else "-"
        rows.append(row)
    return {"shifts": pd.DataFrame(rows)}


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("distances", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
