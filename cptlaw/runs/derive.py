"""Columns that follow from others: tokens from steps and batches, budgets from the tokens of pre-training."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, MutableMapping, Sequence

import numpy as np
import pandas as pd

from cptlaw.runs.convert import to_numbers
from cptlaw.runs.schema import normal_name

# Names under which trainers log the two factors of a batch's tokens; neither is a column of a runs table by itself.
BATCH_SIZES = ("batch_size", "global_batch_size", "gbs", "train_batch_size", "total_batch_size")
LENGTHS = ("seq_length", "max_seq_length", "sequence_length", "seq_len", "block_size", "cutoff_len", "context_length")


def derived(data: MutableMapping[Hashable, object], frame: pd.DataFrame) -> tuple[str, ...]:
    """Add to checked columns, in place, what follows from them, and return notes on it.

    Parameters
    ----------
    data
        Canonical columns, numbers as float64 arrays of shape (n,).
    frame
        The table as it was found, for columns that are not canonical.

    Notes
    -----
    What a table says itself is never replaced: only rows without a value are filled.
    """
    notes = []
    if "tokens" not in data and "step" in data:
        if "batch_tokens" not in data and (batch := tokens_of_a_step(frame)) is not None:
            data["batch_tokens"] = batch
            notes.append("batch_tokens: batch size x sequence length")
        adapting = {**data, "step": _adapting_steps(data)} if "phase" in data else data
        # Each row by its own batch: runs of a table may differ in it.
        if _filled(adapting, "tokens", "step", "batch_tokens", np.multiply):
            data["tokens"] = adapting["tokens"]
            since = " since its phase cpt began" if "phase" in data else ""
            notes.append(f"tokens: step x tokens of a step{since}, as the table does not count them")
    if "tokens" not in data and "samples" in data:
        length = data.get("batch_tokens", _one_of(frame, LENGTHS))
        data["tokens"] = data["samples"] if length is None else np.asarray(data["samples"]) * np.asarray(length)
        notes.append(
            "tokens: samples, as the table does not say how many tokens one has; every answer in tokens is in samples"
            if length is None
            else "tokens: samples x tokens of a sample"
        )
    if _filled(data, "ptpp", "pt_tokens", "n_params", np.divide):
        notes.append("ptpp: pt_tokens / n_params")
    return tuple(notes)


def _adapting_steps(data: Mapping[Hashable, object]) -> np.ndarray:
    """Return the steps of CPT, (n,), counted from where it began in each run; steps of pre-training adapt nothing.

    A run whose steps of CPT go on from those of its pre-training began at the last of these.
    """
    step = np.asarray(data["step"], dtype=float)
    phase = np.array([str(name) for name in pd.Series(data["phase"])])
    runs = np.array([str(name) for name in pd.Series(data["run"])]) if "run" in data else np.zeros(len(step))
    values = np.where(phase == "pretrain", np.nan, step)
    for run in np.unique(runs):
        own, before = values[runs == run], step[(runs == run) & (phase == "pretrain")]
        if len(before) and np.isfinite(own).any() and np.nanmin(own) >= before.max():
            values[runs == run] = own - before.max()
    return values


def tokens_of_a_step(frame: pd.DataFrame) -> np.ndarray | None:
    """Return sequences of a step x tokens of a sequence, (n,), where the table holds one column of each."""
    sequences, length = _one_of(frame, BATCH_SIZES), _one_of(frame, LENGTHS)
    return None if sequences is None or length is None else np.asarray(sequences * length)


def _one_of(frame: pd.DataFrame, words: Sequence[str]) -> np.ndarray | None:
    """Return the positive numbers, (n,), of the one column that is called so, wherever a tracker keeps it."""
    named = [name for name in frame.columns if normal_name(re.split("[./]", str(name))[-1]) in words]
    if len(named) != 1:  # two of them would say different things, such as per device and in all
        return None
    values, _ = to_numbers(frame[named[0]])
    return np.where(values > 0, values, np.nan)


def _filled(data: MutableMapping[Hashable, object], name: str, first: str, second: str, rule: np.ufunc) -> bool:
    """Fill the missing values of a column by a rule from two others; return whether any was filled."""
    if first not in data or second not in data:
        return False
    left, right = (np.asarray(data[part], dtype=float) for part in (first, second))
    own = np.asarray(data.get(name, np.full(left.shape, np.nan)), dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = rule(left, right)
    # A base model of no tokens per parameter was never trained; zero adaptation tokens are a base model.
    fill = np.isnan(own) & np.isfinite(value) & (value > 0 if name == "ptpp" else value >= 0)
    if not fill.any():
        return False
    data[name] = np.where(fill, value, own)
    return True
