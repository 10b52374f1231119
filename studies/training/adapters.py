"""Adapters of low rank against whole training without replay, from studies/measured/adapters.csv and merging.csv.

Printed for each run, at 16 tokens per parameter: the share of whole training's gain in target loss and of its rise in
source loss; and against whole training stopped at the *same target loss*, both rises in nats and how many times the
tokens the adapter took. Whole training is at the best of the rates that were tried for its size.

    python -m studies adapters                # each rank and rate
    python -m studies adapters --score FILE   # a sealed forecast against studies/measured/adapters_204k.csv
    python -m studies adapters --write        # the best rate of each rank, into cptlaw/answering/alternatives.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.harness import MEASURED, write_result
from studies.training.merge_law import TARGET

KEY = ["n_params", "ptpp", "domain"]
WIDTHS = {45936: 36, 124672: 64, 203952: 84}
HELD = MEASURED / "adapters_204k.csv"
EDGES = (0.0, 0.03, 0.15, 0.5, 2.0)  # of rank over width
USUAL, WEIGHT = 0.15, 2.0  # spread of a share between runs before any is seen, and how many runs that counts for


def whole_training() -> pd.DataFrame:
    """Return whole training without replay by key and tokens, base models at 0: losses of both evals in columns."""
    frame = pd.read_csv(MEASURED / "merging.csv")
    frame = frame[(frame["replay"] == 0) & (frame["seed"] == 0) & (frame["lr_schedule"] == "constant")]
    base = frame[frame["merge_weight"] == 0].assign(tokens=0)
    runs = pd.concat([base, frame[frame["merge_weight"] == 1]])
    return runs.pivot_table(index=[*KEY, "tokens"], columns="eval", values="loss").reset_index()


def shares() -> pd.DataFrame:
    """Return each adapter's last losses as shares of whole training's, and beside it at equal target loss."""
    frame = pd.read_csv(MEASURED / "adapters.csv")
    runs = frame[frame["tokens"] > 0].pivot_table(
        index=[*KEY, "lora_rank", "lr_peak", "tokens"], columns="eval", values="loss"
    )
    found, whole = [], whole_training()
    for name, run in runs.reset_index().groupby([*KEY, "lora_rank", "lr_peak"]):
        last = run.iloc[-1]
        beside = whole[(whole[KEY] == list(name[:3])).all(axis=1)].sort_values("tokens")
        base, full = beside.iloc[0], beside.iloc[-1]
        rise, gain = last["source"] - base["source"], base["target"] - last["target"]
        target = beside["target"].to_numpy()
        at_equal = np.interp(-last["target"], -target, beside["source"].to_numpy()) - base["source"]
        tokens = np.interp(-last["target"], -target, beside["tokens"].to_numpy())
        found.append(
            {
                **dict(zip([*KEY, "lora_rank", "lr_peak"], name, strict=True)),
                "gain": gain / (base["target"] - full["target"]),
                "forgetting": rise / (full["source"] - base["source"]),
                "rise": rise,
                "rise_of_whole_at_equal_target": at_equal,
                "tokens_ratio": last["tokens"] / tokens if tokens else np.nan,
            }
        )
    return pd.DataFrame(found)


def best_rates() -> pd.DataFrame:
    """Return the rate of each rank with the lowest target loss."""
    found = shares()
    return found.loc[found.groupby([*KEY, "lora_rank"])["gain"].idxmax()].reset_index(drop=True)


def learned(best: pd.DataFrame | None = None) -> list[dict[str, Any]]:
    """Return by rank over width the shares of whole training's gain and forgetting: median, and ends of 90 %.

    The spread between runs is that of all ranks about their medians, drawn towards `USUAL`: there are few of each.
    """
    best = best_rates() if best is None else best
    over = best["lora_rank"] / best["n_params"].map(WIDTHS)
    rank = pd.cut(over, EDGES)
    found: list[dict[str, Any]] = [
        {"rank_over_width": round(float(over[here].median()), 3), "runs": int(here.sum())}
        for here in (rank == each for each in rank.cat.categories)
    ]
    for name in ("gain", "forgetting"):
        middle = best.groupby(rank, observed=False)[name].median()
        off = best[name] - rank.map(middle).astype(float)
        free = len(best) - best[name].groupby(rank, observed=True).ngroups
        spread = np.sqrt((WEIGHT * USUAL**2 + (off**2).sum()) / (WEIGHT + free))
        for entry, share in zip(found, middle, strict=True):
            wide = 1.645 * spread * np.sqrt(1 + 1 / entry["runs"])
            entry[name] = [round(float(share + side * wide), 3) for side in (-1, 0, 1)]
    return found


def tables() -> dict[str, pd.DataFrame]:
    """Return each rank at its best rate, as the page shows it."""
    cells = []
    for row in best_rates().to_dict("records"):
        cells.append(
            [f"{row['domain']}, {row['n_params'] / 1e3:.0f}K, budget {row['ptpp']:.0f}", f"{row['lora_rank']:.0f}",
             f"{row['lr_peak']:g}", f"{100 * row['gain']:.0f} %", f"{100 * row['forgetting']:.0f} %",
             f"{row['rise']:.2f}", f"{row['rise_of_whole_at_equal_target']:.2f}",
             f"{row['rise'] / row['rise_of_whole_at_equal_target']:.1f}", f"{row['tokens_ratio']:.0f}"]
        )  # fmt: skip
    heads = [
        "run",
        "rank",
        "best rate",
        "gain",
        "forgetting",
        "rise, adapter",
        "rise, full at equal target",
        "times that",
        "times the tokens",
    ]
    return {"ranks": pd.DataFrame(cells, columns=heads)}


def scored(path: Path) -> pd.DataFrame:
    """Return a sealed forecast beside what was measured."""
    forecasts = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["forecasts"])
    frame = pd.read_csv(HELD)
    last = frame[frame["tokens"] == frame["tokens"].max()].set_index("eval")["loss"]
    measured = forecasts["eval"].map(last)
    error = 100 * (forecasts["loss"] / measured - 1)
    return forecasts.assign(
        measured=measured, error=error.round(2), inside=measured.between(forecasts["lo"], forecasts["hi"])
    )


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return best_rates()


def main() -> None:
    """Print, score or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--score", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.score:
        print(scored(asked.score).to_string(index=False))
    elif asked.write:
        known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
        known["lora"] = learned()
        TARGET.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        write_result("adapters", tables())
    else:
        print(shares().round(2).to_string(index=False))


if __name__ == "__main__":
    main()
