"""The result of a fit: parameters, how sure the search was, forecasts with intervals, and a file that keeps it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding
from cptlaw.laws.base import Known, Law, Role
from cptlaw.laws.calculus import Array
from cptlaw.result import Line, Result, Table
from cptlaw.runs.points import as_points
from cptlaw.schedules import Schedule, read_schedules
from cptlaw.solving.blocks import along_runs, independent_blocks
from cptlaw.solving.components import Components, base_models, components, orthonormal
from cptlaw.solving.identifiability import jacobian
from cptlaw.solving.objective import Penalty, priors_on
from cptlaw.solving.problem import Problem

if TYPE_CHECKING:
    from cptlaw.fitting.options import Options


@dataclass(frozen=True, repr=False, eq=False)
class Fit(Result):
    """A fitted law.

    Attributes
    ----------
    law
        The law, with its options.
    on, role
        The eval that was fitted and its role.
    params
        Parameters by name, in the law's units.
    objective
        Sum over points of Huber(delta) of the log residual.
    n_points, n_runs
        Size of the data.
    status
        ``"converged"`` or ``"not converged"``.
    n_starts, n_agree
        Starts, and those whose polished objective is within 0.1 % of the best.
    rank, n_free
        Numerical rank of the Jacobian at the optimum, and number of free parameters.
    findings
        What the checks before and after the fit noticed, the worst first.
    data
        The fitted rows: run, the law's inputs in raw units, loss.
    base
        Measured losses of base models on this eval: n_params, ptpp, loss.
    options
        Threshold, starts, seed and restraint.
    provenance
        Where the data came from: file, fingerprint, filter, kind of parameter count.
    schedules
        Learning-rate schedules of the fitted runs, for laws of loss curves.
    optima
        Coordinates (amplitudes on the normalised scale, then shapes on their axes) of the fit and of all other optima
        that the data cannot tell from it, shape (optima, free parameters).
    prior_weight
        What half a squared standard score of a prior counts beside the objective.
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
    provenance: Mapping[str, Any]
    optima: Array
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    prior_weight: float = 0.0
    _cache: dict[Any, Any] = field(default_factory=dict)

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

    def predict(self, frame: Any) -> Array:
        """Return the fitted loss of each row of `frame`, nats per token, shape (n,).

        `frame` is whatever `cptlaw.runs.points.as_points` reads: a DataFrame or a mapping of columns, aliases and units
        included. For laws of loss curves a row may name ``run`` and ``step`` instead of areas; see `with_schedules`.
        """
        return self.law.predict(self.params, self.completed(frame), self.role)

    def completed(self, frame: Any) -> pd.DataFrame:
        """Return rows with the inputs that the law computes from fitted rows or from schedules."""
        frame = as_points(frame)
        return self.law.inputs_of(frame, Known(fitted=self.data, schedules=self.schedules))

    def with_schedules(self, schedules: Mapping[str, Schedule] | str | Path) -> Fit:
        """Return the fit with more learning-rate schedules, by run or from a file, to forecast runs under them."""
        found = read_schedules(schedules) if isinstance(schedules, str | Path) else schedules
        return replace(self, schedules={**self.schedules, **found})

    @property
    def blocks(self) -> NDArray[np.int_]:
        """Number of the group of fitted rows that err together, (n_points,): a run, or a block of a loss curve."""
        if "blocks" not in self._cache and self.data.empty:
            self._cache.update(blocks=np.zeros(0, dtype=int), effective={})
        if "blocks" not in self._cache:
            run = self.data["run"].to_numpy(dtype=str)
            if self.law.correlated_along in self.data.columns:
                labels, effective = independent_blocks(run, along_runs(self.data), self.residuals())
            else:
                runs, labels = np.unique(run, return_inverse=True)
                effective = dict.fromkeys(runs.tolist(), 1.0)
            self._cache["blocks"], self._cache["effective"] = labels, effective
        found: NDArray[np.int_] = self._cache["blocks"]
        return found

    @property
    def n_blocks(self) -> int:
        """Number of groups of rows that err independently: runs, or blocks of loss curves."""
        return int(self.blocks.max(initial=-1)) + 1

    @property
    def n_effective(self) -> dict[str, float]:
        """Effective number of points by run.

        For loss curves what the autocorrelation of residuals leaves. Else 1, and where runs share base models less, by
        the part of the residual variance that all runs of a base model have in common.
        """
        self.blocks  # noqa: B018  computes both
        found: dict[str, float] = self._cache["effective"]
        base = base_models(self.data)
        if base is None or self.law.correlated_along:
            return found
        shared = self.components.shares.get("base", 0.0)
        runs = self.data["run"].astype(str).to_numpy()
        members = {int(label): len(set(runs[base == label])) for label in np.unique(base)}
        of_run = dict(zip(runs, (members[int(label)] for label in base), strict=True))
        return {run: 1.0 / (1.0 + (of_run[run] - 1) * shared) for run in found}

    @property
    def components(self) -> Components:
        """Variances of the log residuals by base model, run and point."""
        if "components" not in self._cache:
            problem, k = self.problem(), self.problem().k
            at = self.optima[0]
            levels = [("run", self.blocks)]
            base = base_models(self.data)
            if base is not None:
                levels.insert(0, ("base", base))
            basis = orthonormal(jacobian(problem, at[:k], at[k:]))
            self._cache["components"] = components(self.residuals(), basis, levels)
        found: Components = self._cache["components"]
        return found

    def forecast(self, frame: Any, interval: float | str | None = 0.9) -> pd.DataFrame:
        """Return the rows of `frame` with loss, lo, hi and findings.

        Parameters
        ----------
        frame
            Rows with the law's inputs, raw units; whatever `cptlaw.runs.points.as_points` reads.
        interval
            Probability that a measured loss lies between lo and hi: the profile of the objective along the forecast,
            which is wide where the data is silent, and the noise of a measurement. ``None`` leaves the two columns out.

        Notes
        -----
        ``lo`` and ``hi`` are missing only where the data cannot bound the loss; the row's findings then say why.
        """
        from cptlaw.uncertainty.intervals import forecast

        return forecast(self, frame, interval)

    def log_quantiles(self, frame: Any, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss at each row, shape (n, probabilities).

        The interval of `forecast` with probability c ends at the quantiles (1 - c) / 2 and (1 + c) / 2; the quantile
        1/2 is the forecast. Each row is profiled once up to 90 %, once more up to 99 % where that is asked; what
        was asked before or beside it changes nothing.

        Parameters
        ----------
        frame
            Rows with the law's inputs; whatever `cptlaw.runs.points.as_points` reads. Up to 12 rows are profiled
            exactly, of more rows 12 that are spread over them, and the others take what those met.
        probabilities
            Between 0 and 1.
        measured
            Of a measured loss; False for the law's own, without the noise of a measurement.

        Returns
        -------
        array
            Infinite where the data does not bound the loss, or where there are too few runs.
        """
        from cptlaw.uncertainty.intervals import log_quantiles

        return log_quantiles(self, frame, probabilities, measured)

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, and why they are as wide as they are, in words."""
        from cptlaw.uncertainty.intervals import method

        return method(self)

    def draws(self, count: int | None = None) -> Array:
        """Return bootstrap draws of the parameters, (draws, parameters), computed once and kept."""
        from cptlaw.uncertainty.intervals import DRAWS, bootstrap

        if "draws" not in self._cache or (count is not None and len(self._cache["draws"]) < count):
            self._cache["draws"] = bootstrap(self, count or DRAWS)
        drawn: Array = self._cache["draws"]
        return drawn if count is None else drawn[:count]

    def residuals(self) -> Array:
        """Return log(predicted) - log(observed) of the fitted rows, shape (n_points,)."""
        residual: Array = np.log(self.law.predict(self.params, self.data, self.role)) - np.log(
            self.data["loss"].to_numpy(dtype=float)
        )
        return residual

    def to_dict(self) -> dict[str, Any]:
        """Return the promised JSON keys."""
        return {
            "law": self.law.spec,
            "on": self.on,
            "params": self.params,
            "units": self.units,
            "objective": self.objective,
            "delta": self.options.delta,
            "n_points": self.n_points,
            "n_runs": self.n_runs,
            **({"n_effective": float(sum(self.n_effective.values()))} if self.law.correlated_along else {}),
            "status": self.status,
            "n_starts": self.n_starts,
            "n_agree": self.n_agree,
            "rank": self.rank,
            "n_free": self.n_free,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def text(self) -> str:
        """Return the content of the fit's file."""
        from cptlaw.fitting.fit_file import fit_text

        return fit_text(self)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the fit to a JSON file for `load_fit`, whole or not at all; only `force` overwrites what is no fit."""
        from cptlaw.writing import FIT, write_text

        return write_text(path, self.text(), FIT, force=force)

    @property
    def title(self) -> str:
        """The law and the eval."""
        return f"{self.law.spec} on {self.on}{'' if self.on == self.role else f' ({self.role})'}"

    @property
    def lines(self) -> list[Line]:
        """The equation, and how well it was found."""
        found = [("law", self.law.equation), *self._unit_lines()]
        if not self.n_points:
            return [*found, ("fit", f"given, not fitted. {self.provenance.get('note', '')}".rstrip())]
        missed = 100 * float(np.sqrt(np.mean(self.residuals() ** 2)))
        return [
            *found,
            ("data", f"{self.n_points} points of {self.n_runs} runs, missed by {missed:.3g}% (root mean square)"),
            (
                "search",
                f"{self.status}; {self.n_agree} of {self.n_starts} starts agree; rank {self.rank} of {self.n_free}",
            ),
        ]

    @property
    def details(self) -> list[Line]:
        """The value of the objective."""
        huber = f"{self.objective:.10g}, sum of Huber {self.options.delta:g} on log residuals"
        return [("objective", huber)] if self.n_points else []

    @property
    def tables(self) -> list[Table]:
        """The parameters, in the law's units."""
        rows = tuple((name, f"{value:.6g}", self._mark(name)) for name, value in self.params.items())
        marked = any(mark for _, _, mark in rows)
        columns = ("parameter", "value", "held") if marked else ("parameter", "value")
        return [Table(columns, rows if marked else tuple(row[:2] for row in rows))]

    def _unit_lines(self) -> list[Line]:
        units = [("n_params", "N", "parameters"), ("tokens", "D", "tokens")]
        known = [f"{letter} per {self.units[name]:g} {what}" for name, letter, what in units if name in self.law.inputs]
        return [("units", ", ".join(known))] if known else []

    def _mark(self, name: str) -> str:
        restraint = self.options.restraint
        if name in restraint.fixed:
            return "fixed"
        tied = next((group for group in restraint.tied if name in group), None)
        if tied:
            return f"tied: {' = '.join(tied)}"
        return "prior" if name in restraint.priors else ""
