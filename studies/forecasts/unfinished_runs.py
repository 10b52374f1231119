"""Back-test of forecasts of unfinished runs: look at the first 20, 40 and 60 %, forecast the end.

    python -m studies unfinished_runs [--only pilot] [--set-by] [--fold 2] [--most 8] [--data FOLDER]

Beside `cptlaw.forecast_run` stand what people do by hand: the last value, and a straight line of log loss against log
step through the second half of what was seen. "With others" adds finished runs of the same model under other schedules
or seeds. Every fifth curve of each group is not in the table: while these were looked at (``--set-by`` shows them), the
constants of the method were set.

Public curves are read from the data folder and left out, with a line that says so, where they are absent; the tables of
this project come with it. Where a source does not give the schedule (Pythia with replay), a constant rate is assumed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import leaving_out
from cptlaw.schedules import Phase, Schedule, read_schedules
from studies.harness import MEASURED, Clock, find_data, seconds, table, write_result

SEEN = (0.2, 0.4, 0.6)
INTERVAL = 0.9
MOST_OTHERS = 3
TENTH = 1.1
COLUMNS = ["run", "eval", "step", "loss"]
# What was learned from a group's own curves is not used on them.
LEARNED_FROM = {"25M and 100M, nine schedules": "Luo 2025 curves"}


@dataclass(frozen=True)
class Case:
    """One curve to forecast: its rows, its plan, and finished runs like it with theirs."""

    group: str
    rows: pd.DataFrame
    plan: Schedule
    others: pd.DataFrame
    plans: dict[str, Schedule]


def log_linear(step: np.ndarray, loss: np.ndarray, end: float) -> float:
    """Return the straight line of log loss against log step, through the second half of the rows, at the end."""
    late = slice(min(len(step) // 2, len(step) - 2), None)
    slope, level = np.polyfit(np.log(step[late]), np.log(loss[late]), 1)
    return float(np.exp(level + slope * np.log(end)))


def mpl(path: str) -> Iterator[Case]:
    """25M and 100M under nine schedules, from scratch; the authors' three training curves are the others."""
    curves = pd.read_csv(path).rename(columns={"run_id": "run"})
    plans = {run: mpl_schedule(str(part["schedule"].iloc[0]), int(part["step"].max()))
             for run, part in curves.groupby("run")}  # fmt: skip
    for run, part in curves.groupby("run"):
        known = curves[(curves["n_params"] == part["n_params"].iloc[0]) & (curves["split"] == "train")]
        others = known[known["run"] != run]
        yield _case("25M and 100M, nine schedules", part, others, plans)


def mpl_schedule(name: str, last: int) -> Schedule:
    """Return a schedule of the multi-power repository by its name."""
    kind, *numbers = name.split("_")
    start = {"phase": "pretrain", "peak": 3e-4, "warmup": 2160}
    if kind == "wsdcon":
        return Schedule(
            [Phase(**start, steps=last, schedule="two-stage", decay=last - 8000, end=int(numbers[0]) * 1e-5)]
        )
    steps = {"steps": int(numbers[-1])}
    shapes = {
        "constant": {"schedule": "constant"},
        "cosine": {"schedule": "cosine", "end": 3e-5},
        "wsd": {"schedule": "wsd-exp", "decay": steps["steps"] - 20_000, "end": 3e-5},
        "wsdld": {"schedule": "wsd", "decay": steps["steps"] - 20_000, "end": 3e-5},
    }
    return Schedule([Phase(**start, **steps, **shapes[kind])])


