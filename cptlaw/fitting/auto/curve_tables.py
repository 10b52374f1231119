"""Loss curves of models from scratch whose learning-rate schedules are known: their forward area stands for tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cptlaw.findings import Finding
from cptlaw.fitting.auto.rows import Chosen
from cptlaw.fitting.shared_error import AREA
from cptlaw.laws.curve_rows import global_steps, rows_by_run
from cptlaw.schedules import SchedulesLike, areas, read_schedules


def as_curves(rows: Chosen, schedules: SchedulesLike | None) -> Chosen | None:
    """Return the rows with their forward area, without those of the warm-up; None where they are no such curves."""
    frame = rows.frame
    if (
        rows.is_cpt
        or rows.of_mixes
        or schedules is None
        or not {"run", "step"} <= set(frame.columns)
        or frame["step"].isna().any()
    ):
        return None
    known = read_schedules(schedules)
    # All runs or none: forward area and tokens are no common axis for rollouts.
    if any(run not in known or known[run].n_cpt for run in frame["run"].astype(str).unique()):
        return None
    area, settled = np.zeros(len(frame)), np.zeros(len(frame), dtype=bool)
    for run, at in rows_by_run(frame):
        step = global_steps(frame.iloc[at], known[run], f"run {run!r}")
        area[at] = areas(known[run]).s1[step]
        # Until the peak of the rate the areas say nothing of the loss: weights come from random ones.
        settled[at] = step > int(np.argmax(known[run].lr))
    if not settled.any():
        return None
    frame = frame.assign(**{AREA: area})[settled]
    findings = rows.findings
    if not settled.all():
        message = (
            f"{int((~settled).sum())} points of the warm-up of the rate are left out: no law of curves holds there."
        )
        findings = (*findings, Finding("info", "transient", message))
    return Chosen(replace(rows.runs, frame=frame), False, findings, is_curves=True)
