"""The doubt about one law of an average, without its profile: its curvature at the optimum.

Every parameter of a law in an average has a prior, so that the objective is close to a parabola around its optimum, and
what a form errs by outside the data (`cptlaw.uncertainty.discrepancy`) outweighs the rest.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.fitting.curvature import covariance
from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws.calculus import Array
from cptlaw.solving.huber import FLOOR_ROWS, noise_variance
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.discrepancy import discrepancy

# What an average errs by beyond its data, beside one law of which the rates were learned: chosen so that nine of ten
# held-out points lie inside, whichever study is left out (docs/bench.md). The spread between the laws comes on top.
OF_AN_AVERAGE = 0.5


def parameter_doubt(fit: Fit, frame: pd.DataFrame) -> Array:
    """Return the standard deviation of the fitted log loss at each row, (n,)."""
    problem = fit.problem()
    if not problem.size:
        return np.zeros(len(frame))
    k, start = problem.k, fit.optima[0]
    # The delta method: how the log loss moves with each coordinate, and how sure the fit is of all of them together.
    gradients = jacobian(problem, start[:k], start[k:], at=fit.law.bind(frame, fit.role))
    found: Array = np.sqrt(np.einsum("nv,vw,nw->n", gradients, covariance(fit), gradients))
    return found


def spread_quantile(fit: Fit, coverage: float) -> float:
    """Return the half-width of the central interval in standard deviations of the doubt about the parameters."""
    # The noise that the doubt is measured in has a floor worth some residuals, so that two runs are not one degree of
    # freedom: with one, intervals from two sizes were three times as wide as what was missed (docs/bench.md).
    return t_quantile(coverage, max(fit.n_blocks - 1, 1) + FLOOR_ROWS)


def scatter(fit: Fit, coverage: float) -> float:
    """Return the half-width in log loss that the noise of one measurement has, by the residuals of adapted rows."""
    residual = fit.residuals()
    adapted = (fit.data["tokens"] > 0).to_numpy() if "tokens" in fit.data.columns else np.ones(len(residual), bool)
    # By adapted rows: base models lie on another part of the curve, and few of them scatter little.
    freedom = max(float(adapted.sum()) - fit.rank, 1.0)
    return t_quantile(coverage, freedom) * float(np.sqrt(noise_variance(residual[adapted], freedom)))


def beyond_the_data(fit: Fit, frame: pd.DataFrame, coverage: float) -> Array:
    """Return the half-width in log loss that the law's form calls for at each row, (n,); zero inside the data."""
    found: Array = OF_AN_AVERAGE * discrepancy(fit, frame, [coverage])[0]
    return found
