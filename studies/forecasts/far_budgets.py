"""Forecasts of far budgets from few of one model size: tiny decoders adapted to one target loss (`marek_*.csv`).

    python -m studies far_budgets --data ../shared/data              # the table; two minutes of CPU
    python -m studies far_budgets --data ../shared/data --write      # and into studies/bench.md

Of each of thirteen sizes the first three or four of eleven budgets are fitted, with and without the base models'
losses, and the source losses of all others are forecast. A source loss is the base model's, from a sum of powers
fitted to the published contours (.5 % of the loss), and the published rise. Below stand three losses that fall ever
less from budget to budget, and what is forecast of longer ones.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import cptlaw as cl
from studies.harness import Array, data_file, progress, show, write_result

CONTOURS, FORGETTING = "marek_base_loss_contours.csv", "marek_size_ptpp_forgetting.csv"
TOKENS = 2e7  # of CPT
FIRST = (3, 4)  # budgets that are fitted
START = np.log([2.0, 0.7, 0.4, 0.6, 0.4])
THREE = pd.DataFrame(
    {"run": ["a", "b", "c"], "eval": "source", "loss": [4.16, 3.86, 3.73], "n_params": 5767168.0, "tokens": 1e8}
).assign(ptpp=[10.0, 31.6, 100.0])
AHEAD = [316.0, 1000.0, 3160.0, 10000.0]


def base_loss(v: Array, n_params: Array, ptpp: Array) -> Array:
    """Return the loss of base models by a sum of powers, its logs in `v`."""
    floor, of_size, a, of_tokens, b = np.exp(v)
    values: Array = floor + of_size * (n_params / 1e7) ** -a + of_tokens * (n_params * ptpp / 1e9) ** -b
    return values


def load(folder: str | None) -> pd.DataFrame:
    """Return one row per size and budget: source loss after CPT without a regulariser, and the base model's."""
    known = pd.read_csv(data_file(CONTOURS, folder))
    inputs = known["n_params"].to_numpy(dtype=float), known["ptpp"].to_numpy(dtype=float)
    fitted = least_squares(lambda v: base_loss(v, *inputs) - known["base_source_loss"].to_numpy(), START).x
    rows = pd.read_csv(data_file(FORGETTING, folder))
    rows = rows[rows["regularizer"] == "none"].sort_values(["n_params", "ptpp"]).reset_index(drop=True)
    base = base_loss(fitted, rows["n_params"].to_numpy(dtype=float), rows["ptpp"].to_numpy(dtype=float))
    rows = rows.assign(base=base, loss=base + rows["forgetting_nats_smoothed"], tokens=TOKENS, eval="source")
    return rows.assign(run=rows.index.map("run {}".format))[
        ["run", "eval", "loss", "n_params", "tokens", "ptpp", "base"]
    ]


def record(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per size, number of fitted budgets, and whether base models are measured; errors in per cent."""
    found = []
    for measured in (False, True):
        for count in FIRST:
            progress(f"{count} budgets, base models {'measured' if measured else 'not measured'}")
            for size, part in rows.groupby("n_params"):
                seen, ahead = part.iloc[:count], part.iloc[count:]
                bases = seen.assign(run=seen["run"] + " base", loss=seen["base"], tokens=0.0)
                table = pd.concat([seen, bases]) if measured else seen
                fit = cl.fit("auto", table.drop(columns="base").reset_index(drop=True), "source")
                low, middle, high = fit.log_quantiles(ahead.drop(columns=["base", "loss"]), [0.05, 0.5, 0.95])
                loss = np.log(ahead["loss"].to_numpy(dtype=float))
                found.append(
                    {
                        "base models": "measured" if measured else "not measured",
                        "budgets": count,
                        "size": size,
                        "error": 100 * float(np.abs(middle - loss).mean()),
                        "mean error": 100 * float((middle - loss).mean()),
                        "last run": 100 * float(np.abs(np.log(seen["loss"].iloc[-1]) - loss).mean()),
                        "inside 90 %": float(np.mean((low <= loss) & (loss <= high))),
                    }
                )
    return pd.DataFrame(found)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return means over sizes, and the forecasts from three falling losses."""
    means = record(rows).drop(columns="size").groupby(["base models", "budgets"], sort=False).mean().reset_index()
    formats = {"error": "{:.2f}", "mean error": "{:+.2f}", "last run": "{:.1f}", "inside 90 %": "{:.2f}"}
    series = means.assign(**{name: means[name].map(text.format) for name, text in formats.items()})
    fit = cl.fit("auto", THREE, "source")
    asked = pd.DataFrame({"n_params": THREE["n_params"].iloc[0], "tokens": THREE["tokens"].iloc[0], "ptpp": AHEAD})
    said = fit.forecast(asked, 0.9)
    three = pd.DataFrame({"budget": [f"{one:,.0f}" for one in AHEAD]})
    return {
        "series": series,
        "three": three.assign(**{name: said[name].map("{:.2f}".format) for name in ("loss", "lo", "hi")}),
    }


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    asked = pd.DataFrame({"n_params": THREE["n_params"].iloc[0], "tokens": THREE["tokens"].iloc[0], "ptpp": AHEAD})
    return cl.fit("auto", THREE, "source").forecast(asked, 0.9)


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    made = tables(load(asked.data))
    print(show(made))
    if asked.write:
        write_result("far_budgets", made, "python -m studies far_budgets --data ../shared/data --write")


if __name__ == "__main__":
    main()
