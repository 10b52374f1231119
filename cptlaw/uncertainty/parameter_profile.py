"""Profile of the objective along each parameter: every value that the data cannot tell from the fitted one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.laws.calculus import Array, Jet
from cptlaw.solving import newton
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.law_on_rows import LawOnRows
from cptlaw.solving.objective import Objective, penalty_of
from cptlaw.solving.problem import Problem
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.profile import noise
from cptlaw.uncertainty.units import design_effects_along
from cptlaw.units import parse_probability

MIN_RUNS = 3
FACTORS = (
    1.02,
    1.1,
    1.3,
    1.7,
    2.5,
    5.0,
    10.0,
)  # away from the fitted value; what the data allows beyond is not bounded
HALVINGS = 5  # of the logarithmic gap between the last value allowed and the first one refused
STEPS, MORE_STEPS, TOLERANCE = 60, 400, 1e-6
STARTS = 4  # places met before from which each descent sets out: those with the nearest values
PASSES = 2
SMALL = 0.01  # share of the loss from which an amplitude at 0 is moved away
OVERTAKEN = 0.02  # share of an end by which another profile has passed it
BOUNDED, OPEN, AT_BOUND = "bounded", "open", "at bound"


def parameter_intervals(fit: LawOnRows, interval: float = 0.9) -> pd.DataFrame:
    """Return the range of each free parameter that the data allows.

    Each parameter is held at values away from the fitted one while all others adapt; the range holds those values at
    which the objective rises by no more than for the intervals of forecasts.

    Returns
    -------
    DataFrame
        One row per free parameter: ``parameter``, ``value``, ``lo``, ``hi``, and for each end ``lo_status`` and
        ``hi_status``: ``"bounded"``, ``"open"`` where the data allows a factor of 10 and more (the end is then
        missing), or ``"at bound"`` where the range of the parameter itself ends first.

    Raises
    ------
    UsageError
        If there are too few runs, or `interval` is no probability.
    """
    if fit.n_runs < MIN_RUNS:
        raise UsageError(f"{fit.n_runs} runs cannot say how runs differ; intervals need at least {MIN_RUNS}.")
    interval = parse_probability(interval, "interval")
    problem = fit.problem()
    scale = noise(fit).rise * t_quantile(interval, max(fit.n_runs - 1, 1)) ** 2
    effects = design_effects_along(fit, problem, _gradients(fit, problem))
    priors = penalty_of(problem, fit.optima[:1], fit.penalty(problem))
    limits = fit.objective + priors[0] + scale * effects
    profiles = [
        _Profile(fit, problem, name, float(limit))
        for name, limit in zip(problem.free, limits, strict=True)
        if name not in fit.law.derived
    ]
    pool = problem.parameters(fit.optima[:, : problem.k], fit.optima[:, problem.k :])
    ends: dict[tuple[str, int], tuple[float, str]] = {}
    # A valley may fold back over a parameter, and only the profile of another one passes the fold: what any met is
    # where the others start from, and those that it overtakes set out again.
    for _ in range(PASSES):
        for one in profiles:
            for side in (-1, 1):
                if not one.overtaken(pool, side, ends.get((one.name, side))):
                    continue
                ends[one.name, side], met = one.end(side, pool)
                pool = np.concatenate([pool, met])
    return pd.DataFrame(
        {
            "parameter": [one.name for one in profiles],
            "value": [one.value for one in profiles],
            "lo": [ends[one.name, -1][0] for one in profiles],
            "hi": [ends[one.name, 1][0] for one in profiles],
            "lo_status": [ends[one.name, -1][1] for one in profiles],
            "hi_status": [ends[one.name, 1][1] for one in profiles],
        }
    )


class _Profile:
    """The least objective with one parameter held, from places that other profiles have met.

    Places are vectors of the law's parameters, (p, parameters).
    """

    def __init__(self, fit: LawOnRows, problem: Problem, name: str, limit: float) -> None:
        self.fit, self.problem, self.name, self.limit = fit, problem, name, limit
        self.value = fit.params[name]
        self.column = fit.law.parameters.index(name)
        position = problem.free.index(name)
        self.size = abs(self.value) or self._size_of_zero(position)
        if position < problem.k:
            self.range = fit.options.restraint.range(fit.law, problem.amplitude_groups[position])
        else:
            axis = fit.law.shapes[name]
            self.range = (
                float(axis.from_axis(problem.low[position])),
                float(axis.from_axis(problem.high[position])),
            )

    def _size_of_zero(self, position: int) -> float:
        """Return the amplitude whose term would carry a small share of the loss; 1 for a shape."""
        if position >= self.problem.k:
            return 1.0
        c, z = np.zeros((1, self.problem.k)), self.fit.optima[[0], self.problem.k :]
        c[0, position] = SMALL * float(np.mean(self.problem.loss))
        return float(self.problem.parameters(c, z)[0, self.column]) or 1.0

    def overtaken(self, pool: Array, side: int, known: tuple[float, str] | None) -> bool:
        """Say whether another profile has met values beyond this end, or there is no end yet."""
        if known is None:
            return True
        end, status = known
        return status == BOUNDED and bool(np.any(side * (pool[:, self.column] - end) > OVERTAKEN * abs(end)))

    def end(self, side: int, pool: Array) -> tuple[tuple[float, str], Array]:
        """Return one end of the range, what kind of end it is, and the places met on the way."""
        met = [pool[:0]]
        inside = self.value
        bound = self.range[1] if side > 0 else self.range[0]
        for factor in FACTORS:
            # Away from the value by a factor; a parameter of either sign, or at 0, by as many times its size.
            step = (factor - 1) * self.size
            asked = self.value * factor**side if self.value > 0 else self.value + side * step
            stop = side * (asked - bound) >= 0
            asked = bound if stop else asked
            rises, found = self._least(asked, np.concatenate([pool, *met]))
            if rises:
                # A later value may be reached around a fold; the nearest one refused closes the range otherwise.
                if self._known_beyond(np.concatenate([pool, *met]), side, asked):
                    continue
                return (self._halve(inside, asked, np.concatenate([pool, *met])), BOUNDED), np.concatenate(met)
            met.append(found)
            inside = asked
            if stop:
                return (float(bound), AT_BOUND), np.concatenate(met)
        return (float("nan"), OPEN), np.concatenate(met)

    def _known_beyond(self, pool: Array, side: int, asked: float) -> bool:
        return bool(np.any(side * (pool[:, self.column] - asked) > 0))

    def _halve(self, inside: float, outside: float, pool: Array) -> float:
        for _ in range(HALVINGS):
            middle = float(np.sqrt(inside * outside)) if inside > 0 and outside > 0 else 0.5 * (inside + outside)
            rises, found = self._least(middle, pool)
            if rises:
                outside = middle
            else:
                inside, pool = middle, np.concatenate([pool, found])
        return 0.5 * (inside + outside)

    def _least(self, value: float, pool: Array) -> tuple[bool, Array]:
        """Say whether the data refuses a value, and return the best place with it."""
        restraint = self.fit.options.restraint
        group = next((tied for tied in restraint.tied if self.name in tied), (self.name,))
        held = replace(restraint, fixed={**restraint.fixed, **dict.fromkeys(group, value)})
        problem = Problem(self.problem.law, self.problem.x, self.problem.loss, held)
        nearest = np.argsort(np.abs(pool[:, self.column] - value), kind="stable")[:STARTS]
        c, z = _coordinates(problem, pool[nearest])
        goal = Objective(problem, self.fit.options.delta, penalty=self.fit.penalty(problem))
        found = newton.descend(goal, c, z, STEPS, TOLERANCE)
        best = int(np.argmin(found.total))
        if found.total[best] > self.limit and found.status[best] != newton.CONVERGED:
            # Only a descent that settled may refuse a value: bent valleys take many steps.
            found = newton.descend(goal, found.c[[best]], found.z[[best]], MORE_STEPS, TOLERANCE)
            best = 0
        place = problem.parameters(found.c[[best]], found.z[[best]])
        return bool(found.total[best] > self.limit), place


def _coordinates(problem: Problem, places: Array) -> tuple[Array, Array]:
    """Return the free coordinates of parameter vectors, (p, k) and (p, m): the inverse of `Problem.parameters`."""
    law = problem.law
    inner = [law.fitted(dict(zip(law.parameters, row, strict=True))) for row in places]
    z = np.array(
        [[float(law.shapes[group[0]].to_axis(values[group[0]])) for group in problem.shape_groups] for values in inner]
    ).reshape(len(places), problem.m)
    _, scales = problem.normalised(problem.columns(z, order=1)[1])
    c = np.zeros((len(places), problem.k))
    for k, (group, scale) in enumerate(zip(problem.amplitude_groups, scales, strict=True)):
        natural = np.array([values[group[0]] for values in inner])
        c[:, k] = natural * np.ravel(scale.value if isinstance(scale, Jet) else scale)
    return c, z


def _gradients(fit: LawOnRows, problem: Problem) -> Array:
    """Return d log|parameter| / d coordinates of the free parameters at the optimum, by central differences."""
    at, k = fit.optima[0], problem.k
    places = [fit.law.parameters.index(name) for name in problem.free]
    value = problem.parameters(at[None, :k], at[None, k:])[0, places]
    gradients = np.zeros((len(places), len(at)))
    for i in range(len(at)):
        step = np.zeros(len(at))
        step[i] = 1e-5 * max(abs(at[i]), 1e-3)
        up, down = (problem.parameters((at + s)[None, :k], (at + s)[None, k:])[0, places] for s in (step, -step))
        gradients[:, i] = (up - down) / (2 * step[i])
    return gradients / np.where(np.abs(value) > 1e-12, value, 1.0)[:, None]


def weakest_directions(fit: LawOnRows, count: int = 2) -> pd.DataFrame:
    """Return the combinations of parameters that the data determines least.

    Returns
    -------
    DataFrame
        Columns ``direction`` (0 is the weakest), ``parameter``, ``share`` (of a unit vector over parameters scaled to
        equal effect), ``strength``: the singular value over the largest one. A strength below 1e-9 is a null
        direction: moving along it changes no fitted loss at all.
    """
    problem = fit.problem()
    start, k = fit.optima[0], problem.k
    matrix = jacobian(problem, start[:k], start[k:])
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    _, singular, turn = np.linalg.svd(matrix / lengths, full_matrices=True)
    strength = np.zeros(problem.size)
    strength[: len(singular)] = singular / max(float(singular[0]), 1e-300)
    rows = []
    for place in range(min(count, problem.size)):
        direction = turn[problem.size - 1 - place]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        rows += [
            (place, name, float(share), float(strength[problem.size - 1 - place]))
            for name, share in zip(problem.free, direction, strict=True)
        ]
    return pd.DataFrame(rows, columns=["direction", "parameter", "share", "strength"])
