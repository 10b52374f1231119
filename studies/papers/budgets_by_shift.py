"""Forecasts of the highest budget from lower ones, on every shift that has been measured: one table.

For each example with budgets, laws are fitted to runs at 15 and 31, at 31, 62 and 124, or at all four, and forecast the
runs at 279 tokens per parameter: replay 0.10, 0.25 and 0.50, constant rate at the usual peak, from 1.9 tokens of
adaptation per parameter on. `shared-tokens` also reads the losses of the base models at the fitted budgets.

Run it as ``python -m studies budgets_by_shift`` (a minute or two), or with the names of examples; ``--write`` keeps the
tables for studies/measured_tables.md: all shifts, and the ladder by the size of the models that are forecast.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import show, write_result

NAMES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
BUDGET_LAWS = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", "ptpp-blind", "ptpp-nearest")
SHARED = "shared-tokens:without=lr_peak+lr_pretrain"
SPLITS = ("15, 31", "31, 62, 124", "15, 31, 62, 124")
HELD_OUT = 279
SIZES = ("30K to 46K", "75K to 125K", "204K and 371K")


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


def forecasts(name: str, starts: int = 24) -> pd.DataFrame:
    """Return every forecast of the held-out budget: shift, loss, fitted on, law, n_params, error in percent."""
    runs = usual_rows(cl.examples.load(name))
    found = []
    for on in ("target", "source"):
        test = runs.where(f"ptpp == {HELD_OUT} and tokens > 0").frame
        test = test[test["eval"] == on]
        for split, law in itertools.product(SPLITS, (*BUDGET_LAWS, SHARED)):
            rows_read = f"ptpp in ({split})" + ("" if law == SHARED else " and tokens > 0")
            how = {} if law == SHARED else {"starts": starts}
            fit = cl.fit(law, runs, on, rows_read, restraint="none", **how)
            error = 100 * np.abs(fit.predict(test) / test["loss"].to_numpy() - 1)
            said = {"shift": name, "loss": on, "fitted on": split, "law": law.partition(":")[0]}
            found.append(pd.DataFrame({"n_params": test["n_params"], "error": error}).assign(**said))
    return pd.concat(found, ignore_index=True)


def wide(found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean errors with the laws beside each other."""
    laws = [law.partition(":")[0] for law in (*BUDGET_LAWS, SHARED)]
    mean = found.groupby([*by, "law"], sort=False)["error"].mean().unstack("law")[laws]
    return mean.map("{:.2f}".format).reset_index()


def tables(names: Sequence[str] = NAMES) -> dict[str, pd.DataFrame]:
    """Return all shifts, and the ladder by the size of what is forecast."""
    found = pd.concat([forecasts(name) for name in names], ignore_index=True)
    ladder = found[found["shift"] == "en-fr-ladder"]
    groups = ladder.assign(**{"models asked": pd.cut(ladder["n_params"], [0, 5e4, 1.5e5, 1e9], labels=SIZES)})
    by_size = groups[groups["fitted on"] != SPLITS[2]]
    return {
        "shifts": wide(found, ["shift", "loss", "fitted on"]),
        "sizes": wide(by_size.astype({"models asked": str}), ["loss", "fitted on", "models asked"]),
    }


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
