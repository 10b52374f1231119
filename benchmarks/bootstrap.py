"""Time 1,000 bootstrap refits beside a loop of scipy refits on the same weights.

    python -m benchmarks.bootstrap [--refits 20] [--peers PYTHON] [--data FOLDER]

Two cases: Chinchilla's law on 240 published points, and ptpp-gated-floor on the pilot runs that come with cptlaw. The
loop starts each refit at the fit, in the logarithms of the parameters and within the same bounds; a few refits are
measured and scaled to 1,000.
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import cptlaw as cl
from benchmarks import peers
from benchmarks.harness import (
    RECIPES,
    Array,
    Beside,
    Clock,
    PowerSum,
    Recipe,
    chinchilla_points,
    huber_sum,
    machine,
    progress,
    seconds,
    table,
    times,
)
from cptlaw.solving import newton

SAME = 1e-3  # relative difference of objectives below which two refits count as equal
PILOT = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant'"


@dataclass
class Case:
    """A fit whose bootstrap is timed, and the same problem as a user would write it for scipy."""

    label: str
    fit: cl.Fit
    log_terms: Any
    start: Array
    bounds: list[tuple[float | None, float | None]]

    def problem(self, weights: Array) -> PowerSum:
        """Return the weighted objective."""
        return PowerSum(self.log_terms, np.log(self.fit.data["loss"].to_numpy()), self.fit.options.delta, weights)


def chinchilla_case(points: pd.DataFrame) -> Case:
    """Fit Chinchilla's law; scipy gets log E, log A, log B, alpha, beta."""
    fit = cl.fit("chinchilla", points, on="target")
    log_n, log_d = np.log(fit.data["n_params"].to_numpy()), np.log(fit.data["tokens"].to_numpy())
    flat = np.zeros(fit.n_points)

    def log_terms(v: Array) -> tuple[Array, list[tuple[int, int, Any]]]:
        e, a, b, alpha, beta = v
        terms = np.stack([flat + e, a - alpha * log_n, b - beta * log_d])
        return terms, [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (3, 1, -log_n), (4, 2, -log_d)]

    p = fit.params
    start = np.array([*np.log([p["E"], p["A"], p["B"]]), p["alpha"], p["beta"]])
    return Case("chinchilla, 240 points of 240 runs", fit, log_terms, start, [(None, None)] * 5)


def pilot_case() -> Case:
    """Fit the gated floor law; scipy gets the logarithms of its parameters, but lambda and zeta as they are."""
    fit = cl.fit("ptpp-gated-floor", cl.examples.load("en-fr-pilot"), on="target", where=PILOT)
    law, names = fit.law, fit.law.parameters
    n, d, r, budget = (fit.data[name].to_numpy(dtype=float) for name in ("n_params", "tokens", "replay", "ptpp"))
    log_n, log_d, log_r, log_p = np.log(n / 1e9), np.log(d / 1e9), np.log(r), np.log(budget)
    log_ratio, flat = np.log(r + law.constants["eps"]), np.zeros(fit.n_points)
    place = {name: i for i, name in enumerate(names)}
    plain = ("lambda", "zeta")

    def log_terms(v: Array) -> tuple[Array, list[tuple[int, int, Any]]]:
        p = {name: v[i] if name in plain else np.exp(v[i]) for name, i in place.items()}
        gate = 1.0 / (1.0 + np.exp(-p["zeta"] * log_p))
        exponent = p["beta"] * (1.0 - p["lambda"] * gate)
        terms = np.stack(
            [
                flat + v[place["E"]],
                v[place["A"]] - p["alpha"] * log_n,
                v[place["B"]] + p["nu"] * log_r - exponent * log_d,
                v[place["C"]] - p["gamma"] * log_ratio,
                v[place["F"]] - p["eta"] * log_p,
            ]
        )
        slopes: list[tuple[int, int, Any]] = [(place[name], k, 1.0) for k, name in enumerate("EABCF")]
        slopes += [
            (place["alpha"], 1, -p["alpha"] * log_n),
            (place["nu"], 2, p["nu"] * log_r),
            (place["beta"], 2, -exponent * log_d),
            (place["lambda"], 2, p["beta"] * gate * log_d),
            (place["zeta"], 2, p["beta"] * p["lambda"] * gate * (1.0 - gate) * log_p * log_d),
            (place["gamma"], 3, -p["gamma"] * log_ratio),
            (place["eta"], 4, -p["eta"] * log_p),
        ]
        return terms, slopes

    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 5
    for name in names[5:]:
        low, high = law.shapes[name].low, law.shapes[name].high
        bounds.append((low, high) if name in plain else (float(np.log(low)), float(np.log(high))))
    # A term that the data does not see has amplitude 0: its logarithm starts, and may end, far below the others.
    floor = 1e-6 * float(fit.data["loss"].mean())
    start = np.array([fit.params[m] if m in plain else np.log(max(fit.params[m], floor)) for m in names])
    runs = f"ptpp-gated-floor, {fit.n_points} points of {fit.n_runs} runs"
    return Case(runs, fit, log_terms, start, bounds)


