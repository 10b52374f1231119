"""How the cost of the verbs grows: the exponent of CPU time in rows, runs, curves, cells, jobs and lines.

    python -m studies growth              a table of exponents; 1 is linear
    python -m studies growth --guard      the point fit beside a fixed reference; ends with 1 if it has doubled

Times of a shared machine say little, so the guard compares two works of one process, in turn: the point fit of 240
rows with its search and all its checks, and Nelder-Mead steps of scipy on the same objective, which nobody changes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.fit_cache import FITS
from cptlaw.schedules import Phase, Schedule

REFERENCE_RATIO = 0.52
"""CPU of the point fit / CPU of the reference when the guard was set: see studies/benchmarks.md."""

MOST = 2.0  # times that ratio, from which the guard fails
REFERENCE_STEPS = 2000
ROUNDS = 15
REPEATS = 3


def table(n: int, runs: int, seed: int = 0, noise: float = 0.003) -> pd.DataFrame:
    """Return `n` rows of `runs` runs that follow the Chinchilla law with noise on log losses."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "run": [f"r{place % runs}" for place in range(n)],
            "eval": "target",
            "n_params": rng.choice([1e8, 3e8, 1e9, 3e9, 1e10], n),
            "tokens": 10 ** rng.uniform(9, 11.5, n),
            "step": np.arange(n),
        }
    )
    frame["loss"] = 1.7 + 400 * frame["n_params"] ** -0.34 + 410 * frame["tokens"] ** -0.28
    frame["loss"] *= np.exp(rng.normal(0, noise, n))
    return frame


