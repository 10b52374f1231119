"""Batch and rate: a valley in the logs of both, measured in pre-training (`python -m studies rates_and_batches`).

At N parameters and D tokens the loss is lowest at a rate that goes as N^a D^b and a batch that goes as N^c D^d, and its
log rises as a quadratic form of the logs of rate and batch about them. Twice the batch at the same rate costs more than
twice the batch with the rate that goes with it. 687 runs of 48M to 589M parameters on 6 to 300 billion tokens
(OpenEuroLLM/dense_english_scaling_laws); no study of continual pre-training varies the batch at such sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.laws.calculus import Array

LEAST_STEPS = 1000  # of a run: fewer leave a schedule without shape, so that a short run takes a smaller batch
MEASURED = "measured in pre-training of 48M to 589M parameters"


@dataclass(frozen=True)
class Valley:
    """Where the loss is lowest in log rate and log batch, and how it rises beside.

    Parameters
    ----------
    rate, rate_size, rate_tokens
        Log of the best rate over 1e-3 at 100M parameters and 10B tokens, and its exponents.
    batch, batch_size, batch_tokens
        The same of the best batch over 1M tokens.
    along_rate, along_batch, across
        ``log(loss / lowest) = (exp(along_rate) u + along_batch v)^2 + (exp(across) v)^2``, u and v being the logs of
        rate and batch over the best ones.
    """

    rate: float
    rate_size: float
    rate_tokens: float
    batch: float
    batch_size: float
    batch_tokens: float
    along_rate: float
    along_batch: float
    across: float

    def best(self, n_params: ArrayLike, tokens: ArrayLike) -> tuple[Any, Any]:
        """Return the best peak rate and batch, in tokens."""
        size, seen = np.log(np.asarray(n_params) / 1e8), np.log(np.asarray(tokens) / 1e10)
        rate = 1e-3 * np.exp(self.rate + self.rate_size * size + self.rate_tokens * seen)
        return rate, 1e6 * np.exp(self.batch + self.batch_size * size + self.batch_tokens * seen)

    def rise(self, n_params: ArrayLike, tokens: ArrayLike, rate: ArrayLike, batch: ArrayLike) -> Array:
        """Return the log of the loss over the lowest one."""
        best_rate, best_batch = self.best(n_params, tokens)
        u, v = np.log(np.asarray(rate) / best_rate), np.log(np.asarray(batch) / best_batch)
        return np.asarray((np.exp(self.along_rate) * u + self.along_batch * v) ** 2 + (np.exp(self.across) * v) ** 2)

    def beside(self, batch: float) -> tuple[float, float]:
        """Return by which share the loss rises at a log batch over the best.

        First at the rate of the best batch, then at the rate that goes with this one.
        """
        least = np.exp(self.across) * batch
        return float(np.expm1((self.along_batch * batch) ** 2 + least**2)), float(np.expm1(least**2))

    @property
    def slope(self) -> float:
        """Exponent of the batch in the rate that goes with it."""
        return float(-self.along_batch * np.exp(-self.along_rate))


NEAR_BEST = 0.01  # of a cell's best loss: what a valley is fitted to
NOISE = 0.002  # of the log of a loss
START = (0.0, -0.4, 0.1, 0.0, 0.1, 0.45, np.log(0.06), 0.0, np.log(0.06))


def fit_valley(runs: pd.DataFrame) -> Valley:
    """Return the most likely valley; the best loss of each size and token count is free.

    Parameters
    ----------
    runs
        ``n_params``, ``tokens``, ``lr_peak``, ``batch_tokens`` and ``loss``, a run a row.
    """
    from scipy import optimize  # heavy: loaded when a table has batches

    cells = runs.groupby(["n_params", "tokens"])["loss"]
    near = runs[runs["loss"] < (1 + NEAR_BEST) * cells.transform("min")]
    cell = near.groupby(["n_params", "tokens"]).ngroup().to_numpy()
    loss = np.log(near["loss"].to_numpy())

    def misfit(values: Array) -> Array:
        free = loss - Valley(*values).rise(near["n_params"], near["tokens"], near["lr_peak"], near["batch_tokens"])
        return np.asarray((free - (np.bincount(cell, free) / np.bincount(cell))[cell]) / NOISE)

    return Valley(*optimize.least_squares(misfit, START, loss="soft_l1").x)


@cache
def valley() -> Valley:
    """Return what was measured; the file is part of the package."""
    return Valley(**json.loads(Path(__file__).with_name("batches.json").read_text(encoding="utf-8")))


def recommend_batch(n_params: float, ptpp: float, tokens: float, given: float | None) -> dict[str, Any]:
    """Return the batch to take as fields of an answer, and what half and twice of it cost.

    Which tokens count in continual pre-training is not settled: those of the run alone make the low end, those of
    pre-training with them (as arXiv:2606.05610 has it for compute) the high one; advised is the middle, in logs, or
    less where that would leave the run fewer than `LEAST_STEPS` steps.

    Parameters
    ----------
    n_params, ptpp, tokens
        The model, the pre-training tokens per parameter of its base model, and the tokens of the run.
    given
        A batch that is asked about, in tokens.
    """
    law = valley()
    low, high = (float(law.best(n_params, seen)[1]) for seen in (tokens, tokens + n_params * ptpp))
    centre = float(np.sqrt(low * high))
    best = min(centre, max(low, tokens / LEAST_STEPS))
    asked = given or best
    options = []
    for factor in (0.5, 1.0, 2.0):
        rise, least = law.beside(float(np.log(factor * asked / centre)))
        options.append(
            {
                "batch_tokens": factor * asked,
                "loss_rise": rise,
                "lr_factor": factor**law.slope,
                "loss_rise_at_it": least,
            }
        )
    return {"batch_tokens": best, "batch_tokens_lo": low, "batch_tokens_hi": high, "batch_options": tuple(options)}
