"""Forecasts of real CPT over sizes, budgets and rates (`watts_sizes.csv`, `watts_gsm8k.csv`), by corpus.

    python -m studies rates_and_sizes --data ../shared/data                    # the tables; ten minutes of CPU
    python -m studies rates_and_sizes --data ../shared/data --write            # and into studies/bench.md
    python -m studies rates_and_sizes --data ../shared/data --only tulu:wsd    # one corpus and one schedule of bases

Of each corpus and schedule of pre-training, with the tuned rates of pre-training: 150M from 20M and 60M; the largest
budget of each size from its others; the largest budget of all; all from three runs, taken evenly in the order of size,
budget and rate, alone and in one table with all runs on the other corpora. No law is named, what was learned from this
team's other table is left out, and collapsed runs are not forecast. Beside it stand the nearest measured run, and a
straight line in logs: log loss against the logs of the size, budget and rates that vary.
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
from cptlaw.forecasting.backtest.baselines import nearest_run
from studies.harness import data_file, progress, show, write_result

FILES = ("watts_sizes.csv", "watts_gsm8k.csv")
NAMES = ("tulu", "musicpile", "stackmathqa", "gsm8k")
CORPORA = tuple(f"{corpus}:{kind}" for corpus in NAMES for kind in ("cosine", "wsd"))
SIZES = {"20M": 2e7, "60M": 6e7, "150M": 1.5e8}
TOKENS = 10_000_000
INPUTS = ["n_params", "tokens", "ptpp", "lr_peak", "lr_pretrain"]
THREE = "all others, from three runs"
KNOWN = f"{THREE}, the other corpora known"
OF_BASE = ["n_params", "ptpp", "lr_pretrain", "eval", "loss"]
LEAST_ROWS = 4  # of the other kinds
BEHIND = 0.3  # per cent of the loss by which a forecast must err more than another to be behind it
BESIDE = ("nearest", "line")


def public_runs(data: str | None) -> pd.DataFrame:
    """Return the rows of both files as they are published."""
    return pd.concat([pd.read_csv(data_file(name, data)) for name in FILES], ignore_index=True)


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
            domain=corpus,
        )
        for role in ("source", "target")
    ]
    recorded = rows["base_source_kind"].astype(str).str.startswith("recorded")
    bases = shared[recorded].assign(loss=rows["base_source_loss"], eval="source", tokens=0).drop_duplicates()
    parts.append(bases.assign(run=bases.index.map("base {}".format)))
    return pd.concat(parts, ignore_index=True).dropna(subset="loss")


def of_same_bases(name: str) -> list[str]:
    """Return the other corpora from base models of the same schedule."""
    return [one for one in CORPORA if one != name and one.partition(":")[2] == name.partition(":")[2]]


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
    whole = runs[(runs["tokens"] > 0) & ~runs["run"].isin(collapsed_runs(runs, set(runs["run"])))]
    order = whole.sort_values(["n_params", "ptpp", "lr_peak"])["run"].unique()
    three = [order[len(order) * i // 6] for i in (1, 3, 5)]
    bases = runs.loc[runs["run"].isin(three), ["n_params", "ptpp", "lr_pretrain"]]
    known = pd.MultiIndex.from_frame(runs[list(bases)]).isin(pd.MultiIndex.from_frame(bases))
    kept = runs["run"].isin(three) | (known & (runs["tokens"] == 0))
    yield THREE, kept, ~kept & (runs["tokens"] > 0)


def with_others(runs: pd.DataFrame, fitted: pd.Series[bool], others: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows to fit, all runs on the other corpora, and each base model once, which has no domain."""
    table = pd.concat([runs[fitted], *others], ignore_index=True)
    return table[(table["tokens"] > 0) | ~table.duplicated([*OF_BASE, "tokens"])]


def straight_line(fitted: pd.DataFrame, asked: pd.DataFrame) -> np.ndarray:
    """Return log losses of a straight line in the logs of the inputs that vary over the fitted rows.

    Least squares, the smallest slopes where rows leave them open.
    """
    varying = [name for name in INPUTS if fitted[name].nunique() > 1]
    center = np.log(fitted[varying]).mean()
    near = np.column_stack([np.ones(len(fitted)), np.log(fitted[varying]) - center])
    far = np.column_stack([np.ones(len(asked)), np.log(asked[varying]) - center])
    slopes: np.ndarray = np.linalg.lstsq(near, np.log(fitted["loss"].to_numpy(dtype=float)), rcond=1e-6)[0]
    return far @ slopes


