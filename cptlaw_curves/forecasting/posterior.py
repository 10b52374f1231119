"""The posterior of one loss curve law given the first part of a run, other runs, and priors.

    log y = log L(t; theta) + delta_run + noise

theta has the priors of `cptlaw_curves.forecasting.priors`; each run may lie delta off the law (other seed, data order).
Finished runs make a prior of their own: their posterior, widened by what differs from run to run, because no law holds
its parameters exactly under another schedule. The run's own rows then count in full. Neighbouring points of a curve err
together, so each run's points count as its effective number of points. The mode is found by robust least squares, the
spread by the curvature there (Laplace). To the spread of the end come what the law itself misses on the way that is
still to go and of the annealing ahead, and the noise of one measurement.

Axes: ``n`` = rows, ``p`` = coordinates: logarithms of shares and rates, then one level per run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.fitting.solving.blocks import correlation_time
from cptlaw.laws.calculus import Array, Letters
from cptlaw_curves.forecasting.priors import Coordinates

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Many = Callable[[Array], Array]  # of coordinates (s, p), to (s, n): many trials cost about as much as one

NOISE = 0.003  # sd of one measured log loss, before any is seen; counts as much as
NOISE_COUNTS = 3.0  # so many effective points
LEVEL = 0.002  # sd of a run's level: seed noise is .0003 to .0011 nats for large models, ten times that for tiny ones
MISFIT = 0.004  # sd of what the law misses, in log loss, for each factor e in steps beyond the last row
ROUNDS = 3  # of mode, noise and correlation, which depend on each other
HUBER = 2.5  # residuals, in sd, from which a point counts less, as in Huber's function
# sd between runs of the logarithms of the law's coordinates, where other runs are the prior.
BETWEEN = {"L0": 0.004, "A": 0.1, "alpha": 0.1, "B": 0.1, "beta": 0.1}
BETWEEN_SHAPES = 0.2
# The gain of lr-annealing is linear in the rate; that of real cosines comes late, so half of it is open.
FORM = 0.5  # sd of what the law misses of the annealing that is still ahead, as a share of it
STEP = 1e-5  # of central differences in logarithms
STARTS = 3
EVALUATIONS = 60  # of a descent
WIDE = 0.7  # largest sd of a prior from which several starts are made


@dataclass(frozen=True, eq=False)
class Posterior:
    """Mode and spread.

    Parameters
    ----------
    coordinates
        The law in the coordinates of the priors.
    runs
        Runs in the order of their levels.
    mode
        Coordinates at the mode, (p,).
    covariance
        Of the coordinates, (p, p).
    noise
        sd of one measured log loss around its curve.
    effective
        Effective number of points by run.
    freedom
        Degrees of freedom of the noise.
    """

    coordinates: Coordinates
    runs: tuple[str, ...]
    mode: Array
    covariance: Array
    noise: float
    effective: Mapping[str, float]
    freedom: float

    def _log_losses(self, row: pd.DataFrame, run: str) -> Many:
        rows, level = _bound(self.coordinates, row), len(self.coordinates.priors) + self.runs.index(run)
        return lambda xs: _log_law(self.coordinates, xs, rows) + xs[:, [level]]

    def log_loss(self, row: pd.DataFrame, run: str) -> float:
        """Return the log loss at one row of a run, at the mode."""
        return float(self._log_losses(row, run)(self.mode[None])[0, 0])

    def gain(self, row: pd.DataFrame, run: str, now: pd.DataFrame) -> float:
        """Return what the annealing that is ahead takes off the log loss; parameters as for `forecast`."""
        areas = [name for name in row.columns if str(name).startswith("s2")]
        # As if the rate stayed where it is: the same forward area, and no further annealing.
        unannealed = row.assign(**{name: float(now[name].iloc[0]) for name in areas})
        return self.log_loss(unannealed, run) - self.log_loss(row, run)

    def forecast(self, row: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float) -> tuple[float, float]:
        """Return mean and sd of a measured log loss.

        Parameters
        ----------
        row
            One row with the law's inputs.
        run
            The run that it belongs to.
        now
            The run's last row, with the law's inputs.
        ahead
            Its step over that of the run's last row.
        """
        gain = self.gain(row, run, now)
        slopes = _central_differences(self._log_losses(row, run), self.mode)
        doubt = np.einsum("np,pq,nq->n", slopes, self.covariance, slopes)[0]
        variance = doubt + (MISFIT * math.log(max(ahead, 1.0))) ** 2 + np.square(FORM * gain) + self.noise**2
        return self.log_loss(row, run), math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal prior on the law's coordinates: mean (k,) and covariance (k, k)."""

    mean: Array
    covariance: Array

    @classmethod
    def published(cls, coordinates: Coordinates) -> Normal:
        """Return the priors of published coefficients."""
        names = list(coordinates.priors)
        mean = np.array([math.log(prior.mean) for prior in coordinates.priors.values()])
        precision = np.diag([prior.sd**-2.0 for prior in coordinates.priors.values()])
        for a, b, sd in coordinates.pairs():
            ratio = np.zeros(len(names))
            ratio[names.index(a)], ratio[names.index(b)] = 1.0, -1.0
            # A prior on the ratio of two coordinates is a straight ridge in logarithms: it adds to the precision of
            # their difference.
            precision += np.outer(ratio, ratio) / sd**2
        return cls(mean, np.linalg.inv(precision))

    @classmethod
    def of_others(cls, learnt: Posterior) -> Normal:
        """Return what other runs say of this one: their posterior, widened by what differs between runs."""
        names = list(learnt.coordinates.priors)
        # No two runs follow one law to the last digit; without this a table of many runs would know its next one before
        # it began.
        between = np.diag([BETWEEN.get(name, BETWEEN_SHAPES) ** 2 for name in names])
        return cls(learnt.mode[: len(names)], learnt.covariance[: len(names), : len(names)] + between)

    def widened(self, factor: float) -> Normal:
        """Return the prior with standard deviations that are so many times as large."""
        return Normal(self.mean, factor**2 * self.covariance)


