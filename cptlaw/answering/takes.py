"""What a planned run takes: optimiser steps, passes over the new text, hours of GPUs, days and money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.answering.batches import fit_valley
from cptlaw.answering.question import Asked
from cptlaw.answering.result import Answer
from cptlaw.planning.cost import Hardware, hardware
from cptlaw.planning.mixes.repetition import worth_of
from cptlaw.runs import Runs

SURER = (0.95, 0.9)  # of a safer run: the first probability with which there is a mix
MIX = "mix"  # the method of an alternative that is another mix; others are a merge and an adapter
LEAST_LEVELS, LEAST_CELLS = 3, 2  # of rates and of batches, and of sizes and token counts, for a valley of one's own
NEAR = 1.5  # times a size: runs of models within it have a batch like this one's


def devices_of(question: Asked) -> Hardware:
    """Return the devices that a question names."""
    return hardware(question.gpus, question.mfu, question.gpu_hour)


def add_costs(answer: Answer, question: Asked) -> Answer:
    """Return an answer with its limits, and with what its run and all that stand beside it take."""
    devices = devices_of(question)
    tokens, batch = answer.tokens, question.batch_tokens or answer.batch_tokens
    own = None if tokens is None else (1.0 - (answer.replay or 0.0)) * tokens
    epochs = None if own is None or question.target_tokens is None else own / question.target_tokens
    spent: dict[str, Any] = devices.cost(answer.flops)
    return replace(
        answer,
        steps=None if tokens is None or batch is None else max(1, round(tokens / batch)),
        epochs=epochs,
        epochs_worth=None if epochs is None else float(worth_of(np.asarray(epochs), 1.0)),
        **spent,
        hardware=vars(devices),
        _limits=question.limits,
        alternatives=tuple(
            {**each, **devices.cost(each["flops"])} if "flops" in each else each for each in answer.alternatives
        ),
        options=tuple({**each, **devices.cost(each["flops"])} for each in answer.options),
        next_runs=tuple({**each, **devices.cost(each.get("flops"))} for each in answer.next_runs),
    )


def batch_of_runs(runs: Runs, n_params: float) -> dict[str, Any]:
    """Return the batch of the runs nearest in size as fields of an answer; nothing where the table does not say it."""
    frame = runs.frame
    frame = frame[frame["tokens"] > 0] if "tokens" in frame.columns else frame.iloc[:0]
    if "batch_tokens" in frame.columns and frame["batch_tokens"].notna().any():
        frame, batches = frame[frame["batch_tokens"].notna()], frame["batch_tokens"].dropna().astype(float)
    elif "step" in frame.columns and (counted := frame["step"] > 0).any():
        frame = frame[counted]
        batches = (frame["tokens"] / frame["step"]).astype(float)
    else:
        return {}
    if "n_params" in frame.columns:
        sizes = frame["n_params"].astype(float)
        away = np.abs(np.log(sizes.to_numpy() / n_params))
        batches = batches[away < away.min() + np.log(NEAR)]
    low, middle, high = (float(f"{value:.3g}") for value in np.quantile(batches, (0.0, 0.5, 1.0)))
    return {"batch_tokens": middle, "batch_tokens_lo": low, "batch_tokens_hi": high}


def tuned_by_runs(runs: Runs, n_params: float, tokens: float | None) -> dict[str, object]:
    """Return rate and batch from the table's own valley as fields of an answer, where its runs vary both.

    At least two sizes or token counts must have three rates and three batches each, or the valley's bottom is a guess.
    """
    names = ["n_params", "tokens", "lr_peak", "batch_tokens", "loss"]
    if "batch_tokens" not in runs.frame.columns and {"step", "tokens"} <= set(runs.frame.columns):
        step = runs.frame["step"].where(runs.frame["step"] > 0)
        runs = replace(runs, frame=runs.frame.assign(batch_tokens=runs.frame["tokens"] / step))
    if "lr_peak" not in runs.frame.columns and "lr" in runs.frame.columns and "run" in runs.assumed:
        runs = replace(runs, frame=runs.frame.assign(lr_peak=runs.frame["lr"]))  # each row is a run
    target = next((name for name in runs.evals if runs.role(name) == "target"), None)
    if tokens is None or target is None or not set(names) <= set(runs.frame.columns):
        return {}
    rows = runs.on(target).frame
    rows = rows.loc[rows.groupby("run")["tokens"].idxmax(), names].dropna().astype(float)  # the end of each run
    levels = rows.groupby(["n_params", "tokens"])[["lr_peak", "batch_tokens"]].nunique()
    if (levels >= LEAST_LEVELS).all(axis=1).sum() < LEAST_CELLS:
        return {}
    best = [float(f"{value:.3g}") for value in fit_valley(rows).best(n_params, tokens)]
    result: dict[str, Any] = {"lr_why": f"from the valley of rate and batch in your {len(rows)} runs"}
    for name, value in zip(("lr_peak", "batch_tokens"), best, strict=True):
        low, high = (float(f"{end:.3g}") for end in (rows[name].min(), rows[name].max()))
        result |= {name: min(max(value, low), high), f"{name}_lo": low, f"{name}_hi": high}
    return result


def lowest_probability(probabilities: Mapping[str, float]) -> float | None:
    """Return how likely the limit holds that is kept least surely; ``None`` without a limit."""
    return min(probabilities.values()) if probabilities else None