def forecasts(runs: pd.DataFrame, corpus: str, others: list[pd.DataFrame]) -> Iterator[dict[str, object]]:
    """Yield the errors of each cut and loss, in percent; `others` are the runs on the other corpora."""
    broken = collapsed_runs(runs, set(runs["run"]))
    every = list(cuts(runs))
    for kind, fitted, asked in [*every, *((KNOWN, *cut) for name, *cut in every if name == THREE)]:
        for role in ("target", "source"):
            lower = runs[fitted & (runs["eval"] == role) & (runs["tokens"] > 0)]
            upper = runs[asked & (runs["eval"] == role) & (runs["tokens"] > 0) & ~runs["run"].isin(broken)]
            if upper.empty or (len(lower) < LEAST_ROWS and kind not in (THREE, KNOWN)):
                continue
            progress(f"{corpus}: {kind}, {role}")
            table = with_others(runs, fitted, others) if kind == KNOWN else runs[fitted]
            where = {"where": f"domain == '{corpus.partition(':')[0]}'"} if kind == KNOWN else {}
            try:
                with leaving_out("watts"):
                    fit = cl.fit("auto", table.reset_index(drop=True), role, **where)
                    low, middle, high = fit.log_quantiles(upper, [0.05, 0.5, 0.95])
            except CptlawError as problem:
                progress(f"not fitted: {problem}")
                continue
            loss = np.log(upper["loss"].to_numpy(dtype=float))
            plain = np.log(nearest_run(lower[[*INPUTS, "loss"]], upper[INPUTS]))
            yield {
                "corpus": corpus,
                "kind": kind,
                "on": role,
                "error": 100 * float(np.abs(middle - loss).mean()),
                "nearest": 100 * float(np.abs(plain - loss).mean()),
                "line": 100 * float(np.abs(straight_line(lower, upper) - loss).mean()),
                "inside": float(np.mean((low <= loss) & (loss <= high))),
                "half": 50 * float(np.median(high - low)),
            }


def tables(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return one line per kind of forecast, and the errors of each corpus beside those of the nearest run."""
    behind = {f"behind_{name}": found["error"] > found[name] + BEHIND for name in BESIDE}
    lines = []
    for (kind, role), part in found.assign(**behind).groupby(["kind", "on"], sort=False):
        errors = [f"{part[name].mean():.1f}" for name in ("error", *BESIDE)]
        counts = [int(part[f"behind_{name}"].sum()) for name in BESIDE]
        lines.append(
            [kind, role, len(part), *errors, *counts, f"{part['inside'].mean():.2f}", f"{part['half'].mean():.1f}"]
        )
    heads = ["forecast", "loss", "cuts", "error", "nearest run", "line", "behind it", "behind the line"]
    heads += ["inside 90 %", "half-width"]
    every = found.groupby(["corpus", "kind", "on"], sort=False)[["error", "nearest"]].mean()
    cells = (every["error"].map("{:.1f}".format) + " (" + every["nearest"].map("{:.1f}".format) + ")").unstack("on")
    cells = cells[["target", "source"]].fillna("-").agg(", ".join, axis=1).unstack("kind", fill_value="-")
    cells = cells.reindex(found["corpus"].unique())[list(found["kind"].unique())]
    return {"kinds": pd.DataFrame(lines, columns=heads), "corpora": cells.reset_index()}


def probe() -> dict[str, object]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    file = public_runs(None)
    return next(forecasts(load(file, "tulu", "cosine"), "tulu:cosine", []))


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--only", default=",".join(CORPORA), help="corpora with the schedule of their bases")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    file = public_runs(asked.data)
    known = {name: load(file, *name.split(":")) for name in CORPORA}
    rows = [
        row
        for name in asked.only.split(",")
        for row in forecasts(known[name], name, [known[one] for one in of_same_bases(name)])
    ]
    made = tables(pd.DataFrame(rows))
    print(show(made))
    if asked.write:
        write_result("rates_and_sizes", made, "python -m studies rates_and_sizes --data ../shared/data --write")


if __name__ == "__main__":
    main()
