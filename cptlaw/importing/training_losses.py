"""Logs with training losses alone: what to switch on in the trainer, and what a training loss can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cptlaw.errors import join_names
from cptlaw.importing.history import History, Record
from cptlaw.importing.names_of_losses import is_training_loss

# Windows in which a training loss is averaged: one batch's is off by some percent, and a mean over hundreds is not.
WINDOWS = 20
_FEWEST = 2 * WINDOWS  # records; below that each stands by itself
NOTE = (
    "its training loss as eval {name!r}, each row the mean of {count:g} logged values: a loss of the mix that was "
    "trained on, replay included, and like a validation loss only while no text is seen twice. It says nothing about "
    "forgetting"
)


# How trainers whose logs are no lines of a grammar are told to measure validation losses.
OF_TRAINER = (
    "eval_strategy='steps', eval_steps=500 and eval_dataset={'target': .., 'source': ..}, which logs a loss for each"
)
OF_LLAMAFACTORY = (
    "eval_dataset: NEW,OLD, eval_on_each_dataset: true, eval_strategy: steps and eval_steps: 500 in its YAML; val_size "
    "alone takes a part of what is trained on"
)
OF_SWIFT = (
    "--val_dataset FILE --eval_strategy steps --eval_steps 500, with text of the new corpus; the old one takes an "
    "evaluation of each checkpoint"
)
OF_LEVANTER = "trainer.steps_per_eval=500, and corpora in its data configuration that are validated and have no weight"


def training_losses(histories: Sequence[History]) -> list[str]:
    """Return the metrics of runs that are training losses."""
    metrics = dict.fromkeys(name for history in histories for record in history.records for name in record.values)
    return [name for name in metrics if is_training_loss(name)]


def average_training_loss(history: History, metric: str) -> tuple[dict[int, float], float]:
    """Return a training loss by the record at whose step its mean stands, and how many values a mean has.

    Windows hold equally many values, and a mean stands at the record in the middle of its window.
    """
    places = [place for place, record in enumerate(history.records) if metric in record.values]
    places = [place for place in places if np.isfinite(history.records[place].values[metric])]
    if len(places) < _FEWEST:
        return {place: history.records[place].values[metric] for place in places}, 1.0
    means = {}
    for window in np.array_split(np.array(places), WINDOWS):
        values = [history.records[place].values[metric] for place in window]
        means[int(window[len(window) // 2])] = float(np.mean(values))
    return means, len(places) / WINDOWS


def with_means(history: History, metrics: Sequence[str]) -> tuple[History, dict[str, float]]:
    """Return a run in which training losses stand as means over windows alone, and how many values each mean has."""
    counts = {}
    records = list(history.records)
    for metric in metrics:
        means, counts[metric] = average_training_loss(history, metric)
        for place, record in enumerate(records):
            if metric in record.values:
                rest = {name: value for name, value in record.values.items() if name != metric}
                mean = {metric: means[place]} if place in means else {}
                records[place] = Record(record.step, rest | mean, record.losses, record.scores)
    return replace(history, records=tuple(records)), counts


def what_to_do(histories: Sequence[History]) -> str:
    """Say what to switch on where logs hold training losses alone, and how these are read all the same."""
    metric, *others = training_losses(histories)
    how = next((one.how_to_measure for one in histories if one.how_to_measure), "")
    switch = f"To measure them in the next run: {how}." if how else "Have the trainer measure one on each corpus."
    beside = f" (and {join_names(others, 3)})" if others else ""
    return (
        f"{histories[0].path}: {len(histories)} runs log a training loss, {metric!r}{beside}, and no loss of a "
        f"validation set. {switch} What the training loss can tell: how fast the mix is learnt, by tokens, size, rate; "
        f"--map 'loss:target={metric}' reads it so, averaged over {WINDOWS} stretches of each run. It cannot tell "
        "forgetting: for that, evaluate the checkpoints on text of the old corpus."
    )