def posterior(coordinates: Coordinates, frame: pd.DataFrame, prior: Normal) -> Posterior:
    """Return the posterior given the rows of one or more runs of one eval.

    Parameters
    ----------
    coordinates
        The law and its scales.
    frame
        Rows with run, loss and the law's inputs, each run in the order of its steps.
    prior
        Of the law's coordinates.
    """
    runs = tuple(dict.fromkeys(frame["run"].astype(str)))
    run_of_row = np.array([runs.index(run) for run in frame["run"].astype(str)])
    rows = _bound(coordinates, frame)
    observed = np.log(frame["loss"].to_numpy(dtype=float))
    k = len(prior.mean)
    middle = np.concatenate([prior.mean, np.zeros(len(runs))])
    sds = np.concatenate([np.sqrt(np.diag(prior.covariance)), np.full(len(runs), LEVEL)])
    # The root of the precision turns the prior into residuals of unit size.
    root = np.linalg.inv(np.linalg.cholesky(prior.covariance))

    def errors(xs: Array) -> Array:
        away: Array = _log_law(coordinates, xs, rows) + xs[:, k + run_of_row] - observed
        return away

    def restraint(xs: Array) -> Array:
        return np.concatenate([(xs[:, :k] - prior.mean) @ root.T, xs[:, k:] / LEVEL], axis=1)

    noise, times = NOISE, np.ones(len(runs))
    mode = middle.copy()
    for round_ in range(ROUNDS):
        scale = noise * np.sqrt(times[run_of_row])

        def residuals(xs: Array, scale: Array = scale) -> Array:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                scaled = errors(xs) / scale
            # Huber as a square: beyond BOLD the square root of what Huber's function would be.
            size = np.where(np.isfinite(scaled), np.abs(scaled), 1e6)
            tame = np.where(
                size <= HUBER, scaled, np.sign(scaled) * np.sqrt(2 * HUBER * np.maximum(size, HUBER) - HUBER**2)
            )
            return np.concatenate([np.where(np.isfinite(tame), tame, 1e3), restraint(xs)], axis=1)

        # Where other runs are known the mode is near them; published priors are wide enough for a second valley.
        wide = round_ == 0 and float(sds[:k].max()) > WIDE
        starts = _starts(middle, sds, k) if wide else [mode]
        result = [_descent(residuals, x, sds) for x in starts]
        mode = min(result, key=lambda one: one.cost).x
        error = errors(mode[None])[0]
        for i in range(len(runs)):
            # Neighbouring points of a curve err together; a run of a thousand points may know no more than one of
            # thirty.
            times[i] = correlation_time(error[run_of_row == i])
        # A run's level takes up what its points have in common, and a long correlation counts its points as few.
        effective = np.bincount(run_of_row) / times
        squares = float(np.sum(np.minimum(error**2, (HUBER * noise) ** 2) / times[run_of_row]))
        noise = math.sqrt((NOISE_COUNTS * NOISE**2 + squares) / (NOISE_COUNTS + float(effective.sum())))
    slopes = _central_differences(errors, mode) / (noise * np.sqrt(times[run_of_row]))[:, None]
    held = _central_differences(restraint, mode)
    # Laplace's approximation: Gauss-Newton curvature of the data and of the prior at the mode. Chains would say the
    # same at a hundred times the price.
    information = slopes.T @ slopes + held.T @ held
    covariance = np.linalg.inv(information)
    # The effective number of parameters: what the data says of each, against what data and prior say together (as in
    # ridge regression).
    used = float(np.trace(covariance @ (slopes.T @ slopes)))
    freedom = NOISE_COUNTS + max(float(effective.sum()) - used, 0.0)
    return Posterior(
        coordinates, runs, mode, covariance, noise, dict(zip(runs, map(float, effective), strict=True)), freedom
    )


