"""Back-test of forecasts within a decay: look at its start, a third and two thirds of it, forecast the end.

    python -m studies decays [--only linear] [--most 8] [--data FOLDER]

The curves are those of 25M and 100M under nine schedules and of 33M to 360M that were annealed from checkpoints of runs
at a constant rate, whose rows stand before the decay. No run sees another. Beside `cptlaw.forecast_run` stand the last
value and a straight line in steps through the decay so far. What was learned from a file's own curves is not used on
them: priors of the decay come from the other one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import leaving_out
from cptlaw.schedules import Phase, Schedule
from studies.forecasts.unfinished_runs import COLUMNS, mpl_schedule
from studies.harness import find_data, table

SEEN = (0.0, 1 / 3, 2 / 3)
INTERVAL = 0.9
LEAST = 4  # rows of a decay
MPL, LR_SCHEDULES = "Luo 2025 curves", "lr_schedules"


@dataclass(frozen=True)
class Decay:
    """One curve with a decay: its rows, its plan, and the step at which its rate begins to fall."""

    study: str
    kind: str
    rows: pd.DataFrame
    plan: Schedule
    begins: int


def of_nine_schedules(path: str) -> Iterator[Decay]:
    """25M and 100M: linear and exponential ends, sudden drops, cosines."""
    curves = pd.read_csv(path).rename(columns={"run_id": "run"})
    kinds = {"wsd": "exponential", "wsdld": "linear", "wsdcon": "drop", "cosine": "cosine"}
    for _, part in curves.groupby("run"):
        name = str(part["schedule"].iloc[0])
        if (kind := kinds.get(name.split("_")[0])) is not None:
            plan = mpl_schedule(name, int(part["step"].max()))
            begins = {"cosine": 2160, "drop": 8000}.get(kind, 20_000)
            yield Decay(MPL, kind, part.assign(eval="val")[COLUMNS], _until(plan, part), begins)


def of_checkpoints(runs_path: str, curves_path: str) -> Iterator[Decay]:
    """33M to 360M: linear ends from checkpoints of constant runs, and cosines."""
    runs = pd.read_csv(runs_path).rename(columns={"run_id": "run"}).set_index("run")
    runs = runs[runs["last_val"] < 3.7]  # a few diverged
    curves = pd.read_csv(curves_path).rename(columns={"run_id": "run"}).assign(eval="val")
    parents = runs[(runs["schedule_form"] == "const") & (runs["step_min"] == 0)]
    for run, own in runs.iterrows():
        part = curves[curves["run"] == run]
        rates = {"peak": float(own["peak_lr"]), "warmup": 300}
        if own["schedule_form"] in ("cos_min0.0", "cos_min0.1"):
            end = "10%" if own["schedule_form"] == "cos_min0.1" else 0.0
            plan = Schedule([Phase("pretrain", int(own["iters"]), "cosine", end=end, **rates)])
            yield Decay(LR_SCHEDULES, "cosine", part[COLUMNS], _until(plan, part), 300)
        like = parents[
            (parents[["n_params", "peak_lr", "dataset"]] == own[["n_params", "peak_lr", "dataset"]]).all(axis=1)
        ]
        begun = int(own["step_min"])
        if own["schedule_form"] != "wsd_lin_0.2" or not begun or like.empty:
            continue
        before = curves[(curves["run"] == like.index[0]) & (curves["step"] < begun)]
        if before["step"].max() < 0.9 * begun:
            continue
        # The rate falls in the last steps of what was logged from the checkpoint on; where, the rates tell.
        falls = part.loc[part["lr"] < 0.999 * own["peak_lr"], "step"]
        length = int(own["iters"])
        begins = _begin_of_line(part, float(own["peak_lr"]), length)
        plan = Schedule([Phase("pretrain", length, "wsd", decay=length - begins, **rates)])
        if len(falls) >= LEAST:
            rows = pd.concat([before, part]).assign(run=run)[COLUMNS]
            yield Decay(LR_SCHEDULES, "linear", rows, _until(plan, rows), begins)


def _begin_of_line(part: pd.DataFrame, peak: float, length: int) -> int:
    """Return the step at which a straight line to zero leaves the peak."""
    falling = part[part["lr"] < 0.999 * peak].iloc[0]
    return round(length - (length - falling["step"]) * peak / falling["lr"])


def _until(plan: Schedule, rows: pd.DataFrame) -> Schedule:
    """Return a schedule as far as the last measured step."""
    last = int(rows["step"].max())
    points = (np.arange(last + 1.0), plan.lr[: last + 1])
    return Schedule([Phase("pretrain", last, "file", points=points, warmup=plan.phases[0].warmup)])


READERS: tuple[tuple[Callable[..., Iterator[Decay]], tuple[str, ...]], ...] = (
    (of_nine_schedules, ("mpl_lr_curves.csv",)),
    (of_checkpoints, ("lr_schedules_runs.csv", "lr_schedules_curves.csv")),
)


def decays(folder: str | None, only: str = "") -> list[Decay]:
    """Return all decays of the public curves that are there."""
    found: list[Decay] = []
    for reader, names in READERS:
        paths = [find_data(name, folder) for name in names]
        if None in paths:
            print(f"skipped: {names[paths.index(None)]} is not in the data folder", file=sys.stderr)
            continue
        found += [one for one in reader(*map(str, paths)) if only in one.kind]
    return found


def back_test(decay: Decay, seen: float) -> dict[str, float | str] | None:
    """Forecast the last row from those up to a share of the decay."""
    rows = decay.rows.sort_values("step")
    end = rows.iloc[-1]
    until = decay.begins + seen * (end["step"] - decay.begins)
    head = rows[rows["step"] <= until]
    inside = head[head["step"] >= decay.begins]
    if len(head[head["step"] > 0]) < LEAST:
        return None
    truth, last = float(end["loss"]), float(head["loss"].iloc[-1])
    line = last
    if seen and len(inside) >= 2:
        slope, level = np.polyfit(inside["step"], inside["loss"], 1)
        line = float(level + slope * end["step"])
    with leaving_out(decay.study):
        found = cl.forecast_run(head, {str(end["run"]): decay.plan}, interval=INTERVAL).points.iloc[0]
    return {
        "study": decay.study, "kind": decay.kind, "seen": seen,
        "signed": found["loss"] / truth - 1,
        "ours": abs(found["loss"] / truth - 1), "last": abs(last / truth - 1), "line": abs(line / truth - 1),
        "held": float(found["lo"] <= truth <= found["hi"]), "half-width": 0.5 * (found["hi"] - found["lo"]) / truth,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="decays of this kind: linear, exponential, drop, cosine")
    parser.add_argument("--most", type=int, help="at most so many of each study and kind, spread over it")
    parser.add_argument("--data", help="folder of the public data")
    given = parser.parse_args(arguments)
    groups: dict[tuple[str, str], list[Decay]] = {}
    for one in decays(given.data, given.only):
        groups.setdefault((one.study, one.kind), []).append(one)
    rows = []
    for (study, kind), chosen in groups.items():
        kept = chosen[:: max(1, len(chosen) // given.most)][: given.most] if given.most else chosen
        for seen in SEEN:
            found = pd.DataFrame([row for one in kept if (row := back_test(one, seen)) is not None])
            if found.empty:
                continue
            mean = found[["ours", "last", "line", "held", "half-width", "signed"]].mean()
            rows.append(
                [study, kind, f"{seen:.0%}", str(len(found)),
                 *(f"{100 * mean[name]:.2f}" for name in ("ours", "last", "line")),
                 f"{100 * mean['held']:.0f}", f"{100 * mean['half-width']:.2f}", f"{100 * mean['signed']:+.2f}"]
            )  # fmt: skip
    header = [
        "study",
        "decay",
        "seen",
        "n",
        "ours %",
        "last value %",
        "line %",
        "held of 90 %",
        "half-width %",
        "bias %",
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()
