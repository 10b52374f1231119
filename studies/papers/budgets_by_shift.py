"""Forecasts of the highest budget from lower ones, on every shift that has been measured: one table.

For each example with budgets, laws are fitted to runs at 15 and 31, at 31, 62 and 124, or at all four, and forecast the
runs at 279 tokens per parameter: replay 0.10, 0.25 and 0.50, constant rate at the usual peak, from 1.9 tokens of
adaptation per parameter on. `shared-tokens` also reads the losses of the base models at the fitted budgets.

Run it as ``python -m studies budgets_by_shift`` (a minute or two), or with the names of examples.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl

NAMES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
BUDGET_LAWS = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", "ptpp-nearest")
SHARED = "shared-tokens:without=lr_peak+lr_pretrain"
SPLITS = ("15, 31", "31, 62, 124", "15, 31, 62, 124")
HELD_OUT = 279


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


def errors(name: str, starts: int = 24) -> pd.DataFrame:
    """Return mean absolute relative errors in percent at the held-out budget: a row per loss and split."""
    runs = usual_rows(cl.examples.load(name))
    rows = []
    for on in ("target", "source"):
        test = runs.where(f"ptpp == {HELD_OUT} and tokens > 0").frame
        test = test[test["eval"] == on]
        for split in SPLITS:
            row: dict[str, object] = {"shift": name, "loss": on, "fitted on": split}
            for law in (*BUDGET_LAWS, SHARED):
                rows_read = f"ptpp in ({split})" + ("" if law == SHARED else " and tokens > 0")
                fit = cl.fit(
                    law, runs, on, rows_read, **({} if law == SHARED else {"starts": starts}), restraint="none"
                )
                error = np.abs(fit.predict(test) / test["loss"].to_numpy() - 1)
                row[law.partition(":")[0]] = 100 * float(np.mean(error))
            rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, help="examples; all with budgets where absent")
    table = pd.concat([errors(name) for name in parser.parse_args().names], ignore_index=True)
    print("| " + " | ".join(table.columns) + " |\n" + "|---" * 3 + "|---:" * (len(table.columns) - 3) + "|")
    for row in table.itertuples(index=False):
        print("| " + " | ".join(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row) + " |")


if __name__ == "__main__":
    main()
