"""How what a law misses at two points is alike: a rough process over the inputs, base models, runs.

Everything is in units of the table's scale of error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from cptlaw.laws.calculus import Array

EARLY = 0.1  # tokens per parameter, below which a run has hardly moved
LITTLE = 0.03  # replay, below which a little more is as much
SAME = 0.02  # e-folds within which base models are one


@dataclass(frozen=True)
class Kernel:
    """Standard deviations in units of the scale, and lengths in e-folds.

    Parameters
    ----------
    form, base, run, noise
        Standard deviations of what the form misses, of base models, runs and single measurements.
    lengths
        E-folds of an input over which what the form misses changes.
    form_between, base_between, run_between
        Correlations between the source loss and the target loss.
    """

    form: float = 1.0
    base: float = 0.6
    run: float = 0.15
    noise: float = 0.15
    lengths: dict[str, float] = field(
        default_factory=lambda: {
            "n_params": 2.5, "ptpp": 2.5, "tokens": 3.0, "replay": 2.5, "lr_peak": 1.5, "lr_pretrain": 1.5,
        }
    )  # fmt: skip
    form_between: float = 0.3
    base_between: float = 0.6
    run_between: float = 0.5


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows lie, as the kernel sees them.

    Attributes
    ----------
    features
        Inputs over their lengths, (n, inputs).
    base, run
        Which base model and run each is of, (n,).
    output
        Which eval, (n,).
    """

    features: Array
    base: np.ndarray
    run: np.ndarray
    output: np.ndarray

    @classmethod
    def of(cls, frame: pd.DataFrame, output: np.ndarray, kernel: Kernel, usual: dict[str, float]) -> Self:
        """Return the places of rows.

        Parameters
        ----------
        frame
            Rows: inputs in raw units, `run`.
        output
            Number of the eval of each row, (n,).
        usual
            Inputs that the fitted rows have, each with the value that stands where a row does not say.
        """
        count = len(frame)

        def column(name: str) -> Array:
            if name not in frame.columns:
                return np.full(count, usual[name])
            return frame[name].fillna(usual[name]).to_numpy(dtype=float)

        columns = []
        tokens = column("tokens") if "tokens" in usual else np.ones(count)
        for name in usual:
            if name == "tokens":
                cpt = "ptpp" in usual or "replay" in usual
                size = column("n_params") if "n_params" in usual else 1.0
                value = np.log1p(tokens / (EARLY * size)) if cpt else np.log(np.maximum(tokens, 1.0))
            elif name == "replay":
                value = np.log(np.clip(column(name), 0, 1) + LITTLE) * (tokens > 0)
            elif name == "lr_peak":
                value = np.log(np.where(tokens > 0, column(name), usual[name]))
            else:
                value = np.log(np.maximum(column(name), 1e-30))
            columns.append(value / kernel.lengths.get(name, 2.5))
        keys = [np.round(np.log(column(name)) / SAME) for name in ("n_params", "ptpp", "lr_pretrain") if name in usual]
        names = np.array([" ".join(map(str, row)) for row in zip(*keys, strict=True)]) if keys else np.full(count, "")
        run = frame["run"].astype(str).to_numpy() if "run" in frame.columns else np.arange(count).astype(str)
        return cls(np.stack(columns, axis=1), names, run, output)


def covariance(one: Places, other: Places, kernel: Kernel) -> Array:
    """Return the covariance of what is missed at two sets of places, (n, m); the noise is not in it."""
    square = (one.features**2).sum(axis=1)[:, None] + (other.features**2).sum(axis=1)[None]
    away = np.sqrt(np.maximum(square - 2.0 * one.features @ other.features.T, 0.0))
    same = one.output[:, None] == other.output[None]
    result = kernel.form**2 * np.exp(-away) * np.where(same, 1.0, kernel.form_between)
    result += kernel.base**2 * (one.base[:, None] == other.base[None]) * np.where(same, 1.0, kernel.base_between)
    result += kernel.run**2 * (one.run[:, None] == other.run[None]) * np.where(same, 1.0, kernel.run_between)
    return np.asarray(result)
