"""A score through a loss, exponential in it."""

from __future__ import annotations

import numpy as np

from cptlaw.laws.calculus import Letters, Value
from cptlaw_scores.laws.score_law import Axis, ScoreLaw, exp


class ScoreExponentialInLoss(ScoreLaw):
    """1 - score = eps - k exp(-gamma L) (Gadre et al. 2024, eq. 5, arXiv:2403.08540).

    Written as Q = exp(-gamma (L - L0)), at most 1, with eps = 1 - chance' and k = (1 - chance') exp(gamma L0):
    published are eps, k and gamma; that eps is tied to chance, and that the score ends at 1, is ours. L counts in
    units of its geometric mean over the fitted rows. Checked against the authors' code (mlfoundations/scaling,
    scaling/laws.py, ``decay_ours``), which fits eps, k and gamma to the mean error over 17 or 46 tasks; for single
    tasks they claim nothing.
    """

    name = "score-exponential"
    equation = "1 - score = eps - k exp(-gamma L)"
    source = "Gadre et al. 2024, arXiv:2403.08540; eps tied to chance and the ceiling of 1 are ours"
    reads = "loss"
    inputs = ("carrier",)
    axes = {"gamma": Axis(1.4, 0.7), "L0": Axis(0.3, 0.35, positive=False, pooled=False)}

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q."""
        above = np.asarray(x.L - p.L0)
        return exp(-p.gamma * np.where(np.real(above) > 0, above, 0.0 * above))
