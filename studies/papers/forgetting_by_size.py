"""Forgetting by size in nats and in per cent of the base model's source loss, of English to French as measured.

    python -m studies forgetting_by_size             # prints the table
    python -m studies forgetting_by_size --write     # keeps it for docs/what_we_found.md; a test compares

Constant rate, 16 tokens of adaptation per parameter, means over seeds. Rows are what the committed tables hold.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, show, write_result

BUDGETS, REPLAYS = (31, 62, 279), (0.0, 0.1)


def ends() -> pd.DataFrame:
    """Return the rise of the source loss of each run, in nats and as a share of the base model's."""
    frames = [cl.examples.load("en-fr-ladder").frame, cl.read_runs(MEASURED / "large.csv").frame]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["eval"] == "source"]
    if "pretrain_decay" in frame:
        frame = frame[frame["pretrain_decay"].fillna(0.15) > 0]
    base = frame[frame["tokens"] == 0].groupby("base", observed=True)["loss"].first()
    runs = frame[(frame["tokens"] > 0) & (frame["lr_schedule"] == "constant")]
    last = runs.loc[runs.groupby("run", observed=True)["tokens"].idxmax()]
    usual = last["lr_peak"] == last.groupby("n_params")["lr_peak"].transform(lambda each: each.mode().iloc[0])
    last = last[usual & (last["tokens"] / last["n_params"] > 15)]
    start = last["base"].map(base).astype(float)
    return last.assign(nats=last["loss"] - start, share=last["loss"] / start - 1.0)


def rows() -> pd.DataFrame:
    """Return mean forgetting in nats and share, and the number of seeds, by size, budget and replay."""
    found = ends()
    parts = found.groupby(["n_params", "ptpp", "replay"])
    return parts.agg(nats=("nats", "mean"), share=("share", "mean"), seeds=("seed", "nunique")).reset_index()


def lines() -> list[list[str]]:
    """Return the cells of the table, a line per size."""
    found = rows()
    out = []
    for size, mine in found.groupby("n_params"):
        cells = [f"{size / 1e3:.0f}K"]
        for replay in REPLAYS:
            for budget in BUDGETS:
                one = mine[np.isclose(mine["replay"], replay) & np.isclose(mine["ptpp"], budget)]
                several = "" if one.empty or one["seeds"].iloc[0] == 1 else f" ({one['seeds'].iloc[0]})"
                if one.empty:
                    cells.append("-")
                    continue
                nats, share = (float(one[name].iloc[0]) for name in ("nats", "share"))
                cells.append(f"{nats:.2f}, {100 * share:.0f} %{several}")
        out.append(cells)
    return out


def tables() -> dict[str, pd.DataFrame]:
    """Return the table."""
    heads = [f"replay {replay:g}, budget {budget}" for replay in REPLAYS for budget in BUDGETS]
    return {"ends": pd.DataFrame(lines(), columns=["parameters", *heads])}


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("forgetting_by_size", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
