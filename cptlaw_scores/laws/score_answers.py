"""A score through bits per byte of the task's own right answers."""

from __future__ import annotations

from cptlaw_scores.laws.score_sigmoid import ScoreSigmoidInLoss


class ScoreThroughAnswers(ScoreSigmoidInLoss):
    """score = a / (1 + exp(s (L - L0))) + b, L in bits per byte of the right answers (Bhagia et al. 2024).

    The model ladder's two steps as published (arXiv:2412.04403): size and tokens give the loss on the task's own
    answers, that loss gives the score. L counts in units of its geometric mean over the fitted rows. Checked as
    `ScoreSigmoidInLoss` is; their first step is E + A / N^alpha + B / D^beta in the same file.
    """

    name = "score-answers"
    equation = "score = a / (1 + exp(s (L - L0))) + b, L on the task's answers"
    source = "Bhagia et al. 2024, arXiv:2412.04403; b tied to chance and a to the ceiling are ours"
    reads = "answers"
