"""What the cards of the example runs say in numbers, computed from their rows.

    python -m studies measured_facts                # all of them
    python -m studies measured_facts code-to-prose
    python -m studies measured_facts --write        # into the cards, between their two marks

A test compares the cards in `cptlaw/examples/` with this, so that no card says what its table does not.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl

NAMES = ("en-fr-ladder", "code-to-prose", "docs-to-manuals", "domains")
BEGIN, END = "<!-- computed from the rows -->", "<!-- end -->"
CELL = [
    "domain",
    "n_params",
    "ptpp",
    "seed",
    "lr_pretrain",
    "pretrain_decay",
    "lr_schedule",
    "lr_peak",
    "replay",
    "eval",
]
BASE = ["n_params", "ptpp", "seed", "lr_pretrain", "pretrain_decay"]


def rows_of(name: str) -> pd.DataFrame:
    """Return the rows of an example with every column that cells are told apart by."""
    frame = cl.examples.load(name).frame.copy()
    for column, value in (("domain", "one"), ("pretrain_decay", 0.15)):
        frame[column] = (
            frame[column].astype(str) if column in frame and column == "domain" else frame.get(column, value)
        )
    frame["eval"] = frame["eval"].astype(str)
    return frame


def facts(name: str) -> list[str]:
    """Return lines of a Markdown list: what the table holds, and what it shows."""
    frame = rows_of(name)
    runs, bases = frame[frame["tokens"] > 0], frame[frame["tokens"] == 0]
    lines = [_holds(frame, runs, bases)]
    plain = runs[(runs["lr_schedule"] == "constant") & (runs["pretrain_decay"] > 0)]
    best = plain.groupby("n_params")["lr_peak"].agg(lambda rates: rates.mode().iloc[0])
    plain = plain[plain["lr_peak"] == plain["n_params"].map(best)]
    last = (
        plain.sort_values("tokens")
        .groupby([name for name in CELL if name != "lr_schedule"], observed=True)["loss"]
        .last()
    )
    last = last.rename("loss").reset_index()
    known = bases[bases["eval"] == "source"].groupby(BASE)["loss"].mean()
    source = last[last["eval"] == "source"]
    source = source.assign(
        forgetting=source["loss"].to_numpy() / known.reindex(pd.MultiIndex.from_frame(source[BASE])).to_numpy() - 1
    )
    lines += _forgetting(source, name)
    target = last[last["eval"] == "target"].set_index([name for name in CELL if name not in ("eval", "lr_schedule")])[
        "loss"
    ]
    table = target.unstack("replay")
    if {0.0, 0.1} <= set(table):
        cost = 100 * (table[0.1] / table[0.0] - 1).dropna()
        lines.append(f"- Replay 0.10 instead of none changes the target loss at the end of a run by {_range(cost)} %.")
    decayed = runs[runs["lr_schedule"] == "wsd"]
    if len(decayed):
        lines.append(_gain(decayed, plain, "- Decaying the last quarter takes"))
    other = runs[
        (runs["lr_schedule"] == "constant")
        & (runs["pretrain_decay"] > 0)
        & (runs["lr_peak"] != runs["n_params"].map(best))
    ]
    for size, rows in other.groupby("n_params"):
        times = float(rows["lr_peak"].iloc[0] / best[size])
        lines.append(_gain(rows, plain, f"- {times:g} times the usual rate, {size:,.6g} parameters, takes"))
    lines += _noise(plain)
    return lines


def _holds(frame: pd.DataFrame, runs: pd.DataFrame, bases: pd.DataFrame) -> str:
    def levels(column: str) -> str:
        return ", ".join(f"{value:,.6g}" for value in sorted(runs[column].unique()))

    n_bases = len(bases[BASE].drop_duplicates())
    return (
        f"- {len(frame):,} losses of {runs['run'].nunique()} runs and {n_bases} base model{'s' * (n_bases > 1)}: "
        f"parameters {levels('n_params')}; budgets {levels('ptpp')}; replay {levels('replay')}."
    )


def _forgetting(source: pd.DataFrame, name: str) -> list[str]:
    parts = []
    keys = ["domain"] if name == "domains" else ["n_params"]
    for key, group in source.groupby(keys[0]):
        budgets = [group["ptpp"].min(), group["ptpp"].max()]
        for budget in dict.fromkeys(budgets):
            at = group[group["ptpp"] == budget].groupby("replay")["forgetting"].mean()
            said = ", ".join(
                f"{round(100 * at[replay])} % at {replay:g}"
                for replay in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)
                if replay in at
            )
            what = f"{key:,.6g} parameters" if keys[0] == "n_params" else str(key)
            parts.append(f"- Forgetting at the end of the runs, {what}, budget {budget:g}, by replay: {said}.")
    return parts


def _gain(rows: pd.DataFrame, plain: pd.DataFrame, lead: str) -> str:
    """Say what other runs gain over the plain ones at the same tokens."""
    keys = [name for name in CELL if name not in ("lr_schedule", "lr_peak")] + ["tokens"]
    ends = rows[rows["tokens"] == rows.groupby("run", observed=True)["tokens"].transform("max")]
    same = plain.drop_duplicates(keys).set_index(keys)["loss"]
    losses = ends.set_index([*keys])["loss"]
    change = 100 * (1 - losses / same.reindex(losses.index)).dropna()
    by = change.groupby(level="eval").agg(["mean", "min", "max"])
    said = "; ".join(
        f"{row['mean']:.1f} % off the {on} loss ({row['min']:.1f} to {row['max']:.1f})" for on, row in by.iterrows()
    )
    return f"{lead} {said}, at the same tokens."


def _noise(plain: pd.DataFrame) -> list[str]:
    """Say how base models of other seeds differ, and how much of that all their runs share."""
    keys = ["n_params", "ptpp", "lr_peak", "replay", "eval", "domain", "tokens"]
    logs = np.log(plain.set_index([*keys, "seed"])["loss"]).unstack("seed")
    logs = logs.dropna() if logs.shape[1] > 1 else logs.iloc[:0]
    lines = []
    for (size, on), cells in logs.groupby(level=["n_params", "eval"]):
        apart = cells.sub(cells.mean(axis=1), axis=0)
        count = cells.shape[1]
        total = float((apart**2).sum(axis=1).mean() / (count - 1))
        shared = apart.groupby(level=["n_params", "ptpp"]).mean()
        between = float((shared**2).sum(axis=1).mean() / (count - 1))
        lines.append(
            f"- Seeds of the base model, {size:,.6g} parameters: the {on} loss differs by {100 * total**0.5:.1f} % "
            f"(one standard deviation, {count} seeds), {100 * between / total:.0f} % of that variance shared by all "
            f"runs of a base model."
        )
    return lines


def _range(values: pd.Series) -> str:
    return f"{values.min():.1f} to {values.max():.1f} (mean {values.mean():.1f})"


def main() -> None:
    """Print the facts of the examples asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put them into the cards")
    parser.add_argument("names", nargs="*", default=NAMES, help="examples; all of the cards that are computed")
    asked = parser.parse_args()
    for name in asked.names:
        text = "\n".join(facts(name))
        print(f"## {name}\n\n{text}\n")
        if asked.write:
            card = cl.examples.path(name).with_suffix(".md")
            before, _, rest = card.read_text(encoding="utf-8").partition(BEGIN)
            card.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
