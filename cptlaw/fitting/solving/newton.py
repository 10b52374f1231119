"""Batched bounded descent on the stated objective: reweighted least squares first, then exact Newton steps.

Reweighted least squares need first derivatives alone and come near in as many steps; Newton's steps end where they
crawl. Those are damped towards the majorising least-squares step: the Huber function has curvature 0 in its tails, so
the plain Hessian alone says nothing about outlying rows. Coordinates that press against a bound are held for the step.

Axes: s = problems side by side, v = coordinates (c, then z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cptlaw.fitting.solving.objective import Objective
from cptlaw.laws.calculus import Array
from cptlaw.progress import track

MAX_STEP = 1.0  # longest move of a shape per step, on its search axis
BLOCK = 48_000  # numbers per temporary array: small enough to stay in the cache
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e9
NEAR = 1e-3  # of the objective: what a start that is near promises
CRAWLS = 0.1  # of the last promise: where least squares promise more than this again when near, Newton takes over
LEAST_SQUARES = 30  # steps of theirs at most
FAR_CUT = 10.0  # times the longest move: from here least squares crawl
SEVERAL = 10  # steps: more than what is left from where steps promise less and less
NEAR_DAMPING = 1e-2
CONVERGED, OUT_OF_STEPS, ABOVE = 0, 1, 2
# Taken and given back once: from then on the C library keeps what it was given of up to this size, where it would have
# the system clear the same pages again for the arrays of each step, at up to half the cost of a fit.
np.empty(31 * 2**20 // 8)


@dataclass(frozen=True, eq=False)
class Descent:
    """Where each problem ended.

    Parameters
    ----------
    c, z
        Coordinates, (s, k) and (s, m).
    objective
        The data part of the objective, (s,).
    total
        The objective with penalties, (s,).
    status
        `CONVERGED`, `OUT_OF_STEPS`, or `ABOVE` the most that is of interest, (s,).
    """

    c: Array
    z: Array
    objective: Array
    total: Array
    status: NDArray[np.int_]


# A trial step may overflow on its way; its objective is then infinite and the step is refused.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def descend(
    goal: Objective,
    c: Array,
    z: Array,
    iterations: int = 200,
    tolerance: float | Array = 1e-13,
    most: float | Array = np.inf,
) -> Descent:
    """Minimise from each start.

    Parameters
    ----------
    c, z
        Starts, (s, k) in mean sizes of their columns and (s, m).
    iterations
        Most steps.
    tolerance
        A problem is done when the step promises less than this fraction of its objective; one for all, or (s,).
    most
        A problem is done as well where several steps such as its last would leave it above this without the wanted
        forecast; one for all, or (s,).
    """
    problem, tolerances = goal.problem, np.broadcast_to(tolerance, len(c))
    limits = np.broadcast_to(most, len(c))
    v = np.clip(np.concatenate([c, z], axis=1), problem.low, problem.high)
    s = len(v)
    objective, total, status = np.empty(s), np.empty(s), np.full(s, OUT_OF_STEPS)
    per_block = max(1, BLOCK // max(problem.n, 1))
    # Order of derivatives, most steps, first damping.
    passes = [(1, min(LEAST_SQUARES, iterations), 1.0), (2, iterations, NEAR_DAMPING)]
    for first in track(range(0, s, per_block), "fitting"):
        rows = np.arange(first, min(first + per_block, s))
        for order, steps, damping in passes:
            v[rows], objective[rows], total[rows], status[rows] = _descend_block(
                goal.take(rows), v[rows], order, steps, (tolerances[rows], limits[rows]), damping
            )
            rows = rows[status[rows] == OUT_OF_STEPS]
            if not len(rows):
                break
    return Descent(v[:, : problem.k], v[:, problem.k :], objective, total, status)


def _descend_block(
    goal: Objective, v: Array, order: int, iterations: int, ends: tuple[Array, Array], first_damping: float
) -> tuple[Array, Array, Array, NDArray[np.int_]]:
    problem, k, (tolerance, most) = goal.problem, goal.problem.k, ends
    v = v.copy()
    state = goal.evaluate(v, order)
    damping = np.full(len(v), first_damping)
    status, last = np.full(len(v), OUT_OF_STEPS), np.full(len(v), np.inf)
    active = np.arange(len(v))
    for _ in range(iterations):
        here, gradient = v[active], state["gradient"][active]
        # Held for this step only: the gradient is asked again at the next one, and a bound lets go as it took hold.
        held = ((here <= problem.low) & (gradient > 0)) | ((here >= problem.high) & (gradient < 0))
        step, promise = _step(state["hessian"][active], state["majoriser"][active], gradient, held, damping[active])
        # Shapes alone are limited: the loss is linear in amplitudes, so that the model of the step holds for them at
        # any length.
        reach = np.abs(step[:, k:]).max(axis=1, initial=0.0, keepdims=True)
        step = step * np.minimum(1.0, MAX_STEP / np.maximum(reach, 1e-300))
        trial_v = np.clip(here + step, problem.low, problem.high)
        trial = goal.take(active).evaluate(trial_v, order)
        old, new, new_unforced = state["total"][active], trial["total"], trial["unforced"]
        # The last digits of the sum are rounding: a tie counts as progress so that the promise can decide.
        better = new <= old
        took = active[better]
        v[took] = trial_v[better]
        for key, value in trial.items():
            state[key][took] = value[better]
        floor = tolerance[active] * old + 1e-28
        # A promise made under heavy damping means little; a promise refused at the rounding level means the end.
        done = (promise <= floor) & ((damping[active] <= 0.1) | ~better)
        done |= ~better & (damping[active] >= 1e8)
        # A heavily damped step promises too little.
        above = ~done & better & (damping[active] <= 1.0) & (new_unforced - SEVERAL * promise > most[active])
        # Of seven settings tried on the pilot and on synthetic D-CPT data all reached the same optima; these factors
        # left the fewest starts without convergence.
        damping[active] = np.clip(
            np.where(better, damping[active] * 0.2, damping[active] * 4.0), MIN_DAMPING, MAX_DAMPING
        )
        status[active[done]], status[active[above]] = CONVERGED, ABOVE
        done |= above
        if order == 1:
            done |= (reach[:, 0] > FAR_CUT) & (damping[active] <= 0.1) & np.isfinite(most[active])
            done |= better & (damping[active] <= 0.1) & (promise <= NEAR * old) & (promise > CRAWLS * last[active])
        last[active] = promise
        active = active[~done]
        if not len(active):
            break
    return v, state["objective"], state["total"], status


def _step(
    hessian: Array, majoriser: Array, gradient: Array, held: NDArray[np.bool_], damping: Array
) -> tuple[Array, Array]:
    """Return the damped Newton step within the free coordinates, and the decrease that it promises."""
    # Coordinates are measured by the majoriser, so that damping means the same for amplitudes and exponents.
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
