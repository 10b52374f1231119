"""Rows of loss curves on their way into a fit: their schedules, fewer points of long curves, and fits on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.laws.base import Context, Law
from cptlaw.schedules import Phase, Schedule, read_schedules
from cptlaw.schedules.from_columns import phases_from_columns
from cptlaw.schedules.phase import PhaseName
from cptlaw.units import format_quantity

MOST_POINTS = 1000  # of one phase of one run; curves with more are grouped
JUMP = 0.2  # of the highest rate, between rows further apart than one step: where the column lr hides when it fell

Schedules = Mapping[str, Schedule]


def curve_rows(
    chosen: Law, frame: pd.DataFrame, schedules: Schedules | str | Path | None, label: str
) -> tuple[pd.DataFrame, dict[str, Schedule], tuple[Finding, ...]]:
    """Prepare rows of one eval for a law of loss curves.

    Parameters
    ----------
    frame
        Rows with run, step, loss and, where the schedules are not given, lr; or with the law's areas as columns.
    schedules
        Schedules by run, a schedules file, or ``None`` to take them from the column ``lr``.

    Returns
    -------
    frame
        The rows to fit with the law's columns.
    schedules
        Those of the runs in the rows.
    findings
        What was left out, grouped or assumed.
    """
    given = read_schedules(schedules or {})
    findings: list[Finding] = []
    areas_given = set(chosen.computed) <= set(frame.columns)
    if not areas_given:
        frame, derived, assumed = _derived(chosen, frame, given)
        frame, noted = _without_base_rows(chosen, frame, given)
        logged, read = _from_column(chosen, frame, given, label, derived)
        given = {run: whole for run, (_, whole) in derived.items() if whole is not None} | given | logged
        findings += [*noted, *read, *assumed]
    kept = chosen.rows(frame, Context(schedules=given))
    if len(kept) < len(frame):
        findings.append(
            Finding(
                "info",
                "skipped-steps",
                f"{len(frame) - len(kept)} rows are not fitted: law {chosen.spec} leaves out the first steps.",
            )
        )
    if kept.empty:
        raise DataError(f"{label}: law {chosen.spec} leaves no row to fit.")
    thin, grouped = thinned(kept)
    frame = thin if areas_given else chosen.inputs_of(thin, Context(schedules=given))
    used = set(frame["run"].astype(str))
    return frame, {run: one for run, one in given.items() if run in used}, (*findings, *grouped)


def _without_base_rows(chosen: Law, frame: pd.DataFrame, given: Schedules) -> tuple[pd.DataFrame, list[Finding]]:
    """Leave out losses of base models that belong to no curve: rows with tokens = 0 without a step or a schedule.

    Nor does a row of a base model under the schedule of its pre-training alone: it is its end, and its step, 0, is that
    of CPT.
    """
    if "tokens" not in frame.columns:
        return frame, []
    # With a base model's loss among the rows a law has to explain the first jump of CPT by its shift.
    loose = (frame["tokens"] == 0).to_numpy(copy=True)
    if "step" in frame.columns:
        curves = frame.loc[~loose, "run"].astype(str)
        of_cpt = "s1_cpt" in chosen.computed
        known = [run for run, schedule in given.items() if schedule.n_cpt or not of_cpt]
        on_a_curve = frame["run"].astype(str).isin([*known, *curves]).to_numpy()
        loose &= frame["step"].isna().to_numpy() | ~on_a_curve
    if not loose.any() or loose.all():
        return frame, []
    note = Finding(
        "info", "base-rows", f"{int(loose.sum())} rows with tokens = 0 belong to no curve and are not fitted."
    )
    return frame[~loose], [note]


Derived = dict[str, tuple[Schedule | None, Schedule | None]]  # pre-training and whole schedule, by run


def _derived(chosen: Law, frame: pd.DataFrame, given: Schedules) -> tuple[pd.DataFrame, Derived, list[Finding]]:
    """Make the schedules that are not given from the columns that say shape, peak, tokens; add steps where they do."""
    if not {"run", "tokens", "lr_schedule", "lr_peak"} <= set(frame.columns) or "phase" in frame.columns:
        return frame, {}, []
    if "step" not in frame.columns and "batch_tokens" in frame.columns:
        frame = frame.assign(step=(frame["tokens"] / frame["batch_tokens"]).round())
    adapted, name = frame["tokens"] > 0, phase_of(chosen)
    derived: Derived = {}
    assumed: dict[str, None] = {}
    for run, rows in frame[adapted].groupby(frame["run"].astype(str), sort=False):
        if run not in given:
            before, own, added = phases_from_columns(rows, frame[~adapted], name)
            phases = [phase for phase in (before, own) if phase is not None]
            derived[str(run)] = (Schedule([before]) if before else None, Schedule(phases) if own else None)
            assumed |= dict.fromkeys(added)
    count = sum(1 for both in derived.values() if both != (None, None))
    message = f"the schedules of {count} runs are built from their columns; assumed: {', '.join(assumed) or 'nothing'}."
    note = Finding(
        "info", "schedule-from-columns", message, "Give a schedules file if that is wrong.", remedy=Remedy("schedules")
    )
    return frame, derived, [note] if count else []


def phase_of(chosen: Law) -> PhaseName:
    """Return the one phase that a law is about, which rows are of without a column phase."""
    return "cpt" if any(name.endswith("cpt") for name in chosen.computed) else "pretrain"


def _from_column(
    chosen: Law, frame: pd.DataFrame, given: Schedules, label: str, derived: Derived
) -> tuple[dict[str, Schedule], list[Finding]]:
    """Make the schedules that are not given from the column lr."""
    if not {"run", "step", "lr"} <= set(frame.columns):
        return {}, []
    schedules: dict[str, Schedule] = {}
    widest, hidden = 0.0, []
    alone = phase_of(chosen)
    for run, rows in frame.groupby(frame["run"].astype(str), sort=False):
        if run in given or rows["lr"].isna().all():
            continue
        phase = rows["phase"].astype(object).fillna(alone).astype(str) if "phase" in rows.columns else None
        before, _ = derived.get(str(run), (None, None))
        for name in ("pretrain", "cpt"):
            part = rows[phase == name] if phase is not None else (rows if name == alone else rows.iloc[:0])
            part = part[part["lr"].notna()].sort_values("step", kind="stable")
            if part.empty:
                continue
            step, lr = part["step"].to_numpy(dtype=float), part["lr"].to_numpy(dtype=float)
            try:
                before = Schedule.from_lr(step, lr, phase=name, before=before, label=f"{label}, run {run!r}, column lr")
            except UsageError as error:
                raise DataError(str(error)) from None
            gap = np.diff(step, prepend=0.0)
            widest = max(widest, float(gap.max()))
            # A drop between two logged rows may lie at any step between them, and each choice gives another annealing
            # area.
            if np.any((gap[1:] > 1) & (np.abs(np.diff(lr)) > JUMP * lr.max())):
                hidden.append(str(run))
        if before is not None:
            schedules[str(run)] = before
    return schedules, [*_logged_rate_findings(len(schedules), widest, hidden)]


def _logged_rate_findings(count: int, widest: float, hidden: list[str]) -> Iterator[Finding]:
    """Say how far apart the logged rates of so many runs are, and in which runs a drop lies between two of them."""
    if count:
        yield Finding(
            "info",
            "schedule-from-lr",
            f"the schedules of {count} runs are straight lines between the values of column lr, which are up to "
            f"{widest:g} steps apart.",
        )
    if hidden:
        others = f" and {len(hidden) - 1} other runs" if hidden[1:] else ""
        yield Finding(
            "warning",
            "hidden-drop",
            f"the learning rate jumps between rows of {hidden[0]!r}{others} by more than {JUMP:.0%} of its highest "
            f"value, and the rows do not tell at which step.",
            "Give these runs in a schedules file: the annealing area depends on it.",
            remedy=Remedy("schedules"),
        )


def thinned(frame: pd.DataFrame, most: int = MOST_POINTS) -> tuple[pd.DataFrame, tuple[Finding, ...]]:
    """Group neighbouring points of long curves; the schedule is never thinned.

    A group is an odd number of consecutive points of one phase of one run. It keeps the row of its middle point, with
    the median of the group's log losses: what the objective, which is nearly a sum of absolute residuals, would make of
    the group. Groups grow with the step up to a limit, so that the law hardly bends within one.

    Parameters
    ----------
    frame
        Rows with run, step and loss.
    most
        Points of one phase of one run up to which nothing is done.

    Examples
    --------
    >>> curve = pd.DataFrame({"run": "a", "step": range(1, 9001), "loss": 3.0})
    >>> 900 < len(thinned(curve)[0]) <= 1000
    True
    """
    if "step" not in frame.columns or len(frame) <= most:
        return frame, ()
    keys = [frame["run"].astype(str)]
    if "phase" in frame.columns:
        keys.append(frame["phase"].astype(object).fillna("").astype(str).rename("phase"))
    kept: list[pd.DataFrame] = []
    before = after = runs = 0
    for _, rows in frame.groupby(keys, sort=False, observed=True):
        if len(rows) <= most:
            kept.append(rows)
            continue
        rows = rows.sort_values("step", kind="stable")
        sizes = _group_sizes(len(rows), most)
        middle = np.cumsum(sizes) - 1 - (sizes - 1) // 2
        group = np.repeat(np.arange(len(sizes)), sizes)
        # With a threshold of 1e-3 the objective is nearly a sum of absolute residuals, of which the median is the
        # natural summary; spikes do not reach it.
        log_loss = np.log(rows["loss"].to_numpy(dtype=float)[: len(group)])
        median = pd.Series(log_loss).groupby(group).median().to_numpy()
        kept.append(rows.iloc[middle].assign(loss=np.exp(median)))
        before, after, runs = before + len(rows), after + len(sizes), runs + 1
    if not runs:
        return frame, ()
    note = Finding(
        "info",
        "thinned",
        f"{format_quantity(before)} points of {runs} long curves are grouped into {format_quantity(after)} medians of "
        f"neighbouring points; the schedules are read step by step.",
    )
    return pd.concat(kept).sort_index(kind="stable"), (note,)


def _group_sizes(count: int, most: int) -> NDArray[np.intp]:
    """Return odd sizes of consecutive groups that cover all but at most a few of `count` points, at most `most`."""
    widest = 2.0 * count / most  # half of the groups are of equal width, half grow with the step

    def sizes(growth: float) -> list[int]:
        result, done = [], 0
        while done < count:
            size = max(1, round(min(growth * done, widest)))
            # Odd, so that the median is a measured loss and the middle point is one of the group.
            size -= 1 - size % 2
            size = min(size, (count - done) - 1 + (count - done) % 2)
            result.append(size)
            done += size
        return result

    # How fast groups may grow with the step so that their number fits, by bisection on a logarithmic axis.
    low, high = 1e-5, 1.0
    for _ in range(30):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if len(sizes(middle)) > most else (low, middle)
    return np.array(sizes(high))


# -- fits on disk --------------------------------------------------------------------------------------------------


def rows_by_run(frame: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield each run of a table, in order, and where its rows stand."""
    runs = frame["run"].astype(str).to_numpy()
    for run in dict.fromkeys(runs):
        yield run, np.flatnonzero(runs == run)


