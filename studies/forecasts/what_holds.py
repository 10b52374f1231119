"""What holds from 30 thousand parameters to billions: by size in our runs, and in public runs of real scale.

    python -m studies what_holds             # prints the tables: seconds; public ones are looked for in ../shared/data
    python -m studies what_holds --write     # keeps them for studies/measured_tables.md

Ours: `en-fr-ladder` and `studies/measured/large.csv`, ends of runs of 16 tokens per parameter at constant rate, means
over seeds, then over the sizes of a group. Public: `watts_*.csv`, `delphi_mixes.csv`, `marek_*.csv`, each by its
own design.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw_curves.forecasting import fit_shift
from studies.harness import MEASURED, Array, data_file, find_data, show, write_result

GROUPS = {"30K to 46K": (0.0, 5e4), "75K to 125K": (5e4, 1.5e5), "204K to 1.04M": (1.5e5, 2e6)}
WATTS = ("watts_sizes.csv", "watts_gsm8k.csv", "watts_more.csv")
PUBLIC = ("delphi_mixes.csv", "marek_size_ptpp_forgetting.csv", "marek_rates.csv")
SIZES = {"20M": 2e7, "60M": 6e7, "150M": 1.5e8}


def ladder() -> pd.DataFrame:
    """Return the rows of English to French at constant and usual rate from annealed base models, all sizes."""
    frames = [cl.examples.load("en-fr-ladder").frame, cl.read_runs(MEASURED / "large.csv").frame]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[frame["pretrain_decay"].fillna(0.15) > 0]
    runs = frame[(frame["tokens"] > 0) & (frame["lr_schedule"] == "constant")]
    usual = runs["lr_peak"] == runs.groupby("n_params")["lr_peak"].transform(lambda each: each.mode().iloc[0])
    base = frame[frame["tokens"] == 0].groupby(["base", "eval"], observed=True)["loss"].first().rename("base_loss")
    return runs[usual & (runs["ptpp"] <= 279)].join(base, on=["base", "eval"])


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last loss of each run beside its base model's, means over seeds, by loss, size, budget and replay."""
    last = rows.loc[rows.groupby(["run", "eval"], observed=True)["tokens"].idxmax()]
    last = last[last["tokens"] / last["n_params"] > 15]
    key = ["eval", "n_params", "ptpp", "replay"]
    return last.groupby(key, observed=True)[["loss", "base_loss"]].mean().reset_index()


def of_size(found: pd.DataFrame, on: str) -> Callable[[str, float, float], pd.DataFrame]:
    """Return what gives the ends of a group: rows of sizes and budgets, columns of replay."""

    def table(column: str, low: float, high: float) -> pd.DataFrame:
        part = found[(found["eval"] == on) & found["n_params"].between(low, high)]
        part = part.assign(rise=part["loss"] - part["base_loss"], share=part["loss"] / part["base_loss"] - 1.0)
        return part.pivot_table(index=["n_params", "ptpp"], columns="replay", values=column)

    return table


def _over_sizes(values: pd.Series) -> str:
    """Return a mean over sizes and its range, or a dash."""
    known = values.dropna()
    if known.empty:
        return "not measured"
    by_size = known.groupby("n_params").mean()
    return f"{by_size.mean():.2f} ({by_size.min():.2f} to {by_size.max():.2f})"


def kept(gain: pd.DataFrame, few: float, many: float) -> pd.Series:
    """Return k of gain = G (1 - replay)^k, read off two shares of replay."""
    if few not in gain or many not in gain:
        return pd.Series(dtype=float)
    found: pd.Series = np.log(gain[many] / gain[few]) / np.log((1.0 - many) / (1.0 - few))
    return found


def growth(rise: pd.Series, first: int, last: int) -> pd.Series:
    """Return the quotient of what stands at two budgets, by size."""
    by_budget = rise.unstack("ptpp")
    if first not in by_budget or last not in by_budget:
        return pd.Series(dtype=float)
    found: pd.Series = by_budget[last] / by_budget[first]
    return found


