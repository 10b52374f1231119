"""Doubt about a forecast of one law: intervals, and how far outside the data a point lies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.learned import studies
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.fitting.uncertainty.discrepancy import discrepancy, usual_rate
from cptlaw.fitting.uncertainty.profile import noise, profiles
from cptlaw.fitting.uncertainty.traces import BOTH_SIDES
from cptlaw.laws.calculus import Array
from cptlaw.runs.points import PointsLike
from cptlaw.units import counted

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit

MIN_RUNS = 3  # fewer runs cannot say how runs differ
LARGEST = math.log(2.0)  # half-width in log loss from which an interval says nothing
ABSURD = 14.0  # nats per token; a uniform guess among a million tokens has 13.8
NOTHING = 1e-3  # nats per token, below which text holds nothing to learn


def without_intervals(fit: LawOnRows) -> Finding | None:
    """Return what is said of a fit in place of intervals; None where there are some."""
    if fit.n_blocks >= MIN_RUNS:
        return None
    return Finding(
        "warning",
        "no-interval",
        "the parameters were given, not fitted, so that nothing says how sure the loss is."
        if fit.status == "given"
        else f"{counted(fit.n_runs, 'run')} cannot say how runs differ, so the loss is not bounded.",
        f"Fit at least {MIN_RUNS} runs.",
    )


def findings_of(loss: Array, notes: list[list[tuple[Finding, ...]]], index: pd.Index) -> pd.Series:
    """Return what is said of each row, the worst first: several notes on all rows, and losses that cannot be."""
    parts = [*notes, [tuple(_absurd(value)) for value in loss.tolist()]]
    result = [by_severity([one for part in of_row for one in part]) for of_row in zip(*parts, strict=True)]
    return pd.Series(result, index=index, dtype=object)


def _absurd(loss: float) -> Iterator[Finding]:
    """Say that no language model has such a loss."""
    if NOTHING < loss <= ABSURD or np.isnan(loss):
        return
    than = "higher than that of guessing among a million tokens at random" if loss > ABSURD else "none that text leaves"
    yield Finding(
        "error",
        "absurd-loss",
        f"a loss of {loss:.3g} nats per token is {than}: the law does not hold at this point.",
        "Stay within the fitted inputs, replay above all; many laws have a barrier at a share of 0.",
    )


def bounded(loss: Array, low: Array, high: Array) -> tuple[Array, Array, list[tuple[Finding, ...]]]:
    """Return the ends of intervals, missing where they lie more than a factor of 2 away, and what to say of these."""
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.abs(np.log(np.stack([low, high])) - np.log(loss))
    open_ = ~(away <= LARGEST)
    widest = away.max(axis=0, initial=0.0)
    notes: list[tuple[Finding, ...]] = [()] * len(loss)
    for i in np.flatnonzero(open_.any(axis=0)).tolist():
        times = "" if not np.isfinite(widest[i]) or widest[i] > 10 else f" (a factor of {np.exp(widest[i]):.2g})"
        notes[i] = (
            Finding(
                "warning",
                "unbounded",
                f"the data do not bound this loss within a factor of 2{times}: parameters that fit as well forecast "
                "it at almost any value.",
                "Add runs nearer to this point, or hold parameters by what is known of them.",
                remedy=Remedy("fix"),
            ),
        )
    return np.where(open_[0], np.nan, low), np.where(open_[1], np.nan, high), notes


def method(fit: LawOnRows) -> str:
    """Say where the intervals of a fit's forecasts come from; see `Fit.interval_method`."""
    if not fit.n_points:
        return "none, for the parameters were given, not fitted"
    if fit.n_blocks < MIN_RUNS:
        return f"none, for {counted(fit.n_runs, 'run')} cannot say how runs differ"
    return (
        f"profile of the objective along the forecast, the noise of one measurement, and what the law's form may miss "
        f"beyond the fitted rows: about {usual_rate(fit):.2g} % of the loss per e-fold, from rollouts in "
        f"{len(studies())} other studies and inside these rows"
    )


