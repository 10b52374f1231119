"""The result of a fit: parameters, how sure the search was, forecasts with intervals, and a file that keeps it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.cached import if_known
from cptlaw.fitting.fit import Fit, HalfWidths
from cptlaw.fitting.members import Member
from cptlaw.fitting.saved import law_home
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.uncertainty import intervals
from cptlaw.fitting.uncertainty.inner_rollouts import inner_rollouts
from cptlaw.laws.calculus import Array
from cptlaw.laws.curve_rows import schedules_to_json
from cptlaw.laws.inputs import Points
from cptlaw.result import Line, Table
from cptlaw.schedules import Schedule, read_schedules

SEARCH = ("objective", "n_points", "n_runs", "status", "n_starts", "n_agree", "rank", "n_free")


@dataclass(frozen=True, repr=False, eq=False)
class LawFit(LawOnRows, Fit):
    """A fitted law: a `Fit` with one member, itself.

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
        Coordinates (amplitudes in mean sizes of their columns, then shapes on their axes) of the fit and of all other
        optima that the data cannot tell from it, shape (optima, free parameters).
    prior_weight
        What half a squared standard score of a prior counts beside the objective.
    learned
        Parameters whose priors other studies gave.
    """

    learned: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """Itself, with all the weight."""
        return (Member(self, 1.0, float("nan")),)

    @property
    def plain(self) -> bool:
        """Whether the rows alone were fitted."""
        return not self.learned

    def with_schedules(self, schedules: Mapping[str, Schedule] | str | Path) -> LawFit:
        """Return the fit with more learning-rate schedules, by run or from a file, to forecast runs under them."""
        return replace(self, schedules={**self.schedules, **read_schedules(schedules)})

    @property
    def without_intervals(self) -> Finding | None:
        """What is said in place of intervals, as of a fit to two runs; None where there are some."""
        return intervals.without_intervals(self) if self.plain else None

    def prepare_points(self, frame: Points) -> pd.DataFrame:
        """Return points as the law reads them; those at which it is infinite are refused."""
        rows = self.completed(frame)
        intervals.forecastable(self, rows)
        return rows

    def log_quantiles(self, frame: Points, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss at each row, shape (probabilities, n); see `Fit.log_quantiles`.

        Without what other studies say they are infinite where the data does not bound the loss, or where there are too
        few runs.
        """
        if self.plain:
            return intervals.log_quantiles(self, frame, probabilities, measured)
        return super().log_quantiles(frame, probabilities, measured)

    def half_widths(self, frame: Points, coverage: float) -> HalfWidths:
        """Return half-widths in log loss at rows, (n,) each: of the forms, the parameters, the distance, the noise."""
        if not self.plain:
            return super().half_widths(frame, coverage)
        return intervals.half_widths(self, self.completed(frame), coverage)

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, and why they are as wide as they are, in words."""
        return intervals.method(self) if self.plain else super().interval_method

    def to_dict(self) -> dict[str, object]:
        """Return the promised JSON keys."""
        return {
            "law": self.law.spec,
            "on": self.on,
            "params": self.params,
            "units": self.units,
            "delta": self.options.delta,
            **{name: getattr(self, name) for name in SEARCH},
            **({"n_effective": float(sum(self.n_effective.values()))} if self.law.correlated_along else {}),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def content(self) -> dict[str, object]:
        """Return what its file holds beside rows: parameters, search, restraint, optima, schedules."""
        inner = if_known(inner_rollouts, self)
        return {
            **self.to_dict(),
            "law_version": self.law.version,
            **law_home(self.law),
            "settings": self.options.to_dict(),
            "optima": self.optima.tolist(),
            "prior_weight": self.prior_weight,
            **({"schedules": schedules_to_json(self.schedules)} if self.schedules else {}),
            **({"inner_errors": inner.error.tolist()} if inner is not None and np.isfinite(inner.error).all() else {}),
            **({"learned": list(self.learned)} if self.learned else {}),
        }

    def roll_out(self) -> None:
        """Roll the law out inside its rows, so that a forecast from its file does not."""
        if self.n_points:
            inner_rollouts(self)

    @property
    def title(self) -> str:
        """The law and the eval."""
        return f"{self.law.spec} on {self.on}{'' if self.on == self.role else f' ({self.role})'}"

    @property
    def lines(self) -> list[Line]:
        """The equation, and how well it was found."""
        result = [("law", self.law.equation), *self._unit_lines()]
        if not self.n_points:
            return [*result, ("fit", f"given, not fitted. {self.provenance.get('note', '')}".rstrip())]
        missed = 100 * float(np.sqrt(np.mean(self.residuals() ** 2)))
        return [
            *result,
            ("data", f"{self.n_points} points of {self.n_runs} runs, root mean square residual {missed:.3g}%"),
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