def cpu(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the least CPU seconds of some repeats."""
    seconds = []
    for _ in range(repeats):
        FITS.clear()
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def fit_rows(n: int) -> Callable[[], Any]:
    """Return a fit of n rows of 200 runs."""
    runs = cl.read_runs(table(n, 200))
    return lambda: cl.fit("chinchilla", runs, on="target", restraint="none")


def fit_runs(n: int) -> Callable[[], Any]:
    """Return a fit of n runs of one row."""
    runs = cl.read_runs(table(n, n))
    return lambda: cl.fit("chinchilla", runs, on="target", restraint="none")


def fit_curves(n: int) -> Callable[[], Any]:
    """Return a fit of n loss curves of 20 points."""
    rng = np.random.default_rng(0)
    schedules = {
        f"c{place}": Schedule([Phase("pretrain", 2000 + 50 * (place % 7), "cosine", peak=1e-4 * (1 + place % 5))])
        for place in range(n)
    }
    steps = np.linspace(100, 2000, 20).round()
    rows = [
        {"run": run, "eval": "target", "step": step, "phase": "pretrain", "loss": 2.5 + 9.0 / np.sqrt(step)}
        for run in schedules
        for step in steps
    ]
    frame = pd.DataFrame(rows)
    frame["loss"] *= np.exp(rng.normal(0, 0.002, len(frame)))
    return lambda: cl.fit("lr-annealing", frame, on="target", starts=4, schedules=schedules, restraint="none")


def suggest_cells(n: int) -> Callable[[], Any]:
    """Return a suggestion from n cells to choose from."""
    fitted = cl.fit("chinchilla", table(60, 60), on="target", restraint="none")
    asked = {"n_params": 3e10, "tokens": 1e12}
    tokens = [f"{value:.6g}" for value in np.geomspace(1e9, 3e11, n // 4)]
    sizes = ["100M", "300M", "1B", "3B"]
    frame = fitted.data.assign(eval="target")
    at = ",".join(f"{name}={value:g}" for name, value in asked.items())
    return lambda: cl.suggest(
        "chinchilla", frame, "target", at=at, budget="1e21", n=1, sizes=",".join(sizes), tokens=",".join(tokens)
    )


def schedule_jobs(n: int) -> Callable[[], Any]:
    """Return the scheduling of n jobs of which all need the first: each ready, started and settled in turn."""
    from cptlaw_sweep.engines.base import Queue
    from cptlaw_sweep.jobs import Job, Sweep

    base = Job("base", "base", {"number": -1, "keep": "weights"})
    jobs = [Job(f"run-{place}", "adapt", {"number": place, "keep": None}, needs=(base.id,)) for place in range(n)]
    sweep = Sweep("many", (base, *jobs), {}, "")

    def work() -> None:
        queue = Queue(sweep, _Remembered(), retry_failed=False, progress=_Silent())  # type: ignore[arg-type]
        while ready := queue.ready(64):
            for job in ready:
                queue.start(job)
                queue.settle(job)

    return work


def printed_rows(n: int) -> Callable[[], Any]:
    """Return the text of n forecasts."""
    fitted = cl.fit("chinchilla", table(60, 60), on="target", restraint="none")
    answer = fitted.forecast(pd.DataFrame({"n_params": 3e9, "tokens": np.geomspace(1e9, 1e12, n)})).answer
    return answer.summary


class _Remembered:
    """A store in which every job is finished as soon as it is asked for."""

    def finished_ids(self) -> set[str]:
        return set()

    failed_ids = finished_ids

    def names(self, folder: str) -> list[str]:
        return []

    def is_finished(self, key: str) -> bool:
        return True

    def failure_of(self, key: str) -> None:
        return None

    def remove(self, name: str) -> None:
        return None


class _Silent:
    def count_finished(self, job: Any) -> None:
        """Tell nobody."""

    def count_failed(self, job: Any, reason: str) -> None:
        """Tell nobody."""


GROWS: dict[str, tuple[Callable[[int], Callable[[], Any]], tuple[int, ...]]] = {
    "rows": (fit_rows, (25_000, 50_000, 100_000, 200_000)),
    "runs": (fit_runs, (5_000, 10_000, 20_000, 40_000)),
    "curves": (fit_curves, (10, 20, 40, 80)),
    "cells": (suggest_cells, (40, 80, 160, 320)),
    "jobs": (schedule_jobs, (2_000, 5_000, 10_000, 20_000)),
    "printed": (printed_rows, (2_000, 4_000, 8_000, 16_000)),
}


def exponents(names: list[str], quick: bool) -> None:
    """Print the CPU seconds for each size, and the slope of their logarithms."""
    print("| what | sizes | CPU s | exponent |\n|---|---|---|---|")
    for name in names:
        make, sizes = GROWS[name]
        sizes = tuple(size // 20 for size in sizes[:2]) if quick and name not in ("curves", "cells") else sizes
        sizes = sizes[:2] if quick else sizes
        make(sizes[0])()  # what is loaded on first use is no part of the growth
        seconds = [cpu(make(size), 1 if quick else REPEATS) for size in sizes]
        slope = np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-6)), 1)[0]
        listed = ", ".join(f"{value:.3g}" for value in seconds)
        print(f"| {name} | {', '.join(f'{size:,}' for size in sizes)} | {listed} | {slope:.2f} |", flush=True)


def reference() -> Callable[[], Any]:
    """Return a fixed work of scipy: steps of Nelder-Mead on the Huber objective of the same 240 rows."""
    from scipy.optimize import minimize

    frame = table(240, 240)
    n, d, log_loss = (np.log(frame[name].to_numpy()) for name in ("n_params", "tokens", "loss"))

    def objective(x: np.ndarray) -> float:
        predicted = np.logaddexp(np.logaddexp(x[0], x[1] - x[2] * n), x[3] - x[4] * d)
        away = np.abs(predicted - log_loss)
        return float(np.sum(np.where(away <= 1e-3, 0.5 * away**2, 1e-3 * (away - 5e-4))))

    start = np.array([0.3, 5.0, 0.3, 5.0, 0.3])
    options = {"maxiter": REFERENCE_STEPS, "maxfev": REFERENCE_STEPS, "xatol": 0.0, "fatol": 0.0}
    return lambda: minimize(objective, start, method="Nelder-Mead", options=options)


def guard() -> bool:
    """Compare the point fit with the reference, print the ratio, and return whether it is below its bound."""
    runs = cl.read_runs(table(240, 240))
    fitted, fixed = (lambda: cl.fit("chinchilla", runs, on="target", restraint="none")), reference()
    fitted(), fixed()
    # In turn, so that both meet the same moments of a busy machine; the least of each is what it costs.
    pairs = [(cpu(fitted, 1), cpu(fixed, 1)) for _ in range(ROUNDS)]
    ratio = min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)
    bound = MOST * REFERENCE_RATIO
    print(f"point fit / reference: {ratio:.3f} (set at {REFERENCE_RATIO}, fails above {bound:.3f})")
    return ratio <= bound


def main() -> int:
    """Print what the command line asks for; return 1 if the guard fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--guard", action="store_true", help="compare the point fit with the fixed reference")
    parser.add_argument("--quick", action="store_true", help="small sizes, once each: to see that it runs")
    parser.add_argument("--only", nargs="+", choices=list(GROWS), default=list(GROWS))
    given = parser.parse_args()
    if given.guard:
        return 0 if guard() else 1
    exponents(given.only, given.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
