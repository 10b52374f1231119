"""Many small binomial fits side by side: penalised Fisher scoring with a step that shrinks where it does not help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cptlaw_scores.laws.score_law import Array, ScoreLaw

ROUNDS = 60
SETTLED = 1e-7  # relative change of the objective at which a fit is left alone
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-8, 1e8


@dataclass(frozen=True)
class Tasks:
    """Measured scores, (s, n) each; a row counts for a task by its effective items, 0 where it was not measured.

    Parameters
    ----------
    x
        Inputs by column in their units, (n,) or (s, n).
    y
        Scores, from 0 to 1.
    items
        Effective number of items.
    chance
        Score of guessing, (s, 1).
    """

    x: Mapping[str, Array]
    y: Array
    items: Array
    chance: Array

    def subset(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Tasks:
        """Return some of the tasks."""
        x = {name: value[rows] if value.ndim == 2 else value for name, value in self.x.items()}
        return Tasks(x, self.y[rows], self.items[rows], self.chance[rows])


@dataclass(frozen=True)
class LinkPrior:
    """A normal prior of every coordinate, (k,) each."""

    mean: Array
    sd: Array


@dataclass(frozen=True)
class Posterior:
    """Coordinates (s, k), their covariance (s, k, k), and the objective (s,)."""

    theta: Array
    covariance: Array
    objective: Array


def maximise(law: ScoreLaw, tasks: Tasks, prior: LinkPrior, start: Array) -> Posterior:
    """Maximise binomial likelihood times prior for each task, from one start each.

    Parameters
    ----------
    start
        Coordinates, (s, k).
    """
    theta = start.copy()
    count, k = theta.shape
    mean, precision = prior.mean, 1.0 / prior.sd**2
    p, slopes = law.score_and_slopes(theta, tasks.x, tasks.chance)
    value = _objective(tasks, p, theta, mean, precision)
    damping = np.full(count, FIRST_DAMPING)
    active = np.arange(count)
    for _ in range(ROUNDS):
        part = tasks.subset(active)
        gradient, curvature = _curve(part, p[active], slopes[active])
        gradient -= precision * (theta[active] - mean)
        curvature += precision * np.eye(k)
        # Marquardt's scaling: damped by each coordinate's own curvature, so that slopes and thresholds are held back
        # alike.
        diagonal = np.einsum("sii->si", curvature)
        damped = curvature + (damping[active][:, None] * diagonal)[:, :, None] * np.eye(k)
        step = np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        # A logistic link is flat far out; a step of more than 2 on the search axis lands where no slope leads back.
        tried = theta[active] + np.clip(step, -2.0, 2.0)
        new_p, new_slopes = law.score_and_slopes(tried, part.x, part.chance)
        new_value = _objective(part, new_p, tried, mean, precision)
        better = new_value < value[active]
        gain = value[active] - new_value
        chosen = active[better]
        theta[chosen], value[chosen] = tried[better], new_value[better]
        p[chosen], slopes[chosen] = new_p[better], new_slopes[better]
        damping[active] = np.clip(damping[active] * np.where(better, 0.1, 10.0), LEAST_DAMPING, MOST_DAMPING)
        small = np.abs(gain) <= SETTLED * (1.0 + np.abs(value[active]))
        done = small | (~better & (damping[active] >= MOST_DAMPING))
        active = active[~done]
        if not len(active):
            break
    _, curvature = _curve(tasks, p, slopes)
    curvature += precision * np.eye(k)
    covariance = np.linalg.inv(curvature).astype(float)
    return Posterior(theta, covariance, value)


def best_of_starts(law: ScoreLaw, tasks: Tasks, prior: LinkPrior, starts: Array) -> Posterior:
    """Return the best of several starts for each task; `starts` are (m, k) standard normal, scaled by the prior."""
    points = np.repeat((prior.mean + prior.sd * starts)[:, None], len(tasks.y), axis=1)
    solutions = [maximise(law, tasks, prior, one) for one in points]
    best = np.argmin([one.objective for one in solutions], axis=0), np.arange(len(tasks.y))
    theta, covariance, objective = (
        np.array([getattr(one, name) for one in solutions])[best] for name in ("theta", "covariance", "objective")
    )
    return Posterior(theta, covariance, objective)


def _objective(tasks: Tasks, p: Array, theta: Array, mean: Array, precision: Array) -> Array:
    """Return the negative log of likelihood times prior, (s,), above that of a perfect fit."""
    y = tasks.y
    with np.errstate(divide="ignore", invalid="ignore"):
        # Above a perfect fit the objective is half the deviance, whose size does not grow with the entropy of the
        # scores.
        perfect = np.where(y > 0, y * np.log(y), 0.0) + np.where(y < 1, (1.0 - y) * np.log1p(-y), 0.0)
    residuals = tasks.items * (perfect - y * np.log(p) - (1.0 - y) * np.log1p(-p))
    values: Array = residuals.sum(axis=1) + 0.5 * (precision * (theta - mean) ** 2).sum(axis=1)
    return values


def _curve(tasks: Tasks, p: Array, slopes: Array) -> tuple[Array, Array]:
    """Return the score vector (s, k) and the expected information (s, k, k)."""
    # Expected information, not observed: it is positive definite whatever the scores, which is what makes this Fisher
    # scoring and not Newton's method.
    weight = tasks.items / (p * (1.0 - p))
    gradient = np.einsum("sn,snk->sk", weight * (tasks.y - p), slopes)
    curvature = np.einsum("snk,snl->skl", slopes * weight[:, :, None], slopes)
    return gradient, curvature
