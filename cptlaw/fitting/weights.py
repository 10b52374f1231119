"""What each law counts at a point: by rollouts that go the same way as the forecast.

Forms that differ in one direction agree in another: the additive law is behind over tokens per parameter and ahead over
size. So a rollout counts the more, the closer its direction is to that of the point asked for, and the farther it goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.rollouts import SAME_ERROR
from cptlaw.laws.calculus import Array

# Chosen by leaving whole studies out; the errors hardly move with them (studies/bench.md).
SHARPNESS = 4.0  # weights go as a power of the error in rollouts
POWER = 4.0  # of the cosine between the directions of rollout and point
ANYWAY = 0.02  # what a rollout counts that goes another way
NEAR = 0.3  # e-folds outside the data below which all rollouts count alike
EVIDENCE = 1.0  # rollouts that would have to be seen for half of the sharpness
# Power of the error of a law from scratch beside that of one that is ahead in all rollouts, where that is least so.
BEHIND_IN_ALL = 16.0


def left_by_rollouts(error: Array) -> Array:
    """Return what is left of the share of each law where another was ahead in every rollout, (laws,).

    Weights go as mean errors do, at a small power: means differ by luck, and laws that take turns are best averaged. A
    law that is never ahead of one other takes no turn, and is behind far out too.

    Parameters
    ----------
    error
        Root mean square log error, (laws, rollouts).
    """
    count = error.shape[1]
    if not count:
        return np.ones(len(error))
    log_error = np.log(np.hypot(error, SAME_ERROR))
    least = (log_error[:, None] - log_error[None]).min(axis=2)  # by how much the second law is ahead at least
    # Of one rollout a law is always ahead, and of few rollouts often.
    return np.asarray(np.exp(-BEHIND_IN_ALL * (1.0 - 1.0 / count) * least.max(axis=1)))


@dataclass(frozen=True, eq=False)
class RolloutScores:
    """How the laws did in the common rollouts.

    Attributes
    ----------
    share
        What each law counts before it is seen how it did the way that a point lies, (laws,).
    error
        Root mean square log error, (laws, rollouts).
    reach
        Mean e-folds by which the rows that a rollout forecasts lie outside those that it fits, (rollouts, directions).
    """

    share: Array
    error: Array
    reach: Array

    def weights(self, outside: Array) -> Array:
        """Return the weights at points, (points, laws), given their e-folds outside the data, (points, directions)."""
        if not self.error.shape[1]:
            return np.tile(self.share / self.share.sum(), (len(outside), 1))
        # Below the noise no law is better than another.
        mean, evidence = self._averaged_at(outside, np.log(np.hypot(self.error, SAME_ERROR)))
        sharpness = SHARPNESS * evidence
        log_weight = np.log(self.share) - sharpness[:, None] * (mean - mean.min(axis=1, keepdims=True))
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        values: Array = weight / weight.sum(axis=1, keepdims=True)
        return values

    def _averaged_at(self, outside: Array, stacked: Array) -> tuple[Array, Array]:
        """Return averages over rollouts, (n, k) of values (k, rollouts), and the evidence behind them, 0 to 1, (n,).

        A rollout counts the more, the more it went outside its rows in the direction of the point.
        """
        length = np.linalg.norm(self.reach, axis=1)
        away = np.linalg.norm(outside, axis=1)
        # How far a rollout went the way that the point lies: one along tokens says little of a larger model.
        cosine = outside @ self.reach.T / np.maximum(away[:, None] * length, 1e-12)
        far = (away / (away + NEAR))[:, None]
        counts = length * (far * np.maximum(cosine, 0.0) ** POWER + (1.0 - far) + ANYWAY) + 1e-12
        total = counts.sum(axis=1)
        seen = total / counts.max(axis=1)  # rollouts that count as much as the one that counts most
        # Few rollouts must not decide as much as many.
        return counts @ stacked.T / total[:, None], seen / (seen + EVIDENCE)