def ours() -> pd.DataFrame:
    """Return what our runs say, a column per group of sizes: mean over its sizes, and their range."""
    found = ends(ladder())
    source, target = of_size(found, "source"), of_size(found, "target")
    rows: dict[str, list[str]] = {}

    def add(text: str, made: Callable[[float, float], pd.Series]) -> None:
        rows[text] = [_over_sizes(made(*group)) for group in GROUPS.values()]

    late = [31, 62]  # budgets that every size has
    add("forgetting without replay, nats", lambda *at: source("rise", *at)[0.0].loc[:, late])
    add("forgetting without replay, share of the base loss", lambda *at: source("share", *at)[0.0].loc[:, late])
    add("forgetting with replay 0.1, nats", lambda *at: source("rise", *at)[0.1].loc[:, late])
    add("forgetting with replay 0.1, share of the base loss", lambda *at: source("share", *at)[0.1].loc[:, late])
    add(
        "share of forgetting (nats) that replay 0.1 takes off",
        lambda *at: 1.0 - (source("rise", *at)[0.1] / source("rise", *at)[0.0]).loc[:, late],
    )
    add("forgetting at 279 over that at 31, no replay", lambda *at: growth(source("rise", *at)[0.0], 31, 279))
    add("forgetting at 279 over that at 31, replay 0.1", lambda *at: growth(source("rise", *at)[0.1], 31, 279))
    add(
        "shift (replay 0 less replay 1) at 279 over that at 31",
        lambda *at: growth(shift(source("loss", *at)), 31, 279),
    )
    for few, many in ((0.0, 0.1), (0.1, 0.25), (0.25, 0.5)):
        add(
            f"k in gain = G (1 - replay)^k, replay {few:g} to {many:g}",
            lambda *at, few=few, many=many: kept(-target("rise", *at), few, many),
        )
    return pd.DataFrame(rows, index=list(GROUPS)).T.rename_axis("measured").reset_index()


def shift(loss: pd.DataFrame) -> pd.Series:
    """Return the source loss without replay less that on the source corpus alone, where both were trained."""
    return loss[0.0] - loss[1.0] if 1.0 in loss else pd.Series(np.nan, index=loss.index)


def forms() -> pd.DataFrame:
    """Return R squared of both forms of the shift along runs: source loss without replay less that with replay 1."""
    rows = ladder()
    rows = rows[(rows["eval"] == "source") & (rows["ptpp"] >= 31)]
    cell = rows.groupby(["n_params", "ptpp", "replay", "tokens"], observed=True)["loss"].mean().unstack("replay")
    found = []
    for size, part in (cell[0.0] - cell[1.0]).dropna().groupby("n_params"):
        row: dict[str, object] = {"parameters": f"{size / 1e3:.0f}K"}
        for form in ("power", "exponential"):
            r2 = []
            for _, one in part.groupby("ptpp"):
                points = one.reset_index(name="shift").assign(s1_cpt=lambda each: each["tokens"] / each["n_params"])
                r2.append(fit_shift(points, form).r2)
            row[f"R2, {form}"] = f"{np.mean(r2):.3f} ({min(r2):.3f} to {max(r2):.3f})"
        found.append(row)
    return pd.DataFrame(found)


# -- public runs -------------------------------------------------------------------------------------------------------


def watts(path: str) -> pd.DataFrame:
    """Return plain rows of a `watts` table: tuned rates, 10M tokens, rises of the source loss of .01 to 1 nats."""
    rows = pd.read_csv(path)
    rows = rows.assign(n=rows["n_params"].map(SIZES), rise=rows["source_loss"] - rows["base_source_loss"])
    rows = rows.assign(ptpp=rows["pt_tokens_B"] * 1e9 / rows["n"])
    plain = (rows["optimizer"] == "adamw") & (rows["cpt_tokens"] == 1e7) & (rows["canonical_base"] == 1)
    return rows[plain & (rows["cpt_batch"] == 64) & rows["rise"].between(0.01, 1.0)].reset_index(drop=True)


def design(rows: pd.DataFrame, names: list[str]) -> Array:
    """Return the columns of a power law of the rise: a constant for each schedule of pre-training, logs of the rest."""
    wsd = rows["schedule_or_decay"].str.startswith("wsd").to_numpy(dtype=float)
    columns: Array = np.column_stack([np.ones(len(rows)), wsd, *(np.log(rows[name]) for name in names)])
    return columns


