"""How sure a fit is of its parameters by the curvature of its objective at the optimum.

Where every parameter has a prior the objective is close to a parabola around its optimum, and this says at once what
the profile would (`cptlaw.fitting.uncertainty.profile`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cptlaw.fitting.cached import cached
from cptlaw.fitting.solving.huber import noise_weight
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.priors import values
from cptlaw.fitting.solving.restraint import Prior, Restraint
from cptlaw.laws.calculus import Array

if TYPE_CHECKING:
    from cptlaw.fitting.solving.law_on_rows import LawOnRows

# Share of the residual variance that all CPT runs of one base model have in common: .45 to .68 on the example sets.
SHARED_ERROR = 0.55
FLAT = 1e-9  # of the largest curvature, below which a direction counts as this flat
SILENT = 1e-30  # of the largest curvature, below which nothing is said of a coordinate at all
LEAST = 1e-200  # curvature of a coordinate that nothing sees at all: its inverse must still be a number
SURE = 1e-6  # least standard deviation of a parameter, or of its logarithm
ALIKE = 0.999  # largest correlation


@cached
def covariance(fit: LawOnRows) -> Array:
    """Return the covariance of the free coordinates of a fit, (v, v), in the unit of its residuals."""
    free, options = max(fit.n_points - fit.rank, 0), fit.options
    noise = noise_weight(fit.residuals(), options.delta, free, options.restraint.noise)
    return noise * inverse_curvature(fit)


@cached
def inverse_curvature(fit: LawOnRows) -> Array:
    """Return the inverse curvature of the objective and its priors at the optimum, (v, v)."""
    problem = fit.problem()
    penalty = fit.penalty(problem)
    of_data, of_both = (
        Objective(problem, fit.options.delta, penalty=one).evaluate(fit.optima[:1]) for one in (None, penalty)
    )
    # Rows of one base model err together, so that the data count as fewer; what priors say stays as it is. In the
    # amplitude a prior of its logarithm bends down beyond e times its mean, where so few data would leave a saddle.
    of_priors = of_both["majoriser"][0] - of_data["majoriser"][0]
    curvature = of_data["hessian"][0] / _alike(rows_per_base_model(fit)) + of_priors
    silent = SILENT * float(np.abs(np.diag(curvature)).max()) + LEAST
    return inverse(curvature, silent, FLAT)


def inverse(curvature: Array, least: float, flat: float) -> Array:
    """Return the inverse of a curvature, (v, v); negative directions are mirrored, flat ones bounded.

    Parameters
    ----------
    least
        Curvature of a coordinate that is not seen at all: its inverse must still be a number.
    flat
        Of the largest curvature, below which a direction counts as this flat.
    """
    # Coordinates differ in size by orders of magnitude; the inverse is taken of the scaled matrix.
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(curvature)), least))
    values, vectors = np.linalg.eigh(curvature * scale[:, None] * scale[None, :])
    values = np.maximum(np.abs(values), flat * np.abs(values).max())
    result: Array = (vectors / values) @ vectors.T * scale[:, None] * scale[None, :]
    return result


def _alike(rows: float) -> float:
    """Return how many rows that share a base model count as one observation (Kish's design effect)."""
    return 1.0 + (rows - 1.0) * SHARED_ERROR


def rows_per_base_model(fit: LawOnRows) -> float:
    """Return how many fitted rows share a base model on average; a run where budgets are not known."""
    keys = [name for name in ("n_params", "ptpp") if name in fit.data.columns]
    groups = fit.data.groupby(keys, observed=True).ngroups if "ptpp" in keys else int(fit.data["run"].nunique())
    return max(1.0, fit.n_points / max(groups, 1))


def estimates_and_covariance(
    fit: LawOnRows, names: Sequence[str], kinds: tuple[str, ...]
) -> tuple[Array, Array, Array]:
    """Return free parameters of a fit as priors speak of them, (p,), their slopes, (p, v), and its doubt, (v, v).

    The doubt is that of the coordinates, in the unit in which the fit weighed its priors: where data say nothing of a
    parameter, its prior comes out again.
    """
    problem, at = fit.problem(), fit.optima[:1]
    places = tuple(problem.free.index(name) for name in names)
    scales = problem.scales_of(problem.columns(at[:, problem.k :]))
    natural, (slopes,), _ = values(problem, at, places, kinds, scales, 1)
    return natural[0], slopes, inverse_curvature(fit) * fit.prior_weight if fit.prior_weight else covariance(fit)


def as_priors(fit: LawOnRows, names: Sequence[str], suffix: str, given: Sequence[str] = ()) -> Restraint:
    """Return what a fit says of some of its free parameters, as correlated priors for another fit.

    Parameters
    ----------
    names
        Of its free parameters. Those that are positive count on the logarithm.
    suffix
        Of the names in the other fit.
    given
        Of its parameters, those that are taken as they were fitted: what is said holds beside them.
    """
    linear = [name in fit.law.shapes and fit.law.shapes[name].scale == "linear" for name in names]
    kinds = tuple("value" if one else "log" for one in linear)
    natural, slopes, doubt = estimates_and_covariance(fit, names, kinds)
    means = [float(np.exp(one) if kind == "log" else one) for one, kind in zip(natural, kinds, strict=True)]
    free = fit.problem().free
    held = [free.index(name) for name in given if name in free]
    if held:  # a shift that bends early is as large as one of larger B that bends late
        doubt = doubt - doubt[:, held] @ np.linalg.solve(doubt[np.ix_(held, held)], doubt[held])
    together = slopes @ doubt @ slopes.T
    # A prior needs a width, and a correlation of one no inverse: both are kept just short of it.
    spread = np.maximum(np.sqrt(np.diag(together)), SURE)
    correlation = np.clip(together / np.outer(spread, spread), -ALIKE, ALIKE)
    called = [name + suffix for name in names]
    described = zip(called, means, spread, kinds, strict=True)
    return Restraint(
        priors={name: Prior(mean, float(sd), kind) for name, mean, sd, kind in described},
        correlations={
            (called[i], called[j]): float(correlation[i, j])
            for i in range(len(names))
            for j in range(i)
            if abs(correlation[i, j]) > SURE
        },
    )
