"""Fitting: search, objective, restraint, doubt and comparison."""

from cptlaw.fitting.fit import fit
from cptlaw.fitting.result import Fit
from cptlaw.fitting.store import load_fit

__all__ = ["Fit", "fit", "load_fit"]
