"""The average of what several priors say of a run's end, weighed by how well each forecasts the run's own later rows.

How far published coefficients, or other runs, may be believed for the run at hand is not known beforehand. Each prior
therefore forecasts the run's last row from its first half and its first three quarters; the better it does, by the
density that it gives to what was measured, the more it counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.fitting.solving.student import t_quantile
from cptlaw.laws.calculus import Array
from cptlaw_curves.forecasting.baselines import SHARES, Stack, line_and_last
from cptlaw_curves.forecasting.posterior import Normal, Posterior, posterior
from cptlaw_curves.forecasting.priors import Coordinates

CUTS = (0.5, 0.75)  # of a run's own steps, from which its last row is forecast
LEAST = 2  # rows before a cut
PUBLISHED = 2  # priors where there are no other runs: as published, and wider
TAIL = 4.0  # degrees of freedom of the density of a miss: one wild miss must not decide
# The law's spread counts in part, for the rules by hand hold where it does not; so does what the three disagree by.
# What all of them miss grows as the root of the way to go. Chosen on ten studies (studies/unfinished_runs.md).
OF_LAW, OF_RULES = 0.5, 0.25
NO_BOUND = math.log(1e3)  # half-width in log loss that says nothing
WALK = 0.012  # sd, in log loss, of what all miss over a factor e in steps


@dataclass(frozen=True, eq=False)
class Average:
    """Posteriors under several priors.

    Parameters
    ----------
    posteriors
        One per prior.
    weights
        Non-negative, with sum 1, (m,).
    widen
        By how much forecasts within the run's own rows miss more than their spread says, at least 1.
    stack
        How much the law counts beside what is done by hand.
    steps, log_losses
        The run's rows, (n,), steps counted from where it began.
    """

    posteriors: tuple[Posterior, ...]
    weights: Array
    widen: float
    stack: Stack
    steps: Array
    log_losses: Array

    def forecast(
        self, frame: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float, interval: float
    ) -> tuple[float, float, float]:
        """Return loss, lower and upper end of a measured loss."""
        moments = np.array([one.forecast(frame, run, now, ahead) for one in self.posteriors])
        centre, spread = _pooled(self.weights, moments)
        if len(self.steps) >= LEAST:
            gain = float(self.weights @ [_gain(one, frame, run, now) for one in self.posteriors])
            baselines = line_and_last(self.steps, self.log_losses, ahead * float(self.steps[-1])) - gain
            centre, apart = self.stack.pooled(centre, baselines, ahead)
            noise = float(self.weights @ [one.noise for one in self.posteriors])
            of_law = OF_LAW * math.sqrt(max(spread**2 - noise**2, 0.0))
            walk = WALK * math.sqrt(math.log(max(ahead, 1.0)))
            spread = math.hypot(of_law, OF_RULES * apart, walk, noise)
        freedom = float(self.weights @ [one.freedom for one in self.posteriors])
        width = self.widen * spread * t_quantile(interval, freedom)
        loss, low, high = np.exp([centre, centre - width, centre + min(width, NO_BOUND)]).tolist()
        # A run that outruns all that is known of others, as one from scratch under a plan of CPT, has no upper bound.
        return loss, low, high if width < NO_BOUND else math.inf


def average(
    coordinates: Coordinates, frame: pd.DataFrame, priors: Sequence[tuple[Normal, float]], at: Array, first: float
) -> Average:
    """Return the posteriors of one run under several priors, with weights and width from rollouts within its rows.

    One rollout says little, so that the width counts one more miss that was as large as it should be.

    Parameters
    ----------
    coordinates
        The law and its scales.
    frame
        Rows of the run, as for `posterior`.
    priors
        Of the law's coordinates, each with its weight before any rollout; the nearest first, then its wider version.
    at, first
        Steps of the rows, (n,), and the step from which they count.
    """
    run, last, with_others = str(frame["run"].iloc[0]), frame.iloc[[-1]], len(priors) > PUBLISHED
    truth = math.log(float(last["loss"].iloc[0]))
    rollouts: list[Array] = []
    misses: list[Array] = []
    reach = 0.0
    step, log_loss = at - first, np.log(frame["loss"].to_numpy(dtype=float))
    begun = step > 0
    before = np.array([weight for _, weight in priors]) / sum(weight for _, weight in priors)
    for share in CUTS:
        seen = at <= first + share * (at[-1] - first)
        if seen.sum() < LEAST or seen.all():
            continue
        ahead = (at[-1] - first) / max(at[seen][-1] - first, 1.0)
        head = frame[seen]
        now, result = head.iloc[[-1]], [posterior(coordinates, head, one) for one, _ in priors]
        rollouts.append(np.array([one.forecast(last, run, now, ahead) for one in result]))
        if (seen & begun).sum() >= LEAST:
            gain = float(before @ [_gain(one, last, run, now) for one in result])
            baselines = line_and_last(step[seen & begun], log_loss[seen & begun], float(step[-1])) - gain
            misses.append(np.array([_pooled(before, rollouts[-1])[0], *baselines]) - truth)
            reach = max(reach, math.log(ahead))
    if not rollouts:
        # Of the pilot's source losses at a fifth of the run the nearest prior by itself held 71 % within its 90 %
        # intervals.
        priors = priors[:2]  # the nearest prior and its wider version: nothing speaks for those farther off
    # The misses are of one and the same row, so that together they count once.
    score = np.log([weight for _, weight in priors])
    if rollouts:
        score += np.mean([_log_density(values, truth) for values in rollouts], axis=0)
    weights = np.exp(score - score.max())
    weights /= weights.sum()
    mixtures = [_pooled(weights, values) for values in rollouts]
    squares = [((truth - centre) / spread) ** 2 for centre, spread in mixtures]
    widen = max(1.0, math.sqrt((1.0 + sum(squares)) / (1.0 + len(squares))))
    stack = Stack(SHARES[coordinates.role, with_others], misses, reach, int(begun.sum()))
    learnt = tuple(posterior(coordinates, frame, one) for one, _ in priors)
    return Average(learnt, weights, widen, stack, step[begun], log_loss[begun])


def _gain(learnt: Posterior, frame: pd.DataFrame, run: str, now: pd.DataFrame) -> float:
    """Return the gain of a decay that is ahead; what a rise of the rate still does, the run's own rows show."""
    return max(learnt.gain(frame, run, now), 0.0)


def _log_density(draws: Array, truth: float) -> Array:
    """Return the log density of a truth, (m,), under Student's t with these means and scales, (m, 2)."""
    bold = (truth - draws[:, 0]) / draws[:, 1]
    values: Array = -0.5 * (TAIL + 1.0) * np.log1p(bold**2 / TAIL) - np.log(draws[:, 1])
    return values


def _pooled(weights: Array, values: Array) -> tuple[float, float]:
    """Return mean and sd of a mixture whose parts have these means and sds, (m, 2)."""
    centre = float(weights @ values[:, 0])
    return centre, math.sqrt(float(weights @ (values[:, 1] ** 2 + (values[:, 0] - centre) ** 2)))
