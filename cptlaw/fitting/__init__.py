"""Fitting: from the rows of one law to a fit, the file that keeps it, and restraint chosen by rollouts."""

from cptlaw.fitting.fitted_law import Fit
from cptlaw.fitting.given import given_fit

__all__ = ["Fit", "given_fit"]
