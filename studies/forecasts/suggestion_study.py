"""Compare suggested next runs with the paper's anchor grid and with random ones, for the same compute.

The design is the PTPP paper's (Goffinet et al. 2025, arXiv:2510.23198) with two pre-training budgets, 15 and 31 tokens
per parameter: four sizes, three mixes. The law's dependence on the budget is then not identified, and the forecast at
279 is wanted. The paper's remedy is 20 anchors: the smallest size at 279, over mixes and tokens. This script gives the
same FLOPs, base model included, to `cptlaw.suggest` and to random affordable cells, measures all with the same noise,
fits the same law and compares the errors at 279 with the noise-free truth. By default `suggest` may also use a model of
half the smallest size; "own sizes" keeps it to the four of the table. Random cells come from the default candidates.

Every data set has its own truth: the coefficients of `simulate.PTPP_TRUTHS`, each multiplied by exp(0.2 z). Losses
carry noise of the published size, 0.2 %, half of its variance shared by the points of a run. Errors are absolute, in
per cent of the loss: at the asked point (the paper's plan: 8.1B, 72B tokens, replay 34 %), and as a mean over all
points of the three larger sizes at 279. SIMULATED throughout.

    python -m studies suggestion_study            # about ten minutes for each truth
    python -m studies suggestion_study --small    # seconds
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.laws.calculus import Array
from cptlaw.planning import Suggestion
from cptlaw.planning.next_runs.cells import Bases, CandidateRun, Offer, candidates
from cptlaw.planning.next_runs.open_forecast import MOST_CELLS
from cptlaw.planning.result import flops_of
from cptlaw.runs.points import point
from studies import simulate

LAWS = ("ptpp-floor", "ptpp-gated-floor")
ASKED = "n_params=8.1B,tokens=72B,replay=34%,ptpp=279"
BUDGET_ASKED, SMALLEST = 279.0, simulate.PTPP_SIZES[0]
SPREAD = 0.2  # of the coefficients of a truth, in logs
NOISE = 0.002 / np.sqrt(2.0)  # of a point, and of a run
STARTS = 16
ARMS = ("no new runs", "anchor grid", "random cells", "random, asked base", "suggested, own sizes", "suggested")


def base_price(bases: Bases, cell: CandidateRun, trunks: Mapping[float, float]) -> float:
    """Return what the base model of a cell still costs, in FLOPs, once trunks were paid for: by size, their budget."""
    return float(Offer([cell], bases).base_prices(trunks)[0])


def truth_of(law_name: str, rng: np.random.Generator) -> simulate.Truth:
    """Draw a truth around the one of `simulate`."""
    chosen, centre = cl.law(law_name), simulate.PTPP_TRUTHS["target"]
    params = {name: centre.params[name] * np.exp(SPREAD * rng.standard_normal()) for name in chosen.parameters}
    if "lambda" in params:
        params["lambda"] = min(params["lambda"], 0.9)
    return simulate.Truth(law_name, params)


def anchor_grid() -> list[CandidateRun]:
    """Return the paper's anchors: one run for each mix, 20 points in all."""
    grid = tuple(SMALLEST * ratio for ratio in simulate.PTPP_ATPP)
    points = [grid[1:], grid, grid]  # 6 + 7 + 7
    return [
        CandidateRun(SMALLEST, BUDGET_ASKED, replay, grid[-1], at)
        for replay, at in zip(simulate.PTPP_REPLAY, points, strict=True)
    ]


def random_cells(
    found: Sequence[CandidateRun], bases: Bases, budget: float, rng: np.random.Generator
) -> list[CandidateRun]:
    """Draw cells at random among those that can still be paid for, until there is none, or as many as are suggested."""
    chosen: list[CandidateRun] = []
    trunks: dict[float, float] = {}
    while len(chosen) < MOST_CELLS:
        price = np.array([base_price(bases, cell, trunks) + cell.run_flops for cell in found])
        open_cells = np.flatnonzero(price <= budget)
        if not len(open_cells):
            break
        cell = found[int(rng.choice(open_cells))]
        budget -= base_price(bases, cell, trunks) + cell.run_flops
        if base_price(bases, cell, trunks) > 0 and cell.ptpp is not None:
            trunks[cell.n_params] = cell.ptpp
        chosen.append(cell)
    return chosen


def cells_of(suggestion: Suggestion) -> list[CandidateRun]:
    """Return the suggested cells as candidates."""
    return [
        CandidateRun(cell.n_params, cell.ptpp, cell.replay, cell.tokens, cell.checkpoints) for cell in suggestion.cells
    ]


def design_of(cells: Sequence[CandidateRun]) -> pd.DataFrame:
    """Return the points of cells as a design to measure."""
    rows = [
        {"run": f"next-{i}", "n_params": cell.n_params, "tokens": at, "replay": cell.replay, "ptpp": cell.ptpp}
        for i, cell in enumerate(cells)
        for at in cell.checkpoints
    ]
    return pd.DataFrame(rows)


def errors_at(fit: cl.Fit, truth: simulate.Truth, frame: pd.DataFrame) -> Array:
    """Return absolute errors against the noise-free truth, per cent."""
    exact = cl.law(truth.law).predict(truth.params, frame, "target")
    error: Array = 100 * np.abs(fit.predict(frame) / exact - 1)
    return error


