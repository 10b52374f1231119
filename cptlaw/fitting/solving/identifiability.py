"""What the data can tell apart: the Jacobian of log losses, its rank, and the directions that it does not see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cptlaw.fitting.solving.columns import Scale
from cptlaw.fitting.solving.loss_at import LossAt
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array, Letters

# Columns are scaled to length one; below this share of the largest singular value a direction is noise-free silence.
RANK_TOLERANCE = 1e-9
BLOCK = 48_000  # numbers per temporary array


def jacobian(
    problem: Problem,
    c: Array,
    z: Array,
    at: Letters | None = None,
    scales: list[Scale] | None = None,
) -> Array:
    """Return d log L / d(c, z) at one coordinate vector, shape (n, free parameters).

    Rows are those of the problem or, with `at`, other inputs; the coordinates stay those of the problem. `scales` are
    those of the fitted rows, where they are known already.
    """
    # Amplitudes are scaled by the rows that were fitted, also where slopes are asked for elsewhere: one set of
    # coordinates.
    v = np.concatenate([np.ravel(c), np.ravel(z)])[None]
    if at is not None and scales is None:
        scales = problem.scales_of(problem.columns(v[:, problem.k :]))
    here = LossAt.of(problem if at is None else problem.moved_to(at), v, 1, scales)
    slopes: Array = here.slopes[0].T / np.maximum(here.value[0], 1e-300)[:, None]
    return slopes


def rank(matrix: Array) -> int:
    """Return the numerical rank of a Jacobian, independent of the units of its columns."""
    matrix, heights = _finite(matrix)
    # A column that is zero next to the largest one belongs to a parameter without any effect.
    live = heights > 1e-14 * heights.max(initial=0.0)
    if not live.any():
        return 0
    # Columns of length one: the rank must not depend on whether tokens are counted in ones or in billions.
    scaled = matrix[:, live] / heights[live]
    # Exact degeneracies of the laws show at 1e-16, the weakest directions that published designs identify at 1e-5.
    singular = np.linalg.svd(scaled / np.linalg.norm(scaled, axis=0), compute_uv=False)
    return int(np.sum(singular > RANK_TOLERANCE * singular[0]))


def null_directions(matrix: Array, names: Sequence[str]) -> list[dict[str, float]]:
    """Return the directions that leave every loss unchanged, as shares by parameter name, largest first."""
    matrix, heights = _finite(matrix)
    silent = heights <= 1e-14 * max(float(heights.max(initial=0.0)), 1e-300)
    result: list[dict[str, float]] = [{name: 1.0} for name, dead in zip(names, silent, strict=True) if dead]
    live = [name for name, dead in zip(names, silent, strict=True) if not dead]
    if live:
        scaled = matrix[:, ~silent] / heights[~silent]
        scaled = scaled / np.linalg.norm(scaled, axis=0)
        # All directions, and no more of the rows than there are of these: with 30,000 of them all took 7 GB.
        _, singular, rows = np.linalg.svd(scaled, full_matrices=len(scaled) < len(live))
        singular = np.concatenate([singular, np.zeros(len(live) - len(singular))])
        for value, row in zip(singular, rows, strict=True):
            if value <= RANK_TOLERANCE * singular[0]:
                # A tenth is what a reader can use: smaller shares are the rounding of a direction that has no sharp
                # edge.
                shares = {name: float(share) for name, share in zip(live, row, strict=True) if abs(share) > 0.1}
                result.append(dict(sorted(shares.items(), key=lambda item: -abs(item[1]))))
    return result


def _finite(matrix: Array) -> tuple[Array, Array]:
    """Return a Jacobian whose slopes beyond all bounds count as none, and the largest one of each column."""
    finite = np.where(np.isfinite(matrix), matrix, 0.0)
    # Not the length: squares of very large or small slopes would leave the range of numbers.
    return finite, np.abs(finite).max(axis=0, initial=0.0)


def best_rank(problem: Problem, draws: int = 24, seed: int = 0) -> int:
    """Return the highest rank over plausible parameters, which no fit to these rows can exceed.

    Shapes are drawn from the start ranges; amplitudes let every term carry the same share of the loss.
    """
    z = problem.starts(draws, np.random.default_rng(seed))
    # A law that is identified anywhere is so almost everywhere, so that a few plausible places do.
    amplitudes = np.full(problem.k, float(np.mean(problem.loss)) / max(problem.k, 1))
    v = np.concatenate([np.tile(amplitudes, (draws, 1)), z], axis=1)
    best, side_by_side = 0, max(BLOCK // problem.n, 1)
    # Mostly the first reaches all of them.
    for some in (v[:1], *(v[i : i + side_by_side] for i in range(1, draws, side_by_side))):
        for slopes in LossAt.of(problem, some, 1).slopes:
            # Per observed loss: with terms of both signs, losses at arbitrary amplitudes may be near zero.
            best = max(best, rank(slopes.T / problem.loss[:, None]))
        if best == problem.size:
            break
    return best
