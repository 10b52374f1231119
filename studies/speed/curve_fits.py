"""Fits of loss curves: cptlaw beside the way in which the laws were published, on the same curves in one run.

    python -m studies curve_fits [--data FOLDER] [--quick | --restraint [--without-hold-out]]

- lr-annealing (arXiv:2408.11029): L-BFGS-B with finite differences from 54 starts, bounds and tolerances of its code.
- multi-power (arXiv:2503.12811): L-BFGS-B from a grid of 135 starts on the law with every change of the learning rate
  taking effect at once, then AdamW on the law itself, at most 200 steps with patience 20. Its gradient is written out
  here in NumPy over all pairs of steps and points, which costs less than the automatic one of the authors.

Fitted are the authors' training curves; the errors are on their test curves, which neither way has seen. With
``--restraint`` the fits choose their restraint by rollouts within the fitted curves, and are averaged; first on curves
of lr_schedules (arXiv:2501.18965), on which the rule may be judged and changed, then on the test curves.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import cptlaw as cl
from cptlaw.fitting.fit_cache import FITS
from cptlaw.laws import law
from cptlaw.schedules import Phase, Schedule
from studies.harness import Array, Beside, Clock, data_file, huber_sum, machine, progress, seconds, table, times
from studies.speed.mpl_curves import mpl_schedules

DELTA = 1e-3
SIZES = (25e6, 100e6)
TWO = "schedule in ('cosine_24000', 'constant_24000')"
THREE = "split == 'train'"


def annealing_published(s1: Array, s2: Array, loss: Array, every: int) -> tuple[float, Array]:
    """Return objective and (L0, A, C, alpha) of the reference code's search; with `every` > 1 fewer starts."""

    def objective(v: Array) -> float:
        with np.errstate(all="ignore"):
            predicted = v[0] + v[1] * s1 ** -v[3] - v[2] * s2
            value = huber_sum(np.log(predicted) - np.log(loss), DELTA)
        return value if np.isfinite(value) else 1e6

    grid = itertools.product(
        np.linspace(0.1, 2.1, 2), np.linspace(1, 22, 3), np.linspace(1, 22, 3), np.linspace(0, 0.8, 3)
    )
    options = {"maxiter": 100_000, "ftol": 1e-9, "gtol": 1e-6, "eps": 1e-8}
    found = [
        minimize(objective, start, method="L-BFGS-B", bounds=[(0, np.inf)] * 4, options=options)
        for start in list(grid)[::every]
    ]
    best = min(found, key=lambda one: float(one.fun))
    return float(best.fun), np.asarray(best.x, dtype=float)


