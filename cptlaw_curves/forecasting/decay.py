"""A decay of the rate after a stretch at a constant one: its gain as a function of the rate that is left.

    log L(t) = level - b log S(t) - G x(t) + walk + noise

S sums the square root of the rate, so that a run learns on while its rate falls, though less; x is how far the rate has
fallen from its peak, as a share of it, behind by a memory of 150 steps. Level, b and G are unknown, with priors; the
walk lets the curve stray, so that the forecast goes on from its last rows. All is normal and linear, so that the answer
is exact. The prior of G comes from the decays of other studies. What was tried beside stands in
studies/unfinished_runs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.learned import left_out
from cptlaw.laws.calculus import Array
from cptlaw.schedules import Schedule

# What annealing from the peak to 0 takes off the log loss beyond what goes on, by model; the first and the last as
# published (arXiv:2408.11029; 400M of arXiv:2503.12811), the others from curves of 25M and 100M and of 33M to 360M.
GAINS = {"Tissue 2024": (0.029,), "lr_schedules": (0.046,), "Luo 2025 curves": (0.030, 0.030, 0.066)}
GAIN_SPREAD = 0.35  # sd of their logarithms
SLOPE, SLOPE_SPREAD = 0.037, 0.015  # of log loss against log S, late in a training from scratch
MEMORY = 150.0  # steps by which the loss lags behind the rate
POWER = 0.5  # of the rate, which S sums
WALK = 0.003  # sd of the walk over a factor e in S
NOISE = 0.0003  # least sd of one log loss
LATE = 0.3  # share of the steps before which rows say nothing of how a curve goes on
LEAST = 4  # rows
MOST = 200
CONSTANT = 0.99  # share of the peak, from which a rate is the peak
STRETCH = 0.1  # share of all steps at the peak, from which they are a stretch at a constant rate; of a cosine it is .06
FALL = 0.2  # share of the peak by which the rate falls in a decay
SUDDEN = 0.5  # share of the fall within a hundredth of the decay: a drop is no decay
NEAR = 0.75  # share of the steps before the decay that must have been seen


@dataclass(frozen=True, eq=False)
class Decay:
    """The decay of a plan.

    Attributes
    ----------
    begins
        The last step at the peak, counted from `first`.
    fallen
        How far the rate has fallen at each step, as a share of the peak and with the memory, (steps + 1,).
    area
        S at each step, (steps + 1,).
    """

    begins: int
    fallen: Array
    area: Array

    @classmethod
    def of_plan(cls, plan: Schedule, first: int) -> Decay | None:
        """Return the decay at the end of a plan, whose steps count from `first`, or nothing where it has none."""
        rate = np.asarray(plan.lr, dtype=float)[first:]
        peak = float(rate.max())
        at_peak = rate >= CONSTANT * peak
        begins = int(np.flatnonzero(at_peak)[-1])
        after = rate[begins:]
        fall = peak - float(after[-1])
        if len(after) < LEAST or fall < FALL * peak or np.any(np.diff(after) > 1e-9 * peak):
            return None
        if at_peak[int(np.argmax(at_peak)) : begins + 1].mean() < CONSTANT or at_peak.mean() < STRETCH:
            return None
        if peak - after[max(1, len(after) // 100)] > SUDDEN * fall:
            return None
        # A warm-up counts as if it had run at the peak: what is learned in it no rate tells.
        share = np.where(np.arange(len(rate)) < np.argmax(at_peak), 1.0, rate / peak)
        keep = math.exp(-1.0 / MEMORY)
        fallen, behind = np.zeros(len(share)), 0.0
        for i in range(begins, len(share)):
            behind = keep * behind + (1.0 - keep) * (1.0 - share[i])
            fallen[i] = behind
        return cls(begins, fallen, np.cumsum(share**POWER))

    def forecast(self, steps: Array, log_loss: Array, asked: Array) -> tuple[Array, Array] | None:
        """Return mean and sd of a measured log loss at the asked steps, or nothing where too little was seen.

        Parameters
        ----------
        steps, log_loss
            Of the rows, in order, (n,).
        asked
            Steps, (k,).
        """
        late = (steps >= LATE * steps[-1]) & (self.area[steps.astype(int)] > 0)
        steps, log_loss = steps[late], log_loss[late]
        if len(steps) < LEAST or steps[-1] < NEAR * self.begins:
            return None
        if len(steps) > MOST:
            kept = np.unique(np.linspace(0, len(steps) - 1, MOST).round().astype(int))
            steps, log_loss = steps[kept], log_loss[kept]
        noise = _noise(log_loss)
        at = np.concatenate([steps, asked]).astype(int)
        time = np.log(self.area[at] / self.area[at[len(steps) - 1]])
        fallen, (gain, spread) = self.fallen[at], gain_prior()
        mean = -SLOPE * time - gain * fallen
        along = time - time.min()
        covariance = (
            1.0  # the level, of which nothing is known
            + SLOPE_SPREAD**2 * np.outer(time, time)
            + (gain * spread) ** 2 * np.outer(fallen, fallen)
            + WALK**2 * np.minimum.outer(along, along)
        )
        n = len(steps)
        own = covariance[:n, :n] + noise**2 * np.eye(n)
        weights = np.linalg.solve(own, covariance[:n, n:]).T
        away = log_loss - log_loss[-1] - mean[:n]
        centre = log_loss[-1] + mean[n:] + weights @ away
        variance = np.diag(covariance)[n:] - np.sum(weights * covariance[n:, :n], axis=1) + noise**2
        return centre, np.sqrt(np.maximum(variance, noise**2))


def gain_prior() -> tuple[float, float]:
    """Return what a decay to zero gains in other studies than the one that is left out, and its relative sd."""
    gains = [gain for study, values in GAINS.items() if study != left_out() for gain in values]
    return math.exp(float(np.mean(np.log(gains)))), GAIN_SPREAD


def _noise(log_loss: Array) -> float:
    """Return the sd of one log loss around its curve, from the steps between neighbours."""
    moves = np.diff(log_loss)
    spread = 1.4826 * float(np.median(np.abs(moves - np.median(moves)))) / math.sqrt(2.0)
    return max(spread, NOISE)
