"""The doubt about one law of an average, without its profile: its curvature at the optimum.

Every parameter of a law in an average has a prior, so that the objective is close to a parabola around its optimum, and
what a form errs by outside the data (`cptlaw.uncertainty.discrepancy`) outweighs the rest.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws.calculus import Array
from cptlaw.solving.huber import noise_variance
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.objective import Objective
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.discrepancy import discrepancy
from cptlaw.uncertainty.profile import noise

# Share of the residual variance that all CPT runs of one base model have in common: .45 to .68 on the example sets.
SHARED_ERROR = 0.55
# What an average errs by beyond its data, beside one law of which the rates were learned: chosen so that nine of ten
# held-out points lie inside, whichever study is left out (docs/bench.md). The spread between the laws comes on top.
OF_AN_AVERAGE = 0.5
FLAT = 1e-9  # of the largest curvature, below which a direction counts as this flat


def parameter_doubt(fit: Fit, frame: pd.DataFrame) -> Array:
    """Return the standard deviation of the fitted log loss at each row, (n,).

    Parameters
    ----------
    fit
        The fit.
    frame
        Rows with the law's inputs, completed.
    """
    problem = fit.problem()
    if not problem.size:
        return np.zeros(len(frame))
    k, start = problem.k, fit.optima[0]
    gradients = jacobian(problem, start[:k], start[k:], at=fit.law.bind(frame, fit.role))
    if "curvature" not in fit._cache:
        penalty = fit.penalty(problem)
        of_data, of_both = (
            Objective(problem, fit.options.delta, penalty=one).evaluate(start[None])["hessian"][0]
            for one in (None, penalty)
        )
        # Rows of one base model err together, so that the data count as fewer; what priors say stays as it is.
        fit._cache["curvature"] = of_data / _alike(rows_per_base_model(fit)) + (of_both - of_data)
    curvature = fit._cache["curvature"]
    # Coordinates differ in size by orders of magnitude; the inverse is taken of the scaled matrix.
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-300))
    values, vectors = np.linalg.eigh(curvature * scale[:, None] * scale[None, :])
    values = np.maximum(np.abs(values), FLAT * np.abs(values).max())
    moved = (gradients * scale) @ vectors
    found: Array = np.sqrt(2.0 * noise(fit).rise * np.sum(moved**2 / values, axis=1))
    return found


def _alike(rows: float) -> float:
    """Return how many rows that share a base model count as one observation (Kish's design effect)."""
    return 1.0 + (rows - 1.0) * SHARED_ERROR


def rows_per_base_model(fit: Fit) -> float:
    """Return how many fitted rows share a base model on average; a run where budgets are not known."""
    keys = [name for name in ("n_params", "ptpp") if name in fit.data.columns]
    groups = fit.data.groupby(keys, observed=True).ngroups if "ptpp" in keys else int(fit.data["run"].nunique())
    return max(1.0, fit.n_points / max(groups, 1))


def scatter(fit: Fit, coverage: float) -> float:
    """Return the half-width in log loss that the noise of one measurement has, by the residuals of adapted rows."""
    residual = fit.residuals()
    adapted = (fit.data["tokens"] > 0).to_numpy() if "tokens" in fit.data.columns else np.ones(len(residual), bool)
    freedom = max(float(adapted.sum()) - fit.rank, 1.0)
    return t_quantile(coverage, freedom) * float(np.sqrt(noise_variance(residual[adapted], freedom)))


def beyond_the_data(fit: Fit, frame: pd.DataFrame, coverage: float) -> Array:
    """Return the half-width in log loss that the law's form calls for at each row, (n,); zero inside the data."""
    found: Array = OF_AN_AVERAGE * discrepancy(fit, frame, [coverage])[0]
    return found
