"""How good forecasts are: the six metrics of the PTPP paper (appendix A, arXiv:2510.23198) and R squared."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.fitting.solving.huber import huber
from cptlaw.laws.calculus import Array

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
        _, label = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        count = int(label.max()) + 1
        # Two groups have one difference, of which no spread can be told.
        if count < 3:
            continue
        sums = np.bincount(label, weights=values - values.mean())
        errors.append(float(np.sqrt(np.sum(sums**2) * count / (count - 1))) / len(values))
    return float(values.mean()), max(errors, default=float("nan"))