def global_steps(frame: pd.DataFrame, schedule: Schedule, where: str) -> NDArray[np.intp]:
    """Return the steps of rows of one run, counted across the phases of its schedule, shape (n,), int.

    Raises
    ------
    DataError
        If a step is missing, no whole number, or outside its phase.
    """
    steps = frame["step"].to_numpy(dtype=float)
    bad = ~np.isfinite(steps) | (steps != np.round(steps))
    if bad.any():
        row = frame.index[np.flatnonzero(bad)[0]]
        raise DataError(f"{where}, row {row}: step is {steps[bad][0]}; expected a whole number of optimiser steps.")
    # A table without phases is one of the phase that is being studied, which is the last.
    last = schedule.phases[-1].phase
    if "phase" in frame.columns:
        phase = frame["phase"].astype(object).where(frame["phase"].notna(), last).astype(str).to_numpy()
    else:
        phase = np.full(len(frame), last)
    unknown = ~np.isin(phase, ("pretrain", "cpt"))
    if unknown.any():
        row = frame.index[np.flatnonzero(unknown)[0]]
        raise DataError(f"{where}, row {row}: phase is {phase[unknown][0]!r}; expected pretrain or cpt.")
    in_cpt = phase == "cpt"
    length = np.where(in_cpt, schedule.n_cpt, schedule.n_pretrain)
    outside = (steps < 0) | (steps > length)
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise DataError(
            f"{where}, row {frame.index[i]}: step {steps[i]:.0f} of phase {phase[i]} lies outside its schedule, which "
            f"has {length[i]} steps there. Steps count from the start of each phase; lengthen the schedule, or mend it."
        )
    return (steps + np.where(in_cpt, schedule.n_pretrain, 0)).astype(int)


