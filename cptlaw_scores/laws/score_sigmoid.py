"""A score through a loss, sigmoidal in it."""

from __future__ import annotations

from typing import ClassVar

from cptlaw.laws.calculus import Letters, Value
from cptlaw_scores.laws.score_law import Axis, Reads, ScoreLaw, exp


class ScoreSigmoidInLoss(ScoreLaw):
    """score = a / (1 + exp(s (L - L0))) + b (Bhagia et al. 2024, arXiv:2412.04403, second step).

    With b = chance' and a = (1 - chance') top. Published is the form with a and b free, in the task's own loss; that b
    is tied to chance, a to the ceiling, and that L may be any validation loss, is ours. L counts in units of its
    geometric mean over the fitted rows. Checked against the authors' code (allenai/OLMo,
    olmo/scaling/scaling_laws/fitting_functions.py, ``sigmoid``: a / (1 + exp(-k (x - x0))) + b, k below 0).
    """

    name = "score-sigmoid"
    equation = "score = a / (1 + exp(s (L - L0))) + b"
    source = "Bhagia et al. 2024, arXiv:2412.04403; b tied to chance, a to the ceiling, and any loss for L are ours"
    reads: ClassVar[Reads] = "loss"
    inputs = ("carrier",)
    axes = {
        "s": Axis(2.1, 0.7),
        "L0": Axis(0.7, 0.25, positive=False, pooled=False),
        "gap": Axis(-3.0, 0.7, pooled=False),  # what the ceiling lacks of 1, as odds: top = 1 / (1 + gap)
    }

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q."""
        return 1.0 / ((1.0 + p.gap) * (1.0 + exp(p.s * (x.L - p.L0))))
