"""The posterior of a table: log loss = log law + what its form misses + base model + run + noise.

The law's coordinates have a normal prior, what it misses is a Gaussian process (`kernel`), and one scale of the error
is unknown, with a conjugate prior. Fitted by Gauss-Newton with outliers weighted down; a forecast is the conditional
mean and covariance, so that residuals, base models and doubt are one formula.

Axes: n = rows, m = points, v = coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular

from cptlaw.laws.calculus import Array
from studies.one_model.kernel import Kernel, Places, covariance
from studies.one_model.law_mean import LawMean

SCALE, DEGREES = 0.02, 10.0  # of the error, and how many rows that is worth
JITTER = 1e-4
OUTLYING = 3.0  # standard deviations of the noise from which a row counts less
ALIKE = 0.8  # correlation of the exponents of two losses of the same runs
SHARED = ("g", "a", "k")
STEPS, REWEIGHTED = 60, 4
FIRST = 0.004


@dataclass(eq=False)
class Posterior:
    """Laws of the evals of one table, conditioned on its rows.

    Parameters
    ----------
    means
        A law for each eval, in the order of the outputs.
    frames
        The rows of each eval: inputs in raw units, run, loss.
    kernel
        What laws miss.
    """

    means: Sequence[LawMean]
    frames: Sequence[pd.DataFrame]
    kernel: Kernel = field(default_factory=Kernel)

    def __post_init__(self) -> None:
        rows = pd.concat(list(self.frames), ignore_index=True)
        self.output = np.repeat(np.arange(len(self.frames)), [len(one) for one in self.frames])
        trained = rows[rows["tokens"] > 0] if "tokens" in rows.columns else rows
        names = [n for n in ("n_params", "ptpp", "tokens", "replay", "lr_peak", "lr_pretrain", "samples") if n in rows]
        self.usual = {name: float(trained[name].median()) for name in names if trained[name].notna().any()}
        self.places = Places.of(rows, self.output, self.kernel, self.usual)
        self.y = np.log(rows["loss"].to_numpy(dtype=float))
        self.starts = np.cumsum([0, *(one.size for one in self.means)])
        self.theta = np.concatenate([one.start for one in self.means])
        self.low = np.concatenate([one.low for one in self.means])
        self.high = np.concatenate([one.high for one in self.means])
        self.sds = np.concatenate([one.sds for one in self.means])
        self._fit()

    # -- the prior and the law ---------------------------------------------------------------------------------------

    def _parts(self, theta: Array) -> list[Array]:
        return [theta[self.starts[i] : self.starts[i + 1]] for i in range(len(self.means))]

    def _law(self, theta: Array) -> tuple[Array, Array]:
        """Return log losses of the fitted rows, (n,), and slopes, (n, v)."""
        value, slopes = np.empty(len(self.y)), np.zeros((len(self.y), len(theta)))
        for i, (mean, part) in enumerate(zip(self.means, self._parts(theta), strict=True)):
            mine = self.output == i
            value[mine], slopes[mine, self.starts[i] : self.starts[i + 1]] = mean.at(part)
        return value, slopes

    def _prior(self, theta: Array) -> tuple[Array, Array]:
        """Return whitened distances from the prior, (p,), and slopes, (p, v)."""
        scores, slopes, owners = [], [], []
        for i, (mean, part) in enumerate(zip(self.means, self._parts(theta), strict=True)):
            score, slope = mean.prior(part)
            wide = np.zeros((len(score), len(theta)))
            wide[:, self.starts[i] : self.starts[i + 1]] = slope
            scores.append(score)
            slopes.append(wide)
            owners += [(i, mean.names[index]) for index in mean.priors.coordinates]
        score, slope = np.concatenate(scores), np.concatenate(slopes)
        for name in SHARED if len(self.means) == 2 else ():
            if (0, name) in owners and (1, name) in owners:
                # Whitening of a pair with this correlation: the second is told by the first.
                a, b = owners.index((0, name)), owners.index((1, name))
                rest = np.sqrt(1.0 - ALIKE**2)
                score[b], slope[b] = (score[b] - ALIKE * score[a]) / rest, (slope[b] - ALIKE * slope[a]) / rest
        return score, slope

    # -- the fit -------------------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        n, noise, weight = len(self.y), self.kernel.noise, np.ones(len(self.y))
        apart, self.scale2 = covariance(self.places, self.places, self.kernel), FIRST**2
        for round_ in range(REWEIGHTED):
            root = np.linalg.cholesky(apart + np.diag(noise**2 / weight + JITTER))
            self.whiten = solve_triangular(root, np.eye(n), lower=True)
            self.log_determinant = 2.0 * float(np.log(np.diag(root)).sum())
            for _ in range(8 if round_ == 0 else 2):
                self._descend()
                prior = DEGREES * SCALE**2
                before, self.scale2 = self.scale2, (prior + self.white @ self.white) / (DEGREES + n)
                if abs(np.log(before / self.scale2)) < 0.02:
                    break
            outlying = np.abs(noise / weight * (self.whiten.T @ self.white)) / np.sqrt(self.scale2)
            before_weight, weight = weight, np.minimum(1.0, OUTLYING / np.maximum(outlying, 1e-9))
            if np.abs(weight - before_weight).max() < 0.1:
                break
        self.weight = weight

    def _value(self, theta: Array) -> float:
        value, _ = self._law(theta)
        score, _ = self._prior(theta)
        white = self.whiten @ (self.y - value)
        return 0.5 * float(white @ white) / self.scale2 + 0.5 * float(score @ score)

    def _descend(self) -> None:
        inverse, damp, theta = 1.0 / self.scale2, 1e-2, self.theta
        for _ in range(STEPS):
            value, slopes = self._law(theta)
            score, turned = self._prior(theta)
            white, J = self.whiten @ (self.y - value), self.whiten @ slopes
            now = 0.5 * inverse * white @ white + 0.5 * score @ score
            curvature = inverse * J.T @ J + turned.T @ turned
            pull = inverse * J.T @ white - turned.T @ score
            for _ in range(10):
                step = np.linalg.solve(
                    curvature + damp * np.diag(np.diag(curvature)) + 1e-12 * np.eye(len(theta)), pull
                )
                trial = np.clip(theta + np.clip(step, -2 * self.sds, 2 * self.sds), self.low, self.high)
                new = self._value(trial)
                if np.isfinite(new) and new < now + 1e-12:
                    break
                damp *= 5
            else:
                break
            theta, damp = trial, max(damp / 5, 1e-6)
            if now - new < 1e-4 * (1 + 1e-3 * abs(now)):
                break
        self.theta = theta
        value, slopes = self._law(theta)
        score, turned = self._prior(theta)
        self.white, self.J = self.whiten @ (self.y - value), self.whiten @ slopes
        self.curvature = inverse * self.J.T @ self.J + turned.T @ turned + 1e-9 * np.eye(len(theta))
        self.score = score

    @property
    def evidence(self) -> float:
        """Log marginal likelihood (Laplace), up to what all laws of these rows share."""
        n = len(self.y)
        data = float(self.white @ self.white) / self.scale2 + n * np.log(self.scale2) + self.log_determinant
        prior = float(self.score @ self.score)
        _, turned = self._prior(self.theta)
        known = turned.T @ turned + 1e-12 * np.eye(len(self.theta))
        occam = np.linalg.slogdet(self.curvature)[1] - np.linalg.slogdet(known)[1]
        return -0.5 * float(data + prior + occam)

    # -- forecasts -----------------------------------------------------------------------------------------------------

    def posterior(self, frame: pd.DataFrame, output: np.ndarray, noise: bool = True) -> tuple[Array, Array]:
        """Return the mean, (m,), and covariance, (m, m), of log losses at points of some evals."""
        new = frame if "run" in frame.columns else frame.assign(run=[f"new {i}" for i in range(len(frame))])
        places = Places.of(new, output, self.kernel, self.usual)
        value, slopes = np.empty(len(frame)), np.zeros((len(frame), len(self.theta)))
        for i, (mean, part) in enumerate(zip(self.means, self._parts(self.theta), strict=True)):
            mine = output == i
            if mine.any():
                at = mean.at(part, mean.law.bind(frame[mine], mean.role))
                value[mine], slopes[mine, self.starts[i] : self.starts[i + 1]] = at
        cross = self.whiten @ covariance(places, self.places, self.kernel).T
        own = covariance(places, places, self.kernel) + (self.kernel.noise**2 if noise else 0.0) * np.eye(len(frame))
        left = slopes - cross.T @ self.J
        doubt = self.scale2 * (own - cross.T @ cross) + left @ np.linalg.solve(self.curvature, left.T)
        return value + cross.T @ self.white, doubt

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the intervals."""
        return DEGREES + 4.0
