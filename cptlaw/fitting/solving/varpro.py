"""Batched variable projection: a global search over the shape parameters alone.

For given shapes the amplitudes solve a small non-negative least-squares problem, so the search runs over two to seven
coordinates instead of five to twelve, from many starts at once. The residual is the relative error, which the
stated objective (Huber of the log residual) agrees with to first order; `newton` then polishes on the objective itself.

Axes: s = starts, n = rows, k = amplitudes, m = shapes. Source: Golub and Pereyra 1973, with the approximate Jacobian of
Kaufman 1975 and Levenberg-Marquardt damping.
"""

from __future__ import annotations

import numpy as np

from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array

RIDGE = 1e-12  # keeps nearly parallel columns solvable; the polish removes its trace
MAX_STEP = 1.0  # on the search axes: a factor e for exponents


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # wild starts lose by their cost
def search(problem: Problem, z: Array, iterations: int = 60, tolerance: float = 1e-7) -> tuple[Array, Array, Array]:
    """Minimise the sum of squared relative residuals from each start.

    Parameters
    ----------
    problem
        The law bound to data.
    z
        Starting shapes on the search axes, (s, m).
    iterations
        Most steps per start.
    tolerance
        A start is done when a step lowers its cost by less than this fraction.

    Returns
    -------
    c
        Amplitudes in mean sizes of their columns, (s, k).
    z
        Shapes, (s, m).
    cost
        Half the sum of squared relative residuals, (s,).
    """
    s = len(z)
    z = z.copy()
    state = _evaluate(problem, z)
    damping = np.full(s, 1e-2)
    active = np.arange(s)
    for _ in range(iterations if problem.m else 0):
        normal = state["normal"][active]
        diagonal = np.einsum("smm->sm", normal)
        damped = normal.copy()
        np.einsum("smm->sm", damped)[...] += (
            # The two small terms keep the system regular where no row sees a shape, as zeta where lambda is zero.
            damping[active, None] * diagonal + 1e-300 + 1e-14 * diagonal.max(1, keepdims=True)
        )
        gradient = state["gradient"][active]
        at_bound = ((z[active] <= problem.z_low) & (gradient > 0)) | ((z[active] >= problem.z_high) & (gradient < 0))
        # A shape that presses against its bound leaves the system: it would spend the step of the others on a move that
        # is clipped away afterwards.
        damped[at_bound[:, :, None] | at_bound[:, None, :]] = 0.0
        np.einsum("smm->sm", damped)[at_bound] = 1.0
        step = -np.linalg.solve(damped, np.where(at_bound, 0.0, gradient)[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, MAX_STEP / np.maximum(longest, 1e-300))
        trial_z = np.clip(z[active] + step, problem.z_low, problem.z_high)
        trial = _evaluate(problem, trial_z)
        old, new = state["cost"][active], trial["cost"]
        better = new < old
        took = active[better]
        z[took] = trial_z[better]
        for key, value in trial.items():
            state[key][took] = value[better]
        # The search only has to come near: its factors are coarser than those of the polish, and a start that needs
        # heavy damping is given up below.
        damping[active] = np.clip(np.where(better, damping[active] * 0.2, damping[active] * 5.0), 1e-9, 1e9)
        done = (better & (old - new <= tolerance * old)) | (~better & (damping[active] > 1e5))
        active = active[~done]
        if not len(active):
            break
    return state["c"], z, state["cost"]


def _evaluate(problem: Problem, z: Array) -> dict[str, Array]:
    """Solve for the amplitudes at z and return cost, gradient and Gauss-Newton matrix over the shapes."""
    s, n, k, m = len(z), problem.n, problem.k, problem.m
    weight = 1.0 / problem.loss
    *columns, offset = problem.columns(z)
    scales = problem.scales_of(columns)
    divided = np.empty((s, k, n))
    for i, (one, scale) in enumerate(zip(columns, scales, strict=True)):
        one.divided(scale, divided[:, i])
    column = divided * weight
    # Relative errors: divided by the observed loss, a residual is that of the log loss to first order.
    target = 1.0 - offset.value * weight
    c = _non_negative(column, target, problem.c_low, problem.c_high)
    residual = np.einsum("sk,skn->sn", c, column) - target
    slope = np.zeros((s, m, n))
    slope[:, offset.slopes - k] = offset.moves
    for i, (one, scale) in enumerate(zip(columns, scales, strict=True)):
        if len(one.slopes):
            slope[:, one.slopes - k] += c[:, i, None, None] * one.slopes_divided(scale, divided[:, i])
    slope *= weight
    gradient = np.einsum("smn,sn->sm", slope, residual)
    normal = slope @ slope.transpose(0, 2, 1)
    # Kaufman's approximation: what the amplitudes would take up of a step is projected out of the normal matrix.
    if k:
        # Amplitudes at an end of their range take up nothing; a one on their diagonal keeps the system regular.
        free = (c > problem.c_low) & (c < problem.c_high)
        column = column * free[:, :, None]
        gram = column @ column.transpose(0, 2, 1)
        np.einsum("skk->sk", gram)[...] += RIDGE * np.einsum("skk->sk", gram).max(1, keepdims=True) + ~free
        cross = column @ slope.transpose(0, 2, 1)
        normal = normal - cross.transpose(0, 2, 1) @ np.linalg.solve(gram, cross)
    cost = 0.5 * np.einsum("sn,sn->s", residual, residual)
    return {"c": c, "cost": np.where(np.isfinite(cost), cost, np.inf), "gradient": gradient, "normal": normal}


def _non_negative(column: Array, target: Array, low: Array, high: Array) -> Array:
    """Solve least squares for each start with amplitudes within bounds, by backward elimination.

    Amplitudes that leave their range are set to its end, the worst one first, and the rest is solved again. This is
    the exact answer unless an eliminated amplitude would come back, which the polish allows.
    """
    s, k, _ = column.shape
    if not k:
        return np.zeros((s, 0))
    # Normal equations, not QR: columns are few and of one size, and the polish has the last word.
    gram = column @ column.transpose(0, 2, 1)
    right = np.einsum("skn,sn->sk", column, target)
    largest = np.einsum("skk->sk", gram).max(axis=1)
    held = np.zeros((s, k), dtype=bool)
    c = np.zeros((s, k))
    todo = np.arange(s)
    for _ in range(k + 1):
        hold, value = held[todo], c[todo]
        matrix = gram[todo].copy()
        rhs = right[todo] - np.einsum("sij,sj->si", gram[todo], np.where(hold, value, 0.0))
        matrix[hold[:, :, None] | hold[:, None, :]] = 0.0
        diagonal = np.einsum("skk->sk", matrix)
        diagonal[...] += RIDGE * largest[todo, None] + 1e-300
        diagonal[hold] = 1.0
        value = np.where(hold, value, np.linalg.solve(matrix, np.where(hold, 0.0, rhs)[:, :, None])[:, :, 0])
        excess = np.where(hold, 0.0, np.maximum(low - value, value - high))
        worst = excess.argmax(axis=1)
        bad = excess[np.arange(len(todo)), worst] > 0
        end = np.clip(value[np.arange(len(todo)), worst], low[worst], high[worst])
        c[todo] = value
        c[todo[bad], worst[bad]] = end[bad]
        held[todo[bad], worst[bad]] = True
        todo = todo[bad]
        if not len(todo):
            break
    return np.clip(c, low, high)
