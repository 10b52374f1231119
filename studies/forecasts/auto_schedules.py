"""Law auto with the schedules of the runs, beside law auto without them: forecasts of runs that were not fitted.

    python -m studies auto_schedules [--only TEXT] [--data FOLDER]

Left out are a schedule, a budget, a length, a size, a mix or a peak rate of the tables of this project that have
schedules, and the longer and annealed runs of public loss curves from scratch. Each study is forecast with what was
learned from the others.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.fit_cache import FITS
from cptlaw.forecasting.backtest.held_out import SHARE, held_out
from cptlaw.forecasting.backtest.metrics import error, inside
from cptlaw.runs import Runs
from cptlaw.schedules import Schedule, read_schedules
from studies.harness import MEASURED, find_data, progress, table
from studies.learning.learn_averages import without
from studies.speed.curve_fits import development

MOST_POINTS = 12  # of a split whose intervals are computed
CURVES = "lr_schedules"
# Of the tables of the package: what is left out, the rows that are fitted, the rows that are forecast.
LATE = "tokens > 0 and atpp >= 1.9"
PACKAGED = {
    "budget 279 from 15, 31": ("ptpp in (15, 31)", "lr_schedule == 'constant' and ptpp == 279"),
    "budget 279 from 31, 62, 124": ("ptpp in (31, 62, 124)", "lr_schedule == 'constant' and ptpp == 279"),
    "largest sizes": ("n_params < 100K", "lr_schedule == 'constant' and n_params > 100K"),
    "tokens after a quarter": ("atpp <= 4.1", "lr_schedule == 'constant' and atpp > 8"),
    "replay 0.5": ("replay <= 0.25 or tokens == 0", "lr_schedule == 'constant' and replay == 0.5"),
    "WSD": ("lr_schedule == 'constant' or tokens == 0", "lr_schedule == 'wsd'"),
    "WSD at the largest budgets": (
        "not (ptpp >= 124 and lr_schedule == 'wsd')",
        "ptpp >= 124 and lr_schedule == 'wsd'",
    ),
}
UNDECAYED = {"base models without decay": ("pretrain_decay > 0 or tokens == 0", "pretrain_decay == 0")}
DYNAMICS = {
    "WSD": ("lr_schedule != 'wsd'", "lr_schedule == 'wsd'"),
    "constant": ("lr_schedule != 'constant'", "lr_schedule == 'constant'"),
    "cosine": ("lr_schedule != 'cosine'", "lr_schedule == 'cosine'"),
    "budget 124": ("ptpp < 100 or tokens == 0", "ptpp == 124"),
    "three times longer CPT": ("atpp < 20", "atpp > 20"),
    "largest size": ("n_params < 50K", "n_params > 50K"),
    "peak 6e-3": ("lr_peak < 0.005 or tokens == 0", "lr_peak > 0.005"),
}


@dataclass(frozen=True)
class Case:
    """Rows to fit and rows to forecast of one loss."""

    study: str
    name: str
    on: str
    runs: Any
    fit: str | None
    test: pd.DataFrame
    schedules: Mapping[str, Schedule]
    without: bool = True  # whether law auto can be fitted without schedules


def cases(folder: str | None) -> Iterator[Case]:
    """Yield all forecasts."""
    frame = pd.read_csv(MEASURED / "dynamics.csv")
    runs = cl.read_runs(frame[frame["phase"] == "cpt"].drop(columns="phase"))
    schedules = dict(read_schedules(MEASURED / "dynamics_schedules.json"))
    yield from _splits("dynamics", runs, schedules, DYNAMICS, "tokens > 0 and step >= 100")
    for study in ("docs-to-code", "en-fr-ladder"):
        runs, schedules = cl.examples.load(study), dict(read_schedules(cl.examples.schedules(study)))
        splits = PACKAGED | (UNDECAYED if "pretrain_decay" in runs.frame.columns else {})
        yield from _splits(study, runs, schedules, splits, LATE)
    if find_data("lr_schedules_curves.csv", folder) is not None:
        for case in development(folder):
            late = case.test[case.test["step"] > 2500].iloc[::10]
            yield Case(CURVES, case.label, "val", case.fitted.iloc[::5], None, late, case.schedules, without=False)


def _splits(
    study: str, runs: Runs, schedules: dict[str, Schedule], splits: dict[str, tuple[str, str]], rows: str
) -> Iterator[Case]:
    for name, (fit, test) in splits.items():
        for on in ("target", "source"):
            yield Case(study, name, on, runs, fit, runs.on(on).where(f"({test}) and {rows}").frame, schedules)


def forecast(case: Case, with_schedules: bool) -> tuple[float, float, float]:
    """Return the mean absolute relative error, the share inside 90 % intervals, and the CPU seconds."""
    FITS.clear()
    begun = time.process_time()
    with without(case.study):
        fit = cl.fit("auto", case.runs, case.on, case.fit, schedules=case.schedules if with_schedules else None)
        fit = fit.with_schedules(case.schedules) if with_schedules else fit
        found = held_out(fit, case.test, (SHARE,), MOST_POINTS)
    missed = float(np.abs(error(found.predicted, found.measured)).mean())
    return missed, float(inside(found.intervals[SHARE]).mean()), time.process_time() - begun


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="forecasts whose study/name/loss holds this text")
    parser.add_argument("--data", help="folder of the public data")
    given = parser.parse_args(arguments)
    rows, ratios = [], []
    for case in cases(given.data):
        label = f"{case.study}/{case.name}/{case.on}"
        if given.only not in label:
            continue
        progress(label)
        said, held, cpu = forecast(case, True)
        beside = ["-", "-", "-"]
        if case.without:
            plain, plainly, _ = forecast(case, False)
            ratios.append(said / plain)
            beside = [f"{100 * plain:.2f}", f"{100 * plainly:.0f}", f"{said / plain:.2f}"]
        rows.append([case.study, case.name, case.on, f"{100 * said:.2f}", f"{100 * held:.0f}", *beside, f"{cpu:.1f}"])
    header = ["study", "left out", "loss", "with %", "held of 90 %", "without %", "held of 90 %", "ratio", "CPU s"]
    print(table(header, rows))
    if ratios:
        behind = sum(ratio > 1.1 for ratio in ratios)
        print(f"\nratio {np.exp(np.log(ratios).mean()):.2f} in the geometric mean; {behind} of {len(ratios)} above 1.1")


if __name__ == "__main__":
    main()
