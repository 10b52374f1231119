"""Batched bounded Newton descent on the stated objective, with exact second derivatives.

Minimises, for each of s problems side by side,

    F(c, z) = sum_n w_n Huber_delta(log L_n(c, z) - log y_n) + prior penalties

over amplitudes c and shapes z within bounds. The step is Newton's, damped towards the majorising reweighted
least-squares step: the Huber function has curvature 0 in its tails, so the plain Hessian alone says nothing about
outlying rows. Coordinates that press against a bound are held for the step.

Axes: s = problems (starts, or bootstrap samples), n = rows, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cptlaw.fitting.losses import huber
from cptlaw.fitting.problem import Problem
from cptlaw.laws.calculus import Array, Jet

MAX_STEP = 1.0  # longest move of a shape per step, on its search axis
BLOCK = 48_000  # numbers per temporary array: small enough to stay in the cache
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e9
CONVERGED, OUT_OF_STEPS = 0, 1


@dataclass(frozen=True)
class Penalty:
    """Quadratic penalties on free coordinates: 0.5 * weight * ((value - mean) / sd)^2 on natural values."""

    coordinates: tuple[int, ...]
    means: tuple[float, ...]
    sds: tuple[float, ...]
    weight: float


@dataclass(frozen=True)
class Descent:
    """Where each problem ended.

    Parameters
    ----------
    c, z
        Coordinates, (s, k) and (s, m).
    objective
        The data part of F, (s,).
    total
        F with penalties, (s,).
    status
        `CONVERGED` or `OUT_OF_STEPS`, (s,).
    """

    c: Array
    z: Array
    objective: Array
    total: Array
    status: Array


def descend(
    problem: Problem,
    c: Array,
    z: Array,
    delta: float,
    weights: Array | None = None,
    penalty: Penalty | None = None,
    rising: float = 0.0,
    iterations: int = 200,
    tolerance: float = 1e-13,
) -> Descent:
    """Minimise from each start.

    Parameters
    ----------
    problem
        The law bound to data.
    c, z
        Starts, (s, k) on the normalised scale and (s, m).
    delta
        Huber threshold.
    weights
        Weight of each row, (s, n); ones where absent.
    penalty
        Prior penalties.
    rising
        Weight of the penalty on losses that rise with the law's ratio at the rows (``monotone=soft``).
    iterations
        Most steps.
    tolerance
        A problem is done when the step promises less than this fraction of its objective.
    """
    v = np.clip(np.concatenate([c, z], axis=1), problem.low, problem.high)
    s = len(v)
    objective, total = np.empty(s), np.empty(s)
    status = np.full(s, OUT_OF_STEPS)
    per_block = max(1, BLOCK // max(problem.n, 1))
    for first in range(0, s, per_block):
        rows = slice(first, first + per_block)
        block = _descend_block(
            problem, v[rows], delta, None if weights is None else weights[rows], penalty, rising, iterations, tolerance
        )
        v[rows], objective[rows], total[rows], status[rows] = block
    return Descent(v[:, : problem.k], v[:, problem.k :], objective, total, status)


def _descend_block(
    problem: Problem,
    v: Array,
    delta: float,
    weights: Array | None,
    penalty: Penalty | None,
    rising: float,
    iterations: int,
    tolerance: float,
) -> tuple[Array, Array, Array, Array]:
    k = problem.k
    v = v.copy()
    state = _evaluate(problem, v, delta, weights, penalty, rising)
    damping = np.full(len(v), 1.0)
    status = np.full(len(v), OUT_OF_STEPS)
    active = np.arange(len(v))
    for _ in range(iterations):
        here, gradient = v[active], state["gradient"][active]
        held = ((here <= problem.low) & (gradient > 0)) | ((here >= problem.high) & (gradient < 0))
        step, promise = _step(state["hessian"][active], state["majoriser"][active], gradient, held, damping[active])
        reach = np.abs(step[:, k:]).max(axis=1, initial=0.0, keepdims=True)
        step = step * np.minimum(1.0, MAX_STEP / np.maximum(reach, 1e-300))
        trial_v = np.clip(here + step, problem.low, problem.high)
        trial = _evaluate(problem, trial_v, delta, None if weights is None else weights[active], penalty, rising)
        old, new = state["total"][active], trial["total"]
        # The last digits of the sum are rounding: a tie counts as progress so that the promise can decide.
        better = new <= old
        took = active[better]
        v[took] = trial_v[better]
        for key, value in trial.items():
            state[key][took] = value[better]
        floor = tolerance * old + 1e-28
        # A promise made under heavy damping means little; a promise refused at the rounding level means the end.
        done = (promise <= floor) & ((damping[active] <= 0.1) | ~better)
        done |= ~better & (damping[active] >= 1e8)
        damping[active] = np.clip(
            np.where(better, damping[active] * 0.2, damping[active] * 4.0), MIN_DAMPING, MAX_DAMPING
        )
        status[active[done]] = CONVERGED
        active = active[~done]
        if not len(active):
            break
    return v, state["objective"], state["total"], status


def _step(
    hessian: Array, majoriser: Array, gradient: Array, held: NDArray[np.bool_], damping: Array
) -> tuple[Array, Array]:
    """Return the damped Newton step within the free coordinates, and the decrease that it promises."""
    diagonal = np.einsum("svv->sv", majoriser)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-14 * diagonal.max(axis=1, keepdims=True)) + 1e-200)
    scale = np.where(held, 0.0, scale)
    # Damping is towards the majoriser, plus a share of the identity that shortens steps along flat, bent valleys.
    matrix = (hessian + damping[:, None, None] * majoriser) * scale[:, :, None] * scale[:, None, :]
    np.einsum("svv->sv", matrix)[...] += np.where(held, 1.0, 0.1 * damping[:, None])
    slope = gradient * scale
    values, vectors = np.linalg.eigh(matrix)
    along = np.einsum("svw,sv->sw", vectors, slope)
    # Negative curvature is mirrored, so that every step goes down; flat directions are barely followed.
    values = np.abs(values) + 1e-11 * (1.0 + damping[:, None])
    step = -np.einsum("svw,sw->sv", vectors, along / values) * scale
    return step, 0.5 * np.sum(along * along / values, axis=1)


def _evaluate(
    problem: Problem, v: Array, delta: float, weights: Array | None, penalty: Penalty | None, rising: float
) -> dict[str, Array]:
    """Return objective, gradient, Hessian and the majorising Gauss-Newton matrix at v (s, v)."""
    k, n, s, size = problem.k, problem.n, len(v), problem.size
    c = v[:, :k]
    offset, columns = problem.columns(v[:, k:], order=2)
    columns, scales = problem.normalised(columns)
    parts = [(column, c[:, i : i + 1]) for i, column in enumerate(columns)] + [(offset, 1.0)]
    loss = np.zeros((s, n))
    jacobian = np.zeros((s, size, n))
    for i, (part, amplitude) in enumerate(parts):
        value = part.value if isinstance(part, Jet) else part
        loss += amplitude * value
        if i < k:
            jacobian[:, i] = value
        if isinstance(part, Jet):
            for index, slope in part.slopes.items():
                jacobian[:, index] += amplitude * slope
    positive = np.maximum(loss, 1e-300)
    inverse = 1.0 / positive
    jacobian *= inverse[:, None, :]
    residual = np.log(positive) - problem.log_loss
    magnitude = np.abs(residual)
    pull = np.clip(residual, -delta, delta)  # derivative of the Huber function
    inside = (magnitude <= delta).astype(float)
    majorising = np.minimum(1.0, delta / np.maximum(magnitude, 1e-300))
    cost = huber(residual, delta)
    if weights is not None:
        pull, inside, majorising, cost = pull * weights, inside * weights, majorising * weights, cost * weights
    objective = cost.sum(axis=1)
    gradient = np.einsum("svn,sn->sv", jacobian, pull)
    transposed = jacobian.transpose(0, 2, 1)
    majoriser = (jacobian * majorising[:, None, :]) @ transposed
    hessian = (jacobian * (inside - pull)[:, None, :]) @ transposed
    # What is left of the second derivative of log L: the second derivatives of the terms.
    lever = pull * inverse
    for i, (part, amplitude) in enumerate(parts):
        if not isinstance(part, Jet):
            continue
        lifted = lever * amplitude
        if i < k:
            for index, slope in part.slopes.items():
                mixed = np.sum(lever * slope, axis=1)
                hessian[:, i, index] += mixed
                hessian[:, index, i] += mixed
        for (a, b), curve in (part.curves or {}).items():
            bend = np.sum(lifted * curve, axis=1)
            hessian[:, a, b] += bend
            if a != b:
                hessian[:, b, a] += bend
    total = objective.copy()
    if penalty is not None:
        _penalise(problem, penalty, v, scales, total, gradient, hessian, majoriser)
    if rising:
        _penalise_rising(problem, rising, v, total, gradient, hessian, majoriser)
    bad = ~np.isfinite(total)
    total[bad] = np.inf
    return {"objective": objective, "total": total, "gradient": gradient, "hessian": hessian, "majoriser": majoriser}


def _natural(problem: Problem, v: Array, index: int, scales: list[Any]) -> Jet:
    """Return the natural value of one coordinate as a Jet over all coordinates, shape (s, 1)."""
    coordinate = v[:, index : index + 1]
    if index >= problem.k:
        name = problem.shape_groups[index - problem.k][0]
        value: Jet = getattr(problem.shapes(v[:, problem.k :], order=2), name)
        return value
    amplitude = Jet(coordinate, {index: np.ones_like(coordinate)}, {})
    natural: Jet = amplitude / scales[index]
    return natural


def _penalise(
    problem: Problem,
    penalty: Penalty,
    v: Array,
    scales: list[Any],
    total: Array,
    gradient: Array,
    hessian: Array,
    majoriser: Array,
) -> None:
    """Add the prior penalties to the total, gradient and matrices, in place."""
    for index, mean, sd in zip(penalty.coordinates, penalty.means, penalty.sds, strict=True):
        distance = (_natural(problem, v, index, scales) - mean) * (1.0 / sd)
        square = distance * distance * (0.5 * penalty.weight)
        total += np.ravel(square.value)
        for i, slope in square.slopes.items():
            gradient[:, i] += np.ravel(slope)
        for (i, j), curve in (square.curves or {}).items():
            bend = np.broadcast_to(np.ravel(curve), len(v))
            hessian[:, i, j] += bend
            if i != j:
                hessian[:, j, i] += bend
        for i, slope_i in distance.slopes.items():
            for j, slope_j in distance.slopes.items():
                majoriser[:, i, j] += penalty.weight * np.broadcast_to(np.ravel(slope_i * slope_j), len(v))


def _penalise_rising(
    problem: Problem, rising: float, v: Array, total: Array, gradient: Array, hessian: Array, majoriser: Array
) -> None:
    """Penalise slopes dL/dr > 0 at the rows, relative to the observed loss, in place (Gauss-Newton curvature)."""
    k = problem.k
    step = 1e-4
    rates = []
    for sign in (1.0, -1.0):
        moved = problem.at_ratio(sign * step)
        offset, columns = moved.columns(v[:, k:], order=1)
        _, scales = problem.normalised(problem.columns(v[:, k:], order=1)[1])
        amount: Any = offset
        for i, column in enumerate(columns):
            amplitude = Jet(v[:, i : i + 1], {i: np.ones((len(v), 1))}, None) / scales[i]
            amount = amount + amplitude * column
        rates.append(amount)
    rate = (rates[0] - rates[1]) * (1.0 / (2.0 * step)) * (1.0 / problem.loss)
    up = np.maximum(rate.value, 0.0)
    total += 0.5 * rising * np.sum(up * up, axis=1)
    on = (rate.value > 0).astype(float)
    slopes = {i: np.broadcast_to(slope, up.shape) for i, slope in rate.slopes.items()}
    for i, slope_i in slopes.items():
        gradient[:, i] += rising * np.sum(up * slope_i, axis=1)
        for j, slope_j in slopes.items():
            bend = rising * np.sum(on * slope_i * slope_j, axis=1)
            hessian[:, i, j] += bend
            majoriser[:, i, j] += bend
