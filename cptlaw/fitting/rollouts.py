"""Rollouts that all candidates share: fit the lower levels of one direction, forecast the higher ones.

All rollouts of a fit are descended side by side, as one problem with rows weighted 0 or 1 and started at the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.fitting.checking.cuts import SAME_LEVEL, cuts, highest_level_of_run, trained
from cptlaw.fitting.checking.distance import Direction, columns_along, directions_of, outside, scaled
from cptlaw.fitting.folds import go_with
from cptlaw.fitting.solving import newton
from cptlaw.fitting.solving.objective import Objective
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.calculus import Array

if TYPE_CHECKING:
    from cptlaw.fitting.solving.law_on_rows import LawOnRows

SHARES = (0.4, 0.6, 0.8)  # of the rows that a rollout fits, as far as levels allow
LEAST_ROWS = 5
MOST_ROWS = 250  # of a fit whose rollouts are descended
# To the bottom: rollouts that stopped short ended elsewhere in another unit of the loss, which moved intervals by 2e-5,
# and the last steps, Newton's, cost nothing that can be measured.
STEPS, TOLERANCE = 100, 1e-9
WITHIN_RUNS = ("tokens", "s1")  # directions in which a run itself goes on
ALONG = ("n_params", "tokens", "tokens_per_param", "flops", "ptpp", "pretraining_tokens", "s1")
NEEDS_TWO_LEVELS = ("n_params", "ptpp")  # a law fitted at one budget says nothing about budgets
LARGEST_ERROR = math.log(2.0)  # log errors are cut off here: a forecast below zero must not outweigh all others
SAME_ERROR = 0.003  # log error below which forecasts are equally good


@dataclass(frozen=True, eq=False)
class Rollout:
    """One cut of the rows.

    Attributes
    ----------
    direction, label
        Along what, and above which level.
    fit, test
        Masks of the rows, (n,).
    reach
        Mean e-folds by which the forecast rows lie outside the fitted ones, by direction, (directions,).
    """

    direction: str
    label: str
    fit: NDArray[np.bool_]
    test: NDArray[np.bool_]
    reach: Array


def directions(frame: pd.DataFrame) -> tuple[Direction, ...]:
    """Return the directions that rows span, and in which a point may lie outside them."""
    known = [name for name in ("n_params", "tokens", "ptpp", "replay", "lr_peak", "s1") if name in frame.columns]
    return directions_of(name for name in known if frame.loc[trained(frame), name].notna().all())


def rollouts(frame: pd.DataFrame, along: tuple[Direction, ...]) -> list[Rollout]:
    """Return the back-tests within rows: along each of `ALONG`, the lower levels are fitted and the higher forecast."""
    result: list[Rollout] = []
    adapted = trained(frame)
    run, inputs = frame["run"].astype(str).to_numpy(), columns_along(frame, along)
    for direction in along:
        if direction.name not in ALONG:
            continue
        level = scaled(inputs.take(adapted), inputs, direction)
        if direction.name not in WITHIN_RUNS:
            level = highest_level_of_run(level, run)
        edges = distinct_levels(np.unique(level[adapted]))
        # A rollout that fits one level would reward the law that is blind to it.
        lowest = 1 if direction.name in NEEDS_TWO_LEVELS else 0
        for last, fit in cuts(level, edges, SHARES, adapted, lowest):
            test = ~fit & adapted
            if (fit & adapted).sum() < LEAST_ROWS or any(np.array_equal(fit, other.fit) for other in result):
                continue
            reach = outside(inputs.take(fit & adapted), inputs.take(test), along).mean(axis=0)
            label = f"{direction.words} above {np.exp(edges[last]):.3g}"
            result.append(Rollout(direction.name, label, fit, test, reach))
    return result


def distinct_levels(levels: Array) -> Array:
    """Return sorted levels without those that equal the one before up to `SAME_LEVEL`."""
    kept = [float(levels[0])]
    for level in levels.tolist():
        if level > kept[-1] + SAME_LEVEL:
            kept.append(level)
    return np.array(kept)


def rollout_errors(
    fit: LawOnRows, place: NDArray[np.int_], folds: list[Rollout], source: RepeatedFit | None = None
) -> Array:
    """Return the root mean square log error of a law in each rollout, (folds,); nan where it cannot be fitted.

    Parameters
    ----------
    fit
        The law fitted to all its rows.
    place
        Where each fitted row stands in the common rows, (n_points,).
    folds
        The rollouts, in terms of the common rows.
    source
        The fit to the source loss that gives the law some parameters, repeated on the rows that each rollout fits.
    """
    if not folds:
        return np.zeros(0)
    repeated = RepeatedFit(fit, np.array([fold.fit[place] for fold in folds]))
    usable = repeated.usable
    errors = np.full(len(folds), np.nan)
    if source is not None:
        usable = usable & source.usable
    if not usable.any():
        return errors
    taken_over = {} if source is None else fit.law.shift_of_source(source.parameters(usable))
    params = repeated.parameters(usable, taken_over)
    log_error = log_errors(repeated.problem, params)
    for i, row in zip(np.flatnonzero(usable), log_error, strict=True):
        test = folds[i].test[place][repeated.rows]
        if test.any() and np.isfinite(row[test]).all():
            errors[i] = float(np.sqrt(np.mean(np.minimum(row[test] ** 2, LARGEST_ERROR**2))))
    return errors


class RepeatedFit:
    """A fit that is repeated on parts of its rows, side by side and from where it ended on all of them.

    Parameters
    ----------
    parts
        Which rows each part has, (parts, n_points).
    """

    def __init__(self, fit: LawOnRows, parts: NDArray[np.bool_]) -> None:
        self.fit = fit
        self.rows, self.problem, self.optimum = fit.problem().thinned(MOST_ROWS, fit.optima[:1])
        self.parts = parts[:, self.rows].astype(float)
        free = self.problem.size - len([name for name in self.problem.free if name in fit.options.restraint.priors])
        self.usable = self.parts.sum(axis=1) >= max(free + 1, LEAST_ROWS)

    def parameters(self, usable: NDArray[np.bool_], taken_over: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Return the parameters by name, (usable parts,) each.

        Parameters
        ----------
        usable
            Of which parts, (parts,).
        taken_over
            Means of priors that another fit gives to each of them, on the parameters' own scale.
        """
        problem, count = self.problem, int(usable.sum())
        penalty = self.fit.penalty(problem)
        start = np.repeat(self.optimum, count, axis=0)
        if taken_over and penalty is not None:
            means = np.repeat(penalty.means[None], count, axis=0)
            for j, (index, scale) in enumerate(zip(penalty.coordinates, penalty.scales, strict=True)):
                name = problem.free[index]
                if name in taken_over:
                    means[:, j] = np.log(taken_over[name]) if scale == "log" else taken_over[name]
            penalty = replace(penalty, means=means)
        goal = Objective(problem, self.fit.options.delta, weights=self.parts[usable], penalty=penalty)
        return refit_parts(goal, start)


