"""Fits of one law to several tasks that share the shape of its link: partial pooling, and the scatter beyond items.

Each pooled parameter has a normal distribution over the tasks whose mean and width the tasks themselves tell (by
expectation and maximisation, with Laplace's approximation in each task), so that noisy tasks borrow from the others.
Runs scatter by more than the items say, by seeds and by what the law lacks: beta-binomial with a correlation rho of the
items of a run, so that n items count as n / (1 + (n - 1) rho).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.learned.links import link_prior
from cptlaw_scores.fisher import LinkPrior, Posterior, Tasks, best_of_starts, maximise
from cptlaw_scores.laws.score_law import Array, ScoreLaw

ROUNDS = 8
STARTS = 5
OWN_WORD = 1.0  # tasks that the prior of a pooled mean counts as
OWN_WIDTH = 3.0  # and that of its width
LEAST_RHO, MOST_RHO = 1e-7, 0.2
USUAL_RHO = 2e-4  # of seeds and checkpoints: half a point at a score of one half
SHARED = 5.0  # rows that the tasks' common scatter counts as beside a task's own
LEAST_SD = 0.05
BISECTIONS = 30
UNSEEN = 0.05  # of the variance by items


@dataclass(frozen=True)
class Pooled:
    """One law fitted to several tasks.

    Parameters
    ----------
    posterior
        Coordinates, (tasks, k), with their covariances.
    prior
        As the tasks shaped it.
    rho
        Correlation of the items of a run, by task, (tasks,).
    rows
        Rows that count for each task, (tasks,).
    """

    law: ScoreLaw
    posterior: Posterior
    prior: LinkPrior
    rho: Array
    rows: Array


def own_prior(law: ScoreLaw) -> LinkPrior:
    """Return what the law's class says of its parameters, (k,) each."""
    axes = law.all_axes.values()
    return LinkPrior(np.array([axis.mean for axis in axes]), np.array([axis.sd for axis in axes]))


def learned_prior(law: ScoreLaw) -> LinkPrior:
    """Return what other studies say of the parameters, (k,) each; where none does, what the law's class says."""
    own = own_prior(law)
    priors = [link_prior(law.name, name) for name in law.all_axes]
    mean = [usual if one is None else one[0] for one, usual in zip(priors, own.mean, strict=True)]
    sd = [usual if one is None else one[1] for one, usual in zip(priors, own.sd, strict=True)]
    return LinkPrior(np.array(mean), np.array(sd))


def fit_pooled(law: ScoreLaw, tasks: Tasks, first: LinkPrior | None = None) -> Pooled:
    """Fit a law to several tasks at once.

    Parameters
    ----------
    tasks
        Scores with their items as counted, not yet reduced by rho.
    first
        What is known of the parameters beforehand; what other studies say where absent.
    """
    first = learned_prior(law) if first is None else first
    prior = first
    pooled = np.array([axis.pooled for axis in law.all_axes.values()])
    rows = (tasks.items > 0).sum(axis=1).astype(float)
    rho = np.full(len(tasks.y), USUAL_RHO)
    random = np.random.default_rng(0)
    starts = np.vstack([np.zeros(len(pooled)), random.standard_normal((STARTS - 1, len(pooled)))])
    counted = Tasks(tasks.x, tasks.y, effective(tasks.items, rho), tasks.chance)
    # A link may be fitted from the wrong side of its threshold; after the first round the mode is near and one start
    # will do.
    result = best_of_starts(law, counted, prior, starts)
    for _ in range(ROUNDS):
        # Scatter, prior and fit each follow from the other two: a few rounds in turn bring them to rest.
        rho = _scatter(law, tasks, result, rows)
        counted = Tasks(tasks.x, tasks.y, effective(tasks.items, rho), tasks.chance)
        prior = _shaped(first, result, pooled) if len(tasks.y) > 1 else first
        result = maximise(law, counted, prior, result.theta)
    return Pooled(law, result, prior, rho, rows)


def effective(items: Array, rho: Array) -> Array:
    """Return items as they count where the items of a run err together, (tasks, n)."""
    values: Array = items / (1.0 + np.maximum(items - 1.0, 0.0) * rho[:, None])
    return values


def _shaped(first: LinkPrior, posterior: Posterior, pooled: Array) -> LinkPrior:
    """Return the prior with the mean and width of each pooled parameter as the tasks tell them."""
    theta, variance = posterior.theta, np.einsum("skk->sk", posterior.covariance)
    # A task that says nothing repeats the prior; it must not pull the mean, nor narrow the width.
    tells = np.clip(1.0 - variance / np.maximum(first.sd**2, 1e-12), 0.05, 1.0)
    total = tells.sum(axis=0)
    mean = (OWN_WORD * first.mean + (tells * theta).sum(axis=0)) / (OWN_WORD + total)
    # With the variance of each estimate, as in EM: scatter of estimates alone would shrink the width round by round.
    spread = (tells * ((theta - mean) ** 2 + variance)).sum(axis=0)
    width = np.sqrt((OWN_WIDTH * first.sd**2 + spread) / (OWN_WIDTH + total))
    return LinkPrior(np.where(pooled, mean, first.mean), np.where(pooled, np.maximum(width, LEAST_SD), first.sd))


def _scatter(law: ScoreLaw, tasks: Tasks, posterior: Posterior, rows: Array) -> Array:
    """Return the correlation of each task's items: its own scatter beyond the items, and that of all tasks."""
    p, _ = law.score_and_slopes(posterior.theta, tasks.x, tasks.chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = np.where(tasks.items > 0, (tasks.y - p) ** 2 / (p * (1.0 - p)), 0.0)  # expected: 1 / n + rho
        noise = np.where(tasks.items > 0, 1.0 / tasks.items, np.inf)
    # Two parameters of a link are mostly what rows determine; the others repeat their priors.
    freedom = np.maximum(rows - 2.0, 1.0)

    low, high = np.full(len(rows), np.log(LEAST_RHO)), np.full(len(rows), np.log(MOST_RHO))
    for _ in range(BISECTIONS):
        guess = 0.5 * (low + high)
        surplus = np.sum(residuals / (noise + np.exp(guess)[:, None]), axis=1) - freedom
        low, high = np.where(surplus > 0, guess, low), np.where(surplus > 0, high, guess)
    # What lies so far below the noise of the items cannot be told from nothing.
    with np.errstate(invalid="ignore"):
        own = np.maximum(0.5 * (low + high), np.log(UNSEEN * np.min(noise, axis=1)))
    own = np.where(rows > 0, own, np.log(USUAL_RHO))  # a task of none of these rows
    # The median: a few benchmarks that jump must not make all others look noisy. On logarithms, so that one for which
    # this way is wrong does not either.
    common = float(np.median(own)) if len(rows) > 2 else math.log(USUAL_RHO)
    found_rho: Array = np.exp((freedom * own + SHARED * common) / (freedom + SHARED))
    return found_rho
