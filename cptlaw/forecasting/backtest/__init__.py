"""Backtest: fit some rows, forecast those held out, score both; laws judged by it, and the guesses they must beat."""

from cptlaw.forecasting.backtest.compare_laws import compare

__all__ = ["compare"]
