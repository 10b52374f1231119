"""The posterior of one loss curve law given the first part of a run, other runs, and priors.

    log y = log L(t; theta) + delta_run + noise

theta has the priors of `cptlaw.fitting.curve_priors`; each run may lie delta off the law (other seed, data order).
Finished runs make a prior of their own: their posterior, widened by what differs from run to run, because no law holds
its parameters exactly under another schedule. The run's own rows then count in full. Neighbouring points of a curve
err together, so each run's points count as its effective number of points. The mode is
found by robust least squares, the spread by the curvature there (Laplace). To the spread of the end come what the law
itself misses on the way that is still to go, and the noise of one measurement.

Axes: ``n`` = rows, ``p`` = coordinates: logarithms of shares and rates, then one level per run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy import optimize

from cptlaw.fitting.curve_priors import Coordinates
from cptlaw.fitting.profile import t_quantile
from cptlaw.fitting.stretches import correlation_time
from cptlaw.laws.calculus import Array

NOISE = 0.003  # sd of one measured log loss, before any is seen; counts as much as
NOISE_COUNTS = 3.0  # so many effective points
LEVEL = 0.002  # sd of a run's level: seed noise is .0003 to .0011 nats for large models, ten times that for tiny ones
MISFIT = 0.004  # sd of what the law misses, in log loss, for each factor e in steps beyond the last row
ROUNDS = 3  # of mode, noise and correlation, which depend on each other
BOLD = 2.5  # residuals, in sd, from which a point counts less
# sd between runs of the logarithms of the law's coordinates, where other runs are the prior.
BETWEEN = {"L0": 0.004, "A": 0.1, "alpha": 0.1, "B": 0.1, "beta": 0.1}
BETWEEN_SHAPES = 0.2
FORM = 0.25  # sd of what the law misses of the annealing that is still ahead, as a share of it
CUTS = (0.5, 0.75)  # of a run's own steps, from which its last row is forecast
LEAST_ROWS = 3
STEP = 1e-5  # of central differences in logarithms
STARTS = 3
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

    @property
    def params(self) -> dict[str, float]:
        """The law's parameters at the mode."""
        return _params(self.coordinates, self.mode)

    def log_loss(self, frame: pd.DataFrame, run: str, at: Array | None = None) -> Array:
        """Return log losses of rows of one run, (n,), at the mode or at other coordinates."""
        x = self.mode if at is None else at
        level = float(x[len(self.coordinates.priors) + self.runs.index(run)])
        return _log_law(self.coordinates, x, _bound(self.coordinates, frame)) + level

    def spread(self, frame: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float) -> Array:
        """Return the sd of measured log losses, (n,); the arguments are those of `forecast`."""
        areas = [name for name in frame.columns if str(name).startswith("s2")]
        unannealed = frame.assign(**{name: float(now[name].iloc[0]) for name in areas})
        gain = self.log_loss(unannealed, run) - self.log_loss(frame, run)
        slopes = _differences(lambda x: self.log_loss(frame, run, x), self.mode)
        doubt = np.einsum("np,pq,nq->n", slopes, self.covariance, slopes)
        return np.asarray(
            np.sqrt(doubt + (MISFIT * math.log(max(ahead, 1.0))) ** 2 + (FORM * gain) ** 2 + self.noise**2)
        )

    def forecast(
        self, frame: pd.DataFrame, run: str, now: pd.DataFrame, ahead: float, interval: float, widen: float = 1.0
    ) -> tuple[Array, Array, Array]:
        """Return loss, lower and upper end of a measured loss, each (n,).

        Parameters
        ----------
        frame
            Rows with the law's inputs.
        run
            The run that they belong to.
        now
            The run's last row, with the law's inputs.
        ahead
            Their step over that of the run's last row.
        interval
            Probability that a measured loss lies between the ends.
        widen
            Factor on the spread, from `rollout_width`.
        """
        centre = self.log_loss(frame, run)
        width = widen * self.spread(frame, run, now, ahead) * t_quantile(interval, self.freedom)
        return np.exp(centre), np.exp(centre - width), np.exp(centre + width)


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal prior on the law's coordinates: mean (k,) and covariance (k, k)."""

    mean: Array
    covariance: Array

    @classmethod
    def published(cls, coordinates: Coordinates) -> Normal:
        """Return the priors of published coefficients."""
        names = list(coordinates.priors)
        mean = np.array([math.log(prior.median) for prior in coordinates.priors.values()])
        precision = np.diag([prior.sd**-2.0 for prior in coordinates.priors.values()])
        for a, b, sd in coordinates.pairs():
            ratio = np.zeros(len(names))
            ratio[names.index(a)], ratio[names.index(b)] = 1.0, -1.0
            precision += np.outer(ratio, ratio) / sd**2
        return cls(mean, np.linalg.inv(precision))

    @classmethod
    def of_others(cls, learnt: Posterior) -> Normal:
        """Return what other runs say of this one: their posterior, widened by what differs between runs."""
        names = list(learnt.coordinates.priors)
        between = np.diag([BETWEEN.get(name, BETWEEN_SHAPES) ** 2 for name in names])
        return cls(learnt.mode[: len(names)], learnt.covariance[: len(names), : len(names)] + between)