def refit_parts(goal: Objective, start: Array, steps: int = STEPS, tolerance: float = TOLERANCE) -> dict[str, Array]:
    """Return the parameters by name, (parts,) each, of a fit that is repeated on parts of its rows.

    All parts are descended at once, as weights of 0 and 1 on the same rows: one descent instead of one for each.
    """
    problem = goal.problem
    solution = newton.descend(goal, start[:, : problem.k], start[:, problem.k :], steps, tolerance)
    params = problem.parameters(solution.c, solution.z)
    return {name: params[:, i] for i, name in enumerate(problem.law.parameters)}


def log_errors(problem: Problem, params: Mapping[str, Array]) -> Array:
    """Return log(predicted) - log(observed) of all rows by the parameters of each part, (parts, n)."""
    named = {name: value[:, None] for name, value in params.items()}
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        losses = np.asarray(problem.law.evaluate(problem.law.fitted(named), problem.x), dtype=float)
    count = len(next(iter(params.values())))
    # A law that falls below zero beyond its rows is wrong there by all that a logarithm can say.
    values: Array = np.log(np.maximum(np.broadcast_to(losses, (count, problem.n)), 1e-300)) - problem.log_loss
    return values


def repeated_source_fit(source: LawOnRows, frame: pd.DataFrame, folds: list[Rollout]) -> RepeatedFit:
    """Return the fit to the source loss on the rows that belong to those which each rollout fits."""
    return RepeatedFit(source, go_with(source.data, frame, [fold.fit for fold in folds]))
