"""Factors that a table knows, that vary at equal inputs and move the loss, and that the law does not read."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.solving.components import base_models
from cptlaw.laws.base import LAWS, Law
from cptlaw.laws.calculus import Array
from cptlaw.runs.schema import COLUMNS, corpus_of
from cptlaw.units import format_quantity

FACTORS = ("lr_peak", "lr_pretrain", "lr_schedule", "ptpp", "replay", "n_params", "tokens", "batch_tokens")
# Columns of the schema that may tell runs apart; its others are measured, follow from inputs, or name the run.
SETTINGS = (
    *("seed", "tokenizer", "domain", "unique_tokens", "bits_weights", "bits_activations", "bits_kv", "bits_post"),
    *("merge_weight", "lora_rank", "vocab_added", "method"),
)
NAMES = ("base", "base_model", "base_run", "atpp", "k1", "k2", "k3")
# What follows from a schedule, for laws that read one.
OF_SCHEDULES = ("lr_peak", "lr_pretrain", "lr_schedule", "tokens")
LEAST = 0.01  # of the loss, between the lowest and the highest level
# From here on the mean of the levels answers no question: an error, which stands before all else that was noticed.
SEVERE = 0.1
SURE = 2.0  # standard errors
MOST_LEVELS = 40
LEVELS_ARE = ("string", "categorical", "boolean", "integer", "floating", "mixed-integer-float")
# A table may have fifty columns of its own (scores, notes), which must not come out by chance.
SURE_OF_OTHERS = 4.0
RUNS_OF_LEVEL = 2
MOST_OTHERS = 2


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
    if not read or "run" not in frame.columns:
        return []
    # Tokens are rounded to whole batches, so that inputs within a per cent are equal.
    same = [frame[name] if frame[name].dtype == object else _to_a_per_cent(frame[name]) for name in read]
    cell = pd.Series(list(zip(*same, strict=True))).map(hash).to_numpy()
    if len(np.unique(cell)) == len(frame):
        return []
    result = [one for name in asked if (one := _effect(law, frame, residual, cell, name)) is not None]
    others = (_effect(law, frame, residual, cell, name) for name in _others(law, frame, skip))
    noticed = sorted((one for one in others if one is not None), key=lambda one: -one.degree)
    return [*result, *noticed[:MOST_OTHERS]]


def _others(law: Law, frame: pd.DataFrame, skip: set[str]) -> list[str]:
    """Return columns of the user's own that sort runs into a few kinds: an optimizer, a series, a batch."""
    left_out = {*skip, *law.objects, *FACTORS, *NAMES, *(set(COLUMNS) - set(SETTINGS))}
    runs = frame["run"].nunique()
    result = []
    for name in map(str, frame.columns):
        if name in left_out or corpus_of(name) is not None or name not in frame.columns:
            continue
        column = frame[name]
        if pd.api.types.infer_dtype(column, skipna=True) not in LEVELS_ARE:  # lists and mappings are no levels
            continue
        if 1 < column.nunique() <= min(MOST_LEVELS, runs // RUNS_OF_LEVEL):
            result.append(name)
    return result


def _to_a_per_cent(values: pd.Series) -> pd.Series:
    """Return numbers that are alike where values are within a per cent; areas of schedules may be below zero."""
    return pd.Series(np.sign(values) * np.round(100 * np.log(values.abs() + 1e-9)), index=values.index)


def _effect(law: Law, frame: pd.DataFrame, residual: Array, cell: NDArray[np.integer], name: str) -> Finding | None:
    rows = pd.DataFrame({"cell": cell, "level": frame[name].to_numpy(), "run": _units(frame, name)})
    rows = rows.assign(error=-residual)[rows["level"].notna()]
    rows = rows[rows.groupby("cell")["level"].transform("nunique") > 1]
    if rows.empty:
        return None
    rows["error"] -= rows.groupby("cell")["error"].transform("mean")
    of_run = rows.groupby(["level", "run"], observed=True)["error"].mean()
    of_level = of_run.groupby("level").agg(["mean", "std", "count"])
    moved = float(of_level["mean"].max() - of_level["mean"].min())
    freedom = int(of_level["count"].sum() - len(of_level))
    other = name not in FACTORS
    if other and freedom < len(of_level):
        return None
    if freedom > 0:
        # The mean of a cell takes its part of what scatters along: half of it where two levels meet.
        left = 1.0 - rows["cell"].nunique() / len(rows[["cell", "level"]].drop_duplicates())
        variance = float(((of_level["count"] - 1) * of_level["std"].fillna(0.0) ** 2).sum()) / (left * freedom)
        ends = of_level.loc[[of_level["mean"].idxmin(), of_level["mean"].idxmax()], "count"]
        if moved < (SURE_OF_OTHERS if other else SURE) * float(np.sqrt(variance * (1.0 / ends).sum())):
            return None
    if moved < LEAST:
        return None
    levels = [one if isinstance(one, str) else format_quantity(float(one)) for one in of_level.index]
    shown = ", ".join(levels[:4]) + (" .." if len(levels) > 4 else "")
    reads = [other for other, one in LAWS.items() if name in one.inputs][:2]
    first = repr(of_level.index[0]) if isinstance(of_level.index[0], str) else levels[0]
    return Finding(
        "error" if moved >= SEVERE else "warning",
        "unread-factor",
        f"{name} ({shown}) varies at otherwise equal inputs and moves the loss by {100 * moved:.2g}%; law {law.name} "
        f"does not read it, so that its forecasts are for the mean of these rows.",
        "Fit one level" + (f", or take a law that reads {name}, such as {' or '.join(reads)}." if reads else "."),
        moved,
        data={"column": name, "moved": moved},
        remedy=Remedy("where", f"{name} == {first}"),
    )


def _units(frame: pd.DataFrame, name: str) -> NDArray[np.generic]:
    """Return what errs as a whole, (n,): the run, or the base model where a factor is the same in all its runs."""
    run: NDArray[np.generic] = frame["run"].astype(str).to_numpy()
    base = base_models(frame)
    if base is None:
        return run
    varies = frame.groupby(base)[name].transform("nunique").max() > 1
    return run if varies else base.astype(str)
