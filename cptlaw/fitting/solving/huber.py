"""The Huber function of log residuals: the stated objective of every power-law fit here."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from cptlaw.laws.calculus import Array

# What is assumed of the noise before residuals are seen: a standard deviation of the log loss that reruns with another
# seed or data order have at least, counted like so many residuals. It decides where a law has as many parameters as
# rows and residuals are zero, and fades as rows outnumber parameters.
NOISE_FLOOR = 0.003
FLOOR_ROWS = 2.0


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
    correction
        Rows over rows less free parameters.
    """
    # With a threshold below the noise few rows lie within it, so their density is taken over a wider window.
    window = max(delta, 0.5 * 1.4826 * float(np.median(np.abs(residual))), 1e-12)
    # A ramp around its edge, so that no single row on the edge moves the weight.
    inside = float(np.mean(np.clip(2.5 - 2.0 * np.abs(residual) / window, 0.0, 1.0))) * delta / window
    return float(np.mean(np.clip(residual, -delta, delta) ** 2)) / max(inside, 1e-3) * correction


def normal_weight(spread: float, delta: float) -> float:
    """Return E[psi^2] / E[psi'] of the Huber function for normal residuals with this standard deviation."""
    edge = delta / spread
    inside = float(special.erf(edge / math.sqrt(2.0)))
    density = math.exp(-0.5 * edge**2) / math.sqrt(2.0 * math.pi)
    square = spread**2 * (inside - 2.0 * edge * density) + delta**2 * (1.0 - inside)
    return square / inside


def noise_weight(residual: Array, delta: float, freedom: float, expected: float | None = None) -> float:
    """Return `observation_weight`, drawn towards that of the expected noise the more the fewer residuals are free.

    Parameters
    ----------
    residual
        Log residuals of a fit.
    freedom
        Rows less free parameters, 0 or more.
    expected
        Standard deviation of the noise before residuals are seen; `NOISE_FLOOR` where nothing else is known.
    """
    freedom = max(freedom, 0.0)
    result = FLOOR_ROWS * normal_weight(expected or NOISE_FLOOR, delta)
    if freedom:
        result += freedom * observation_weight(residual, delta, len(residual) / freedom)
    return result / (FLOOR_ROWS + freedom)


def noise_variance(residual: Array, freedom: float, expected: float | None = None) -> float:
    """Return the variance of the log loss around a law, drawn towards the expected one in the same way."""
    freedom = max(freedom, 0.0)
    square = float(residual @ residual) if freedom else 0.0
    return (FLOOR_ROWS * (expected or NOISE_FLOOR) ** 2 + square) / (FLOOR_ROWS + freedom)