def _starts(middle: Array, sds: Array, k: int) -> list[Array]:
    rng = np.random.default_rng(0)
    moved = np.zeros((STARTS - 1, len(middle)))
    moved[:, :k] = 0.7 * sds[:k] * rng.normal(size=(STARTS - 1, k))
    return [middle, *(middle + moved)]


def _descent(residuals: Many, start: Array, sds: Array) -> OptimizeResult:
    from scipy.optimize import least_squares

    def at(x: Array) -> Array:
        values: Array = residuals(x[None])[0]
        return values

    def slopes(x: Array) -> Array:
        return _central_differences(residuals, x)

    return least_squares(at, start, jac=slopes, method="lm", x_scale=sds, max_nfev=EVALUATIONS, ftol=1e-6, xtol=1e-6)


def _bound(coordinates: Coordinates, frame: pd.DataFrame) -> Letters:
    """Return the law's inputs of rows, read once: a descent asks for their losses a thousand times."""
    return coordinates.law.bind(frame, coordinates.role if coordinates.role != "other" else None)


def _log_law(coordinates: Coordinates, xs: Array, rows: Letters) -> Array:
    """Return the law's log losses, (s, n), at coordinates (s, p)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        params = coordinates.params({name: np.exp(xs[:, [i]]) for i, name in enumerate(coordinates.priors)})
        loss = np.asarray(coordinates.law.evaluate(params, rows), dtype=float)
    # A trial far off may anneal below zero; the descent must only see that this is far off.
    logs: Array = np.log(np.maximum(loss, 1e-3))
    return logs


def _central_differences(function: Many, x: Array) -> Array:
    """Return central differences, (n, p), of a function of coordinates (s, p)."""
    # All coordinates at once: a law is evaluated on many parameter vectors for about the price of one.
    ahead = np.eye(len(x)) * STEP
    values = function(np.concatenate([x + ahead, x - ahead]))
    slopes: Array = ((values[: len(x)] - values[len(x) :]) / (2 * STEP)).T
    return slopes
