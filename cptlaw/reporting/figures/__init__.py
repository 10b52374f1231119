"""Figures: one function each, data in, figure out.

Every one returns a `Figure`: a Plotly drawing, its caption in words, and its data as a table for other tools.
"""

from cptlaw.reporting.figures.calibration import calibration
from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.figures.forgetting_map import forgetting_map
from cptlaw.reporting.figures.identifiability import identifiability
from cptlaw.reporting.figures.interval_fan import interval_fan
from cptlaw.reporting.figures.loss_curves import loss_curves
from cptlaw.reporting.figures.observed_fitted import observed_fitted
from cptlaw.reporting.figures.pareto_front import pareto_front
from cptlaw.reporting.figures.residuals import residuals
from cptlaw.reporting.figures.suggested_cells import suggested_cells

__all__ = [
    "Figure",
    "calibration",
    "forgetting_map",
    "identifiability",
    "interval_fan",
    "loss_curves",
    "observed_fitted",
    "pareto_front",
    "residuals",
    "suggested_cells",
]
