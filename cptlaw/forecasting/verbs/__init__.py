"""Verbs for all kinds of fits: `fit`, `check`, `forecast` and `load_fit` take one law, law auto and scores alike.

They stand above the rooms that they join; none of these imports them.
"""

from cptlaw.forecasting.verbs.check_runs import Check, check
from cptlaw.forecasting.verbs.fit_runs import fit
from cptlaw.forecasting.verbs.forecast_points import forecast
from cptlaw.forecasting.verbs.load_file import load_fit

__all__ = ["Check", "check", "fit", "forecast", "load_fit"]
