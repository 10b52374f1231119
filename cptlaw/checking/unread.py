"""Factors that a table knows, that vary at equal inputs and move the loss, and that the law does not read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.commands import command_line
from cptlaw.findings import Finding
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array
from cptlaw.laws.registry import LAWS
from cptlaw.units import format_quantity

FACTORS = ("lr_peak", "lr_pretrain", "lr_schedule", "ptpp", "replay", "n_params", "tokens", "batch_tokens")
# What follows from a schedule, for laws that read one.
OF_SCHEDULES = ("lr_peak", "lr_pretrain", "lr_schedule", "tokens")
LEAST = 0.01  # of the loss, between the lowest and the highest level
SURE = 2.0  # standard errors
MOST_LEVELS = 40


def check_unread(law: Law, frame: pd.DataFrame, residual: Array) -> list[Finding]:
    """Say which factors the law would have to read."""
    read = [name for name in law.inputs if name in frame.columns]
    skip = {*law.inputs, *(OF_SCHEDULES if law.needs_schedules else ())}
    skip |= {"ptpp"} if "s1_pretrain" in law.inputs else set()
    asked = [
        name
        for name in FACTORS
        if name in frame.columns and name not in skip and 1 < frame[name].nunique() < MOST_LEVELS
    ]
    if not asked or not read or "run" not in frame.columns:
        return []
    # Tokens are rounded to whole batches, so that inputs within a per cent are equal.
    same = [frame[name] if frame[name].dtype == object else _to_a_per_cent(frame[name]) for name in read]
    cell = pd.Series(list(zip(*same, strict=True))).map(hash).to_numpy()
    return [one for name in asked if (one := _moves(law, frame, residual, cell, name)) is not None]


def _to_a_per_cent(values: pd.Series) -> pd.Series:
    """Return numbers that are alike where values are within a per cent; areas of schedules may be below zero."""
    return pd.Series(np.sign(values) * np.round(100 * np.log(values.abs() + 1e-9)), index=values.index)


def _moves(law: Law, frame: pd.DataFrame, residual: Array, cell: NDArray[Any], name: str) -> Finding | None:
    rows = pd.DataFrame({"cell": cell, "level": frame[name].to_numpy(), "run": frame["run"].astype(str).to_numpy()})
    rows = rows.assign(error=-residual)[rows["level"].notna()]
    rows = rows[rows.groupby("cell")["level"].transform("nunique") > 1]
    if rows.empty:
        return None
    rows["error"] -= rows.groupby("cell")["error"].transform("mean")
    of_run = rows.groupby(["level", "run"], observed=True)["error"].mean()  # a run errs as a whole
    of_level = of_run.groupby("level").agg(["mean", "std", "count"])
    moved = float(of_level["mean"].max() - of_level["mean"].min())
    freedom = int(of_level["count"].sum() - len(of_level))
    if freedom > 0:
        variance = float(((of_level["count"] - 1) * of_level["std"].fillna(0.0) ** 2).sum()) / freedom
        ends = of_level.loc[[of_level["mean"].idxmin(), of_level["mean"].idxmax()], "count"]
        if moved < SURE * float(np.sqrt(variance * (1.0 / ends).sum())):
            return None
    if moved < LEAST:
        return None
    levels = [one if isinstance(one, str) else format_quantity(float(one)) for one in of_level.index]
    shown = ", ".join(levels[:4]) + (" .." if len(levels) > 4 else "")
    reads = [other for other, one in LAWS.items() if name in one.inputs][:2]
    first = repr(of_level.index[0]) if isinstance(of_level.index[0], str) else levels[0]
    return Finding(
        "warning",
        "unread-factor",
        f"{name} ({shown}) varies at otherwise equal inputs and moves the loss by {100 * moved:.2g}%; law {law.name} "
        f"does not read it, so that its forecasts are for the mean of these rows.",
        f"Fit one level ({command_line(['--where', f'{name} == {first}'])})"
        + (f", or take a law that reads {name}, such as {' or '.join(reads)}." if reads else "."),
    )
