"""Several laws fitted to the losses of one eval, and their average, which forecasts and plans like one fit."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.auto.auto_law import AutoLaw, Member
from cptlaw.auto.combined import Combined
from cptlaw.auto.common_rollouts import Rollout, directions
from cptlaw.auto.quick_doubt import LEAST_WEIGHT, OF_PARAMETERS, OF_ROLLOUTS, expected_in_rollouts, half_widths
from cptlaw.auto.rows import read_by
from cptlaw.auto.shared_error import BriefBase, SharedError
from cptlaw.auto.weights import RolloutScores
from cptlaw.checking.assumed import assumed
from cptlaw.checking.distance import fact, outside
from cptlaw.checking.extrapolation import extrapolations
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.base_models import BaseErrors
from cptlaw.fitting.fitted_law import Fit
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.learned import left_out
from cptlaw.result import Line, Table
from cptlaw.runs.points import as_points
from cptlaw.schedules import Schedule, read_schedules
from cptlaw.solving.huber import FLOOR_ROWS, noise_variance
from cptlaw.solving.student import t_quantile
from cptlaw.uncertainty.answers import ForecastFrame
from cptlaw.uncertainty.intervals import absurd
from cptlaw.units import parse_probability

ONE_SEARCH = ("objective", "n_starts", "n_agree", "rank", "n_free")  # what the search of one law tells


@dataclass(frozen=True, repr=False, eq=False)
class AutoFit(Combined):
    """Laws that were fitted on the same rows, averaged by what they forecast in common rollouts.

    Attributes
    ----------
    on, role
        The eval that was fitted and its role.
    members
        The laws, the heaviest first.
    scores
        How they did in the common rollouts, in the order of `members`.
    folds
        The common rollouts.
    data
        The common rows: run, inputs in raw units, loss; base models are not among them.
    base
        Measured losses of base models on this eval: n_params, ptpp, loss.
    findings
        What was left out and why, and what stands against the forecasts.
    provenance
        Where the data came from: file, fingerprint, filter, kind of parameter count.
    skipped
        Laws that could not be fitted, with the reason.
    brief
        Base models whose runs are left out.
    """

    on: str
    role: Role
    members: tuple[Member, ...]
    scores: RolloutScores
    folds: tuple[Rollout, ...]
    data: pd.DataFrame
    base: pd.DataFrame
    findings: tuple[Finding, ...]
    provenance: Mapping[str, Any]
    skipped: Mapping[str, str] = field(default_factory=dict)
    brief: tuple[BriefBase, ...] = ()
    _cache: dict[Any, Any] = field(default_factory=dict)

    # -- what is the same as for one law ---------------------------------------------------------------------------

    @property
    def law(self) -> AutoLaw:
        """What stands where one law is expected."""
        laws = [member.fit.law for member in self.members]
        return AutoLaw(
            inputs=tuple(dict.fromkeys(name for law in laws for name in law.inputs)),
            needs_schedules=all(law.needs_schedules for law in laws),
            decreasing=tuple(name for name in laws[0].decreasing if all(name in law.decreasing for law in laws)),
            signed_inputs=tuple(dict.fromkeys(name for law in laws for name in law.signed_inputs)),
        )

    @property
    def fits(self) -> tuple[Fit, ...]:
        """The fitted laws."""
        return tuple(member.fit for member in self.members)

    @property
    def leading(self) -> Fit:
        """The fit of the heaviest law."""
        return self.members[0].fit

    @property
    def n_blocks(self) -> int:
        """Groups of rows that err independently."""
        return self.leading.n_blocks

    @property
    def status(self) -> str:
        """Whether the searches of all laws with weight converged."""
        all_did = all(member.fit.status == "converged" for member in self.members if member.weight > LEAST_WEIGHT)
        return "converged" if all_did else "not converged"

    @property
    def schedules(self) -> dict[str, Schedule]:
        """Learning-rate schedules of the fitted runs, for the laws that read them."""
        return {run: known for fit in self.fits for run, known in fit.schedules.items()}

    def with_schedules(self, schedules: Mapping[str, Schedule] | str | Path) -> AutoFit:
        """Return the average with more learning-rate schedules, to forecast runs under them."""
        found = read_schedules(schedules) if isinstance(schedules, str | Path) else schedules
        members = tuple(
            replace(member, fit=member.fit.with_schedules(found)) if member.fit.law.needs_schedules else member
            for member in self.members
        )
        return replace(self, members=members, _cache={})

    # -- forecasts -------------------------------------------------------------------------------------------------

    def _readable(self, frame: pd.DataFrame) -> list[pd.DataFrame | None]:
        """Return the rows as each law reads them; None where a law cannot, as without a schedule."""
        found: list[pd.DataFrame | None] = []
        for j, fit in enumerate(self.fits):
            # Without schedules the columns decide, so that one look at them does for all questions.
            known = ("reads", j, None if fit.law.needs_schedules else tuple(frame.columns))
            try:
                rows = read_by(fit.law, fit.completed(frame))
                if fit.law.needs_schedules or known not in self._cache:
                    fit.law.bind(rows.head(1), fit.role)
                    self._cache[known] = True
                found.append(rows)
            except CptlawError:
                found.append(None)
        if all(rows is None for rows in found):
            self.leading.law.bind(self.leading.completed(frame), self.role)  # says what is missing
        return found

    def weights(self, frame: Any) -> Array:
        """Return what each law counts at each row, shape (n, members)."""
        rows = as_points(frame)
        return self._weights(rows, self._readable(rows))

    def _weights(self, frame: pd.DataFrame, readable: Sequence[pd.DataFrame | None]) -> Array:
        along = fact(self.data, "directions", lambda: directions(self.data))
        away = outside(self.data, frame, along)
        share = self.scores.weights(away) * np.array([rows is not None for rows in readable])
        for j, (fit, rows) in enumerate(zip(self.fits, readable, strict=True)):
            if rows is not None:  # at tokens = 0, say, only laws that are finite there count
                for name in fit.law.diverges_at_zero:
                    if name in rows.columns:
                        # A law that is infinite there would take the whole average along.
                        share[(rows[name] <= 0).to_numpy(), j] = 0.0
        found: Array = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        return found

    def _last(self, frame: pd.DataFrame) -> dict[Any, Any]:
        """Return what is known of the rows that were asked about last; a plan asks for several numbers in a row."""
        if not all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in frame.dtypes):
            return {}  # names of runs and schedules are not compared
        # By content: plans build a new frame for each question about the same points.
        key = (tuple(frame.columns), frame.to_numpy(dtype=float).tobytes())
        if self._cache.get("last", {}).get("key") != key:
            self._cache["last"] = {"key": key}
        found: dict[Any, Any] = self._cache["last"]
        return found

    def _centres(self, frame: pd.DataFrame) -> tuple[Array, Array, list[pd.DataFrame | None]]:
        """Return weights and log losses of the laws at each row, (n, members) each, and the rows as each reads them."""
        last = self._last(frame)
        if "centres" not in last:
            last["centres"] = self._computed(frame)
        found: tuple[Array, Array, list[pd.DataFrame | None]] = last["centres"]
        return found

    def _computed(self, frame: pd.DataFrame) -> tuple[Array, Array, list[pd.DataFrame | None]]:
        readable = self._readable(frame)
        share = self._weights(frame, readable)
        centres = np.zeros(share.shape)
        positive = np.ones(share.shape, dtype=bool)
        for j, (fit, rows) in enumerate(zip(self.fits, readable, strict=True)):
            if rows is not None and share[:, j].any():
                with np.errstate(divide="ignore", invalid="ignore"):
                    loss = fit.law.predict(fit.params, rows, fit.role)
                    centres[:, j] = np.where(share[:, j] > 0, np.log(np.maximum(loss, 1e-300)), 0.0)
                positive[:, j] = ~(loss <= 0)
        # A law that falls below zero there has no logarithm, and would take the whole average along.
        kept = share * positive
        share = np.where(kept.sum(axis=1, keepdims=True) > 0, kept, share)
        return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300), centres, readable

    def predict(self, frame: Any) -> Array:
        """Return the forecast loss of each row, (n,): the laws' weighted mean, less what they miss of base models."""
        rows = as_points(frame)
        if "bases" not in self._cache:
            self._cache["bases"] = BaseErrors(self, self._without_bases)
        found: Array = self._without_bases(rows) * np.exp(self._cache["bases"].at(rows))
        return found

    def _without_bases(self, rows: pd.DataFrame) -> Array:
        """Return the forecasts without what the measured losses of base models add to them."""
        share, centres, _ = self._centres(rows)
        if "missed" not in self._cache:
            self._cache["missed"] = SharedError.of(self.data, self.residuals(), self.brief)
        found: Array = np.exp(np.sum(share * centres, axis=1) - self._cache["missed"].at(rows))
        return found

    def doubt(self, frame: Any, coverage: float) -> tuple[Array, Array, Array, Array]:
        """Return half-widths in log loss at rows, (n,) each: of the forms, the parameters, the distance, the noise."""
        frame = as_points(frame)
        last = self._last(frame)
        if coverage not in last:
            last[coverage] = self._doubt(frame, coverage, last)
        found: tuple[Array, Array, Array, Array] = last[coverage]
        return found

    def _doubt(self, frame: pd.DataFrame, coverage: float, last: dict[Any, Any]) -> tuple[Array, Array, Array, Array]:
        forms, parameters, distance = half_widths(self.fits, self._centres(frame), coverage, last)
        spread, freedom = self._noise()
        if "rollouts" not in last:
            last["rollouts"] = self._beside_expected(frame, spread)
        scatter = np.full(len(frame), t_quantile(coverage, freedom) * spread)
        return forms, OF_PARAMETERS * last["rollouts"] ** OF_ROLLOUTS * parameters, distance, scatter

    def _noise(self) -> tuple[float, float]:
        """Return the spread of one measurement around the average, log loss, and its degrees of freedom, kept."""
        if "noise" not in self._cache:
            free = max(self.n_points - sum(member.weight * member.fit.rank for member in self.members), 1.0)
            self._cache["noise"] = float(np.sqrt(noise_variance(self.residuals(), free))), free + FLOOR_ROWS
        found: tuple[float, float] = self._cache["noise"]
        return found

    def _beside_expected(self, frame: pd.DataFrame, noise: float) -> Array:
        """Return by what factor the average errs in its rollouts, beside what is expected of them, (n,)."""
        along = fact(self.data, "directions", lambda: directions(self.data))
        key = ("expected", left_out())
        if key not in self._cache:
            names = tuple(one.name for one in along)
            reach = self.scores.reach.reshape(self.scores.error.shape[1], len(along))
            self._cache[key] = expected_in_rollouts(self.members, reach, names, noise)
        return self.scores.beside_expected(outside(self.data, frame, along), self._cache[key])

    def log_quantiles(self, frame: Any, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss, shape (probabilities, n).

        Parameters
        ----------
        frame
            Rows with the inputs.
        probabilities
            Between 0 and 1.
        measured
            Of a measured loss; without, of the loss itself.
        """
        rows = as_points(frame)
        asked = np.asarray(probabilities, dtype=float)
        centre = np.log(self.predict(rows))
        found = np.tile(centre, (len(asked), 1))
        for coverage in sorted({round(abs(2.0 * float(one) - 1.0), 12) for one in asked} - {0.0}):
            *of_loss, noise = self.doubt(rows, coverage)
            half = np.sqrt(sum(part**2 for part in of_loss) + (noise**2 if measured else 0.0))
            for j in np.flatnonzero(np.isclose(np.abs(2.0 * asked - 1.0), coverage, atol=1e-11)):
                found[j] = centre + np.sign(asked[j] - 0.5) * half
        return found

    def forecast(self, frame: Any, interval: float | str | None = 0.9) -> ForecastFrame:
        """Return the rows of `frame` with loss, lo, hi and findings.

        Parameters
        ----------
        frame
            Rows with the inputs, raw units; whatever `cptlaw.runs.points.as_points` reads.
        interval
            Probability that a measured loss lies between lo and hi. It covers how far the laws lie apart, the doubt
            about their parameters, what laws of this kind err by so far outside their data, and the noise. ``None``
            leaves the two columns out.
        """
        if interval is not None:
            interval = parse_probability(interval, "interval (--interval)")
        rows = as_points(frame)
        out = rows.copy()
        out["loss"] = self.predict(rows)
        if interval is not None:
            ends = self.log_quantiles(rows, [0.5 - 0.5 * interval, 0.5 + 0.5 * interval])
            out["lo"], out["hi"] = np.exp(ends)
        found = []
        of_rows = extrapolations(self.law, self.data, rows)  # type: ignore[arg-type]
        silent = assumed(self.law, self.data, rows)  # type: ignore[arg-type]
        for place, notes in enumerate(map(operator.add, of_rows, silent)):
            found.append(by_severity([*absurd(float(out["loss"].iloc[place])), *notes]))
        out["findings"] = pd.Series(found, index=out.index, dtype=object)
        return ForecastFrame.of(out, interval, [self])

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, in words."""
        return (
            "the spread between the laws, the doubt about their parameters, beside what their average errs by in "
            "rollouts, what laws err by outside their data as learned from other studies, and the noise of one "
            "measurement"
        )

    def residuals(self) -> Array:
        """Return log(predicted) - log(observed) of the common rows, as the laws alone predict them, (n_points,)."""
        share, centres, _ = self._computed(as_points(self.data))
        found: Array = np.sum(share * centres, axis=1) - np.log(self.data["loss"].to_numpy(dtype=float))
        return found

    # -- the answer ------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What was averaged."""
        return f"auto on {self.on}{'' if self.on == self.role else f' ({self.role})'}: {len(self.members)} laws"

    @property
    def lines(self) -> list[Line]:
        """In three lines: which laws, why with these weights, on what."""
        heavy = [member for member in self.members if member.weight >= 0.05] or list(self.members[:1])
        used = ", ".join(f"{_called(member.fit)} {member.weight:.2f}" for member in heavy)
        light = len(self.members) - len(heavy)
        missed = 100 * float(np.sqrt(np.mean(self.residuals() ** 2)))
        return [
            ("laws", used + (f"; {light} more below .05" if light else "")),
            ("weights", self.why),
            ("data", f"{self.n_points} points of {self.n_runs} runs, missed by {missed:.3g}% (root mean square)"),
        ]

    @property
    def why(self) -> str:
        """What the weights rest on."""
        if not self.folds:
            return "as usual, for no rollout within these rows can be fitted"
        along = list(dict.fromkeys(fold.direction for fold in self.folds))
        return (
            f"by {len(self.folds)} rollouts along {', '.join(along)}, up to "
            f"{float(np.exp(np.abs(np.array([fold.reach for fold in self.folds])).max())):.2g}-fold beyond what they "
            f"fit; at a point, those that go its way count more"
        )

    @property
    def tables(self) -> list[Table]:
        """All laws with their weights and what they err by in the common rollouts."""
        rows = tuple(
            (_called(member.fit), f"{member.weight:.3f}", f"{member.error:.2%}" if np.isfinite(member.error) else "-")
            for member in self.members
        )
        return [Table(("law", "weight", "error in rollouts"), rows)]

    def to_dict(self) -> dict[str, Any]:
        """Return the promised JSON keys."""
        return {
            "law": "auto",
            "on": self.on,
            # Each member has its own: an average has no parameters and no search that they could stand for.
            **dict.fromkeys(("params", "units", *ONE_SEARCH)),
            "members": [
                {
                    "law": member.fit.law.spec,
                    "tied": [list(group) for group in member.fit.options.restraint.tied],
                    "weight": member.weight,
                    "error": member.error if np.isfinite(member.error) else None,
                    "params": member.fit.params,
                    "units": member.fit.units,
                    **{name: getattr(member.fit, name) for name in ONE_SEARCH},
                }
                for member in self.members
            ],
            "rollouts": [{"direction": fold.direction, "label": fold.label} for fold in self.folds],
            "skipped": dict(self.skipped),
            **self.rests_on,
        }

    def content(self) -> dict[str, Any]:
        """Return what its file holds beside rows: its JSON, the fits of all laws, and how the rollouts went."""
        found = self.to_dict()
        for known, member in zip(found["members"], self.members, strict=True):
            known["fit"] = member.fit.document()
        found["brief"] = [asdict(one) for one in self.brief]
        found["scores"] = {name: getattr(self.scores, name).tolist() for name in ("share", "error", "reach")}
        found["folds"] = [
            {"direction": fold.direction, "label": fold.label}
            | {name: getattr(fold, name).astype(int).tolist() for name in ("fit", "test")}
            for fold in self.folds
        ]
        return found


def _called(fit: Fit) -> str:
    """Return a law's spec with its ties."""
    ties = "".join(f", {'='.join(group)}" for group in fit.options.restraint.tied)
    return f"{fit.law.spec}{ties}"
