"""Forecasts of fine-tuning (`sft_flan.csv`): more samples, and a larger base model, by family of base models.

    python -m studies fine_tuning --data ../shared/data            # the table; a quarter of a minute of CPU
    python -m studies fine_tuning --data ../shared/data --write    # and into studies/bench.md

Losses of thirty open models of eight families after fine-tuning on 200 to 1.6 million samples. No law is named; beside
law auto stand its laws, and for more samples a straight line of log loss on log samples through the last four points
of the same base model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import Array, data_file, progress, show, write_result

FILE = "sft_flan.csv"
# Samples that are fitted at most, and the fewest and the most that are asked.
MORE = {"8 times the samples": (12_800, 102_400, 102_400), "8 to 32 times": (51_200, 409_600, 1_638_400)}
LARGER = "the largest size"
LINE_POINTS = 4


def load(file: pd.DataFrame, family: str) -> pd.DataFrame:
    """Return the rows of one family as a table: a run per base model, samples as tokens."""
    rows = file[file["family"] == family]
    amounts = [name for name in rows.columns if name.isdigit()]
    long = rows.melt(["config name", "size"], amounts, "tokens", "loss").dropna(subset="loss")
    table = pd.DataFrame({"run": long["config name"], "eval": "target", "n_params": long["size"].astype(float)})
    return table.assign(tokens=long["tokens"].astype(float), loss=long["loss"])


def cuts(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series[bool], pd.Series[bool]]]:
    """Yield what is forecast, the rows to fit, and the rows to forecast."""
    samples, size = table["tokens"], table["n_params"]
    for name, (fitted, fewest, most) in MORE.items():
        yield name, samples <= fitted, samples.between(fewest, most)
    yield LARGER, size < size.max(), (size == size.max()) & (samples > 0)


def line(lower: pd.DataFrame, upper: pd.DataFrame) -> Array:
    """Return log losses on the straight line through the last points of each run, (n,)."""
    forecast = np.zeros(len(upper))
    for i, (run, samples) in enumerate(zip(upper["run"], upper["tokens"], strict=True)):
        own = lower[(lower["run"] == run) & (lower["tokens"] > 0)].nlargest(LINE_POINTS, "tokens")
        slope, start = np.polyfit(np.log(own["tokens"]), np.log(own["loss"]), 1)
        forecast[i] = start + slope * np.log(samples)
    return forecast


def forecasts(table: pd.DataFrame, family: str) -> Iterator[dict[str, object]]:
    """Yield the errors of each cut, in per cent."""
    for name, fitted, asked in cuts(table):
        progress(f"{family}: {name}")
        lower, upper = table[fitted], table[asked]
        fit = cl.fit("auto", lower.reset_index(drop=True), "target")
        loss = np.log(upper["loss"].to_numpy(dtype=float))
        low, middle, high = fit.log_quantiles(upper, [0.05, 0.5, 0.95])
        laws = {"auto": middle} | {member.fit.law.name: np.log(member.fit.predict(upper)) for member in fit.members}
        laws |= {} if name == LARGER else {"line": line(lower, upper)}
        errors = {law: 100 * float(np.abs(said - loss).mean()) for law, said in laws.items()}
        inside = float(np.mean((low <= loss) & (loss <= high)))
        bias = 100 * float((middle - loss).mean())
        yield {"family": family, "kind": name, **errors, "bias": bias, "inside": inside}


def tables(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the geometric mean errors over the families by what is forecast, and the errors of each family."""
    names = ["auto", "transfer", "rectified", "line"]
    means = np.exp(np.log(found.set_index("kind")[names]).groupby("kind", sort=False).mean())
    told = means.map(lambda value: "-" if np.isnan(value) else f"{value:.1f}")
    told["bias of auto"] = found.groupby("kind", sort=False)["bias"].mean().map("{:+.1f}".format)
    told["inside 90 %"] = found.groupby("kind", sort=False)["inside"].mean().map("{:.2f}".format)
    by_family = found.pivot(index="family", columns="kind", values="auto")[list(found["kind"].unique())]
    return {
        "kinds": told.reset_index().rename(columns={"kind": "forecast"}),
        "families": by_family.map("{:.1f}".format).reset_index(),
    }


def probe() -> dict[str, object]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    file = pd.read_csv(data_file(FILE, None))
    family = sorted(file["family"].unique())[0]
    return next(forecasts(load(file, family), family))


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    file = pd.read_csv(data_file(FILE, asked.data))
    rows = (row for family in sorted(file["family"].unique()) for row in forecasts(load(file, family), family))
    made = tables(pd.DataFrame(rows))
    print(show(made))
    if asked.write:
        write_result("fine_tuning", made, "python -m studies fine_tuning --data ../shared/data --write")


if __name__ == "__main__":
    main()
