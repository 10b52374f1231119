"""Doubt about a forecast: intervals, draws of the parameters, and how far outside the data a point lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.checking.extrapolation import extrapolation
from cptlaw.errors import DataError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.runs.points import as_points
from cptlaw.solving import newton
from cptlaw.solving.objective import Objective
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.answers import ForecastFrame
from cptlaw.uncertainty.profile import noise, profile
from cptlaw.units import parse_probability

if TYPE_CHECKING:
    from cptlaw.fitting.fitted_law import Fit

DRAWS = 400
MIN_RUNS = 3  # fewer runs cannot say how runs differ
ABSURD = 14.0  # nats per token; a uniform guess among a million tokens has 13.8


def bootstrap(fit: Fit, count: int = DRAWS) -> Array:
    """Refit on reweighted runs and return the parameters, shape (count, parameters).

    The points of one run are not independent, so whole runs are reweighted, with the exponential weights of the
    Bayesian bootstrap (Rubin 1981): unlike resampling it never loses the only run at a level. Each refit starts from
    an optimum that the data cannot tell from the fit and minimises the same objective.

    Raises
    ------
    DataError
        If there are fewer than three runs.
    """
    if fit.n_stretches < MIN_RUNS:
        raise DataError(f"{fit.n_stretches} runs cannot say how runs differ; intervals need at least {MIN_RUNS}.")
    problem = fit.problem()
    run_of_row, groups = fit.stretches, fit.n_stretches
    rng = np.random.default_rng([fit.options.seed, 1])
    weights = rng.exponential(size=(count, groups))
    weights *= groups / weights.sum(axis=1, keepdims=True)
    # Refits start from every optimum in turn: along a flat valley they stay where they start, and so spread over it.
    starts = fit.optima[np.arange(count) % len(fit.optima)]
    goal = Objective(problem, fit.options.delta, weights=weights[:, run_of_row])
    descent = newton.descend(goal, starts[:, : problem.k], starts[:, problem.k :], iterations=60, tolerance=1e-7)
    return problem.parameters(descent.c, descent.z)


def noise_draws(fit: Fit, count: int) -> Array:
    """Return draws of the log error of a single measured loss, shape (count,), from the fit's own residuals."""
    residual = -fit.residuals()
    inflation = math.sqrt(fit.n_points / max(fit.n_points - fit.n_free, 1))
    rng = np.random.default_rng([fit.options.seed, 2])
    return inflation * rng.choice(residual - residual.mean(), size=count)


def forecast(fit: Fit, rows: Any, interval: float | str | None) -> ForecastFrame:
    """Forecast rows; see `Fit.forecast`."""
    if interval is not None:
        interval = parse_probability(interval, "interval (--interval)")
    asked = as_points(rows)
    frame = fit.completed(asked)
    _forecastable(fit, frame)
    out = asked.copy() if fit.law.on_curves else frame.copy()
    out["loss"] = fit.predict(frame)
    findings = [extrapolation(fit.law, fit.data, row) for _, row in frame.iterrows()]
    if interval is not None:
        if fit.n_stretches < MIN_RUNS:
            out["lo"], out["hi"] = np.nan, np.nan
            silent = Finding(
                "warning",
                "no-interval",
                "the parameters were given, not fitted, so that nothing says how sure the loss is."
                if fit.status == "given"
                else f"{fit.n_runs} runs cannot say how runs differ, so the loss is not bounded.",
                f"Fit on at least {MIN_RUNS} runs.",
            )
            findings = [(*found, silent) for found in findings]
        else:
            out["lo"], out["hi"], silent_rows = _interval(fit, frame, out["loss"].to_numpy(dtype=float), interval)
            silent = Finding(
                "warning",
                "unbounded",
                "the data does not bound this loss: parameters that fit as well forecast it at any value.",
                "Add runs nearer to this point, or hold parameters with --fix or --prior.",
            )
            findings = [(*found, silent) if mute else found for found, mute in zip(findings, silent_rows, strict=True)]
    findings = [
        (absurd(loss), *found) if loss > ABSURD else found
        for loss, found in zip(out["loss"].to_numpy(dtype=float), findings, strict=True)
    ]
    out["findings"] = pd.Series(findings, index=out.index, dtype=object)
    return ForecastFrame.of(out, interval, {f"{fit.law.spec} on {fit.on}": method(fit)})


def absurd(loss: float) -> Finding:
    """Return the finding on a loss that no language model has."""
    return Finding(
        "error",
        "absurd-loss",
        f"a loss of {loss:.3g} nats per token is higher than that of guessing among a million tokens at random: the "
        "law does not hold at this point.",
        "Stay within the fitted inputs, replay above all; many laws have a barrier at a share of 0.",
    )


def _interval(fit: Fit, frame: pd.DataFrame, loss: Array, interval: float) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return lower and upper ends for a measured loss, and where the data bounds nothing.

    The doubt about the fitted loss comes from the profile of the objective; the noise of one measurement is added to
    it in quadrature.
    """
    below, above, scatter = law_and_noise(fit, frame, interval)
    centre = np.log(loss)
    low, high = np.exp(centre - np.hypot(below, scatter)), np.exp(centre + np.hypot(above, scatter))
    silent = ~np.isfinite(np.column_stack([below, above]))
    return np.where(silent[:, 0], np.nan, low), np.where(silent[:, 1], np.nan, high), np.asarray(silent.any(axis=1))


def method(fit: Fit) -> str:
    """Say where the intervals of a fit's forecasts come from; see `Fit.interval_method`."""
    if not fit.n_points:
        return "none, for the parameters were given, not fitted"
    if fit.n_stretches < MIN_RUNS:
        return f"none, for {fit.n_runs} runs cannot say how runs differ"
    text = "profile of the objective along the forecast, and the noise of one measurement"
    width = rollout_width(fit)
    if width > 1:
        text += f"; {width:.3g} times as wide, for rollouts within the fitted rows missed by so much more"
    return text


def law_and_noise(fit: Fit, frame: pd.DataFrame, interval: float) -> tuple[Array, Array, float]:
    """Return what the interval is made of, in log loss: the law's doubt below and above, (n,), and the noise.

    The law's doubt is infinite where the data does not bound the loss. All three include the factor that rollouts ask
    for.
    """
    ends, centre, wider = profile(fit, frame, interval), np.log(fit.predict(frame)), rollout_width(fit)
    return wider * (centre - ends[:, 0]), wider * (ends[:, 1] - centre), wider * measurement_scatter(fit, interval)


def measurement_scatter(fit: Fit, interval: float) -> float:
    """Return the half-width in log loss that the noise of one measurement has."""
    return t_quantile(interval, max(fit.n_points - fit.rank, 1)) * noise(fit).spread


def rollout_width(fit: Fit) -> float:
    """Return the factor by which rollouts within the fitted rows ask for wider intervals; 1 where none were made."""
    return 1.0 if fit.options.rollout is None else float(fit.options.rollout["width"])


def _forecastable(fit: Fit, frame: pd.DataFrame) -> None:
    for name in fit.law.diverges_at_zero:
        if name in frame.columns and (frame[name].to_numpy(dtype=float) <= 0).any():
            row = frame.index[frame[name].to_numpy(dtype=float) <= 0][0]
            raise DataError(
                f"row {row}: law {fit.law.name} is infinite at {name} = 0. Give {name} > 0; the loss of the base model "
                f"itself is a measurement, not a forecast."
            )
