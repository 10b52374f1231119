"""Curves: where an unfinished run will end, the shift between two corpora, and losses on a third."""

from cptlaw_curves.forecasting.shift import fit_shift, shift_of_runs
from cptlaw_curves.forecasting.third_corpus import fit_out_of_domain
from cptlaw_curves.forecasting.unfinished_runs import forecast_run

__all__ = ["fit_out_of_domain", "fit_shift", "forecast_run", "shift_of_runs"]
