"""Losses of a model in the middle of its training, measured so that the training cannot tell."""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cptlaw.errors import DataError

IGNORED = -100  # label of a token that no loss is counted for, as in torch and transformers


class HeldOutLosses:
    """The same rows of each validation set, put together once and kept in memory.

    Later measurements touch neither the sets nor the collator, which the training may share.

    Parameters
    ----------
    sets
        Eval -> rows by number.
    collate
        Makes a batch of rows. A copy is used: some draw from a generator of their own.
    batch_size
        Rows of a batch.
    rows
        Of each set, evenly spaced over it.

    Attributes
    ----------
    rows
        How many rows of each set are measured, at most.

    Raises
    ------
    DataError
        If a set cannot be read by number, or is empty.
    """

    def __init__(
        self, sets: Mapping[str, object], collate: Callable[[list[object]], object], *, batch_size: int, rows: int
    ):
        for name, each in sets.items():
            if not (hasattr(each, "__getitem__") and hasattr(each, "__len__")):
                raise DataError(f"the {name} set is a stream, which can be read once")
            if len(each) == 0:
                raise DataError(f"the {name} set is empty")
        with _random_states_kept():
            collate = copy.deepcopy(collate)
            self._batches = {name: _batches(each, collate, batch_size, rows) for name, each in sets.items()}
        self._batch_size = batch_size
        self.rows = rows

    def keep(self, rows: int) -> None:
        """Measure at most so many rows of each set from now on, one batch at least.

        Parameters
        ----------
        rows
            Counted from the first.
        """
        count = max(1, rows // self._batch_size)
        if count * self._batch_size < self.rows:
            self.rows = count * self._batch_size
            self._batches = {name: batches[:count] for name, batches in self._batches.items()}

    def measure(self, model: object, seconds: float | None = None) -> dict[str, float]:
        """Return the loss on each set, in nats per token.

        Parameters
        ----------
        model
            Of transformers, or one that returns its loss first.
        seconds
            Rows that were not reached after so many are left out, and in all later measurements too.
        """
        begun, done = time.monotonic(), 0
        sums = {name: np.zeros(2) for name in self._batches}
        with _evaluating(model):
            for turn in itertools.zip_longest(*self._batches.values()):
                for name, batch in zip(self._batches, turn, strict=True):
                    if batch is not None:
                        sums[name] += _summed_loss(model, batch)
                done += 1
                if seconds is not None and time.monotonic() - begun > seconds:
                    self.keep(done * self._batch_size)
                    break
        return {name: float(total / count) for name, (total, count) in sums.items()}


def _batches(rows: Any, collate: Callable[[list[object]], object], size: int, most: int) -> list[object]:
    # In an order in which any beginning is spread over the whole set: sets are often sorted by where they come from.
    places = np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(int))
    places = places[np.argsort((np.arange(len(places)) * 0.6180339887498949) % 1.0, kind="stable")]
    return [collate([rows[int(k)] for k in places[begin : begin + size]]) for begin in range(0, len(places), size)]


def _summed_loss(model: torch.nn.Module, batch: Any) -> np.ndarray:
    """Return the loss of a batch summed over its tokens, and their number, (2,)."""
    device = next(model.parameters()).device
    inputs = {name: value.to(device) if torch.is_tensor(value) else value for name, value in batch.items()}
    result = model(**inputs)
    loss = result["loss"] if isinstance(result, Mapping) else result[0]
    if loss is None or "labels" not in inputs:
        raise DataError("the model returns no loss: the validation sets have no labels")
    count = int((inputs["labels"][..., 1:] != IGNORED).sum())
    return np.array([float(loss) * count, count]) if count else np.zeros(2)


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put a model in eval mode without gradients, and leave modes and random states as they were."""
    modes = [(module, module.training) for module in model.modules()]
    with _random_states_kept():
        try:
            model.eval()
            with torch.no_grad():  # not inference_mode: what a layer caches of it could not be trained through later
                yield
        finally:
            # Each by itself: parts that are frozen may stand in eval mode in a model that trains.
            for module, mode in modes:
                module.training = mode


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    devices: Sequence[int] = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    of_python, of_numpy = random.getstate(), np.random.get_state()
    of_mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        with torch.random.fork_rng(devices=list(devices)):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        if of_mps is not None:
            torch.mps.set_rng_state(of_mps)
