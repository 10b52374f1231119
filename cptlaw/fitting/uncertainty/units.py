"""How much less sure a quantity is because rows err together: design effects and degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cptlaw.fitting.cached import cached
from cptlaw.fitting.solving.components import Components, base_models, components, variance_by_level
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.laws.calculus import Array

SEEN = 1e-4  # of the largest singular value, below which the rows do not see a direction


@dataclass(frozen=True, eq=False)
class _Leverage:
    """What the fitted rows say about any quantity: all of it that does not depend on the quantity.

    Parameters
    ----------
    turned
        Turns gradients into directions in the orthonormal basis of what the rows see, (coordinates, rank).
    rows
        That basis, (n, rank): rows.T @ rows is the identity, and less a run's share without it.
    by_run, by_point
        How the fit moves in that basis without a run, (runs, rank), or a point, (n, rank).
    pull
        Mean square of the clipped residuals.
    levels
        Variances by base model, run and point, where runs share base models.
    """

    turned: Array
    rows: Array
    by_run: Array
    by_point: Array
    pull: float
    levels: Components | None


@cached
def _leverage(fit: LawOnRows) -> _Leverage:
    """Return the leverage of the rows of a fit."""
    problem, start = fit.problem(), fit.optima[0]
    k = problem.k
    matrix = jacobian(problem, start[:k], start[k:])
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    rows, singular, turn = np.linalg.svd(matrix / lengths, full_matrices=False)
    seen = singular > SEEN * singular[0]
    rows = rows[:, seen]
    # psi of the Huber function: what a row really drew the fit by, so that one outlier does not make runs look
    # different.
    pulls = np.clip(fit.residuals(), -fit.options.delta, fit.options.delta)
    scores = rows * pulls[:, None]
    run = fit.blocks
    order = np.argsort(run, kind="stable")
    first = np.searchsorted(run[order], np.arange(run.max() + 1))
    # Sums by run in one pass over the sorted rows, so that many runs cost no more than few.
    shares = np.add.reduceat((rows[:, :, None] * rows[:, None, :])[order], first)
    # What only one run knows has no residual in it, and nothing to say about how runs differ.
    without = np.linalg.pinv(np.eye(int(seen.sum())) - shares, rcond=1e-6, hermitian=True)
    base = base_models(fit.data)
    return _Leverage(
        turned=turn[seen].T / lengths[:, None] / singular[seen],
        rows=rows,
        by_run=np.einsum("rij,rj->ri", without, np.add.reduceat(scores[order], first)),
        # The rise of a residual when its own point is left out: 1/(1 - leverage), as in PRESS (Allen 1974).
        by_point=scores / np.maximum(1.0 - np.sum(rows**2, axis=1), 1e-6)[:, None],
        pull=float(pulls @ pulls) / max(len(run) - rows.shape[1], 1),
        levels=None if base is None else components(pulls, rows, (("base", base), ("run", run))),
    )


def units_along(fit: LawOnRows, gradients: Array) -> tuple[Array, Array]:
    """Return design effects and degrees of freedom of the doubt about quantities, both (n,).

    An effect, at least 1, is how much more a forecast varies because points of one run err together; for loss curves
    "run" means a block of a run (`cptlaw.fitting.solving.blocks`). The variance by the jackknife over runs is divided
    by that over single points. The jackknife is taken to first order: how the forecast moves when a run is left out.
    Plain sums of residuals by run would be too small, because the law bends towards what the points of a run have in
    common, the more so the fewer the runs (MacKinnon, Nielsen and Webb 2023, on the cluster-robust estimator CV3).

    Where runs share base models, the base model is the unit of error: the variance that its offset, those of runs and
    those of points make (`solving.components`) is divided by that of independent points, and the larger of the two
    effects counts. Freedom is then Satterthwaite's over the levels, otherwise runs less one.

    Parameters
    ----------
    gradients
        Of the quantities with respect to the coordinates of the fit, (n, coordinates).
    """
    known = _leverage(fit)
    directions = gradients @ known.turned
    # Effects and freedom are ratios, free of scale; a law that breaks down at a point has slopes of 1e200 there.
    directions = directions / np.maximum(np.abs(directions).max(axis=1, initial=0.0, keepdims=True), 1e-300)
    runs, points = len(known.by_run), len(known.by_point)
    by_run = np.sum((known.by_run @ directions.T) ** 2, axis=0) * (runs - 1) / runs
    by_point = np.sum((known.by_point @ directions.T) ** 2, axis=0) * (points - 1) / points
    effects: Array = np.maximum(1.0, by_run / np.maximum(by_point, 1e-300))
    freedom = np.full(len(directions), float(max(fit.n_blocks - 1, 1)))
    if known.levels is None:
        return effects, freedom
    parts = variance_by_level(known.levels, known.rows, directions)
    total = np.maximum(parts.sum(axis=0), 1e-300)
    alone = known.pull * np.sum(directions**2, axis=1)
    by_level = total**2 / np.maximum(np.sum(parts**2 / known.levels.freedoms[:, None], axis=0), 1e-300)
    return np.maximum(effects, total / np.maximum(alone, 1e-300)), np.clip(by_level, 1.0, freedom)
