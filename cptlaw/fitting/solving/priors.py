"""Priors on free coordinates, as squares that an objective adds up.

Axes: s = problems side by side, p = priors, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.solving.columns import Scale
from cptlaw.fitting.solving.loss_at import LossAt
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array, Positive

TINY = 1e-12  # of an amplitude or a loss in nats, below which its logarithm is not taken
STEP = 0.05  # in the logarithm of tokens, for the slope of the loss along them
MOST_ROWS = 40  # that say how steep a law is along tokens


@dataclass(frozen=True, eq=False)
class AlongTokens:
    """A prior on the slope of a law: what its logarithm changes by per e-fold of tokens, on average over some rows.

    Parameters
    ----------
    rows
        Rows with a little more tokens than were measured, then the same with a little fewer.
    beside
        All rows of the problem, then these: a law costs by the call and hardly by the row.
    weights
        What the log losses there count in the slope, (n,), over the standard deviation of the prior.
    mean
        Of the slope, over its standard deviation.
    """

    rows: Problem
    beside: Problem
    weights: Array
    mean: float

    @classmethod
    def of(cls, problem: Problem) -> AlongTokens | None:
        """Return the prior of a problem's restraint on rows taken evenly, `None` where there is none."""
        prior = problem.restraint.along_tokens
        if prior is None:
            return None
        trained = np.flatnonzero(problem.x.D.value > 0)
        if not len(trained):
            return None
        some = np.unique(np.linspace(0, len(trained) - 1, min(len(trained), MOST_ROWS)).round().astype(int))
        sign = np.repeat([1.0, -1.0], len(some))
        beside = problem.subset(np.concatenate([np.arange(problem.n), np.tile(trained[some], 2)]))
        moves = np.exp(STEP * np.concatenate([np.zeros(problem.n), sign]))
        beside = beside.at("D", Positive(beside.x.D.value * moves))
        rows = beside.subset(np.arange(problem.n, beside.n))
        return cls(rows, beside, sign / (2.0 * STEP * len(some) * prior.sd), prior.mean / prior.sd)

    def squares(self, loss: LossAt, order: int) -> tuple[Array, Array, Array, Array]:
        """Return half the squared score (s,), gradient (s, v), Gauss-Newton and Hessian matrix (s, v, v) at a loss."""
        value = np.maximum(loss.value, TINY)
        score = np.log(value) @ self.weights - self.mean
        lever, relative = self.weights / value, loss.slopes / value[:, None, :]
        slope = relative @ self.weights
        product = slope[:, :, None] * slope[:, None, :]
        bend: Array | float = 0.0
        if order > 1:
            bent = loss.curvature(lever) - (relative * self.weights) @ relative.transpose(0, 2, 1)
            bend = score[:, None, None] * bent
        return 0.5 * score**2, score[:, None] * slope, product, product + bend


@dataclass(frozen=True)
class Penalty:
    """Priors on free coordinates: 0.5 * weight * ((value - mean) / sd)^2.

    Parameters
    ----------
    coordinates
        Indices of the coordinates.
    means, sds
        Of the prior, (p,); means also (s, p), another one for each problem.
    weight
        What half a squared standard score counts beside the objective.
    scales
        What `means` and `sds` speak of: the parameter's ``"value"``, its ``"log"``, the log of the ``"share"`` that its
        term has in the mean loss, or of the ``"ratio"`` as which it is searched.
    precision
        Inverse of the priors' correlations, (p, p), where some are correlated.
    along
        The prior on the slope along tokens, where there is one.
    """

    coordinates: tuple[int, ...]
    means: Array
    sds: Array
    weight: float
    scales: tuple[str, ...]
    precision: Array | None = None
    along: AlongTokens | None = None


def priors_on(problem: Problem, weight: float) -> Penalty | None:
    """Return the priors of a problem's restraint as a penalty, `None` where there is none."""
    priors = problem.restraint.priors
    names = [name for name in problem.free if name in priors]
    if not names:
        return None
    correlation = np.eye(len(names))
    for (one, other), value in problem.restraint.correlations.items():
        if one in names and other in names:
            i, j = names.index(one), names.index(other)
            correlation[i, j] = correlation[j, i] = value
    return Penalty(
        coordinates=tuple(problem.free.index(name) for name in names),
        means=np.array([priors[name].centre for name in names]),
        sds=np.array([priors[name].sd for name in names]),
        weight=weight,
        scales=tuple(priors[name].scale for name in names),
        precision=np.asarray(np.linalg.inv(correlation), dtype=float) if problem.restraint.correlations else None,
        along=AlongTokens.of(problem),
    )