class MultiPowerPublished:
    """The multi-power law over all pairs of changes and points, its gradient, and the authors' two stages of search."""

    def __init__(self, curves: list[tuple[Array, Any, Array]]) -> None:
        self.loss = np.concatenate([loss for _, _, loss in curves])
        self.s1 = np.concatenate([np.cumsum(lr)[at] for lr, at, _ in curves])
        self.rise = np.concatenate([lr[at] - lr[0] for lr, at, _ in curves])
        self.pairs = []
        for lr, at, _ in curves:
            k = np.flatnonzero(np.diff(lr)) + 1
            area = np.cumsum(lr)
            change, log_rate = np.diff(lr)[k - 1], np.log(lr[k])
            since = np.maximum(area[at][:, None] - area[k - 1][None, :], 0.0)  # 0 for changes that are yet to come
            self.pairs.append((change, log_rate, since))

    def value_and_gradient(self, v: Array) -> tuple[float, Array]:
        """Return the objective and its gradient at (L0, A, alpha, B, C, beta, gamma)."""
        l0, a, alpha, b, c, beta, gamma = v
        parts = []
        for change, log_rate, since in self.pairs:
            x = c * np.exp(-gamma * log_rate) * since
            log_x = np.log1p(x)
            kept = np.exp(-beta * log_x)
            lever = change * kept / (1.0 + x) * beta * x
            sums = [change * (1.0 - kept), lever / c, change * kept * log_x, -lever * log_rate]
            parts.append(np.stack([one.sum(axis=1) for one in sums]))
        effect, by_c, by_beta, by_gamma = np.concatenate(parts, axis=1)
        power = self.s1**-alpha
        predicted = np.maximum(l0 + a * power + b * effect, 1e-6)
        residual = np.log(predicted) - np.log(self.loss)
        pull = np.clip(residual, -DELTA, DELTA) / predicted
        slopes = [np.ones_like(power), power, -a * power * np.log(self.s1), effect, b * by_c, b * by_beta, b * by_gamma]
        return huber_sum(residual, DELTA), np.array([float(pull @ slope) for slope in slopes])

    def first_stage(self, every: int) -> Array:
        """Return (L0, A, alpha, B) of the best of the grid, every change taking effect at once."""

        def objective(v: Array) -> float:
            with np.errstate(all="ignore"):
                predicted = v[0] + v[1] * self.s1 ** -v[2] + v[3] * self.rise
                value = huber_sum(np.log(predicted) - np.log(self.loss), DELTA)
            return value if np.isfinite(value) else 1e6

        low = float(self.loss.min())
        grid = itertools.product(
            np.linspace(low - 0.6, low, 5),
            np.linspace(0.2, 1.0, 3),
            np.linspace(0.3, 0.7, 3),
            np.linspace(100, 1000, 3),
        )
        found = [
            minimize(objective, start, method="L-BFGS-B", bounds=[(0, np.inf)] * 4) for start in list(grid)[::every]
        ]
        return np.asarray(min(found, key=lambda one: float(one.fun)).x, dtype=float)

    def second_stage(self, start: Array, steps: int = 200, patience: int = 20) -> tuple[float, Array]:
        """Return objective and parameters where AdamW (decay 0.01) ends its early stop."""
        v = np.concatenate([start, [1.0, 0.5, 0.5]])
        rate = np.array([5e-2, 5e-2, 5e-3, 5e-2, 5e-2, 5e-3, 5e-3])
        first, second = np.zeros(7), np.zeros(7)
        best, best_v, since = np.inf, v, 0
        for step in range(1, steps + 1):
            value, gradient = self.value_and_gradient(v)
            if value < best:
                best, best_v, since = value, v.copy(), 0
            else:
                since += 1
                if since >= patience:
                    break
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            move = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            v = np.maximum(v * (1 - 0.01 * rate) - rate * move, 1e-6)
        return best, best_v


def missed_by(predicted: Array, rows: pd.DataFrame) -> str:
    """Return the mean absolute error as the authors average it (over curves) and over all points."""
    missed = (rows["loss"] - predicted).abs()
    return f"{missed.groupby(rows['run']).mean().mean():.4f} / {missed.mean():.4f}"


def measure(
    label: str,
    spec: str,
    where: str,
    rows: pd.DataFrame,
    schedules: dict[str, Schedule],
    published: Callable[[pd.DataFrame], tuple[float, Array]],
) -> list[str]:
    """Time both ways on the same rows, alternately, and return one row of the table."""
    progress(label)
    ours: list[Any] = []

    def fit_anew() -> None:
        FITS.clear()
        ours.append(cl.fit(spec, rows, on="val", where=where, schedules=schedules))

    beside = Beside(fit_anew)
    beside.sample(5)
    clock = Clock()
    with clock.running():
        objective, params = published(rows.query(where.replace("(", "[").replace(")", "]")))
    beside.sample(5)
    fit, built = ours[0].with_schedules(schedules), law(spec)
    test = rows[rows["split"] == "test"]
    theirs = built.predict(dict(zip(built.parameters, params, strict=True)), built.attach(test, schedules))
    cpu = beside.median.cpu
    return [
        label,
        f"{objective:.5g}",
        f"{fit.objective:.5g}",
        seconds(clock.cpu),
        seconds(cpu),
        times(clock.cpu / cpu),
        missed_by(theirs, test),
        missed_by(fit.predict(test), test),
    ]


@dataclass(frozen=True)
class Unseen:
    """Curves to fit, and rows of other schedules and later steps to forecast."""

    label: str
    fitted: pd.DataFrame
    test: pd.DataFrame
    schedules: dict[str, Schedule]


