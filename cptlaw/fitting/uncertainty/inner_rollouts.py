"""Cheap rollouts inside fitted rows: what a law errs by where it is asked beyond the rows that it was fitted on.

All rollouts of a fit are descended side by side, as one problem with rows weighted 0 or 1 and started at the fit, so
that they cost about as much as one interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.fitting.cached import cached
from cptlaw.fitting.checking.cuts import apart, cuts, highest_level_of_run
from cptlaw.fitting.checking.distance import Direction, columns_along, outside, scaled, seen
from cptlaw.fitting.rollouts import SHARES, log_errors, refit_parts
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.objective import Objective
from cptlaw.laws.calculus import Array

ERRORS = "inner-errors"  # of a fit from a file: the errors that it keeps
SPARE = 2  # rows that a rollout fits beyond the free parameters
MOST_ROWS = 300
WITHIN_RUNS = ("tokens", "s1", "s1_cpt")  # directions in which a run itself goes on


@dataclass(frozen=True, eq=False)
class InnerRollouts:
    """Errors of a law beyond the rows that it was fitted on, one row per forecast.

    Attributes
    ----------
    group
        Number of the rollout, (n,).
    direction
        Name of the direction that the rollout was cut along, (n,).
    distance
        E-folds outside along each direction that the law reads, (n, directions).
    error
        Log forecast minus log loss, (n,).
    names
        Names of the directions.
    """

    group: NDArray[np.signedinteger]
    direction: NDArray[np.str_]
    distance: Array
    error: Array
    names: tuple[str, ...]


def cuts_of(frame: pd.DataFrame, directions: tuple[Direction, ...]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return rollouts as pairs of a direction and a mask of the rows to fit; the others lie above."""
    result: list[tuple[str, NDArray[np.bool_]]] = []
    run, inputs = frame["run"].astype(str).to_numpy(), columns_along(frame, directions)
    for direction in directions:
        level = scaled(inputs, inputs, direction)
        if not np.isfinite(level).all():
            continue
        if direction.name not in WITHIN_RUNS:
            level = highest_level_of_run(level, run)
        for _, fit in cuts(level, apart(level), SHARES):
            if not any(np.array_equal(fit, other) for _, other in result):
                result.append((direction.name, fit))
    return result


@cached
def inner_rollouts(fit: LawOnRows) -> InnerRollouts:
    """Roll a fitted law out inside its own rows; of a fit from a file that keeps the errors, read them."""
    directions = seen(fit.law, fit.data)
    names = tuple(direction.name for direction in directions)
    nothing = InnerRollouts(np.zeros(0, int), np.zeros(0, str), np.zeros((0, len(names))), np.zeros(0), names)
    # The scale of errors needs no million rows.
    rows, problem, optimum = fit.problem().thinned(MOST_ROWS, fit.optima[:1])
    frame = fit.data.iloc[rows].reset_index(drop=True)
    free = problem.size - len([name for name in problem.free if name in fit.options.restraint.priors])
    # A few rows more than parameters, or the rollout would err for want of data, not for the form of the law.
    folds = [(name, mask) for name, mask in cuts_of(frame, directions) if mask.sum() >= free + SPARE]
    if not folds:
        return nothing
    masks = np.array([mask for _, mask in folds])
    group, place = np.nonzero(~masks)
    error = np.asarray(fit._cache.get(ERRORS, ()), dtype=float)
    if len(error) != len(group):
        # From the optimum of the whole fit, which a fit of fewer rows is seldom far from: a new search for each rollout
        # would cost as much as the fit.
        start = np.repeat(optimum, len(masks), axis=0)
        goal = Objective(problem, fit.options.delta, weights=masks.astype(float), penalty=fit.penalty(problem))
        error = log_errors(problem, refit_parts(goal, start))[group, place]
    along = np.array([name for name, _ in folds])[group]
    inputs = columns_along(frame, directions)
    distance = np.concatenate([outside(inputs.take(mask), inputs.take(~mask), directions) for _, mask in folds])
    return InnerRollouts(group, along, distance, error, names)