def powers(paths: list[str]) -> pd.DataFrame:
    """Return by corpus how a power law of the rise forecasts the largest budget of each size from all other runs.

    Aware is the power law with the budget, blind the same without it; the error is that of the source loss, in per
    cent.
    """
    rows, found = pd.concat([watts(path) for path in paths], ignore_index=True), []
    for corpus, part in rows.groupby("cpt_dataset"):
        if part["n"].nunique() < 2:
            continue
        last = part["ptpp"] == part.groupby("n")["ptpp"].transform("max")
        row = {"corpus": corpus, "runs": len(part)}
        seen, asked = part[~last], part[last]
        for name, names in (("aware", ["lr_peak", "ptpp", "n"]), ("blind", ["lr_peak", "n"])):
            known, *_ = np.linalg.lstsq(design(seen, names), np.log(seen["rise"]), rcond=None)
            loss = asked["base_source_loss"] + np.exp(design(asked, names) @ known)
            row[f"{name}, error"] = f"{100 * np.abs(loss / asked['source_loss'] - 1).mean():.2f} %"
        found.append(row | {"runs forecast": len(asked)})
    return pd.DataFrame(found)


def size_text(size: float) -> str:
    """Return a number of parameters as the pages write it."""
    unit, letter = (1e9, "B") if size >= 1e9 else (1e6, "M") if size >= 1e6 else (1e3, "K")
    return f"{size / unit:.1f}{letter}" if letter == "B" else f"{size / unit:,.0f}{letter}"


def gains(path: str) -> pd.DataFrame:
    """Return k of gain = G (1 - replay)^k from .33 to .50 by size, as a mean over rates and its range."""
    rows = pd.read_csv(path)
    rows["gain"] = rows["base_loss"] - rows["loss"]
    wide = rows.pivot_table(index=["n_params", "lr_factor"], columns="replay_ratio", values="gain").dropna()
    k = np.log(wide[0.5] / wide[0.33]) / np.log(0.5 / 0.67)
    found = k.groupby("n_params").agg(["mean", "min", "max"])
    sizes = [size_text(size) for size in found.index]
    told = [f"{one.mean:.2f} ({one.min:.2f} to {one.max:.2f})" for one in found.itertuples(index=False)]
    return pd.DataFrame({"parameters": sizes, "k, replay 0.33 to 0.5": told})


def capacity(path: str) -> pd.DataFrame:
    """Return forgetting in nats at one target loss by size, at 20, 80 and 640 tokens per parameter (`marek`)."""
    rows = pd.read_csv(path)
    rows = rows[rows["regularizer"] == "none"]
    wide = rows.pivot_table(index="n_params", columns="ptpp", values="forgetting_nats_smoothed")
    chosen = wide.iloc[[0, 4, 8, 12]]
    budgets = {budget: min(wide.columns, key=lambda each, at=budget: abs(each - at)) for budget in (20, 80, 226, 640)}
    made = {f"budget {budget}": chosen[column].map("{:.3f}".format) for budget, column in budgets.items()}
    return (
        pd.DataFrame(made)
        .rename_axis("parameters")
        .reset_index()
        .assign(parameters=[f"{size / 1e6:.1f}M" for size in chosen.index])
    )


def rates(path: str) -> pd.DataFrame:
    """Return the rise of the source loss at one target loss, by rates of both phases (`marek`)."""
    rows = pd.read_csv(path)
    rows = rows[rows["regularizer"] == "none"].assign(rise=lambda each: each["source_loss"] - each["base_source_loss"])
    wide = rows.pivot_table(index="lr_peak", columns="pt_lr_peak", values="rise")
    wide = wide.loc[[wide.index[0], *wide.index[4:]]].map("{:.3f}".format)
    wide.index = pd.Index([f"{rate:.0e}" for rate in wide.index], name="rate of CPT")
    return wide.rename(columns=lambda rate: f"pre-training at {rate:.2g}").reset_index()


def public(folder: str | None) -> dict[str, pd.DataFrame]:
    """Return the tables of public runs; skips the study where their files are absent."""
    made = (("gains", gains), ("capacity", capacity), ("rates", rates))
    found = {"powers": powers([str(data_file(name, folder)) for name in WATTS])}
    return found | {key: table(str(data_file(name, folder))) for name, (key, table) in zip(PUBLIC, made, strict=True)}


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables of our own runs."""
    return {"ours": ours(), "forms": forms()}


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    rows = ladder()
    points = rows[(rows["eval"] == "source") & (rows["replay"] == 0) & (rows["ptpp"] == 31)]
    curve = points.assign(shift=points["loss"] - points["base_loss"], s1_cpt=points["tokens"] / points["n_params"])
    return [ends(rows), [fit_shift(curve[curve["shift"] > 0], form).r2 for form in ("power", "exponential")]]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    made = tables() | (public(asked.data) if asked.write or find_data(PUBLIC[0], asked.data) else {})
    print(show(made))
    if asked.write:
        write_result("what_holds", made)


if __name__ == "__main__":
    main()
