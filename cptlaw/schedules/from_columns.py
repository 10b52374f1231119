"""Schedules of runs as columns of a table tell them: shape, peak, warm-up, last rate, tokens and batch."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.schedules.phase import Phase, PhaseName
from cptlaw.schedules.shapes import NEEDS_DECAY, SHAPES, WITH_END

# What stands for what no column tells; whoever knows better writes a schedules file.
DECAY = 0.2  # share of the steps
BEFORE = ("cosine", 0.1)  # shape of a pre-training, and its last rate as a share of the peak


def phases_from_columns(
    rows: pd.DataFrame, base: pd.DataFrame, phase: PhaseName
) -> tuple[Phase | None, Phase | None, list[str]]:
    """Return pre-training and logged phase of one run, None where columns do not tell them, and what is assumed.

    Parameters
    ----------
    rows
        Of the run, one eval, with tokens above 0.
    base
        Of the base models, tokens 0.
    phase
        Which phase the rows are of; of pre-training alone there is none before.

    Notes
    -----
    Read are lr_schedule, lr_peak, warmup, lr_end, tokens, step, batch_tokens; for the pre-training of an adapted model
    ptpp, n_params, lr_pretrain, and shape and peak in the row of its base model. A run ends at its last row.
    """
    last: Mapping[Hashable, Any] = rows.sort_values("tokens").iloc[-1].to_dict()
    number = {name: float(last[name]) for name in rows.columns if pd.api.types.is_numeric_dtype(rows[name])}
    steps, batch = steps_and_batch(number)
    if not (steps >= 1 and batch > 0):
        return None, None, []
    own, assumed = _phase(phase, steps, batch, last, number)
    pretraining = number.get("ptpp", math.nan) * number.get("n_params", math.nan)
    if phase == "pretrain" or not pretraining > 0:
        return None, own, assumed
    same = base[(base["n_params"] == number["n_params"]) & (base["ptpp"] == number["ptpp"])]
    model: Mapping[Hashable, Any] = same.iloc[0].to_dict() if len(same) else {}
    peaks = number.get("lr_pretrain", math.nan), model.get("lr_peak", math.nan), number.get("lr_peak", math.nan)
    peak = next((one for one in peaks if one > 0), math.nan)
    shape = model.get("lr_schedule") if model.get("lr_schedule") in SHAPES else BEFORE[0]
    if shape != model.get("lr_schedule"):
        assumed = [*assumed, f"pre-training by a {shape} to {BEFORE[1]:.0%} of its peak"]
    if not math.isfinite(peaks[0]) and not math.isfinite(peaks[1]):
        assumed = [*assumed, "pre-training at the peak of CPT"]
    settings = {"lr_schedule": shape}
    ends = {"lr_peak": peak, "lr_end": BEFORE[1] * peak if shape == BEFORE[0] else math.nan}
    before, added = _phase("pretrain", round(pretraining / batch), batch, settings, ends)
    if before is None:  # a run without its pre-training would be another one
        return None, None, []
    return before, own, [*assumed, "pre-training in batches of CPT", *added]


def steps_and_batch(number: Mapping[str, float]) -> tuple[int, float]:
    """Return steps and tokens per step of a row, either from the other and the tokens; 0 and nan where unknown."""
    step, batch, tokens = (number.get(name, math.nan) for name in ("step", "batch_tokens", "tokens"))
    step = step if step >= 1 else tokens / batch
    batch = batch if batch > 0 else tokens / step
    return (round(step), batch) if step >= 1 and batch > 0 else (0, math.nan)


def _phase(
    phase: PhaseName, steps: int, batch: float, settings: Mapping[Any, Any], number: Mapping[str, float]
) -> tuple[Phase | None, list[str]]:
    shape, peak = settings.get("lr_schedule"), number.get("lr_peak", math.nan)
    if shape not in SHAPES or not peak > 0 or steps < 1:
        return None, []
    warmup, end = number.get("warmup", math.nan), number.get("lr_end", math.nan)
    assumed = [] if warmup >= 0 else ["no warm-up"]
    options: dict[str, Any] = {"warmup": round(warmup * steps if warmup < 1 else warmup) if warmup >= 0 else 0}
    if shape in NEEDS_DECAY:
        options["decay"] = round(DECAY * steps)
        assumed.append(f"a decay of the last {DECAY:.0%} of the steps")
    if shape in WITH_END:
        options["end"] = end if end >= 0 else 0.0
        assumed += [] if end >= 0 else ["a last rate of 0"]
    try:
        return Phase(phase, steps, shape, peak=peak, tokens_per_step=batch, **options), assumed
    except UsageError:  # as of an inverse square root without its warm-up
        return None, []
