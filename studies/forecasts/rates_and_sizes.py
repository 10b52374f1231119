"""Forecasts of real CPT over sizes, budgets and rates (`watts_sizes.csv`): a size and a budget ahead, by corpus.

    python -m studies rates_and_sizes --data ../shared/data                    # the table; six minutes of CPU
    python -m studies rates_and_sizes --data ../shared/data --only tulu:wsd    # one corpus and one schedule of bases

Of each corpus and schedule of pre-training, with the tuned rates of pre-training: 150M from 20M and 60M; the largest
budget of each size from its others; the largest budget of all. No law is named, what was learned from this team's
other table is left out, and collapsed runs are not forecast. Beside it stands the nearest measured run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.fitting.auto.rows import collapsed_runs
from cptlaw.fitting.learned import leaving_out
from cptlaw.forecasting.comparing.baselines import nearest_run
from studies.harness import find_data, progress, table

FILE = "watts_sizes.csv"
CORPORA = tuple(f"{corpus}:{kind}" for corpus in ("tulu", "musicpile", "stackmathqa") for kind in ("cosine", "wsd"))
SIZES = {"20M": 2e7, "60M": 6e7, "150M": 1.5e8}
TOKENS = 10_000_000
INPUTS = ["n_params", "tokens", "ptpp", "lr_peak", "lr_pretrain"]
LEAST_ROWS = 4


def load(file: pd.DataFrame, corpus: str, kind: str) -> pd.DataFrame:
    """Return the runs of one corpus from bases of one schedule, both losses, with the recorded losses of the bases."""
    rows = file[(file["cpt_dataset"] == corpus) & file["schedule_or_decay"].str.startswith(kind)]
    rows = rows[(rows["optimizer"] == "adamw") & (rows["cpt_tokens"] == TOKENS) & (rows["canonical_base"] == 1)]
    size = rows["n_params"].map(SIZES)
    shared = pd.DataFrame(
        {"n_params": size, "ptpp": rows["pt_tokens_B"] * 1e9 / size, "lr_pretrain": rows["pretrain_lr"]}
    )
    parts = [
        shared.assign(
            run=rows.index.map("run {}".format),
            eval=role,
            loss=rows[f"{role}_loss"],
            tokens=TOKENS,
            lr_peak=rows["lr_peak"],
        )
        for role in ("source", "target")
    ]
    recorded = rows["base_source_kind"].astype(str).str.startswith("recorded")
    bases = shared[recorded].assign(loss=rows["base_source_loss"], eval="source", tokens=0).drop_duplicates()
    parts.append(bases.assign(run=bases.index.map("base {}".format)))
    return pd.concat(parts, ignore_index=True).dropna(subset="loss")


def cuts(runs: pd.DataFrame) -> Iterator[tuple[str, pd.Series[bool], pd.Series[bool]]]:
    """Yield what is forecast, the rows to fit, and the rows to forecast."""
    size, budget = runs["n_params"], runs["ptpp"]
    yield "a size ahead", size < 1e8, size > 1e8
    for one in np.unique(size):
        budgets = np.unique(budget[(size == one) & (runs["tokens"] > 0)])
        if len(budgets) > 2:
            yield (
                "a budget ahead, one size",
                (size == one) & (budget < budgets[-1]),
                (size == one) & (budget == budgets[-1]),
            )
    last = budget[runs["tokens"] > 0].max()
    yield "a budget ahead, all sizes", budget < last, budget == last


def forecasts(runs: pd.DataFrame, corpus: str) -> Iterator[dict[str, object]]:
    """Yield the errors of each cut and loss, in percent."""
    broken = collapsed_runs(runs, set(runs["run"]))
    for kind, fitted, asked in cuts(runs):
        for role in ("target", "source"):
            lower = runs[fitted & (runs["eval"] == role) & (runs["tokens"] > 0)]
            upper = runs[asked & (runs["eval"] == role) & (runs["tokens"] > 0) & ~runs["run"].isin(broken)]
            if len(lower) < LEAST_ROWS or upper.empty:
                continue
            progress(f"{corpus}: {kind}, {role}")
            try:
                with leaving_out("watts"):
                    fit = cl.fit("auto", runs[fitted].reset_index(drop=True), role)
                    low, middle, high = fit.log_quantiles(upper, [0.05, 0.5, 0.95])
            except CptlawError as problem:
                progress(f"not fitted: {problem}")
                continue
            loss = np.log(upper["loss"].to_numpy(dtype=float))
            plain = np.log(nearest_run(lower[[*INPUTS, "loss"]], upper[INPUTS]))
            yield {
                "kind": kind,
                "on": role,
                "error": 100 * float(np.abs(middle - loss).mean()),
                "nearest": 100 * float(np.abs(plain - loss).mean()),
                "inside": float(np.mean((low <= loss) & (loss <= high))),
                "half": 50 * float(np.median(high - low)),
            }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--only", default=",".join(CORPORA), help="corpora with the schedule of their bases")
    asked = parser.parse_args()
    path = find_data(FILE, asked.data)
    if path is None:
        raise SystemExit(f"{FILE} is not in the data folder (--data).")
    file = pd.read_csv(path)
    found = pd.DataFrame(
        [row for name in asked.only.split(",") for row in forecasts(load(file, *name.split(":")), name)]
    )
    means = found.groupby(["kind", "on"], sort=False).agg(["mean", "size"])
    lines = [
        [
            str(kind),
            str(role),
            str(int(row["error", "size"])),
            *(f"{row[name, 'mean']:.2f}" for name in ("error", "nearest", "inside", "half")),
        ]
        for (kind, role), row in means.iterrows()
    ]
    print(table(["forecast", "loss", "cuts", "error %", "nearest run", "inside 90 %", "half-width %"], lines))


if __name__ == "__main__":
    main()