def bands(fit: Fit, rows: PointsLike, interval: float, most: int = 6) -> tuple[Array, Array]:
    """Return intervals of a measured loss for many rows that are to be drawn, (n,) each, from a few profiles.

    Where a row is not profiled itself its doubt is the range of all laws that these profiles met and that the data
    allows: the truth, or somewhat narrower. Not bounded is not a number.
    """
    if not fit.plain:  # without a profile, all rows cost as much as a few
        result = fit.forecast(rows, interval)
        return result["lo"].to_numpy(dtype=float), result["hi"].to_numpy(dtype=float)
    ends = log_quantiles(fit.leading, rows, [0.5 - 0.5 * interval, 0.5 + 0.5 * interval], most=most)
    low, high = np.where(np.isfinite(ends), np.exp(ends), np.nan)
    return low, high


def log_quantiles(
    fit: LawOnRows, rows: PointsLike, probabilities: Sequence[float], measured: bool = True, most: int | None = None
) -> Array:
    """Return quantiles of the log loss; see `Fit.log_quantiles`, and `profiles` for `most`.

    The doubt about the fitted loss comes from the profile of the objective; that about the law's form and the noise of
    one measurement are added in quadrature.
    """
    frame = fit.completed(rows)
    forecastable(fit, frame)
    asked = np.asarray(probabilities, dtype=float)
    if asked.ndim != 1 or not np.all((asked > 0) & (asked < 1)):
        raise UsageError(f"probabilities={probabilities!r}: expected numbers between 0 and 1.")
    centre = np.log(fit.predict(frame))
    values = np.tile(centre, (len(asked), 1))
    coverages = np.abs(2.0 * asked - 1.0)
    several = sorted({round(float(coverage), 12) for coverage in coverages if coverage > 0})
    if not several:
        return values
    if fit.n_blocks < MIN_RUNS:
        chance = asked[:, None]
        return np.where(chance == 0.5, values, np.where(chance < 0.5, -np.inf, np.inf))
    forms = discrepancy(fit, frame, several)
    sides = tuple(side for side in BOTH_SIDES if (side * (asked - 0.5) > 0).any())
    for coverage, ends, form in zip(several, profiles(fit, frame, several, most, sides), forms, strict=True):
        scatter = np.hypot(form, measurement_scatter(fit, coverage) if measured else 0.0)
        for j in np.flatnonzero(np.isclose(coverages, coverage, atol=1e-11)):
            side, end = (-1.0, ends[:, 0]) if asked[j] < 0.5 else (1.0, ends[:, 1])
            values[j] = centre + side * np.hypot(end - centre, scatter)
    return values


def half_widths(fit: LawOnRows, frame: pd.DataFrame, coverage: float) -> tuple[Array, Array, Array, Array]:
    """Return half-widths in log loss, (n,) each: of the forms (one law has none), parameters, distance and noise.

    That of the parameters is the longer side of the profile; infinite where the data does not bound the loss, or where
    there are too few runs.
    """
    nothing = np.zeros(len(frame))
    if fit.n_blocks < MIN_RUNS:
        return nothing, np.full(len(frame), np.inf), nothing, nothing
    ends = profiles(fit, frame, [coverage], None)[0] - np.log(fit.predict(frame))[:, None]
    noise = np.full(len(frame), measurement_scatter(fit, coverage))
    return nothing, np.abs(ends).max(axis=1), discrepancy(fit, frame, [coverage])[0], noise


def measurement_scatter(fit: LawOnRows, interval: float) -> float:
    """Return the half-width in log loss that the noise of one measurement has."""
    scatter = noise(fit)
    return t_quantile(interval, scatter.freedom) * scatter.spread


def forecastable(fit: LawOnRows, frame: pd.DataFrame) -> None:
    """Refuse rows at which the law is infinite."""
    for name in fit.law.diverges_at_zero:
        if name in frame.columns and (is_zero := np.asarray(frame[name], dtype=float) <= 0).any():
            row = frame.index[int(np.argmax(is_zero))]
            raise DataError(
                f"row {row}: law {fit.law.name} is infinite at {name} = 0. Give {name} > 0; the loss of the base model "
                f"itself is a measurement, not a forecast."
            )
