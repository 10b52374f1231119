"""Doubt that is ready before it is asked for: the laws that the data allows, gathered once after a fit.

A full interval walks along the profile at its point, which takes a quarter of a second; a slider that is dragged asks
thirty times a second. So the profile is walked at places spread over all that the sliders can reach, and the laws met
there stand for what the data allows everywhere. Their range comes close to the full interval: 0.8 to 1.15 times as wide
on the example runs, mostly a little narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.fitting import Fit
from cptlaw.laws.calculus import Array
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.intervals import MIN_RUNS, measurement_scatter, rollout_width
from cptlaw.uncertainty.profile import walk

COVERAGE = 0.9
WALKS = 10  # places at which the profile is walked
NEAR = 3.0  # times beyond the fitted range
PROBES = 400  # places at which the outermost laws are looked for
MOST_LAWS = 160


@dataclass(frozen=True, eq=False)
class Allowed:
    """The laws that the data allows.

    Parameters
    ----------
    fit
        The fit.
    laws
        Parameter vectors, the fit first, (s, parameters).
    shares
        Share of the rise that a 90 % interval allows, of each, (s,).
    """

    fit: Fit
    laws: Array
    shares: Array

    def at(self, coverage: float) -> Array:
        """Return the laws that an interval of this coverage allows, (s, parameters); at most 90 %."""
        freedom = max(self.fit.n_runs - 1, 1)
        share = (t_quantile(coverage, freedom) / t_quantile(COVERAGE, freedom)) ** 2
        found: Array = self.laws[self.shares <= share + 1e-12]
        return found

    def interval(self, frame: pd.DataFrame, coverage: float = COVERAGE) -> tuple[Array, Array]:
        """Return lower and upper end for a measured loss at each row, (n,)."""
        centre = np.log(self.fit.predict(frame))
        others = np.log(self.fit.law.predict_many(self.at(coverage), frame, self.fit.role))
        scatter, wider = measurement_scatter(self.fit, coverage), rollout_width(self.fit)
        low = np.exp(centre - wider * np.hypot(np.maximum(centre - others.min(axis=0), 0.0), scatter))
        high = np.exp(centre + wider * np.hypot(np.maximum(others.max(axis=0) - centre, 0.0), scatter))
        return low, high


def gather(fit: Fit, ranges: dict[str, tuple[float, float]], seed: int = 0) -> Allowed | None:
    """Walk the profile over all that the sliders reach and keep the laws that lie outermost somewhere.

    Parameters
    ----------
    fit
        The fit.
    ranges
        Least and largest value of each input, raw.
    seed
        Of the places.

    Returns
    -------
    Allowed, or ``None`` where there are too few runs to say how runs differ.
    """
    if fit.n_runs < MIN_RUNS:
        return None
    rng = np.random.default_rng(seed)
    met = walk(fit, _places(fit, ranges, WALKS, rng), COVERAGE)
    probes = _places(fit, ranges, PROBES, rng)
    losses = fit.law.predict_many(met.allowed, probes, fit.role)
    freedom = max(fit.n_runs - 1, 1)
    kept = {0}
    for coverage in (COVERAGE, 0.8, 0.6):  # of risks 0.95, 0.9 and 0.8
        within = np.flatnonzero(met.rises <= (t_quantile(coverage, freedom) / t_quantile(COVERAGE, freedom)) ** 2)
        for outermost in (np.argmin, np.argmax):
            laws, counts = np.unique(within[outermost(losses[within], axis=0)], return_counts=True)
            order = np.argsort(-counts, kind="stable")
            kept.update(laws[order][: MOST_LAWS // 6].tolist())
    chosen = sorted(kept)
    return Allowed(fit, met.allowed[chosen], met.rises[chosen])


def _places(fit: Fit, ranges: dict[str, tuple[float, float]], count: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return points spread over the ranges, their corners more than their middles; every other one near the fit."""
    columns = {}
    for name in fit.law.inputs:
        low, high = ranges[name]
        share = rng.beta(0.5, 0.5, size=count)
        logarithmic = name != "replay" and low > 0
        if logarithmic and name in fit.data.columns:
            near = math.log(NEAR * float(fit.data[name].max()) / low) / math.log(high / low)
            share[::2] *= min(near, 1.0)
        columns[name] = low * (high / low) ** share if logarithmic else low + (high - low) * share
    return pd.DataFrame(columns)
