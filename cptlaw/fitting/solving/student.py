"""Student's t distribution: how far a mean of few values may lie off."""

from __future__ import annotations

from scipy import special


def t_quantile(probability: float, freedom: float) -> float:
    """Return the half-width of the central interval of Student's t with this probability."""
    return float(special.stdtrit(freedom, 0.5 + 0.5 * probability))
