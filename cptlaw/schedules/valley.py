"""Peak rate and batch that a table itself advises: the valley of the loss in the logs of both, and what was run.

At N parameters and D tokens the loss is lowest at a rate that goes as N^a D^b and a batch that goes as N^c D^d, and its
log rises as a quadratic form of the logs of rate and batch about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.errors import DataError
from cptlaw.runs import Runs
from cptlaw.schedules.shapes import Array

Fields: TypeAlias = dict[str, Any]  # of an answer, by name
Tuning: TypeAlias = Mapping[str, Any]  # as `measured_tuning` gives it
LEAST_LEVELS = 3  # of rates and of batches that a cell (a size and a token count) needs to count for a valley
LEAST_CELLS = 2  # such cells that a table needs for a valley of its own
NEAR = 1.5  # factor in size within which runs say which batch is usual
NEAR_BEST = 0.01  # a valley is fitted to runs whose loss is within this share of their cell's best
NOISE = 0.002  # standard deviation of a log loss, the scale of the robust fit
# Where the fit of a valley starts, in the order of its fields: a loss .4 % higher a factor e beside the best.
START = (0.0, -0.4, 0.1, 0.0, 0.1, 0.45, np.log(0.06), 0.0, np.log(0.06))


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

    def best(self, n_params: ArrayLike, tokens: ArrayLike) -> tuple[Array, Array]:
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


def measured_tuning(runs: Runs) -> dict[str, object]:
    """Return the batches that were run and the fitted valley, as the file of a fit keeps them; empty without batches.

    The valley is there where at least two sizes or token counts have three rates and three batches each, or its bottom
    would be a guess.
    """
    if "tuning" not in runs.memo:
        batch = _tokens_of_a_step(runs.frame)
        with_batches = replace(runs, frame=runs.frame.assign(batch_tokens=batch))
        runs.memo["tuning"] = {} if batch.isna().all() else _batches_run(with_batches) | _own_valley(with_batches)
    found: dict[str, object] = runs.memo["tuning"]
    return found


def _tokens_of_a_step(frame: pd.DataFrame) -> pd.Series:
    """Return the batch of each trained row: as a column says, else its tokens over its steps; missing without both."""
    columns = {name: frame.get(name, np.nan) for name in ("batch_tokens", "tokens", "step")}
    batch, tokens, step = (pd.Series(column, frame.index, dtype=float) for column in columns.values())
    return (batch if batch.notna().any() else tokens / step.where(step > 0)).where(tokens > 0)


def _batches_run(runs: Runs) -> dict[str, object]:
    frame = runs.frame if "n_params" in runs.frame.columns else runs.frame.assign(n_params=np.nan)
    # Of the same rows: a row that held two losses gave two of one label.
    rows = frame[["n_params", "batch_tokens"]].astype(float).dropna(subset="batch_tokens")
    by_size = rows["batch_tokens"].groupby(rows["n_params"], dropna=False)
    return {"batches": [[None if np.isnan(n) else n, *np.quantile(some, (0.0, 0.5, 1.0))] for n, some in by_size]}


def _own_valley(runs: Runs) -> dict[str, object]:
    names = ["n_params", "tokens", "lr_peak", "batch_tokens", "loss"]
    if "lr_peak" not in runs.frame.columns and "lr" in runs.frame.columns and "run" in runs.assumed:
        runs = replace(runs, frame=runs.frame.assign(lr_peak=runs.frame["lr"]))  # each row is a run
    target = next((name for name in runs.evals if runs.role(name) == "target"), None)
    if target is None or not set(names) <= set(runs.frame.columns):
        return {}
    rows = runs.on(target).frame.dropna(subset="tokens")
    rows = rows.loc[rows.groupby("run")["tokens"].idxmax(), names].dropna().astype(float)  # the end of each run
    levels = rows.groupby(["n_params", "tokens"])[["lr_peak", "batch_tokens"]].nunique()
    if (levels >= LEAST_LEVELS).all(axis=1).sum() < LEAST_CELLS:
        return {}
    ranges = {name: [float(rows[name].min()), float(rows[name].max())] for name in ("lr_peak", "batch_tokens")}
    return {"valley": vars(fit_valley(rows)), "ranges": ranges, "runs": len(rows)}


def advised_by_runs(fit: object, n_params: float, tokens: float | None) -> Fields:
    """Return rate and batch for a planned run as fields of an answer: from the table's own valley, else as it was run.

    Raises
    ------
    DataError
        If a fit's file was changed so that this cannot be read.
    """
    tuning = (getattr(fit, "provenance", None) or {}).get("tuning") or {}
    try:
        return _batch_as_run(tuning, n_params) | ({} if tokens is None else _best_in_valley(tuning, n_params, tokens))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"what a fit's file keeps of rate and batch cannot be read ({error}). Fit again.") from None


def _batch_as_run(tuning: Tuning, n_params: float) -> Fields:
    if "batches" not in tuning:
        return {}
    away = np.array([0.0 if size is None else abs(np.log(size / n_params)) for size, *_ in tuning["batches"]])
    near = np.array([ends for _, *ends in tuning["batches"]], dtype=float)[away < away.min() + np.log(NEAR)]
    ends = {"_lo": near[:, 0].min(), "": np.median(near[:, 1]), "_hi": near[:, 2].max()}
    return {f"batch_tokens{end}": _to_three_digits(value) for end, value in ends.items()}


def _best_in_valley(tuning: Tuning, n_params: float, tokens: float) -> Fields:
    if "valley" not in tuning:
        return {}
    result: Fields = {"lr_why": f"from the valley of rate and batch in your {tuning['runs']} runs"}
    best = Valley(**tuning["valley"]).best(n_params, tokens)
    for (name, ends), value in zip(tuning["ranges"].items(), best, strict=True):
        low, high = map(_to_three_digits, ends)
        result |= {name: min(max(_to_three_digits(float(value)), low), high), f"{name}_lo": low, f"{name}_hi": high}
    return result


def _to_three_digits(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.3g}")
