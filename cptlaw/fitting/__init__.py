"""Fitting: from a runs table to a fitted law, the file that keeps it, and restraint chosen by rollouts."""

from cptlaw.fitting.fit_file import load_fit
from cptlaw.fitting.fit_law import fit
from cptlaw.fitting.fitted_law import Fit
from cptlaw.fitting.given import given_fit

__all__ = ["Fit", "fit", "given_fit", "load_fit"]
