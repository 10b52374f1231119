"""Scores of benchmarks: from a table with losses and scores to fits, forecasts, checks and comparisons.

It stands beside the core, which opens it by one door (`cptlaw.forecasting.scores`).
"""

from cptlaw_scores.check_scores import ScoreCheck as ScoreCheck
from cptlaw_scores.check_scores import check_scores as check_scores
from cptlaw_scores.compare_scores import ScoreComparisonFrame as ScoreComparisonFrame
from cptlaw_scores.compare_scores import compare_scores as compare_scores
from cptlaw_scores.derived import with_derived as with_derived
from cptlaw_scores.error_rate import ErrorRate as ErrorRate
from cptlaw_scores.fit_scores import fit_all_scores as fit_all_scores
from cptlaw_scores.fit_scores import fit_scores as fit_scores
from cptlaw_scores.joint import LEAST_ROWS as LEAST_ROWS
from cptlaw_scores.laws.score_law import describe_score as describe_score
from cptlaw_scores.laws.score_law import known_score_laws as known_score_laws
from cptlaw_scores.laws.score_law import score_card as score_card
from cptlaw_scores.laws.score_law import score_law as score_law
from cptlaw_scores.score_file import score_from as score_from
from cptlaw_scores.score_fit import ScoreFit as ScoreFit
