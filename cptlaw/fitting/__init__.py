"""Fitting: from the rows of one law to a fit, and the file that keeps it."""

from cptlaw.fitting.fit import Fit
from cptlaw.fitting.given import given_fit

__all__ = ["Fit", "given_fit"]
