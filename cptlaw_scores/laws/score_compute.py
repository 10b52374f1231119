"""A score directly in compute."""

from __future__ import annotations

from cptlaw.laws.calculus import Letters, Value
from cptlaw_scores.laws.score_law import Axis, ScoreLaw, exp


class ScoreOfCompute(ScoreLaw):
    """-ln Q = A C^-alpha (Krajewski et al. 2025, eq. 2, arXiv:2512.08894).

    C is compute, 6 N D. Published for one ratio of tokens to parameters; runs of several ratios scatter around it.
    Checked against the paper's abstract and the list of equations in its repository. Of pass@k, Schaeffer et al. 2025
    (arXiv:2509.24012) have E0(k) + C0(k) C^-alpha(k), the parameters of each k its own, as each eval has here; E0,
    which falls to nothing as k grows, is left out.
    """

    name = "score-compute"
    equation = "-ln Q = A C^-alpha"
    source = "Krajewski et al. 2025, arXiv:2512.08894"
    reads = "compute"
    inputs = ("flops",)
    axes = {"A": Axis(0.7, 1.0, pooled=False), "alpha": Axis(-1.9, 0.6)}

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q."""
        return exp(-p.A * x.C**-p.alpha)
