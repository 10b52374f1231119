"""Scores of benchmarks: from a table with losses and scores to fits, forecasts and checks."""

from cptlaw.forecasting.scores.fit_scores import fit_all_scores, fit_scores
from cptlaw.forecasting.scores.score_fit import ScoreFit

__all__ = ["ScoreFit", "fit_all_scores", "fit_scores"]
