"""A law as the mean of a table's log losses: a function of normal coordinates, with what is known of them beforehand.

Coordinates are the logarithms of the amplitudes (in mean sizes of their columns, as `Problem` counts them) and the
shapes on their search axes. Any law is such a function as it stands.

Axes: n = rows, v = coordinates, p = priors.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from cptlaw.fitting.solving.loss_at import LossAt
from cptlaw.fitting.solving.priors import priors_on, values
from cptlaw.fitting.solving.problem import Problem
from cptlaw.fitting.solving.restraint import Restraint
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.laws.calculus import Array

LEAST_LOSS = 1e-3  # of the mean loss: a law that falls below zero far out has no logarithm
SMALLEST_SHARE = 1e-4  # of the mean loss, at which a term starts whose prior does not say


class LawMean:
    """A law bound to the rows of one eval.

    Parameters
    ----------
    training
        Law, rows and role.
    restraint
        Pins, ties and priors; every free parameter has a prior.
    """

    def __init__(self, training: TrainingRows, restraint: Restraint) -> None:
        self.law, self.role, self.restraint = training.law, training.role, restraint
        x, loss = self.law.bind(training.frame, self.role), training.frame["loss"].to_numpy(dtype=float)
        self.problem = Problem(self.law, x, loss, restraint)
        self.x, self.k, self.size = x, self.problem.k, self.problem.size
        self.names = tuple(self.problem.free)
        self.least = LEAST_LOSS * float(loss.mean())
        penalty = priors_on(self.problem, 1.0)
        assert penalty is not None
        self.priors = penalty
        self.sds = np.full(self.size, 1.0)  # of each coordinate, roughly: no step is longer than two
        for index, sd in zip(penalty.coordinates, penalty.sds, strict=True):
            self.sds[index] = sd
        self.low = np.concatenate([np.full(self.k, -math.inf), self.problem.z_low])
        self.high = np.concatenate([np.full(self.k, math.inf), self.problem.z_high])
        self.start = self._start()

    def _start(self) -> Array:
        """Return the coordinates at the prior's mean, (v,)."""
        problem, priors = self.problem, self.restraint.priors
        z = problem.starts(1, np.random.default_rng(0))[0]
        for m, group in enumerate(problem.shape_groups):
            prior, axis = priors.get(group[0]), self.law.shapes[group[0]]
            if prior is not None:
                z[m] = float(axis.to_axis(prior.mean))
        z = np.clip(z, problem.z_low, problem.z_high)
        scales, mean = problem.scales(z[None])[0], float(problem.loss.mean())
        c = np.empty(self.k)
        for k, group in enumerate(problem.amplitude_groups):
            prior = priors.get(group[0])
            if prior is None:
                c[k] = SMALLEST_SHARE * mean
            elif prior.scale == "share":
                c[k] = prior.mean * mean
            else:
                c[k] = prior.mean * scales[k]
        return np.concatenate([np.log(np.maximum(c, 1e-12)), z])

    def natural(self, theta: Array) -> Array:
        """Return the coordinates as `Problem` counts them, (1, v)."""
        return np.concatenate([np.exp(np.clip(theta[: self.k], -700, 700)), theta[self.k :]])[None]

    def at(self, theta: Array, x: SimpleNamespace | None = None) -> tuple[Array, Array]:
        """Return log losses, (n,), and their slopes by the coordinates, (n, v), at the fitted rows or others."""
        v, problem = self.natural(theta), self.problem
        scales = problem.scales_of(problem.columns(v[:, self.k :]))
        here = problem if x is None else problem.moved_to(x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            loss = LossAt.of(here, v, 1, scales)
        value = np.maximum(loss.value[0], self.least)
        slopes = loss.slopes[0].T / value[:, None]
        slopes[:, : self.k] *= v[0, : self.k]
        return np.log(value), np.where(loss.value[0, :, None] < self.least, 0.0, slopes)

    def prior(self, theta: Array) -> tuple[Array, Array]:
        """Return how far the coordinates lie from what is known, in standard deviations, (p,), and slopes, (p, v)."""
        v, problem = self.natural(theta), self.problem
        scales = problem.scales_of(problem.columns(v[:, self.k :]))
        known = self.priors
        value, slope, _ = values(problem, v, known.coordinates, known.scales, scales, 1)
        slope = slope[0] / known.sds[:, None]
        slope[:, : self.k] *= v[0, : self.k]
        return (value[0] - known.means) / known.sds, slope

    def parameters(self, theta: Array) -> dict[str, float]:
        """Return the parameters by name."""
        v = self.natural(theta)
        found = self.problem.parameters(v[:, : self.k], v[:, self.k :])[0]
        return self.law.with_signs(dict(zip(self.law.parameters, map(float, found), strict=True)), self.role)
