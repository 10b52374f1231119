"""Forecasts of the highest budget from lower ones, on every shift that has been measured: one table.

For each example with budgets, laws are fitted to runs at 15 and 31, at 31, 62 and 124, or at all four, and forecast the
runs at 279 tokens per parameter: replay 0.10, 0.25 and 0.50, constant rate at the usual peak, from 1.9 tokens of
adaptation per parameter on. `shared-tokens` also reads the losses of the base models at the fitted budgets. Where the
rows leave a law open, the range over equal fits stands for one number (`open_fits`), and beside it the error of the fit
that a user gets, with learned priors.

Run it as ``python -m studies budgets_by_shift`` (ten minutes), or with the names of examples; ``--write`` keeps the
tables for studies/measured_tables.md: all shifts, and the ladder by the size of the models that are forecast.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import progress, show, write_result
from studies.papers.open_fits import error_of_a_user, error_text, open_fit

NAMES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
BUDGET_LAWS = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", "ptpp-blind", "ptpp-nearest")
SHARED = "shared-tokens:without=lr_peak+lr_pretrain"
SPLITS = ("15, 31", "31, 62, 124", "15, 31, 62, 124")
HELD_OUT = 279
SIZES = {(0.0, 5e4): "30K to 46K", (5e4, 1.5e5): "75K to 125K", (1.5e5, 1e9): "204K and 371K"}
USERS = (*BUDGET_LAWS[:3], SHARED)


def usual_rows(runs: cl.Runs) -> cl.Runs:
    """Return the rows at constant rate and the usual peak of each size, and the base models, all annealed."""
    frame = runs.frame
    base = frame["tokens"] == 0
    keep = (frame["lr_schedule"] == "constant") & frame["replay"].isin((0.1, 0.25, 0.5))
    keep &= frame["tokens"] >= 1.9 * frame["n_params"]
    if "lr_peak" in frame:
        usual = frame[keep].groupby("n_params")["lr_peak"].agg(lambda rates: rates.mode().iloc[0])
        keep &= np.isclose(frame["lr_peak"], frame["n_params"].map(usual))
    annealed = frame["pretrain_decay"] > 0 if "pretrain_decay" in frame else True
    rows = frame[(keep | base) & annealed & (frame["ptpp"] <= HELD_OUT)]
    return cl.read_runs(rows.reset_index(drop=True), n_params_kind="total")


def forecasts(name: str) -> pd.DataFrame:
    """Return every forecast of the held-out budget, a row each: shift, loss, fitted on, law, what was fitted, tests.

    Columns ``errors``, (equal fits, tests), and ``user``, (tests,), hold errors in per cent.
    """
    runs = usual_rows(cl.examples.load(name))
    found = []
    for on in ("target", "source"):
        test = runs.where(f"ptpp == {HELD_OUT} and tokens > 0").frame
        test = test[test["eval"] == on]
        for split, law in itertools.product(SPLITS, (*BUDGET_LAWS, SHARED)):
            progress(f"{name}, {on}, {split}: {law}")
            where = f"ptpp in ({split})" + ("" if law == SHARED else " and tokens > 0")
            row = {
                "shift": name,
                "loss": on,
                "fitted on": split,
                "law": law.partition(":")[0],
                "sizes": test["n_params"],
            }
            row["errors"] = open_fit(law, runs, on, where).errors(test)
            row["user"] = error_of_a_user(law, runs, on, where, test) if law in USERS else None
            found.append(row)
    return pd.DataFrame(found)


def wide(found: pd.DataFrame, by: list[str], column: str = "text") -> pd.DataFrame:
    """Return errors with the laws beside each other."""
    laws = list(dict.fromkeys(found["law"]))
    table = found.pivot_table(index=by, columns="law", values=column, aggfunc="first", sort=False)[laws]
    return table.reset_index()


def by_size(found: pd.DataFrame) -> pd.DataFrame:
    """Return errors by the group of sizes that is forecast."""
    rows = []
    for (low, high), group in SIZES.items():
        for row in found.itertuples():
            asked = row.sizes.between(low, high).to_numpy()
            if asked.any():
                said = {"loss": row.loss, "fitted on": row[3], "models asked": group, "law": row.law}
                rows.append(said | {"text": error_text(row.errors[:, asked])})
    table = pd.DataFrame(rows)
    order = {name: place for place, name in enumerate((*SPLITS, "target", "source", *SIZES.values()))}
    keys = ["loss", "fitted on", "models asked"]
    return wide(table.sort_values(keys, key=lambda each: each.map(order), kind="stable"), keys)


def tables(names: Sequence[str] = NAMES) -> dict[str, pd.DataFrame]:
    """Return all shifts, what a user gets there, and the ladder by the size of what is forecast."""
    found = pd.concat([forecasts(name) for name in names], ignore_index=True)
    found["text"] = found["errors"].map(error_text)
    users = found[found["law"].isin([law.partition(":")[0] for law in USERS])]
    users = users.assign(user=users["user"].map(lambda errors: f"{errors.mean():.2f}"))
    ladder = found[(found["shift"] == "en-fr-ladder") & (found["fitted on"] != SPLITS[2])]
    keys = ["shift", "loss", "fitted on"]
    return {"shifts": wide(found, keys), "users": wide(users, keys, "user"), "sizes": by_size(ladder)}


def probe() -> np.ndarray:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    runs = usual_rows(cl.examples.load("docs-to-manuals"))
    held = runs.on("target").where(f"ptpp == {HELD_OUT} and tokens > 0").frame
    return error_of_a_user(SHARED, runs, "target", f"ptpp in ({SPLITS[1]}) and tokens > 0", held)


def main() -> None:
    """Print the tables as Markdown, and write them where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, help="examples; all with budgets where absent")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    made = tables(asked.names)
    print(show(made))
    if asked.write:
        write_result("budgets_by_shift", made)


if __name__ == "__main__":
    main()
