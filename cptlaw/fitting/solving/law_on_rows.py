"""A law with its parameters on the rows that it was fitted to: what doubt about its forecasts is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding
from cptlaw.fitting.cached import Cache, cached
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.solving.blocks import along_runs, independent_blocks, trainings
from cptlaw.fitting.solving.open_rates import with_rates
from cptlaw.fitting.solving.options import Options
from cptlaw.fitting.solving.priors import Penalty, priors_on
from cptlaw.fitting.solving.problem import Problem
from cptlaw.laws.base import Context, Law, Role
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import Points, as_rows
from cptlaw.schedules import Schedule


@dataclass(frozen=True, repr=False, eq=False)
class LawOnRows:
    """A law with its parameters, on the rows that it was fitted to; `cptlaw.Fit` adds forecasts and a file.

    It stands below both: intervals are computed from it, and a fit computes its intervals.

    What its attributes are is said there.
    """

    law: Law
    on: str
    role: Role
    params: dict[str, float]
    objective: float
    n_points: int
    n_runs: int
    status: str
    n_starts: int
    n_agree: int
    rank: int
    n_free: int
    findings: tuple[Finding, ...]
    data: pd.DataFrame
    base: pd.DataFrame
    options: Options
    provenance: Provenance
    optima: Array
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    prior_weight: float = 0.0
    _cache: Cache = field(default_factory=dict)

    @property
    def units(self) -> dict[str, float]:
        """Parameters and tokens per unit of N and D."""
        return dict(self.law.units)

    def problem(self) -> Problem:
        """Return the law bound to the fitted rows, as it was when it was fitted."""
        loss = self.data["loss"].to_numpy(dtype=float)
        return Problem(self.law, self.law.bind(self.data, self.role), loss, self.options.restraint)

    def penalty(self, problem: Problem) -> Penalty | None:
        """Return the priors of this fit, for a problem with its restraint or a narrower one."""
        return priors_on(problem, self.prior_weight)

    def predict(self, frame: Points) -> Array:
        """Return the fitted loss of each row of `frame`, nats per token, shape (n,).

        `frame` is whatever `cptlaw.runs.points.as_points` reads: a DataFrame or a mapping of columns, aliases and units
        included. For laws of loss curves a row may name ``run`` and ``step`` instead of areas; see `with_schedules`.
        """
        return self.law.predict(self.params, self.completed(frame), self.role)

    def completed(self, frame: Points) -> pd.DataFrame:
        """Return rows with the inputs that the law computes from fitted rows or from schedules."""
        rows = self.law.as_taken(with_rates(self, as_rows(frame)))
        return self.law.inputs_of(rows, Context(fitted=self.data, schedules=self.schedules))

    @property
    def blocks(self) -> NDArray[np.int_]:
        """Number of the group of fitted rows that err together, (n_points,): run and merges, or part of a curve."""
        return self._by_blocks()[0]

    @cached
    def _by_blocks(self) -> tuple[NDArray[np.int_], dict[str, float]]:
        """Return the block of each row, and of loss curves the effective number of points by run."""
        if self.data.empty:
            return np.zeros(0, dtype=int), {}
        run = trainings(self.data)
        if self.law.correlated_along in self.data.columns:
            return independent_blocks(run, along_runs(self.data), self.residuals())
        return np.unique(run, return_inverse=True)[1], {}

    @property
    def n_blocks(self) -> int:
        """Number of groups of rows that err independently: runs, or blocks of loss curves."""
        return int(self.blocks.max(initial=-1)) + 1

    @property
    def n_effective(self) -> dict[str, float]:
        """Effective number of points of loss curves by run: what the autocorrelation of residuals leaves."""
        return self._by_blocks()[1]

    def residuals(self) -> Array:
        """Return log(predicted) - log(observed) of the fitted rows, shape (n_points,)."""
        residual: Array = np.log(self.law.predict(self.params, self.data, self.role)) - np.log(
            self.data["loss"].to_numpy(dtype=float)
        )
        return residual
