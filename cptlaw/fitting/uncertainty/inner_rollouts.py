"""Cheap rollouts inside fitted rows: what a law errs by where it is asked beyond the rows that it was fitted on.

All rollouts of a fit are descended side by side, as one problem with rows weighted 0 or 1 and started at the fit, so
that they cost about as much as one interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.fitting.checking.cuts import apart, cuts, of_whole_runs
from cptlaw.fitting.checking.distance import Direction, outside, scaled, seen
from cptlaw.fitting.rollouts import STEPS, TOLERANCE
from cptlaw.fitting.solving import newton
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array

SHARES = (0.4, 0.6, 0.8)  # of the rows that a rollout fits, as far as levels allow
SPARE = 2  # rows that a rollout fits beyond the free parameters
MOST_ROWS = 300
STARTS = 1
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

    group: Array
    direction: Array
    distance: Array
    error: Array
    names: tuple[str, ...]


def cuts_of(frame: pd.DataFrame, directions: tuple[Direction, ...]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return rollouts as pairs of a direction and a mask of the rows to fit; the others lie above."""
    result: list[tuple[str, NDArray[np.bool_]]] = []
    run = frame["run"].astype(str).to_numpy()
    for direction in directions:
        level = scaled(frame, frame, direction)
        if not np.isfinite(level).all():
            continue
        if direction.name not in WITHIN_RUNS:
            level = of_whole_runs(level, run)
        for _, fit in cuts(level, apart(level), SHARES):
            if not any(np.array_equal(fit, other) for _, other in result):
                result.append((direction.name, fit))
    return result


def inner_rollouts(fit: LawOnRows) -> InnerRollouts:
    """Roll a fitted law out inside its own rows."""
    directions = seen(fit.law, fit.data)
    names = tuple(direction.name for direction in directions)
    nothing = InnerRollouts(np.zeros(0, int), np.zeros(0, str), np.zeros((0, len(names))), np.zeros(0), names)
    # The scale of errors needs no million rows.
    rows, problem, optima = fit.problem().thinned(MOST_ROWS, fit.optima)
    frame = fit.data.iloc[rows].reset_index(drop=True)
    free = problem.size - len([name for name in problem.free if name in fit.options.restraint.priors])
    # A few rows more than parameters, or the rollout would err for want of data, not for the form of the law.
    folds = [(name, mask) for name, mask in cuts_of(frame, directions) if mask.sum() >= free + SPARE]
    if not folds:
        return nothing
    masks = np.array([mask for _, mask in folds], dtype=float)
    losses = _forecast(fit, problem, optima[:STARTS], masks)
    group, along, distance, error = [], [], [], []
    for i, (name, mask) in enumerate(folds):
        test = ~mask
        # A law that falls below zero beyond its rows is wrong there by all that a logarithm can say.
        wrong = np.log(np.maximum(losses[i, test], 1e-300)) - problem.log_loss[test]
        group += [i] * int(test.sum())
        along += [name] * int(test.sum())
        distance.append(outside(frame[mask], frame[test], directions))
        error.append(wrong)
    return InnerRollouts(np.array(group), np.array(along), np.concatenate(distance), np.concatenate(error), names)


def _forecast(fit: LawOnRows, problem: Problem, optima: Array, masks: Array) -> Array:
    """Return the loss at every row for each rollout, (rollouts, n)."""
    count, starts = len(masks), len(optima)
    goal = Objective(problem, fit.options.delta, weights=np.repeat(masks, starts, axis=0), penalty=fit.penalty(problem))
    # From the optima of the whole fit, which a fit of fewer rows is seldom far from: a new search for each rollout
    # would cost as much as the fit.
    at = np.tile(optima, (count, 1))
    solution = newton.descend(goal, at[:, : problem.k], at[:, problem.k :], STEPS, TOLERANCE)
    best = solution.total.reshape(count, starts).argmin(axis=1) + starts * np.arange(count)
    params = problem.parameters(solution.c[best], solution.z[best])
    named = {name: params[:, [i]] for i, name in enumerate(problem.law.parameters)}
    with np.errstate(over="ignore", divide="ignore"):
        losses = problem.law.evaluate(problem.law.fitted(named), problem.x)
    return np.broadcast_to(np.asarray(losses, dtype=float), (count, problem.n))