def rollout_width(coordinates: Coordinates, frame: pd.DataFrame, prior: Normal, at: Array, first: float) -> float:
    """Return by how much forecasts within a run's own rows miss more than their spread says, at least 1.

    The run's last row is forecast from the rows of the first half and three quarters of its steps. One such miss says
    little, so that the width counts as one more that was as large as it should be.

    Parameters
    ----------
    coordinates, frame, prior
        As for `posterior`; the rows are those of one run.
    at, first
        Steps of the rows, (n,), and the step from which they count.
    """
    misses = []
    run, last = str(frame["run"].iloc[0]), frame.iloc[[-1]]
    for share in CUTS:
        seen = at <= first + share * (at[-1] - first)
        if seen.sum() < LEAST_ROWS or seen.all():
            continue
        learnt = posterior(coordinates, frame[seen], prior)
        ahead = (at[-1] - first) / max(at[seen][-1] - first, 1.0)
        away = math.log(float(last["loss"].iloc[0])) - learnt.log_loss(last, run)[0]
        misses.append(float(away / learnt.spread(last, run, frame[seen].iloc[[-1]], ahead)[0]) ** 2)
    return max(1.0, math.sqrt((1.0 + sum(misses)) / (1.0 + len(misses))))


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
    root = np.linalg.inv(np.linalg.cholesky(prior.covariance))

    def errors(x: Array) -> Array:
        away: Array = _log_law(coordinates, x, rows) + x[k + run_of_row] - observed
        return away

    def restraint(x: Array) -> Array:
        return np.concatenate([root @ (x[:k] - prior.mean), x[k:] / LEVEL])

    noise, times = NOISE, np.ones(len(runs))
    mode = middle.copy()
    for round_ in range(ROUNDS):
        scale = noise * np.sqrt(times[run_of_row])

        def residuals(x: Array, scale: Array = scale) -> Array:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                bold = np.nan_to_num(errors(x) / scale, nan=1e6, posinf=1e6, neginf=-1e6)
            # Huber as a square: beyond BOLD the square root of what Huber's function would be.
            size = np.abs(bold)
            tame = np.where(size <= BOLD, bold, np.sign(bold) * np.sqrt(2 * BOLD * np.maximum(size, BOLD) - BOLD**2))
            return np.concatenate([tame, restraint(x)])

        # Where other runs are known the mode is near them; published priors are wide enough for a second valley.
        wide = round_ == 0 and float(sds[:k].max()) > WIDE
        starts = _starts(middle, sds, k) if wide else [mode]
        found = [
            optimize.least_squares(residuals, x, method="trf", x_scale=sds, max_nfev=40, ftol=1e-6, xtol=1e-6)
            for x in starts
        ]
        mode = min(found, key=lambda one: one.cost).x
        error = errors(mode)
        for i in range(len(runs)):
            times[i] = correlation_time(error[run_of_row == i])
        # A run's level takes up what its points have in common, and a long correlation counts its points as few.
        effective = np.bincount(run_of_row) / times
        squares = float(np.sum(np.minimum(error**2, (BOLD * noise) ** 2) / times[run_of_row]))
        noise = math.sqrt((NOISE_COUNTS * NOISE**2 + squares) / (NOISE_COUNTS + float(effective.sum())))
    slopes = _differences(errors, mode) / (noise * np.sqrt(times[run_of_row]))[:, None]
    held = _differences(restraint, mode)
    information = slopes.T @ slopes + held.T @ held
    covariance = np.linalg.inv(information)
    used = float(np.trace(covariance @ (slopes.T @ slopes)))  # parameters that the data determine, in effect
    freedom = NOISE_COUNTS + max(float(effective.sum()) - used, 0.0)
    return Posterior(
        coordinates, runs, mode, covariance, noise, dict(zip(runs, map(float, effective), strict=True)), freedom
    )


def _starts(middle: Array, sds: Array, k: int) -> list[Array]:
    rng = np.random.default_rng(0)
    found = [middle]
    for _ in range(STARTS - 1):
        x = middle.copy()
        x[:k] += 0.7 * sds[:k] * rng.normal(size=k)
        found.append(x)
    return found


def _params(coordinates: Coordinates, x: Array) -> dict[str, float]:
    return coordinates.params({name: math.exp(value) for name, value in zip(coordinates.priors, x, strict=False)})


def _bound(coordinates: Coordinates, frame: pd.DataFrame) -> SimpleNamespace:
    """Return the law's inputs of rows, read once: a descent asks for their losses a thousand times."""
    return coordinates.law.bind(frame, coordinates.role if coordinates.role != "other" else None)


def _log_law(coordinates: Coordinates, x: Array, rows: SimpleNamespace) -> Array:
    with np.errstate(over="ignore", divide="ignore"):
        loss = np.asarray(coordinates.law.evaluate(_params(coordinates, x), rows), dtype=float)
    # A trial far off may anneal below zero; the descent must only see that this is far off.
    logs: Array = np.log(np.maximum(loss, 1e-3))
    return logs


def _differences(function: Callable[[Array], Array], x: Array) -> Array:
    """Return central differences, (n, p)."""
    columns = []
    for i in range(len(x)):
        up, down = x.copy(), x.copy()
        up[i] += STEP
        down[i] -= STEP
        columns.append((function(up) - function(down)) / (2 * STEP))
    return np.stack(columns, axis=1)
