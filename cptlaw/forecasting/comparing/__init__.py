"""Comparing: laws judged by what they forecast of rows that they have not seen, and averaged by it."""

from cptlaw.forecasting.comparing.compare_laws import compare

__all__ = ["compare"]
