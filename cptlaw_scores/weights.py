"""What each member counts for each task, by rollouts, and by how much forecasts of scores err beyond what the fits say.

Few rollouts of one task say little, so a task's own errors are counted together with those of all tasks. Errors are
measured on the scale of the arcsine of the root of a score, on which the noise of n items is 1 / (4 n) whatever the
score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.learned.links import usual_growth
from cptlaw_scores.joint import Joint
from cptlaw_scores.laws.score_law import Array
from cptlaw_scores.members import PlannedMember
from cptlaw_scores.rollouts import Carried, ModelCut, Rolled

SHARPNESS = 4.0  # weights go as this power of the error
COMMON = 6.0  # rollouts that the errors of all tasks count as beside a task's own ..
MANY = 10  # .. where there are so many others; of fewer in proportion, for each may follow another loss
HEAVY = 0.05  # weight of a member from which its scatter counts
OWN_WORD = 6.0  # cuts that the doubt as the fits say it counts as
SPREAD = 4.0  # rollouts that the growth of other studies counts as beside a task's own
MOST_SCALE = 3.0
LEAST_FREEDOM = 3.0
LEAST_REACH = 0.3  # e-folds
NINTH = 1.645  # ninth decile of the size of a standard normal error


@dataclass(frozen=True)
class Doubted:
    """What rollouts say.

    Parameters
    ----------
    weights
        Task -> weight and root mean square error of each member, in the order of the members.
    scale
        By what factor forecasts miss more than links and forms say.
    growth
        Task -> standard deviation of a score beyond that, on the arcsine scale, per e-fold.
    freedom
        Degrees of freedom of the doubt: few cuts of few tasks do not know its size well.
    surplus
        The square of the growth by the rollouts of all tasks alone, which may be below zero.
    loss_scale
        By what factor forecasts of the carrying losses miss more than these say.
    """

    weights: Mapping[str, Sequence[Sequence[float]]]
    scale: float
    growth: Mapping[str, float]
    freedom: float
    surplus: float
    loss_scale: float = 1.0


def arcsine(score: Array) -> Array:
    """Return scores on the scale on which the noise of items is the same for all."""
    values: Array = np.arcsin(np.sqrt(np.clip(score, 0.0, 1.0)))
    return values


def weighed(
    joint: Joint,
    plans: Sequence[PlannedMember],
    folds: Sequence[ModelCut],
    seen: Sequence[Sequence[Rolled | None]],
) -> Doubted:
    """Return the weights of the members for each task, and how forecasts err with the distance.

    Parameters
    ----------
    folds, seen
        The rollouts, and what each member forecast in each of them.
    """
    names = list(joint.tasks)
    # On this scale an error of a score at 95 % counts like one at 50 %, and near chance like in the middle.
    truth = arcsine(np.array([joint.values(name) for name in names]))
    noise = 0.25 / np.array([np.nan_to_num(joint.tasks[name].items, nan=1.0) for name in names])
    error = np.full((len(plans), len(folds), *truth.shape), np.nan)  # on the arcsine scale
    for f, of_fold in enumerate(seen):
        for w, score in enumerate(of_fold):
            if score is None:
                continue
            residuals = arcsine(score.scores) - truth[score.rows]
            error[w, f, score.rows] = np.where(score.counts, residuals, np.nan)
    log_error, counts = _means(error**2, noise)
    serves = np.array([[name in plan.tasks for name in names] for plan in plans])
    share = np.array([plan.share for plan in plans])[:, None] * serves
    with np.errstate(invalid="ignore"):
        common = np.where(counts > 0, counts * log_error, 0.0).sum(axis=1) / np.maximum(counts.sum(axis=1), 1e-9)
    own = np.where(counts > 0, log_error, 0.0)
    others = COMMON * min(1.0, (len(names) - 1) / MANY) + 1e-9
    joined = (counts * own + others * common[:, None]) / (counts + others)
    # A member that no rollout could fit has no error, and is left out where others have.
    scored = counts.sum(axis=1) > 0
    if scored.any():
        share = share * scored[:, None]
    joined = np.where(share > 0, joined, np.inf)
    best = joined.min(axis=0)
    behind = joined - np.where(np.isfinite(best), best, 0.0)
    weight = np.where(share > 0, share * np.exp(-0.5 * SHARPNESS * behind), 0.0)
    weight = weight / np.maximum(weight.sum(axis=0), 1e-300)
    scale, growth, surplus = _beyond(folds, seen, error, weight, noise)
    pairs = np.stack([weight, np.where(counts > 0, np.sqrt(np.exp(own)), np.nan)], axis=2)
    return Doubted(
        weights={name: pairs[:, t].tolist() for t, name in enumerate(names)},
        scale=scale,
        growth={name: float(growth[t]) for t, name in enumerate(names)},
        freedom=max(len(folds) + len(names) - 2.0, LEAST_FREEDOM),
        surplus=surplus,
    )


def _means(squared: Array, noise: Array) -> tuple[Array, Array]:
    """Return the log of the mean squared error of each member and task, not below the noise, and how many it is of."""
    counted = np.isfinite(squared)
    # Rows of one rollout err together: each rollout counts once.
    rows = counted.sum(axis=3)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_fold = np.where(counted, squared + noise, 0.0).sum(axis=3) / rows
        seen = rows > 0
        total = seen.sum(axis=1).astype(float)
        logs = np.where(seen, np.log(of_fold), 0.0).sum(axis=1) / total
    return np.where(total > 0, logs, 0.0), total


def _beyond(
    folds: Sequence[ModelCut], seen: Sequence[Sequence[Rolled | None]], error: Array, weight: Array, noise: Array
) -> tuple[float, Array, float]:
    """Return by what factor the averages miss more than links and forms say, and by how much per e-fold on top.

    The factor is that of all tasks together, at the ninth decile of what was missed, so that a few benchmarks that
    jump do not set it; what these miss beyond it is their own growth, (tasks,), drawn to that of other studies. The
    last is the mean square of what is missed beyond it by all tasks.
    """
    tasks = weight.shape[1]
    residuals, doubt = (np.full((len(folds), tasks, noise.shape[1]), np.nan) for _ in range(2))
    for f in range(len(folds)):
        known = np.isfinite(error[:, f])
        used = weight[:, :, None] * known
        total = used.sum(axis=0)
        # Where the members that carry most of the weight could not be fitted, the average would be another one.
        good = total > 0.5
        share = np.where(known, used / np.where(good, total, 1.0), 0.0)
        own = np.nan_to_num(error[:, f])
        mean = (share * own).sum(axis=0)
        explained = (share * (own - mean) ** 2).sum(axis=0)
        # What runs scatter by is what is left by the member that leaves least; a worse one leaves its misfit too.
        scatter = np.full(tasks, np.inf)
        for w, score in enumerate(seen[f]):
            if score is not None:
                p = np.clip(score.scores, 1e-6, 1 - 1e-6)
                explained[score.rows] += share[w, score.rows] * score.variance / (4.0 * p * (1.0 - p))
                heavy = weight[w, score.rows] >= HEAVY
                scatter[score.rows] = np.where(heavy, np.minimum(scatter[score.rows], score.rho), scatter[score.rows])
        explained += 0.25 * np.where(np.isfinite(scatter), scatter, 0.0)[:, None]
        residuals[f], doubt[f] = np.where(good, mean, np.nan), np.where(good, explained, np.nan)
    known = np.isfinite(residuals)
    if not known.any():
        return 1.0, np.full(tasks, usual_growth()), 0.0
    standard = np.abs(residuals) / np.sqrt(doubt + noise)
    cuts = float(known.any(axis=2).sum())
    # A quantile and not the mean square: a few benchmarks that jump would widen all the others.
    decile = float(np.nanquantile(standard, 0.9)) / NINTH
    scale = math.sqrt((OWN_WORD + cuts * min(decile**2, MOST_SCALE**2)) / (OWN_WORD + cuts))
    far = np.array([np.maximum(fold.reach, LEAST_REACH) ** 2 for fold in folds])[:, None, :]
    surplus = np.where(known, (residuals**2 - scale**2 * doubt - noise) / far, 0.0)
    # The rows of a rollout err together, so that each rollout counts once.
    rows = np.maximum(known.sum(axis=2), 1)
    own = (surplus.sum(axis=2) / rows).sum(axis=0)
    scored = known.any(axis=2).sum(axis=0)
    growth = (own + SPREAD * usual_growth() ** 2) / (scored + SPREAD)
    found_growth: Array = np.sqrt(np.maximum(growth, 0.0))
    return scale, found_growth, float(own.sum() / scored.sum())


def scale_of_losses(carried: Sequence[Mapping[str, Carried | None]]) -> float:
    """Return by what factor forecasts of losses missed more than was stated, by the rollouts of all carriers.

    Losses of one rollout err together, so that each rollout counts once, whatever the number of its carriers.
    """
    of_folds = [
        np.concatenate([np.zeros(0), *(one.missed for one in fold.values() if one is not None)]) for fold in carried
    ]
    scored = [residuals for residuals in of_folds if len(residuals)]
    if not scored:
        return 1.0
    decile = float(np.quantile(np.concatenate(scored), 0.9)) / NINTH
    return math.sqrt((OWN_WORD + len(scored) * min(decile**2, MOST_SCALE**2)) / (OWN_WORD + len(scored)))
