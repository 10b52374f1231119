"""Fitting: from rows to a `Fit`, its members with their weights, and the doubt of what it forecasts."""
