"""The Huber function of log residuals: the stated objective of every power-law fit here."""

from __future__ import annotations

import numpy as np

from cptlaw.laws.calculus import Array


def huber(residual: Array, delta: float) -> Array:
    """Return u^2/2 within delta and delta (|u| - delta/2) beyond, element by element (Huber 1964).

    Examples
    --------
    >>> huber(np.array([0.5, -3.0]), 1.0)
    array([0.125, 2.5  ])
    """
    size = np.abs(residual)
    return np.where(size <= delta, 0.5 * residual * residual, delta * (size - 0.5 * delta))


def observation_weight(residual: Array, delta: float, correction: float) -> float:
    """Return the weight at which half a squared standard score counts like one observation under the Huber objective.

    That is E[psi^2] / E[psi'] for the derivative psi of the Huber function (Huber 1964): the variance of the residuals
    where the threshold lies above them, and less where it lies below and the objective grows only linearly.

    Parameters
    ----------
    residual
        Log residuals of a fit.
    delta
        Huber threshold.
    correction
        Rows over rows less free parameters.
    """
    # With a threshold below the noise few rows lie within it, so their density is taken over a wider window.
    window = max(delta, 0.5 * 1.4826 * float(np.median(np.abs(residual))), 1e-12)
    inside = float(np.mean(np.abs(residual) <= window)) * delta / window
    return float(np.mean(np.clip(residual, -delta, delta) ** 2)) / max(inside, 1e-3) * correction