def lr_schedules(runs_path: str, curves_path: str) -> Iterator[Case]:
    """33M to 210M under cosine, constant and WSD at several peaks, from scratch."""
    runs = pd.read_csv(runs_path).rename(columns={"run_id": "run"}).set_index("run")
    runs = runs[
        (runs["step_min"] == 0) & runs["schedule_form"].isin(["cos_min0.1", "cos_min0.0", "const", "wsd_lin_0.2"])
    ]
    runs = runs[runs["last_val"] < 3.7]  # a few diverged
    curves = pd.read_csv(curves_path).rename(columns={"run_id": "run"})
    curves = curves[curves["run"].isin(runs.index)]
    plans = {}
    for run, row in runs.iterrows():
        shape = {
            "cos_min0.1": {"schedule": "cosine", "end": "10%"},
            "cos_min0.0": {"schedule": "cosine"},
            "const": {"schedule": "constant"},
            "wsd_lin_0.2": {"schedule": "wsd", "decay": "20%"},
        }[row["schedule_form"]]
        plans[run] = Schedule([Phase("pretrain", int(row["iters"]), peak=row["peak_lr"], warmup=300, **shape)])
    for run, part in curves.groupby("run"):
        own = runs.loc[run]
        like = runs[(runs["n_params"] == own["n_params"]) & (runs["dataset"] == own["dataset"])].drop(index=run)
        # Nearest in peak first; a run of the same schedule and length would tell the end itself.
        like = like[(like["schedule_form"] != own["schedule_form"]) | (like["iters"] != own["iters"])]
        gap = np.abs(np.log(like["peak_lr"] / own["peak_lr"])).sort_values(kind="stable")
        others = curves[curves["run"].isin(gap.index[gap < 0.8][:MOST_OTHERS])]
        yield _case("33M to 210M, six peaks", part, others, plans)


def pilot() -> Iterator[Case]:
    """Real CPT, English to French: six rows a run, both losses; the others are other seeds of the same cell."""
    frame = cl.examples.load("en-fr-pilot").frame.copy()
    frame["run"] = frame["run"].astype(str)
    frame = frame[(frame["step"] > 0) & (frame["lr_schedule"] == "constant") & (frame["replay"] > 0)]
    frame = frame[frame["replay"] < 1]
    plans = {
        run: Schedule([Phase("cpt", int(part["step"].max()), "constant", peak=3e-3, warmup=50)])
        for run, part in frame.groupby("run")
    }
    for on in ("source", "target"):
        rows = frame[frame["eval"].astype(str) == on]
        for run, part in rows.groupby("run"):
            cell = ["n_params", "ptpp", "replay"]
            same = (rows[cell] == part[cell].iloc[0]).all(axis=1) & (rows["run"] != run)
            yield _case(f"pilot, {on} loss", part, rows[same], plans)


def of_project(study: str, words: str) -> Callable[[], Iterator[Case]]:
    """Return a reader of a table of the package: ten rows a run, both losses, others of other seeds, plans or rates."""

    def read() -> Iterator[Case]:
        frame = cl.examples.load(study).frame.copy()
        plans = dict(read_schedules(cl.examples.schedules(study)))
        frame = frame[(frame["tokens"] > 0) & (frame["replay"] > 0) & (frame["replay"] < 1)]
        cell = [name for name in ("n_params", "ptpp", "replay", "domain") if name in frame.columns]
        yield from _both_losses(words, frame.assign(run=frame["run"].astype(str)), plans, cell)

    return read


def dynamics() -> Iterator[Case]:
    """Real CPT, English to French at 46K: 25 rows a run, constant, cosine and WSD; others under another plan."""
    frame = pd.read_csv(MEASURED / "dynamics.csv")
    frame = frame[(frame["phase"] == "cpt") & (frame["tokens"] > 0) & (frame["replay"] < 1)]
    frame["length"] = frame.groupby("run")["step"].transform("max")
    frame["potential"] = frame["base"].astype(str).str.extract(r"-e([\d.]+)$")[0]
    plans = dict(read_schedules(MEASURED / "dynamics_schedules.json"))
    # A run under the same plan would tell the end itself.
    twin = ["lr_schedule", "lr_peak", "length", "potential"]
    yield from _both_losses("dynamics", frame, plans, ["n_params", "ptpp", "replay"], twin)


def _both_losses(
    words: str, frame: pd.DataFrame, plans: dict[str, Schedule], cell: list[str], twin: Sequence[str] = ()
) -> Iterator[Case]:
    """Yield the curves of a table, each with runs of its cell that are not its twins."""
    for on in ("source", "target"):
        rows = frame[frame["eval"].astype(str) == on]
        for run, part in rows.groupby("run"):
            same = (rows[cell] == part[cell].iloc[0]).all(axis=1) & (rows["run"] != run)
            if twin:
                same &= ~(rows[list(twin)] == part[list(twin)].iloc[0]).all(axis=1)
                same &= rows["run"].isin(rows.loc[same, "run"].unique()[:MOST_OTHERS])
            yield _case(f"{words}, {on} loss", part, rows[same], plans)


