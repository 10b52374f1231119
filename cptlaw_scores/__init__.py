"""Scores of benchmarks: from a table with losses and scores to fits, forecasts, checks and comparisons.

It stands beside the core, which opens it by one door (`cptlaw.forecasting.scores`).
"""

from cptlaw_scores.check_scores import ScoreCheck, check_scores
from cptlaw_scores.compare_scores import ScoreComparisonFrame, compare_scores
from cptlaw_scores.derived import with_derived
from cptlaw_scores.error_rate import ErrorRate
from cptlaw_scores.fit_scores import fit_all_scores, fit_scores
from cptlaw_scores.joint import LEAST_ROWS
from cptlaw_scores.laws.score_law import describe_score, known_score_laws, score_card, score_law
from cptlaw_scores.score_file import score_from
from cptlaw_scores.score_fit import ScoreFit

__all__ = [
    "LEAST_ROWS",
    "ErrorRate",
    "ScoreCheck",
    "ScoreComparisonFrame",
    "ScoreFit",
    "check_scores",
    "compare_scores",
    "describe_score",
    "fit_all_scores",
    "fit_scores",
    "known_score_laws",
    "score_card",
    "score_from",
    "score_law",
    "with_derived",
]