def schedules_to_json(schedules: Schedules) -> dict[str, list[dict[str, object]]]:
    """Return schedules as plain values; the points of a logged one keep only the corners of straight lines."""
    return {run: [_phase_to_json(phase) for phase in schedule.phases] for run, schedule in schedules.items()}


def schedules_from_json(document: Mapping[str, Any]) -> dict[str, Schedule]:
    """Return the schedules that `schedules_to_json` wrote."""
    result = {}
    for run, phases in document.items():
        built = []
        for phase in phases:
            values = dict(phase)
            if "points" in values:
                values["points"] = tuple(np.array(part, dtype=float) for part in values["points"])
            built.append(Phase(**values))
        result[str(run)] = Schedule(built)
    return result


def _phase_to_json(phase: Phase) -> dict[str, object]:
    values = phase.to_dict()
    if phase.points is not None:
        step, lr = phase.points
        corner = np.ones(len(step), dtype=bool)
        if len(step) > 2:
            # A logged schedule of a hundred thousand rows is a few straight lines: only their corners are kept in the
            # file.
            bend = np.diff(np.diff(lr) / np.diff(step)) * np.diff(step)[1:]
            corner[1:-1] = np.abs(bend) > 1e-14 * lr.max()  # less is rounding of a straight line
        values["points"] = [step[corner].tolist(), lr[corner].tolist()]
    return values
