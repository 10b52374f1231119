"""Fitting: search, objective, restraint, doubt and comparison."""

from cptlaw.fitting.average import forecast
from cptlaw.fitting.check_runs import Check, check
from cptlaw.fitting.compare_laws import compare
from cptlaw.fitting.fit_law import fit
from cptlaw.fitting.given import given_fit
from cptlaw.fitting.out_of_domain import fit_out_of_domain
from cptlaw.fitting.result import Fit
from cptlaw.fitting.shift import fit_shift, shift_of_runs
from cptlaw.fitting.store import load_fit
from cptlaw.fitting.unfinished_runs import forecast_run

__all__ = [
    "Check",
    "Fit",
    "check",
    "compare",
    "fit",
    "fit_out_of_domain",
    "fit_shift",
    "forecast",
    "forecast_run",
    "given_fit",
    "load_fit",
    "shift_of_runs",
]
