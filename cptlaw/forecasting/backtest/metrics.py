"""How good forecasts are, each score once: errors, intervals, decisions, and the six metrics of the PTPP paper.

The six are of appendix A, arXiv:2510.23198; R squared stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.fitting.solving.huber import huber
from cptlaw.forecasting.backtest.baselines import ALIKE
from cptlaw.laws.calculus import Array

Values = TypeVar("Values", float, Array)

METRIC_DELTA = 0.02  # the paper's threshold, whatever the law was fitted with
CLIP = 1e-3  # the paper clips small losses in MAPE at a value it does not give; real losses are far above this

METRICS = ("huber_log", "rmse_log", "mae_rel", "mape_clip", "intercept", "slope", "r2")


def metrics(predicted: Array, observed: Array) -> dict[str, float]:
    """Compare forecasts with measured losses.

    Parameters
    ----------
    predicted, observed
        Losses in nats per token, shape (n,), positive.

    Returns
    -------
    dict
        ``huber_log`` mean Huber(0.02) of log residuals; ``rmse_log`` their root mean square; ``mae_rel`` mean absolute
        relative error; ``mape_clip`` the same with small losses clipped; ``intercept`` and ``slope`` of log observed
        on log predicted, ideally 0 and 1 (nan where all forecasts agree); ``r2`` on losses (nan where all losses
        agree).

    Examples
    --------
    >>> scores = metrics(np.array([2.0, 3.0]), np.array([2.0, 3.0]))
    >>> scores["rmse_log"], round(scores["slope"], 12), scores["r2"]
    (0.0, 1.0, 1.0)
    """
    predicted, observed = np.asarray(predicted, dtype=float), np.asarray(observed, dtype=float)
    log_predicted, log_observed = np.log(predicted), np.log(observed)
    residual = log_predicted - log_observed
    error = np.abs(predicted - observed)
    centred = log_predicted - log_predicted.mean()
    spread = float(centred @ centred)
    # Forecasts that differ by rounding alone determine no slope.
    slope = float(centred @ log_observed) / spread if spread > 1e-20 * len(centred) else np.nan
    around_mean = float(np.sum((observed - observed.mean()) ** 2))
    return {
        "huber_log": float(np.mean(huber(residual, METRIC_DELTA))),
        "rmse_log": float(np.sqrt(np.mean(residual**2))),
        "mae_rel": float(np.mean(error / observed)),
        "mape_clip": float(np.mean(error / np.maximum(observed, CLIP))),
        "intercept": float(log_observed.mean() - slope * log_predicted.mean()),
        "slope": slope,
        "r2": 1.0 - float(np.sum(error**2)) / around_mean if around_mean > 0 else np.nan,
    }


def error(forecast: Values, measured: Values, share: bool = False) -> Values:
    """Return by which part of a loss a forecast is off; of scores, which are shares and may be zero, the difference."""
    return forecast - measured if share else forecast / measured - 1.0


def inside(intervals: pd.DataFrame | Mapping[str, float | None], silent: float = 1.0) -> Array:
    """Return 1 where an interval from lo to hi holds what was measured, else 0, (n,).

    An end that is missing holds everything; where both are, `silent` stands: nan where nothing was claimed then.
    """
    low, high, measured = (np.asarray(intervals[name], dtype=float) for name in ("lo", "hi", "measured"))
    held = (~(measured < low) & ~(measured > high)).astype(float)
    return np.where(np.isnan(low) & np.isnan(high), silent, held)


def half_width(intervals: pd.DataFrame) -> Array:
    """Return half the widths of intervals, in the unit of what is forecast, (n,); nan where an end is missing."""
    values: Array = (0.5 * (intervals["hi"] - intervals["lo"])).to_numpy(dtype=float)
    return values


def mean_of_known(values: Iterable[float]) -> float:
    """Return the mean of what is known; nan where nothing is."""
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else float("nan")


def mean_and_error(values: Array, *groupings: ArrayLike) -> tuple[float, float]:
    """Return a mean and its standard error, rows of one group erring together; the largest over the groupings.

    Groupings with fewer than three groups say nothing and are passed over; the error is nan where none is left.
    """
    errors = []
    for labels in groupings:
        names, label = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        count = len(names)
        # Two groups have one difference, of which no spread can be told.
        if count < 3:
            continue
        sums = np.bincount(label, weights=values - values.mean())
        errors.append(float(np.sqrt(np.sum(sums**2) * count / (count - 1))) / len(values))
    return mean_of_known(values), max(errors, default=float("nan"))


# -- the decision --------------------------------------------------------------------------------------------------

DECISIONS = ("replay", "lr_peak", "ptpp", "n_params")
SAME_FLOPS = 0.15  # e-folds of compute within which sizes are alternatives


def regret(rows: pd.DataFrame, predicted: Array) -> float:
    """Return what is lost by deciding by a forecast: the measured loss of its choice over that of the best, less one.

    A decision is among rows that differ in one input (replay, peak rate, budget; size at equal compute) and in nothing
    else. The mean over all decisions that the rows allow; nan where there is none.

    Parameters
    ----------
    rows
        Measured rows.
    predicted
        Their forecast losses, (n,).
    """
    known = [name for name in ALIKE if name in rows.columns]
    frame = rows[known].assign(loss=rows["loss"].astype(float), predicted=predicted, compute=0.0)
    lost: list[float] = []
    for decision in [name for name in DECISIONS if name in known and frame[name].nunique() > 1]:
        alike, options = [name for name in known if name != decision], frame
        if decision == "n_params":
            # Sizes are a choice only at the same cost: at the same tokens the larger model would always win.
            options = frame[frame["tokens"] > 0] if "tokens" in known else frame.head(0)
            compute = np.log(options["n_params"].astype(float) * options["tokens"].astype(float))
            options = options.assign(compute=np.round(compute / SAME_FLOPS))
            alike = [name for name in alike if name != "tokens"]
        alike = [*alike, "compute"]
        repeats = options.groupby([*alike, decision], dropna=False, observed=True)[["loss", "predicted"]].mean()
        # The choice of each decision comes first.
        chosen = repeats.sort_values("predicted", kind="stable").reset_index()
        made = chosen.groupby(alike, dropna=False, observed=True)["loss"].agg(["first", "min", "size"])
        # Against the best that was measured: what a decision costs, and not how far a forecast is off.
        lost += (made["first"] / made["min"] - 1.0)[made["size"] > 1].tolist()
    return mean_of_known(lost)
