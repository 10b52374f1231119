"""What people do by hand with an unfinished run, beside the law: its last value, and a straight line.

The line is one of log loss against log step through the second half of what was seen. Neither knows a schedule: both
get the gain of the annealing that is still ahead from the law. A rule that forecasts the run's own later rows better
than the law does counts more than it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cptlaw.laws.calculus import Array

# What the law, the line and the last value count before rollouts, by the eval's role, without and with other runs: a
# source loss rises and stays, so that its last value is hard to beat. Chosen, as the two below, on every fifth curve of
# the back-test (studies/unfinished_runs.md).
SHARES = {
    ("source", False): (0.1, 0.1, 0.8),
    ("target", False): (0.4, 0.5, 0.1),
    ("other", False): (0.5, 0.4, 0.1),
    ("source", True): (0.4, 0.1, 0.5),
    ("target", True): (0.9, 0.08, 0.02),
    ("other", True): (0.9, 0.08, 0.02),
}
# Of the squared logarithm of how much larger the squared miss is than the least one, what the logarithm of a weight
# falls by: rules that miss alike in rollouts differ by chance, one that misses ten times as much is wrong here.
SHARPNESS = 0.35
# Rows, more than the two that any line goes through, that count by half: the first rows of a run rise or fall as the
# later ones do not.
HALF, ANY_LINE = 3.0, 2
NOISE = 0.002  # log error below which rules are equally good


@dataclass(frozen=True, eq=False)
class Stack:
    """The law beside the two rules.

    Attributes
    ----------
    shares
        What the law, the line and the last value count before rollouts.
    misses
        Log errors of the three in rollouts within the run, each (3,).
    reach
        How far the longest of these rollouts goes: its step over that of the last row that it saw, in logs.
    rows
        How many rows of the run were seen.
    """

    shares: tuple[float, float, float]
    misses: Sequence[Array] = ()
    reach: float = 0.0
    rows: int = 0

    def weights(self, ahead: float) -> Array:
        """Return what the three count, with sum 1, (3,), where the asked step is `ahead` times that of the last row."""
        score = np.log(self.shares)
        if len(self.misses):
            # Rollouts that go less far than the forecast say less about it.
            counts = min(1.0, self.reach / max(math.log(max(ahead, 1.0)), 1e-9))
            beyond = max(self.rows - ANY_LINE, 0)
            counts *= beyond / (beyond + HALF)
            square = np.log(np.mean(np.square(self.misses), axis=0) + NOISE**2)
            score = score - SHARPNESS * counts * (square - square.min()) ** 2
        values: Array = np.exp(score - score.max())
        return np.asarray(values / values.sum())

    def pooled(self, law: float, baselines: Array, ahead: float) -> tuple[float, float]:
        """Return the centre of the three log forecasts, and the sd by which they disagree."""
        values, weights = np.array([law, *baselines]), self.weights(ahead)
        centre = float(weights @ values)
        return centre, float(np.sqrt(weights @ (values - centre) ** 2))


def line_and_last(step: Array, log_loss: Array, asked: float) -> Array:
    """Return the log loss at a step by the straight line and by the last value, (2,).

    Parameters
    ----------
    step, log_loss
        Of the rows that were seen, in order, (n,); two or more, steps above 0.
    asked
        The step that is forecast.
    """
    late = slice(min(len(step) // 2, len(step) - 2), None)
    x, y = np.log(step[late]), log_loss[late]
    slope = float(np.sum((x - x.mean()) * (y - y.mean())) / max(float(np.sum((x - x.mean()) ** 2)), 1e-300))
    return np.array([y.mean() + slope * (np.log(asked) - x.mean()), log_loss[-1]])
