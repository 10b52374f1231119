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

from cptlaw.curves.posterior import Normal, Posterior, posterior
from cptlaw.curves.priors import Coordinates
from cptlaw.laws.calculus import Array
from cptlaw.solving.student import t_quantile

CUTS = (0.5, 0.75)  # of a run's own steps, from which its last row is forecast
LEAST = 3  # rows before a cut
TAIL = 4.0  # degrees of freedom of the density of a miss: one wild miss must not decide


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
    """

    posteriors: tuple[Posterior, ...]
    weights: Array
    widen: float

    def forecast(
        self, frame: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float, interval: float
    ) -> tuple[float, float, float]:
        """Return loss, lower and upper end of a measured loss.

        Parameters
        ----------
        frame
            One row with the law's inputs.
        run
            The run that it belongs to.
        now
            The run's last row, with the law's inputs.
        ahead
            Its step over that of the run's last row.
        interval
            Probability that a measured loss lies between the ends.
        """
        said = np.array([_moments(one, frame, run, now, ahead) for one in self.posteriors])
        centre, spread = _pooled(self.weights, said)
        freedom = float(self.weights @ [one.freedom for one in self.posteriors])
        width = self.widen * spread * t_quantile(interval, freedom)
        return math.exp(centre), math.exp(centre - width), math.exp(centre + width)


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
    run, last = str(frame["run"].iloc[0]), frame.iloc[[-1]]
    truth = math.log(float(last["loss"].iloc[0]))
    rollouts: list[Array] = []
    for share in CUTS:
        seen = at <= first + share * (at[-1] - first)
        if seen.sum() < LEAST or seen.all():
            continue
        ahead = (at[-1] - first) / max(at[seen][-1] - first, 1.0)
        head = frame[seen]
        rollouts.append(
            np.array(
                [_moments(posterior(coordinates, head, one), last, run, head.iloc[[-1]], ahead) for one, _ in priors]
            )
        )
    if not rollouts:
        priors = priors[:2]  # the nearest prior and its wider version: nothing speaks for those farther off
    # The misses are of one and the same row, so that together they count once.
    score = np.log([weight for _, weight in priors])
    if rollouts:
        score += np.mean([_log_density(said, truth) for said in rollouts], axis=0)
    weights = np.exp(score - score.max())
    weights /= weights.sum()
    squares = []
    for said in rollouts:
        centre, spread = _pooled(weights, said)
        squares.append(((truth - centre) / spread) ** 2)
    widen = max(1.0, math.sqrt((1.0 + sum(squares)) / (1.0 + len(squares))))
    return Average(tuple(posterior(coordinates, frame, one) for one, _ in priors), weights, widen)


def _moments(learnt: Posterior, frame: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float) -> tuple[float, float]:
    return float(learnt.log_loss(frame, run)[0]), float(learnt.spread(frame, run, now, ahead)[0])


def _log_density(said: Array, truth: float) -> Array:
    """Return the log density of a truth, (m,), under Student's t with these means and scales, (m, 2)."""
    bold = (truth - said[:, 0]) / said[:, 1]
    found: Array = -0.5 * (TAIL + 1.0) * np.log1p(bold**2 / TAIL) - np.log(said[:, 1])
    return found


def _pooled(weights: Array, said: Array) -> tuple[float, float]:
    """Return mean and sd of a mixture whose parts have these means and sds, (m, 2)."""
    centre = float(weights @ said[:, 0])
    return centre, math.sqrt(float(weights @ (said[:, 1] ** 2 + (said[:, 0] - centre) ** 2)))