def penalty_of(problem: Problem, v: Array, penalty: Penalty | None) -> Array:
    """Return what the priors add to the objective at v, (s,)."""
    if penalty is None:
        return np.zeros(len(v))
    scales = problem.scales_of(problem.columns(v[:, problem.k :]))
    tilted = None if penalty.along is None else LossAt.of(penalty.along.rows, v, 1, scales)
    total, _, _, _ = squares(problem, v, penalty, scales, tilted, 1)
    return total


def squares(
    problem: Problem, v: Array, penalty: Penalty, scales: list[Scale], tilted: LossAt | None, order: int
) -> tuple[Array, Array, Array, Array]:
    """Return what the priors add: total (s,), gradient (s, v), Gauss-Newton matrix and Hessian (s, v, v).

    Parameters
    ----------
    scales
        Of the columns with an amplitude.
    tilted
        The loss at `AlongTokens.rows`, where there is such a prior.
    """
    value, slope, curve = values(problem, v, penalty.coordinates, penalty.scales, scales, order)
    score, slope = (value - penalty.means) / penalty.sds, slope / penalty.sds[:, None]
    pull, pulled = score, slope
    if penalty.precision is not None:
        pull, pulled = score @ penalty.precision, penalty.precision @ slope
    total = 0.5 * penalty.weight * np.sum(score * pull, axis=1)
    gradient = penalty.weight * np.einsum("sp,spv->sv", pull, slope)
    product = penalty.weight * (slope.transpose(0, 2, 1) @ pulled)
    bend = penalty.weight * np.einsum("sp,spvw->svw", pull / penalty.sds, curve) if curve is not None else 0.0
    if penalty.along is None or tilted is None:
        return total, gradient, product, product + bend
    parts = total, gradient, product, product + bend
    added = penalty.along.squares(tilted, order)
    total, gradient, product, hessian = (one + penalty.weight * more for one, more in zip(parts, added, strict=True))
    return total, gradient, product, hessian


def values(
    problem: Problem, v: Array, coordinates: tuple[int, ...], kinds: tuple[str, ...], scales: list[Scale], order: int
) -> tuple[Array, Array, Array | None]:
    """Return parameters as priors speak of them, (s, p), with slopes (s, p, v) and, at order 2, curves (s, p, v, v).

    Parameters
    ----------
    coordinates
        Their indices.
    kinds
        ``"value"``, ``"log"``, ``"share"`` or ``"ratio"`` of each; see `Penalty`.
    scales
        Of the columns with an amplitude.
    """
    s, p, size, k = len(v), len(coordinates), problem.size, problem.k
    value, first, bend, slope = np.empty((s, p)), np.ones((s, p)), np.zeros((s, p)), np.zeros((s, p, size))
    curve = np.zeros((s, p, size, size)) if order > 1 else None
    each, at = np.arange(p), np.array(coordinates)
    if (of_shape := at >= k).any():
        shapes = problem.shapes_along(v[:, k:])[:, at[of_shape] - k]
        value[:, of_shape], first[:, of_shape], bend[:, of_shape] = shapes.transpose(0, 2, 1)
    for place, (index, kind) in enumerate(zip(coordinates, kinds, strict=True)):
        if kind == "share":
            # As a coordinate an amplitude is the mean of its term over the rows, so that its share of the mean
            # loss needs no more. It may come down to 0, its logarithm not.
            value[:, place] = np.maximum(v[:, index], TINY)
        elif index < k:
            scale = scales[index]
            value[:, place], first[:, place] = v[:, index] / scale.value, 1.0 / scale.value
            slope[:, place], bent = scale.moves_amplitude(value[:, place], index, size, kind == "log")
            if curve is not None:
                curve[:, place] = bent
    logs = np.array([kind != "value" for kind in kinds])
    one = value[:, logs]
    first[:, logs] /= one
    bend[:, logs] = bend[:, logs] / one - first[:, logs] ** 2
    of_loss = np.log(problem.loss.mean())
    value[:, logs] = np.log(one) - np.array([of_loss if kind == "share" else 0.0 for kind in kinds])[logs]
    slope[:, each, at] = first
    if curve is not None:
        # A natural amplitude, which its scale moves alone, has none by its own coordinate.
        curve[:, each, at, at] = bend
    return value, slope, curve
