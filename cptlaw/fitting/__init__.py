"""Fitting: search, objective, restraint, doubt and comparison."""

from cptlaw.fitting.check import Check, check
from cptlaw.fitting.compare import compare
from cptlaw.fitting.fit import fit
from cptlaw.fitting.result import Fit
from cptlaw.fitting.store import load_fit

__all__ = ["Check", "Fit", "check", "compare", "fit", "load_fit"]
