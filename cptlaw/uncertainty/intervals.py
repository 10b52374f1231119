"""Doubt about a forecast of one law: intervals, and how far outside the data a point lies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.checking.assumed import assumed
from cptlaw.checking.extrapolation import extrapolations
from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.laws.calculus import Array
from cptlaw.learned import studies
from cptlaw.runs.points import as_points
from cptlaw.solving.law_on_rows import LawOnRows
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.discrepancy import discrepancy, usual_rate
from cptlaw.uncertainty.profile import noise, profile, profiles

MIN_RUNS = 3  # fewer runs cannot say how runs differ
ABSURD = 14.0  # nats per token; a uniform guess among a million tokens has 13.8
NOTHING = 1e-3  # nats per token, below which text holds nothing to learn


def forecast(fit: LawOnRows, rows: Any, interval: float | None) -> pd.DataFrame:
    """Forecast rows; see `Fit.forecast`."""
    asked = as_points(rows)
    frame = fit.completed(asked)
    found = expected(fit, frame, interval)
    out = asked.copy() if fit.law.needs_schedules else frame.copy()
    out["loss"] = found.loss
    if found.ends is not None:
        out["lo"], out["hi"] = found.ends
    # Said of what was asked and not of what was filled in: plans choose the rate themselves.
    notes = [by_severity(both) for both in map(operator.add, found.findings, assumed(fit.law, fit.data, asked, frame))]
    out["findings"] = pd.Series(notes, index=out.index, dtype=object)
    return out


@dataclass(frozen=True, eq=False)
class ExpectedLoss:
    """What is expected of points: losses and ends of intervals, nats per token, (n,), and findings on each."""

    loss: Array
    ends: tuple[Array, Array] | None
    findings: list[tuple[Finding, ...]]


def expected(fit: LawOnRows, frame: Any, interval: float | None) -> ExpectedLoss:
    """Return what is expected of completed rows, as `forecast` says it; without an interval `Columns` will do."""
    forecastable(fit, frame)
    loss = fit.law.predict(fit.params, frame, fit.role)
    findings, ends = extrapolations(fit.law, fit.data, frame), None
    if interval is not None:
        if fit.n_blocks < MIN_RUNS:
            ends = np.full(len(loss), np.nan), np.full(len(loss), np.nan)
            silent = Finding(
                "warning",
                "no-interval",
                "the parameters were given, not fitted, so that nothing says how sure the loss is."
                if fit.status == "given"
                else f"{fit.n_runs} runs cannot say how runs differ, so the loss is not bounded.",
                f"LawFit on at least {MIN_RUNS} runs.",
            )
            findings = [(*found, silent) for found in findings]
        else:
            *low_high, silent_rows = _interval(fit, frame, loss, interval)
            ends = low_high[0], low_high[1]
            silent = Finding(
                "warning",
                "unbounded",
                "the data does not bound this loss: parameters that fit as well forecast it at any value.",
                "Add runs nearer to this point, or hold parameters.",
                remedy=Remedy("fix"),
            )
            findings = [(*found, silent) if mute else found for found, mute in zip(findings, silent_rows, strict=True)]
    findings = [(*absurd(value), *found) for value, found in zip(loss, findings, strict=True)]
    return ExpectedLoss(loss, ends, findings)


def absurd(loss: float) -> list[Finding]:
    """Return the finding on a loss that no language model has; none for any other."""
    if NOTHING < loss <= ABSURD or np.isnan(loss):
        return []
    than = "higher than that of guessing among a million tokens at random" if loss > ABSURD else "none that text leaves"
    return [
        Finding(
            "error",
            "absurd-loss",
            f"a loss of {loss:.3g} nats per token is {than}: the law does not hold at this point.",
            "Stay within the fitted inputs, replay above all; many laws have a barrier at a share of 0.",
        )
    ]


def _interval(
    fit: LawOnRows, frame: pd.DataFrame, loss: Array, interval: float
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return lower and upper ends for a measured loss, and where the data bounds nothing.

    The doubt about the fitted loss comes from the profile of the objective; the noise of one measurement is added to
    it in quadrature.
    """
    below, above, scatter = law_and_noise(fit, frame, interval)
    centre = np.log(loss)
    low, high = np.exp(centre - np.hypot(below, scatter)), np.exp(centre + np.hypot(above, scatter))
    silent = ~np.isfinite(np.column_stack([below, above]))
    return np.where(silent[:, 0], np.nan, low), np.where(silent[:, 1], np.nan, high), np.asarray(silent.any(axis=1))


