"""Profile of the objective along a forecast: every forecast that the data cannot tell from the best one.

For a point x the profile is the least objective among all parameter vectors that forecast a given loss there. Where it
stays low the data is silent, however far that is from the fit; a bootstrap that starts at the fit never sees this. A
penalty draws the forecast to a wanted value; minimising with it lands on the profile whatever its stiffness, and all
wanted values of all points are descended side by side (`cptlaw.fitting.uncertainty.traces`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.fitting.cached import cached, cached_in
from cptlaw.fitting.solving.huber import FLOOR_ROWS, noise_variance, noise_weight
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.uncertainty.traces import BOTH_SIDES, Trace, Tracer, side_by_side
from cptlaw.fitting.uncertainty.units import units_along
from cptlaw.laws.calculus import Array, Letters, Positive

MOST_PROFILES = 12  # rows that are profiled; the others take what was met on the way
# E-folds from a row that is profiled up to which its places do for others: what they miss there goes with the square.
BESIDE = 0.05
# Probabilities up to which rows are profiled: all smaller ones are read off the same trace, whichever was asked first.
LEVELS = (0.9, 0.99, 0.9999)


@dataclass(frozen=True)
class Noise:
    """The scatter of the log residuals around the fit.

    Parameters
    ----------
    rise
        Rise of the objective at one standard deviation of a parameter. The objective is no likelihood, so this is half
        of E[psi^2] / E[psi'] for its derivative psi (Huber 1964), corrected for the number of fitted parameters.
    spread
        Standard deviation of one measured log loss around the law.
    freedom
        Rows less fitted parameters, and the rows that the floor of the noise counts as.
    """

    rise: float
    spread: float
    freedom: float


@cached
def noise(fit: LawOnRows) -> Noise:
    """Estimate the scatter from the residuals of the fit, with a floor that decides where none are left."""
    residual, free = fit.residuals(), max(fit.n_points - fit.rank, 0)
    return Noise(
        rise=0.5 * noise_weight(residual, fit.options.delta, free),
        spread=math.sqrt(noise_variance(residual, free)),
        freedom=free + FLOOR_ROWS,
    )


def profiles(
    fit: LawOnRows,
    frame: pd.DataFrame,
    probabilities: Sequence[float],
    most: int | None = None,
    sides: tuple[int, ...] = BOTH_SIDES,
) -> Array:
    """Return the ranges of fitted log losses that the data allows at each row, shape (probabilities, n, 2).

    Parameters
    ----------
    most
        Rows that are profiled, 12 where not given; the others take what was met on these, each at its own loss.
    sides
        -1 for the lower ends, 1 for the upper ones: a limit asks for one alone, and the other, then no end, costs as
        much.

    Returns
    -------
    array
        Lower and upper ends; minus or plus infinity where the data does not bound the loss.
    """
    # A bootstrap that starts at the fit misses flat valleys: with budgets 15 and 31 of the pilot its 90 % interval at
    # 279 left the truth out, and the profile's holds it.
    x, centre = fit.law.bind(frame, fit.role), np.log(fit.predict(frame))
    problem, k, best = fit.problem(), fit.problem().k, fit.optima[0]
    effects, freedom = units_along(fit, jacobian(problem, best[:k], best[k:], at=x))
    chosen = _spread_out(x, MOST_PROFILES if most is None else most)
    values = np.empty((len(probabilities), len(frame), 2))
    for p, probability in enumerate(probabilities):
        # Traced up to a fixed level, so that an interval of 80 % is read off the same trace as one of 90 % and never
        # lies outside it.
        level = next((one for one in LEVELS if probability <= one * (1 + 1e-12)), probability)
        widest, limits = (
            noise(fit).rise * special.stdtrit(freedom, 0.5 + 0.5 * one) ** 2 * effects for one in (level, probability)
        )
        traces = _traced(fit, x, chosen, level, widest, sides)
        for i, trace in zip(chosen, traces, strict=True):
            values[p, i] = trace.ends(centre[i], limits[i])
        others = np.setdiff1d(np.arange(len(frame)), chosen)
        if len(others):
            values[p, others] = _from_other_traces(
                fit, x, others, chosen=chosen, traces=traces, limits=limits, centre=centre
            )
    return values


def _traced(
    fit: LawOnRows, x: Letters, chosen: list[int], level: float, limits: Array, sides: tuple[int, ...]
) -> list[Trace]:
    """Return the traces of some rows up to a level; those of earlier questions are kept with the fit."""
    known: dict[tuple[bytes, float, tuple[int, ...]], Trace] = cached_in(fit._cache, "traces", dict)
    keys = [(_key(x, i), level, sides) for i in chosen]
    new = [i for i, key in zip(chosen, keys, strict=True) if key not in known]
    if new:
        tracer = Tracer.of(fit)
        for some in [new] if side_by_side(x) else [[i] for i in new]:
            rows = Letters(**{name: column[some] for name, column in vars(x).items()})
            for i, trace in zip(some, tracer.trace(rows, limits[some], sides), strict=True):
                known[_key(x, i), level, sides] = trace
    return [known[key] for key in keys]


def _from_other_traces(
    fit: LawOnRows,
    x: Letters,
    rows: Array,
    *,
    chosen: list[int],
    traces: list[Trace],
    limits: Array,
    centre: Array,
) -> Array:
    """Return the range of log losses at rows without a trace of their own, by the places that others met.

    The range of these places alone would jump down beside every row that was profiled, and plans would settle there:
    the nearest trace also says where between its places the limit is reached.
    """
    here = Letters(**{name: column[rows] for name, column in vars(x).items()})
    result, places = np.column_stack([centre[rows], centre[rows]]), _places(x)
    nearest = np.sum((places[rows][:, None] - places[chosen][None]) ** 2, axis=2).argmin(axis=1)
    for c, trace in enumerate(traces):
        losses = Tracer.of(fit).log_losses(trace.parameters, here)
        allowed = trace.rise[:, None] <= limits[rows]
        result[:, 0] = np.minimum(result[:, 0], np.where(allowed, losses, np.inf).min(axis=0))
        result[:, 1] = np.maximum(result[:, 1], np.where(allowed, losses, -np.inf).max(axis=0))
        mine = np.flatnonzero(nearest == c)
        ends = trace.ends_elsewhere(losses[:, mine], centre[rows[mine]], limits[rows[mine]])
        result[mine, 0] = np.minimum(result[mine, 0], ends[:, 0])
        result[mine, 1] = np.maximum(result[mine, 1], ends[:, 1])
    return result


def _key(x: Letters, row: int) -> bytes:
    """Return what tells one row of a law's inputs from another: every number that the law reads there."""
    parts = []
    for column in vars(x).values():
        if isinstance(column, Positive | np.ndarray):
            parts.append(np.ascontiguousarray(getattr(column, "value", column)[row]).tobytes())
        else:  # whole schedules
            inside = vars(column[row : row + 1])
            parts += [np.ascontiguousarray(value).tobytes() for value in inside.values()]
    return b"|".join(parts)


def _logs(x: Letters) -> Array:
    """Return the logs of the inputs of rows, (n, inputs)."""
    return np.column_stack([column.log for column in vars(x).values() if isinstance(column, Positive)])


def _places(x: Letters) -> Array:
    """Return where rows lie: logs of the inputs, each in units of its spread over the rows, (n, inputs)."""
    places = _logs(x)
    return np.asarray((places - places.mean(axis=0)) / np.maximum(places.std(axis=0), 1e-12))


def _spread_out(x: Letters, count: int) -> list[int]:
    """Choose rows that cover all rows: each next one is the farthest from those chosen; all where they are few."""
    scaled = _places(x)
    if len(scaled) <= count:
        return list(range(len(scaled)))
    apart = _logs(x)
    # Farthest point first: the rows at the corners of the design bound what those inside it can meet.
    chosen = [int(np.abs(scaled).sum(axis=1).argmax())]
    gap, left = np.full(len(scaled), np.inf), np.full(len(scaled), np.inf)
    while len(chosen) < count:
        gap = np.minimum(gap, np.sum((scaled - scaled[chosen[-1]]) ** 2, axis=1))
        left = np.minimum(left, np.abs(apart - apart[chosen[-1]]).max(axis=1, initial=0.0))
        if left.max() < BESIDE:
            break
        chosen.append(int(gap.argmax()))
    return chosen
