"""Verbs for all kinds of fits: `fit`, `check`, `forecast` and `load_fit` take one law, law auto and scores alike.

They stand above the rooms that they join; none of these imports them.
"""

from cptlaw.verbs.check_runs import Check, check
from cptlaw.verbs.fit_runs import fit
from cptlaw.verbs.forecast_points import forecast
from cptlaw.verbs.load_file import load_fit

__all__ = ["Check", "check", "fit", "forecast", "load_fit"]