def method(fit: LawOnRows) -> str:
    """Say where the intervals of a fit's forecasts come from; see `Fit.interval_method`."""
    if not fit.n_points:
        return "none, for the parameters were given, not fitted"
    if fit.n_blocks < MIN_RUNS:
        return f"none, for {fit.n_runs} runs cannot say how runs differ"
    return (
        f"profile of the objective along the forecast, the noise of one measurement, and what the law's form may miss "
        f"beyond the fitted rows: about {usual_rate(fit):.2g} % of the loss per e-fold, from rollouts in "
        f"{len(studies())} other studies and inside these rows"
    )


def bands(fit: Any, rows: Any, interval: float, most: int = 6) -> tuple[Array, Array]:
    """Return intervals of a measured loss for many rows that are to be drawn, (n,) each, from a few profiles.

    Where a row is not profiled itself its doubt is the range of all laws that these profiles met and that the data
    allows: the truth, or somewhat narrower. Not bounded is not a number.
    """
    if not fit.plain:  # without a profile, all rows cost as much as a few
        found = fit.forecast(rows, interval)
        return found["lo"].to_numpy(dtype=float), found["hi"].to_numpy(dtype=float)
    frame = fit.completed(rows)
    below, above, scatter = law_and_noise(fit, frame, interval, most)
    centre = np.log(fit.predict(frame))
    low, high = np.exp(centre - np.hypot(below, scatter)), np.exp(centre + np.hypot(above, scatter))
    return np.where(np.isfinite(below), low, np.nan), np.where(np.isfinite(above), high, np.nan)


def law_and_noise(
    fit: LawOnRows, frame: pd.DataFrame, interval: float, most: int | None = None
) -> tuple[Array, Array, float]:
    """Return what the interval is made of, in log loss: the law's doubt below and above, (n,), and the noise.

    The law's doubt is that about its parameters, from the profile, and that about its form, in quadrature. It is
    infinite where the data does not bound the loss.
    """
    below, above, form, scatter = doubt_parts(fit, frame, interval, most)
    return np.hypot(below, form), np.hypot(above, form), scatter


def doubt_parts(
    fit: LawOnRows, frame: pd.DataFrame, interval: float, most: int | None = None
) -> tuple[Array, Array, Array, float]:
    """Return half-widths in log loss: parameters below and above, (n,), the law's form, (n,), and the noise."""
    ends, centre = profile(fit, frame, interval, most), np.log(fit.predict(frame))
    form = discrepancy(fit, frame, [interval])[0]
    return centre - ends[:, 0], ends[:, 1] - centre, form, measurement_scatter(fit, interval)


def log_quantiles(fit: LawOnRows, rows: Any, probabilities: Sequence[float], measured: bool = True) -> Array:
    """Return quantiles of the log loss; see `Fit.log_quantiles`."""
    frame = fit.completed(rows)
    forecastable(fit, frame)
    asked = np.asarray(probabilities, dtype=float)
    if asked.ndim != 1 or not np.all((asked > 0) & (asked < 1)):
        raise UsageError(f"probabilities={probabilities!r}: expected numbers between 0 and 1.")
    centre = np.log(fit.predict(frame))
    found = np.tile(centre, (len(asked), 1))
    coverages = np.abs(2.0 * asked - 1.0)
    several = sorted({round(float(coverage), 12) for coverage in coverages if coverage > 0})
    if not several:
        return found
    if fit.n_blocks < MIN_RUNS:
        chance = asked[:, None]
        return np.where(chance == 0.5, found, np.where(chance < 0.5, -np.inf, np.inf))
    forms = discrepancy(fit, frame, several)
    for coverage, ends, form in zip(several, profiles(fit, frame, several), forms, strict=True):
        scatter = np.hypot(form, measurement_scatter(fit, coverage) if measured else 0.0)
        for j in np.flatnonzero(np.isclose(coverages, coverage, atol=1e-11)):
            side, end = (-1.0, ends[:, 0]) if asked[j] < 0.5 else (1.0, ends[:, 1])
            found[j] = centre + side * np.hypot(end - centre, scatter)
    return found


def measurement_scatter(fit: LawOnRows, interval: float) -> float:
    """Return the half-width in log loss that the noise of one measurement has."""
    scatter = noise(fit)
    return t_quantile(interval, scatter.freedom) * scatter.spread


def forecastable(fit: LawOnRows, frame: Any) -> None:
    """Refuse rows at which the law is infinite."""
    for name in fit.law.diverges_at_zero:
        if name in frame.columns and (is_zero := np.asarray(frame[name], dtype=float) <= 0).any():
            row = frame.index[int(np.argmax(is_zero))]
            raise DataError(
                f"row {row}: law {fit.law.name} is infinite at {name} = 0. Give {name} > 0; the loss of the base model "
                f"itself is a measurement, not a forecast."
            )
