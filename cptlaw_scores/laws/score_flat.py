"""The baseline of scores: nothing moves."""

from __future__ import annotations

from cptlaw.laws.calculus import Letters, Value
from cptlaw_scores.laws.score_law import Axis, ScoreLaw


class FlatScore(ScoreLaw):
    """Q = q: the score stays where it is, whatever is trained. Ours, as the baseline that every law has to beat."""

    name = "score-flat"
    equation = "Q = q, whatever is trained"
    source = "the baseline of this package"
    status = "reconstructed"
    reads = "nothing"
    inputs = ()
    axes = {"q": Axis(-3.0, 2.0, pooled=False)}

    def share(self, x: Letters, p: Letters) -> Value:
        """Return Q: q as odds, so that it stays below 1."""
        return p.q / (1.0 + p.q)
