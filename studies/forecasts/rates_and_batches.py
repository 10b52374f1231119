"""Rate and batch of a model that is larger than any that was tuned: a valley in log rate and log batch.

    python -m studies rates_and_batches --data ../shared/data            # the table of choices at 302M and 589M
    python -m studies rates_and_batches --data ../shared/data --write    # and what pages show and the package ships

Of each size and token count the best rate goes as N^a D^b, the best batch as N^c D^d, and the log of the loss rises
as a quadratic form of the logs of both about them, one for all (`cptlaw.answering.batches`). Fitted to the sizes below,
each choice is judged by the loss of the grid's nearest rate and batch over the grid's best. What is fitted (points
within 1 % of their cell's best) was chosen at 302M and is judged at 589M. Beside it stand two published formulas and
the best point of the largest smaller size at equal tokens. Their constants are those of accounts of the papers
(emergentmind.com/papers/2503.04715; codestar12.github.io/llm-hparam-flop-calculator for arXiv:2401.02954). Both count
parameters without embeddings; what the grid counts is not stated.

Data: OpenEuroLLM/dense_english_scaling_laws, 687 runs of 48M to 589M parameters, annealed losses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.answering import batches
from cptlaw.schedules.valley import Valley, fit_valley
from studies.harness import find_data, show, write_result

FILE = "openeuro_dense.csv"
COMMAND = "python -m studies rates_and_batches --data ../shared/data --write"
SEQUENCE = 4096  # tokens
HOME = Path(batches.__file__).with_name("batches.json")
Choice = Callable[[float, float], tuple[float, float]]


def load(data: str | None) -> pd.DataFrame:
    """Return the mean loss of each size, token count, rate and batch (in tokens)."""
    path = find_data(FILE, data)
    if path is None:
        raise SystemExit(f"{FILE} is not in the data folder (--data).")
    runs = pd.read_csv(path)
    runs["batch"] = runs["batch_seqs"] * float(SEQUENCE)
    return runs.groupby(["n_params", "tokens", "lr", "batch"])["loss"].mean().reset_index()


def fitted(runs: pd.DataFrame) -> Valley:
    """Return the most likely valley; the best loss of each cell is free."""
    return fit_valley(runs.rename(columns={"lr": "lr_peak", "batch": "batch_tokens"}))


def steplaw(n_params: float, tokens: float) -> tuple[float, float]:
    """Return rate and batch by Li et al. 2025, arXiv:2503.04715."""
    return 1.79 * n_params**-0.713 * tokens**0.307, 0.58 * tokens**0.571


def deepseek(n_params: float, tokens: float) -> tuple[float, float]:
    """Return rate and batch by DeepSeek-AI 2024, arXiv:2401.02954, with 6 N D as the compute."""
    compute = 6 * n_params * tokens
    return 0.3118 * compute**-0.125, 0.292 * compute**0.3271


def nearest(runs: pd.DataFrame, rate: float, batch: float) -> float:
    """Return the loss of the run of a cell whose rate and batch are the nearest in logs."""
    away = np.hypot(np.log(runs["lr"] / rate), np.log(runs["batch"] / batch))
    return float(runs["loss"].iloc[int(np.argmin(away))])


def judged(runs: pd.DataFrame, choice: Choice) -> np.ndarray:
    """Return, by token count of one size, how many nats the choice loses against the best of the grid."""
    cells = (cell for _, cell in runs.groupby(["n_params", "tokens"]))
    firsts = ((cell, *cell[["n_params", "tokens"]].iloc[0].tolist()) for cell in cells)
    return np.array([nearest(cell, *choice(size, tokens)) - cell["loss"].min() for cell, size, tokens in firsts])


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    runs = load(None)
    return [
        vars(fitted(runs[runs["n_params"] < 1e8])),
        judged(runs[runs["n_params"] == runs["n_params"].max()], steplaw),
    ]


def main() -> None:
    """Print the table, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help=f"replace {HOME.name}")
    asked = parser.parse_args()
    runs = load(asked.data)
    lines = []
    for size in sorted(runs["n_params"].unique())[2:]:
        below, at = runs[runs["n_params"] < size], runs[runs["n_params"] == size]
        last = below[below["n_params"] == below["n_params"].max()]

        tuned = last.loc[last.groupby("tokens")["loss"].idxmin()].set_index("tokens")

        def as_below(_: float, tokens: float, tuned: pd.DataFrame = tuned) -> tuple[float, float]:
            return float(tuned["lr"].loc[tokens]), float(tuned["batch"].loc[tokens])

        choices: dict[str, Choice] = {
            "valley, from the sizes below": fitted(below).best,
            "as the next smaller size": as_below,
            "StepLaw (published)": steplaw,
            "DeepSeek (published)": deepseek,
        }
        for name, choice in choices.items():
            lost = judged(at, choice)
            shown = (np.median(lost), np.mean(lost), np.max(lost))
            values = [f"{value:.4f}" for value in shown]
            lines.append([f"{size / 1e6:.0f}M", name, len(lost), *values])
    heads = ["size", "chosen by", "token counts", "median nats lost", "mean", "most"]
    tables = {"choices": pd.DataFrame(lines, columns=heads)}
    print(show(tables))
    every = fitted(runs)
    print("all sizes:", every)
    if asked.write:
        write_result("rates_and_batches", tables, COMMAND)
        HOME.write_text(
            json.dumps({name: round(float(value), 4) for name, value in vars(every).items()}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
