"""Forecasting: from fits to losses and scores that nobody measured yet, and how far such forecasts can be trusted."""
