"""A score directly in model and data size."""

from __future__ import annotations

from cptlaw.laws.calculus import Letters, Value
from cptlaw_scores.laws.score_law import Axis, ScoreLaw, exp


class ScoreOfSize(ScoreLaw):
    """-ln Q = A N^-alpha + B D^-beta (Krajewski et al. 2025, eq. 4, arXiv:2512.08894).

    Q is the score on the scale from guessing (0) to one; the paper normalises by chance in the same way. What
    was checked, and what is published of pass@k, stands in `ScoreOfCompute`.
    """

    name = "score-size"
    equation = "-ln Q = A N^-alpha + B D^-beta"
    source = "Krajewski et al. 2025, arXiv:2512.08894"
    reads = "size"
    inputs = ("n_params", "tokens")
    axes = {
        "A": Axis(0.0, 1.0, pooled=False),
        "B": Axis(0.0, 1.0, pooled=False),
        "alpha": Axis(-1.5, 0.6),
        "beta": Axis(-1.5, 0.6),
    }

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q."""
        return exp(-p.A * x.N**-p.alpha - p.B * x.D**-p.beta)