def weights_of(fit: cl.Fit, count: int) -> tuple[Array, Array]:
    """Return cptlaw's draws (count, parameters) and the weight of each point in each of them (count, n)."""
    with mock.patch.object(newton, "descend", wraps=newton.descend) as descend:
        draws = fresh_draws(fit, count)
    goal = descend.call_args.args[0]
    return draws, np.asarray(goal.weights)


def fresh_draws(fit: cl.Fit, count: int) -> Array:
    """Return bootstrap draws that no earlier call has kept."""
    return dataclasses.replace(fit, _cache={}).draws(count)


def objectives(fit: cl.Fit, draws: Array, weights: Array) -> Array:
    """Return the weighted objective of each draw, (count,)."""
    log_loss = np.log(fit.data["loss"].to_numpy())
    predicted = fit.law.predict_many(draws, fit.data, fit.role)
    return np.array(
        [huber_sum(np.log(p) - log_loss, fit.options.delta, w) for p, w in zip(predicted, weights, strict=True)]
    )


def scipy_loop(case: Case, recipe: Recipe, weights: Array, own: Array, draws: int, beside: Beside) -> list[Any]:
    """Refit once per row of weights and return a row of the table."""
    spent, reached = Clock(), []
    for block in np.array_split(np.arange(len(weights)), 4):
        beside.sample(1)
        for i in block:
            problem = case.problem(weights[i])
            with spent.running():
                end = recipe.minimise(problem, case.start, case.bounds)
            reached.append(problem.value(end.x))
    beside.sample(1)
    scale = draws / len(weights)
    lower = np.array(reached) < own * (1 - SAME)
    higher = np.array(reached) > own * (1 + SAME)
    return [
        f"scipy, {recipe.label}",
        f"{len(weights)}",
        f"{seconds(spent.cpu * scale)} *",
        f"{seconds(spent.wall * scale)} *",
        seconds(beside.median.cpu),
        times(spent.cpu * scale / beside.median.cpu),
        f"{int(higher.sum())}",
        f"{int(lower.sum())}",
    ]


def run_case(case: Case, count: int, refits: int, extra: list[list[Any]]) -> None:
    """Print the table of one case."""
    beside = Beside(lambda: fresh_draws(case.fit, count))
    beside.work()
    beside.sample(7)
    draws, weights = weights_of(case.fit, count)
    own = objectives(case.fit, draws, weights)
    cost = beside.median
    rows: list[list[Any]] = [
        ["**cptlaw**", f"{count:,}", seconds(cost.cpu), seconds(cost.wall), seconds(cost.cpu), "1.0", "-", "-"]
    ]
    for recipe in RECIPES:
        progress(f"{case.label}; {recipe.label}")
        rows.append(scipy_loop(case, recipe, weights[:refits], own[:refits], count, Beside(beside.work)))
    print(f"\n### {case.label}\n")
    headers = (
        "method",
        "refits run",
        f"CPU of {count:,}",
        "wall",
        "cptlaw's CPU beside it",
        "CPU ratio",
        "refits over 0.1 % above cptlaw's",
        "below",
    )
    print(table(headers, rows + extra))


def peer_row(points: pd.DataFrame, count: int, beside: Beside, python: str | None) -> list[list[Any]]:
    """Time the wild cluster bootstrap of simple-scaling-laws, less the fit itself."""
    job = {"package": "simple-scaling-laws", "repeats": 5}
    columns = {name: points[name].tolist() for name in ("n_params", "tokens", "loss")}
    try:
        base = peers.run(python, {**job, **columns, "draws": 1}, beside.sample)
        full = peers.run(python, {**job, **columns, "draws": count + 1}, beside.sample)
    except peers.MissingPackageError as reason:
        print(f"\nsimple-scaling-laws: skipped: {reason}; see --peers")
        return []
    print("\nOther package: " + ", ".join(f"{k} {v}" for k, v in full["versions"].items()) + ".")
    cpu, wall = (full[key] - base[key] for key in ("cpu", "wall"))
    near = beside.median.cpu
    label = "simple-scaling-laws, wild cluster bootstrap of least squares"
    return [[label, f"{count:,}", seconds(cpu), seconds(wall), seconds(near), times(cpu / near), "-", "-"]]


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap refits of cptlaw")
    parser.add_argument("--refits", type=int, default=20, help="refits of each scipy loop that are measured")
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter with simple-scaling-laws (Python >= 3.12)")
    parser.add_argument("--data", metavar="FOLDER", help="folder with chinchilla_epoch.csv")
    arguments = parser.parse_args()
    count = arguments.draws
    print(f"## {count:,} bootstrap refits\n")
    print(machine())
    run_case(pilot_case(), count, arguments.refits, [])
    points = chinchilla_points(arguments.data)
    case = chinchilla_case(points)
    beside = Beside(lambda: fresh_draws(case.fit, count))
    run_case(case, count, arguments.refits, peer_row(points, count, beside, arguments.peers))
    print(f"\n\\* scaled to {count:,} from the refits that were run.")


if __name__ == "__main__":
    main()
