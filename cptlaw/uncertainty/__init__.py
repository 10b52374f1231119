"""Uncertainty: intervals of one law, averages of several, and laws judged by what they forecast."""

from cptlaw.uncertainty.average import forecast
from cptlaw.uncertainty.compare_laws import compare

__all__ = ["compare", "forecast"]