# Of lr_schedules: runs to fit, runs to forecast, last fitted step. The rule was made on these, before mpl_lr_curves.
DEVELOPMENT = {
    "124M, peak 0.0005": (("S122", "S137", "S214"), ("S123", "S138", "S231"), 25_000),
    "124M, peak 0.001": (("S124", "S125", "S232"), ("S126", "S127", "S139", "S140", "S232"), 25_000),
    "124M, peak 0.002": (("S128", "S129", "S233"), ("S130", "S131", "S141", "S142", "S233"), 25_000),
    "208M, peak 0.001": (("S132", "S133", "S219"), ("S134", "S220", "S221"), 40_000),
}
SETTLED = 600, 4000  # first step fitted, first step forecast


def development(folder: str | None) -> Iterator[Unseen]:
    """Yield short cosines and a constant rate, or three cosines, and the runs of twice their length."""
    runs = pd.read_csv(data_file("lr_schedules_runs.csv", folder)).set_index("run_id")
    curves = pd.read_csv(data_file("lr_schedules_curves.csv", folder)).rename(columns={"run_id": "run"})
    curves = curves[curves["step"] >= SETTLED[0]].groupby(["run", "step"], as_index=False)["loss"].mean()
    curves = curves.assign(eval="val")
    for label, (fitted, asked, last) in DEVELOPMENT.items():
        schedules = {}
        for run in {*fitted, *asked}:
            row = runs.loc[run]
            end = {"cos_min0.0": 0.0, "cos_min0.1": 0.1}.get(row["schedule_form"])
            shape = {"schedule": "constant"} if end is None else {"schedule": "cosine", "end": end * row["peak_lr"]}
            schedules[run] = Schedule(
                [Phase("pretrain", int(row["iters"]), peak=row["peak_lr"], warmup=int(row["warmup"]), **shape)]
            )
        early = curves["run"].isin(fitted) & (curves["step"] <= last)
        later = curves["run"].isin(asked) & (curves["step"] > SETTLED[1]) & ~early
        yield Unseen(label, curves[early], curves[later], schedules)


def hold_out(folder: str | None) -> Iterator[Unseen]:
    """Yield the training and test curves of the multi-power law's authors."""
    source = pd.read_csv(data_file("mpl_lr_curves.csv", folder)).rename(columns={"run_id": "run"})
    for size in SIZES:
        rows = source[source["n_params"] == size].assign(eval="val")
        train = rows["split"] == "train"
        yield Unseen(f"hold-out {size / 1e6:g}M", rows[train], rows[~train], mpl_schedules(rows))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the real measurements")
    parser.add_argument("--quick", action="store_true", help="a few starts and steps: says nothing about speed")
    arguments = parser.parse_args()
    source = pd.read_csv(data_file("mpl_lr_curves.csv", arguments.data)).rename(columns={"run_id": "run"})
    every = 27 if arguments.quick else 1
    printed = []
    for size in SIZES[:1] if arguments.quick else SIZES:
        rows = source[source["n_params"] == size].assign(eval="val")
        schedules = mpl_schedules(rows)

        def annealing(frame: pd.DataFrame, schedules: dict[str, Schedule] = schedules) -> tuple[float, Array]:
            read = law("lr-annealing:warmup=actual").attach(frame, schedules)
            columns = (read[name].to_numpy(dtype=float) for name in ("s1", "s2", "loss"))
            return annealing_published(*columns, every)

        def multi_power(frame: pd.DataFrame, schedules: dict[str, Schedule] = schedules) -> tuple[float, Array]:
            curves = [
                (schedules[str(run)].lr, one["step"].to_numpy(dtype=int), one["loss"].to_numpy(dtype=float))
                for run, one in frame.groupby("run", sort=False)
            ]
            model = MultiPowerPublished(curves)
            objective, v = model.second_stage(model.first_stage(every), 4 if arguments.quick else 200)
            return objective, v[[0, 1, 3, 2, 4, 5, 6]]  # as the law orders them: amplitudes first

        name = f"{size / 1e6:g}M"
        printed.append(measure(f"lr-annealing, {name}", "lr-annealing:warmup=actual", TWO, rows, schedules, annealing))
        printed.append(measure(f"multi-power, {name}", "multi-power", THREE, rows, schedules, multi_power))
    headers = ["fit", "objective, published way", "objective, cptlaw", "CPU, published way", "CPU, cptlaw", "ratio"]
    headers += ["test error by curve / by point, published way", "test error, cptlaw"]
    print(table(headers, printed))
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