def pythia(path: str) -> Iterator[Case]:
    """Real CPT, Pythia-70M from Pile to Python at four replays: ten rows a run, both losses."""
    frame = pd.read_csv(path).rename(columns={"run_id": "run"})
    names = {"PILE_weighted": "source", "python": "target"}
    frame = frame[frame["domain"].isin(names)].assign(eval=lambda rows: rows["domain"].map(names))
    base = frame[frame["step"] == 0]
    plan = Schedule([Phase("cpt", 10_000, "constant", peak=1e-3, start=1e-3)])
    for on in ("source", "target"):
        rows = frame[(frame["eval"] == on) & (frame["step"] > 0)]
        start = base[base["eval"] == on].head(1)
        for run, part in rows.groupby("run"):
            whole = pd.concat([start.assign(run=run), part])
            yield _case(f"Pythia-70M, {on} loss", whole, rows.iloc[:0], {run: plan})


def _case(group: str, part: pd.DataFrame, others: pd.DataFrame, plans: dict[str, Schedule]) -> Case:
    rows = part.sort_values("step").reset_index(drop=True)
    if "eval" not in rows:
        rows, others = rows.assign(eval="val"), others.assign(eval="val")
    run = str(rows["run"].iloc[0])
    return Case(
        group, rows[COLUMNS], plans[run], others[COLUMNS], {name: plans[name] for name in others["run"].unique()}
    )


def back_test(case: Case, seen: float, with_others: bool) -> dict[str, float | str] | None:
    """Forecast the last row from the first ones; ``None`` where these are too few."""
    end = case.rows.iloc[-1]
    head = case.rows[case.rows["step"] <= seen * end["step"]]
    # The last row is the end: the plan beyond it has not been measured.
    table_ = pd.concat([head, case.others]) if with_others else head
    run = str(end["run"])
    plan = _until(case.plan, int(end["step"]))
    study = LEARNED_FROM.get(case.group)
    try:
        with nullcontext() if study is None else leaving_out(study):
            found = cl.forecast_run(table_, {run: plan, **case.plans}, run, interval=INTERVAL).points.iloc[0]
    except cl.DataError:  # too early
        return None
    used = head[head["step"] > 0]
    if len(used) < 3:
        return None
    truth = float(end["loss"])
    straight = log_linear(used["step"].to_numpy(float), used["loss"].to_numpy(float), float(end["step"]))
    return {
        "group": case.group,
        "seen": seen,
        "others": with_others,
        "ours": abs(found["loss"] / truth - 1),
        "last": abs(used["loss"].iloc[-1] / truth - 1),
        "log-linear": abs(straight / truth - 1),
        "held": float(found["lo"] <= truth <= found["hi"]),
        "half-width": 0.5 * (found["hi"] - found["lo"]) / truth,
    }


def _until(plan: Schedule, last: int) -> Schedule:
    """Return a schedule as far as the last measured step, which counts from the start of its last phase."""
    phase = plan.phases[-1]
    if last >= phase.steps:
        return plan
    begun = plan.n_steps - phase.steps
    rates = plan.lr[begun : begun + last + 1]
    kept = Phase(phase.phase, last, "file", points=(np.arange(last + 1.0), rates), warmup=phase.warmup)
    return Schedule([*plan.phases[:-1], kept])


READERS: tuple[tuple[Callable[..., Iterator[Case]], tuple[str, ...]], ...] = (
    (pilot, ()),
    (of_project("docs-to-code", "docs to code"), ()),
    (of_project("code-to-prose", "code to prose"), ()),
    (of_project("docs-to-manuals", "docs to manuals"), ()),
    (of_project("domains", "domains"), ()),
    (of_project("en-fr-ladder", "English to French, ladder"), ()),
    (dynamics, ()),
    (mpl, ("mpl_lr_curves.csv",)),
    (pythia, ("mixlaws_ct_pythia70m.csv",)),
    (lr_schedules, ("lr_schedules_runs.csv", "lr_schedules_curves.csv")),
)


