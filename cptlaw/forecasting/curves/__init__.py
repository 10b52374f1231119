"""Curves: where an unfinished run will end, the shift between two corpora, and losses on a third."""

from cptlaw.forecasting.curves.shift import fit_shift, shift_of_runs
from cptlaw.forecasting.curves.third_corpus import fit_out_of_domain
from cptlaw.forecasting.curves.unfinished_runs import forecast_run

__all__ = ["fit_out_of_domain", "fit_shift", "forecast_run", "shift_of_runs"]
