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