def groups(folder: str | None, only: str = "") -> dict[str, list[Case]]:
    """Return all curves by group; public ones whose file is absent are left out, with a line that says so."""
    found: dict[str, list[Case]] = {}
    for reader, names in READERS:
        paths = [find_data(name, folder) for name in names]
        if None in paths:
            print(f"skipped: {names[paths.index(None)]} is not in the data folder", file=sys.stderr)
            continue
        for case in reader(*map(str, paths)):
            if only in case.group:
                found.setdefault(case.group, []).append(case)
    return found


def scores(chosen: list[Case]) -> pd.DataFrame:
    """Return one row per curve, share seen, and with or without other runs."""
    found = []
    for case in chosen:
        for seen in SEEN:
            for with_others in (False, True) if len(case.others) else (False,):
                row = back_test(case, seen, with_others)
                if row is not None:
                    found.append(row)
    return pd.DataFrame(found)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Return mean absolute relative errors, coverage and half-widths by group."""
    by = found.groupby(["group", "seen", "others"], sort=False)
    means = by[["ours", "last", "log-linear", "held", "half-width"]].mean()
    better = means[["last", "log-linear"]].min(axis=1)
    return means.assign(curves=by.size(), ratio=means["ours"] / better).reset_index()


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return [back_test(case, seen, True) for case in islice(pilot(), 0, 6, 5) for seen in SEEN[1:]]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="groups whose name holds this text")
    parser.add_argument("--set-by", action="store_true", help="every fifth curve of a group, not the others")
    parser.add_argument("--fold", type=int, choices=range(1, 5), help="of five, this one alone; 0 is that of --set-by")
    parser.add_argument("--most", type=int, help="at most so many curves of each group, spread over it")
    parser.add_argument("--data", help="folder of the public data")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    given = parser.parse_args(arguments)
    chosen: list[Case] = []
    for cases in groups(given.data, given.only).values():
        kept = [case for k, case in enumerate(cases) if (k % 5 == 0) == given.set_by]
        if given.fold:
            kept = cases[given.fold :: 5]
        chosen += kept[:: max(1, len(kept) // given.most)][: given.most] if given.most else kept
    if not chosen:
        return
    clock = Clock()
    with clock.running():
        found = summary(scores(chosen))
    rows = [
        [
            row["group"], f"{row['seen']:.0%}", "yes" if row["others"] else "no", str(row["curves"]),
            *(f"{100 * row[name]:.2f}" for name in ("ours", "last", "log-linear")), f"{row['ratio']:.2f}",
            f"{100 * row['held']:.0f}", f"{100 * row['half-width']:.2f}",
        ]
        for _, row in found.iterrows()
    ]  # fmt: skip
    header = [
        *("curves", "seen", "others", "n", "ours %", "last value %", "log-linear %", "to the better"),
        *("held of 90 %", "half-width %"),
    ]
    ratio = found["ratio"]
    held = (found["held"] * found["curves"]).groupby(found["group"].str.split(",").str[0], sort=False).sum()
    count = found.groupby(found["group"].str.split(",").str[0], sort=False)["curves"].sum()
    said = [
        ("rows within a tenth of the better rule, or ahead of it", f"{int((ratio <= TENTH).sum())} of {len(ratio)}"),
        ("error beside that of the better rule, geometric mean", f"{np.exp(np.log(ratio).mean()):.2f}"),
        *((f"held of 90 %, {name}", f"{100 * share:.0f}") for name, share in (held / count).items()),
    ]
    made = {
        "back-test": pd.DataFrame(rows, columns=header),
        "summary": pd.DataFrame(said, columns=["what", "found"]),
    }
    print(table(header, rows), *(f"{what}: {value}" for what, value in said), sep="\n")
    print(f"{int(found['curves'].sum())} forecasts in {seconds(clock.cpu)} CPU, {seconds(clock.wall)} wall")
    if given.write:
        write_result("unfinished_runs", made, "python -m studies unfinished_runs --fold 3 --most 8 --write")


if __name__ == "__main__":
    main()
