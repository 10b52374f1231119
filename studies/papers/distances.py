"""The distance between two corpora as a covariate of the shift: what the base model loses on the new one before CPT.

Of each shift, size and budget that was run alike (rates, seed, replay .1), the rise of the source loss and the fall of
the target loss after four tokens per parameter, beside the base model's target loss less its source loss. A line
through all other shifts forecasts the one left out, beside their mean.

French to English was forecast so and sealed when its base models were there and no run of CPT was.

    python -m studies distances             # prints the tables; seconds
    python -m studies distances --write     # keeps them for studies/measured_tables.md
    python -m studies distances --seal TABLE.csv    # losses of base models of a new shift
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import HOME, MEASURED, show, write_result
from studies.papers.budgets_by_shift import NAMES, usual_rows

PER_PARAM, REPLAY = 4.0, 0.1
BUDGETS, SIZES = (15, 31, 124), (30352, 45936, 75072)
SEAL = HOME / "sealed" / "fr_en_distance.json"


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
                line.append(abs(by_others(others, at["distance"], what, "distance") - at[what]))
                mean.append(abs(by_others(others, at["distance"], what, "mean") - at[what]))
            row |= {what: f"{part[what].mean():.2f}", f"{what}, by distance": f"{np.mean(line):.2f}" if line else "-"}
            row[f"{what}, by the mean"] = f"{np.mean(mean):.2f}" if mean else "-"
        rows.append(row)
    return {"shifts": pd.DataFrame(rows), "sealed": sealed()}


def seal(table: Path) -> None:
    """Forecast both losses of a new shift by the distance and by the mean of the others, and seal that.

    Intervals are 1.645 times the root mean square of what each rule misses the known shifts by, left out one by one.
    """
    known = cells()
    frame = pd.read_csv(table)
    bases = frame[(frame["tokens"] == 0) & frame["n_params"].isin(SIZES)].pivot_table(
        index=["n_params", "ptpp"], columns="eval", values="loss"
    )
    points = []
    for law in ("distance", "mean"):
        off: dict[str, list[float]] = {"rise": [], "fall": []}
        said = []
        for (size, budget), base in bases.iterrows():
            here = known[(known["n_params"] == size) & (known["budget"] == budget)]
            for what, on, sign in (("rise", "source", 1), ("fall", "target", -1)):
                for left in here.itertuples():
                    others = here[here["shift"] != left.shift]
                    off[what].append(by_others(others, left.distance, what, law) - getattr(left, what))
                change = by_others(here, base["target"] - base["source"], what, law)
                said.append((size, budget, on, what, base[on] + sign * change))
        for size, budget, on, what, loss in said:
            wide = 1.645 * float(np.sqrt(np.mean(np.square(off[what]))))
            point = {"n_params": size, "ptpp": budget, "replay": REPLAY, "tokens": PER_PARAM * size}
            points.append({**point, "law": law, "on": on, "loss": loss, "lo": loss - wide, "hi": loss + wide})
    cl.register({"points": points, "interval": 0.9, "intervals": []}, SEAL)


def by_others(others: pd.DataFrame, distance: float, what: str, law: str) -> float:
    """Return the change that other shifts forecast: a line through their distances, or their mean."""
    if law == "mean":
        return float(others[what].mean())
    slope, start = np.polyfit(others["distance"], others[what], 1)
    return float(start + slope * distance)


def sealed() -> pd.DataFrame:
    """Return what the sealed forecasts of French to English missed by, in nats."""
    found = cl.score([SEAL], cl.read_runs(MEASURED / "french_to_english.csv", n_params_kind="total")).frame
    rows = []
    for (law, on), part in found.groupby(["law", "on"], sort=False):
        off = part["loss"] - part["measured"]
        rows.append(
            {"forecast by": law, "loss": on, "cells": str(len(part)), "error, nats": f"{off.abs().mean():.2f}",
             "mean error": f"{off.mean():+.2f}",
             "90 % intervals that held": f"{int(part['inside'].sum())} of {len(part)}"}
        )  # fmt: skip
    return pd.DataFrame(rows)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return [cells(), sealed().shape]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seal", type=Path, metavar="TABLE.csv")
    asked = parser.parse_args()
    if asked.seal is not None:
        seal(asked.seal)
    elif asked.write:
        write_result("distances", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
