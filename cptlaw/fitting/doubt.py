"""The doubt about one law of an average, without its profile: its curvature at the optimum.

Every parameter of a law in an average has a prior, so that the objective is close to a parabola around its optimum, and
what a form errs by outside the data (`cptlaw.fitting.uncertainty.discrepancy`) outweighs the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import special

from cptlaw.fitting.asked_rows import known_at
from cptlaw.fitting.cached import Cache, cached, cached_in
from cptlaw.fitting.curvature import covariance
from cptlaw.fitting.solving import columns
from cptlaw.fitting.solving.huber import FLOOR_ROWS
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.fitting.uncertainty.discrepancy import Scale, distances, half_widths_at, unvaried
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows, Columns

# What an average errs by beyond its data, beside one law of which the rates were learned: chosen so that nine of ten
# held-out points lie inside, whichever study is left out (studies/bench.md). The spread between the laws comes on top.
# Less where a law reads base models together with the runs of CPT: by the interval score of whole studies and of our
# tables, where 97 % had lain inside. On ladders from scratch so little held .82 of a split that a half holds whole.
AVERAGE_FORM_SHARE = {False: 0.5, True: 0.35}  # by `Law.reads_base_rows`
OF_PARAMETERS = 0.8  # of the doubt about parameters, which takes the forms for true; chosen in the same way
LEAST_WEIGHT = 0.01  # of a law at a point, below which its doubt is not computed
OF_WEIGHT = 0.2  # of a law, from which the average is far out no surer than the law by itself
FAR_FROM, FAR_TO = math.log(2.0), math.log(4.0)  # e-folds outside the data between which this sets in
Centres = tuple[Array, Array, list[AnyRows | None]]


def half_widths(
    fits: Sequence[LawOnRows],
    centres: Centres,
    coverage: float,
    *,
    far: Array,
    kept: Cache,
) -> tuple[Array, Array, Array]:
    """Return half-widths in log loss of an average, (n,) each: of the forms, the parameters and the distance.

    Far out it is never surer than one of its laws of weight is by itself: the difference is doubt about the distance.

    Parameters
    ----------
    fits
        The laws.
    centres
        Weights and log losses of the laws at each row, (n, laws) each, and the rows as each law reads them.
    coverage
        Of the central interval.
    far
        From 0 near the data to 1 far outside them, (n,).
    kept
        What was computed of these rows at another coverage.
    """
    share, centre, readable = centres
    mean = np.sum(share * centre, axis=1)
    # How far the laws lie apart is a standard deviation; scaled to the coverage it adds to the others in quadrature.
    normal = float(special.ndtri(0.5 + 0.5 * coverage))
    forms = normal**2 * np.sum(share * (centre - mean[:, None]) ** 2, axis=1)
    parameters, distance, own = (np.zeros(len(share)) for _ in range(3))
    for j, (fit, rows) in enumerate(zip(fits, readable, strict=True)):
        counted = np.flatnonzero(share[:, j] >= LEAST_WEIGHT)
        if rows is None or not len(counted):
            continue
        part, weight = rows.take(counted), share[counted, j]
        spread = cached_in(kept, ("spread", j), partial(parameter_doubt, fit, part))
        away = cached_in(kept, ("away", j), partial(away_from_data, fit, part))
        of_parameters = (OF_PARAMETERS * spread_quantile(fit, coverage) * spread) ** 2
        of_distance = beyond_the_data(fit, away, coverage) ** 2
        parameters[counted] += weight * of_parameters
        distance[counted] += weight * of_distance
        own[counted] = np.maximum(own[counted], np.where(weight >= OF_WEIGHT, of_parameters + of_distance, 0.0))
    used = np.maximum(np.sum(np.where(share >= LEAST_WEIGHT, share, 0.0), axis=1), 1e-12)
    parameters, distance = parameters / used, distance / used
    distance = distance + far * np.maximum(own - forms - parameters - distance, 0.0)
    return np.sqrt(forms), np.sqrt(parameters), np.sqrt(distance)


def parameter_doubt(fit: LawOnRows, frame: AnyRows) -> Array:
    """Return the standard deviation of the fitted log loss at each row, (n,)."""
    gradients = slopes_at(fit, frame)
    if not gradients.size:
        return np.zeros(len(frame))
    # The delta method: how the log loss moves with each coordinate, and how sure the fit is of all of them together.
    values: Array = np.sqrt(np.einsum("nv,vw,nw->n", gradients, covariance(fit), gradients))
    return values


def slopes_at(fit: LawOnRows, frame: AnyRows) -> Array:
    """Return how the log loss at each row moves with the free coordinates of the fit, (n, v)."""
    problem, scales = _at_optimum(fit)
    if not problem.size:
        return np.zeros((len(frame), 0))
    start, k = fit.optima[0], problem.k

    def slopes() -> Array:
        at = fit.law.bind(fit.law.as_taken(frame), fit.role)
        return jacobian(problem, start[:k], start[k:], at=at, scales=scales)

    return cached_in(known_at(fit, Columns.of(frame)), "slopes", slopes)


@cached
def _at_optimum(fit: LawOnRows) -> tuple[Problem, list[columns.Scale]]:
    """Return the law on the fitted rows, and the scales of its columns there."""
    problem = fit.problem()
    return problem, problem.scales_of(problem.columns(fit.optima[:1, problem.k :])) if problem.size else []


def spread_quantile(fit: LawOnRows, coverage: float) -> float:
    """Return the half-width of the central interval in standard deviations of the doubt about the parameters."""
    # The noise that the doubt is measured in has a floor worth some residuals, so that two runs are not one degree of
    # freedom: with one, intervals from two sizes were three times as wide as what was missed (studies/bench.md).
    return t_quantile(coverage, max(fit.n_blocks - 1, 1) + FLOOR_ROWS)


def away_from_data(fit: LawOnRows, frame: AnyRows) -> tuple[tuple[Array, Array], Array]:
    """Return how far rows lie from the fitted ones, and what inputs at one level move there: see `beyond_the_data`."""
    return distances(fit, frame), unvaried(fit, frame)


def beyond_the_data(fit: LawOnRows, away: tuple[tuple[Array, Array], Array], coverage: float) -> Array:
    """Return the half-width in log loss that the law's form calls for so far from the data, (n,); zero inside."""
    reach, moved = away
    of_form = AVERAGE_FORM_SHARE[fit.law.reads_base_rows] * half_widths_at(fit, reach, [coverage])[0]
    of_held = special.stdtrit(Scale.learned().freedom, 0.5 + 0.5 * coverage) * moved
    return np.asarray(np.hypot(of_form, of_held))