def one_data_set(law_name: str, seed: int) -> list[dict[str, object]]:
    """Simulate one data set, add the cells of each arm, and score the forecasts."""
    rng = np.random.default_rng([seed, LAWS.index(law_name)])
    truth = truth_of(law_name, rng)
    truths = {"target": truth}

    def measured(design: pd.DataFrame, stream: int) -> pd.DataFrame:
        return simulate.measure(design, truths, noise=NOISE, run_noise=NOISE, seed=10 * seed + stream)

    have = measured(simulate.ptpp_design(ptpp=(15.0, 31.0)), 0)
    runs = cl.read_runs(have)
    anchors = anchor_grid()
    bases = Bases.of(runs.frame)
    budget = sum(cell.run_flops for cell in anchors) + base_price(bases, anchors[0], {})
    suggestion = cl.suggest(law_name, runs, "target", at=ASKED, budget=budget, starts=STARTS)
    own_sizes = cl.suggest(
        law_name, runs, "target", at=ASKED, budget=budget, starts=STARTS, sizes=list(simulate.PTPP_SIZES)
    )
    before = cl.fit(law_name, runs, "target", starts=STARTS, restraint="none")
    asked = point(ASKED)
    found = candidates(before, runs.frame, asked.iloc[0])
    on_asked = [cell for cell in found if cell.n_params == SMALLEST and cell.ptpp == BUDGET_ASKED]
    arms: dict[str, list[CandidateRun]] = {
        "no new runs": [],
        "anchor grid": anchors,
        "random cells": random_cells(found, bases, budget, rng),
        "random, asked base": random_cells(on_asked, bases, budget, rng),
        "suggested, own sizes": cells_of(own_sizes),
        "suggested": cells_of(suggestion),
    }
    larger = simulate.ptpp_design(n_params=simulate.PTPP_SIZES[1:], ptpp=(BUDGET_ASKED,))
    rows: list[dict[str, object]] = []
    for stream, (arm, cells) in enumerate(arms.items(), start=1):
        fit = before
        if cells:
            new = measured(design_of(cells), stream)
            fit = cl.fit(law_name, cl.read_runs(pd.concat([have, new])), "target", starts=STARTS, restraint="none")
        rows.append(
            {
                "law": law_name,
                "arm": arm,
                "asked point": float(errors_at(fit, truth, asked)[0]),
                "larger sizes": float(errors_at(fit, truth, larger).mean()),
                "runs": len(cells),
                "flops": _cost(cells, bases),
                "budget": budget,
                "hit": _inside(suggestion, truth, asked),
            }
        )
    return rows


def _cost(cells: Sequence[CandidateRun], bases: Bases) -> float:
    total, trunks = 0.0, dict[float, float]()
    for cell in cells:
        base = base_price(bases, cell, trunks)
        if base > 0 and cell.ptpp is not None:
            trunks[cell.n_params] = cell.ptpp
        total += base + flops_of(cell.n_params, cell.tokens)
    return total


def _inside(suggestion: Suggestion, truth: simulate.Truth, asked: pd.DataFrame) -> bool:
    low, high = suggestion.interval_before
    exact = float(cl.law(truth.law).predict(truth.params, asked, "target")[0])
    return bool((low is None or low <= exact) and (high is None or exact <= high))


def table_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Return medians by arm, and how often the suggested cells came out ahead."""
    rows = []
    for arm in ARMS:
        mine, best = scores[scores["arm"] == arm], scores[scores["arm"] == "suggested"]
        ahead = float(np.mean(best["asked point"].to_numpy() < mine["asked point"].to_numpy()))
        rows.append(
            {
                "cells": arm,
                "asked, %": mine["asked point"].median(),
                "90th pct": mine["asked point"].quantile(0.9),
                "larger, %": mine["larger sizes"].median(),
                "runs": mine["runs"].median(),
                "FLOPs": mine["flops"].median(),
                "suggested ahead": "-" if arm == "suggested" else f"{100 * ahead:.0f} %",
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="four data sets: seconds instead of minutes")
    parser.add_argument("--data-sets", type=int, help="data sets for each truth [default: 100]")
    parser.add_argument("--law", choices=LAWS, help="one truth only")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first data set")
    arguments = parser.parse_args()
    count = arguments.data_sets or (4 if arguments.small else 100)
    began = time.monotonic()
    print(f"SIMULATED: two budgets (15, 31), forecast at {BUDGET_ASKED:g}; {count} data sets for each truth; medians.")
    for law_name in [arguments.law] if arguments.law else LAWS:
        rows = []
        for i in range(count):
            rows += one_data_set(law_name, arguments.seed + i)
            if (i + 1) % 10 == 0:
                print(f"[{time.monotonic() - began:5.0f} s] {law_name} {i + 1}", file=sys.stderr, flush=True)
        scores = pd.DataFrame(rows)
        hits = scores[scores["arm"] == "suggested"]["hit"].mean()
        print(f"\n{law_name}, budget {scores['budget'].iloc[0]:.4g} FLOPs")
        formats = {"FLOPs": "{:.3g}".format, "runs": "{:.0f}".format}
        formats |= dict.fromkeys(("asked, %", "90th pct", "larger, %"), "{:.3f}".format)
        print(table_of(scores).to_string(index=False, formatters=formats))
        print(f"the interval before the new runs held the truth in {100 * hits:.0f} % of the data sets")


if __name__ == "__main__":
    main()
