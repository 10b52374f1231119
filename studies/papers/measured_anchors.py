"""Runs chosen by `suggest` against anchors at the smallest size, on runs that were measured.

The PTPP paper (arXiv:2510.23198) adds 20 points at the smallest size and the asked budget. Here the example tables know
what any run of theirs measured, so both can be tried: from the runs at 15 and 31 tokens per parameter, the same FLOPs
go to the anchors, or to the cells that `cptlaw suggest` names for the forecast at the largest size and budget 279. What
was measured there is added, the law fitted again, and the runs of the larger sizes at 279 are forecast that no arm has.

Run it as ``python -m studies measured_anchors`` (minutes) or with ``--small`` (one table, one law).
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.forecasts.plan_backtest import plain_rows

TABLES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
LAWS = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", "shared-tokens:without=lr_peak+lr_pretrain")
FIRST, ASKED = (15.0, 31.0), 279.0
ANCHORED = (0.1, 0.25, 0.5)
TIMES = (1.0, 3.0)  # of the anchors' FLOPs
STARTS = 16


def cost(cells: pd.DataFrame, paid: set[tuple[float, float]]) -> float:
    """Return the FLOPs of runs, one row each, with the base models that are not paid for yet."""
    bases = set(zip(cells["n_params"], cells["ptpp"], strict=True)) - paid
    longest: dict[float, float] = {}
    for n_params, ptpp in bases:  # of one size the earlier budgets lie on the trunk of the last
        longest[n_params] = max(ptpp, longest.get(n_params, 0.0))
    of_bases = sum(6 * n_params**2 * ptpp for n_params, ptpp in longest.items())
    return float(of_bases + (6 * cells["n_params"] * cells["tokens"]).sum())


def suggested(law: str, on: str, known: cl.Runs, frame: pd.DataFrame, budget: float) -> pd.DataFrame:
    """Return the measured rows of the cells that `suggest` names from the levels that were measured."""
    largest = frame["n_params"].max()
    longest = float(frame.loc[frame["n_params"] == largest, "tokens"].max())
    levels = {
        name: ",".join(f"{value:g}" for value in sorted(frame[column].unique()))
        for name, column in (("sizes", "n_params"), ("ptpps", "ptpp"), ("replays", "replay"))
    }
    at = {"n_params": largest, "tokens": longest, "replay": 0.25, "ptpp": ASKED}
    found = cl.suggest(law, known, on, at=at, budget=budget, starts=STARTS, **levels)
    parts = []
    for cell in found.cells:
        of = frame[np.isclose(frame["n_params"], cell.n_params, rtol=0.01) & (frame["replay"] == cell.replay)]
        of = of[(of["ptpp"] == cell.ptpp) & (of["tokens"] <= 1.01 * cell.tokens)]
        parts.append(of[of["run"].astype(str) == str(of["run"].iloc[0])] if len(of) else of)
    return pd.concat(parts).drop_duplicates(["run", "eval", "tokens"]) if parts else frame.iloc[:0]


def study(name: str, laws: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per loss, law and arm: the error at the asked budget."""
    frame = plain_rows(name).frame
    frame = frame[(frame["tokens"] > 0) & frame["replay"].isin(ANCHORED)]
    smallest = frame["n_params"].min()
    rows = []
    for on in ("target", "source"):
        mine = frame[frame["eval"] == on]
        known = mine[mine["ptpp"].isin(FIRST)]
        paid = set(zip(known["n_params"], known["ptpp"], strict=True))
        anchors = mine[(mine["n_params"] == smallest) & (mine["ptpp"] == ASKED)]
        anchors = anchors.groupby("replay", observed=True).head(7)  # as many points of each mix as a run has
        spent = cost(anchors.groupby("run", observed=True).last(), paid)
        for law in laws:
            arms = {"none": mine.iloc[:0], "anchors": anchors}
            for times in TIMES:
                cells = suggested(law, on, cl.read_runs(known, n_params_kind="total"), mine, times * spent)
                arms[f"suggested, {times:g} x"] = cells
            used = pd.concat(arms.values())["run"].astype(str).unique()
            asked = mine[(mine["ptpp"] == ASKED) & (mine["n_params"] > smallest) & ~mine["run"].astype(str).isin(used)]
            for arm, cells in arms.items():
                table = pd.concat([known, cells]).drop_duplicates(["run", "eval", "tokens"])
                fit = cl.fit(law, table, on=on, starts=STARTS, restraint="none")
                error = float(np.mean(np.abs(fit.predict(asked) / asked["loss"].to_numpy() - 1)))
                ends = cells.groupby("run", observed=True)[["n_params", "ptpp", "tokens"]].last()
                used_text = ", ".join(
                    f"{len(group)} at {n_params / 1e3:.0f}K/{ptpp:g}"
                    for (n_params, ptpp), group in ends.groupby(["n_params", "ptpp"])
                )
                row = {"table": name, "loss": on, "law": law.partition(":")[0], "arm": arm}
                rows.append(row | {"error, %": 100 * error, "FLOPs": cost(ends, paid) / spent, "runs": used_text})
    return pd.DataFrame(rows)


def main() -> None:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one table and one law")
    asked = parser.parse_args()
    names, laws = (TABLES[:1], LAWS[:1]) if asked.small else (TABLES, LAWS)
    rows = pd.concat([study(name, laws) for name in names], ignore_index=True)
    print(rows.to_string(index=False, float_format="{:.2f}".format))
    wide = rows.pivot_table(index=["loss", "law"], columns="arm", values="error, %")
    print("\nmeans over tables\n" + wide.to_string(float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
