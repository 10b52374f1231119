"""A fit: laws with weights, fitted to the losses of one eval, and what they forecast together.

One law is one member of weight 1. Its doubt has four parts: how far the laws lie apart (form), how sure each is of its
parameters, what laws err by outside their data (distance), and the noise of one measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.fitting.asked_rows import known_at
from cptlaw.fitting.cached import Cache, cached, cached_in, cached_stat
from cptlaw.fitting.checking.assumed import assumed
from cptlaw.fitting.checking.cuts import trained_rows
from cptlaw.fitting.checking.distance import Direction, outside
from cptlaw.fitting.checking.extrapolation import extrapolations
from cptlaw.fitting.doubt import FAR_FROM, FAR_TO, Centres, half_widths
from cptlaw.fitting.point_covariance import PARTS, covariance_parts
from cptlaw.fitting.rollouts import directions
from cptlaw.fitting.saved import Saved
from cptlaw.fitting.solving.huber import FLOOR_ROWS, NOISE_FLOOR, noise_variance
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.fitting.uncertainty.answers import ForecastFrame
from cptlaw.fitting.uncertainty.intervals import bounded, findings_of
from cptlaw.laws.base import Law
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.laws.inputs import AnyRows, Columns, Points, as_rows
from cptlaw.runs.points import as_points
from cptlaw.units import format_percent, parse_probability

if TYPE_CHECKING:
    from cptlaw.fitting.members import Member

HalfWidths = tuple[Array, Array, Array, Array]  # of the forms, the parameters, the distance, the noise
ANY_MIX = 0.5  # replay of base models' rows for laws that are infinite there, whose loss is then not used
LEFT_OUT = 0.05  # weight of laws that cannot read a point, from which a finding says so


class Fit(Saved):
    """Laws with weights, fitted to the losses of one eval.

    Attributes
    ----------
    on, role
        The eval that was fitted and its role.
    members
        The laws, the heaviest first, each with ``fit`` and ``weight``; one law is one member of weight 1.
    data
        The fitted rows: run, inputs in raw units, loss.
    base
        Measured losses of base models on this eval: n_params, ptpp, loss.
    findings
        What was noticed, the worst first.
    provenance
        Where the data came from: file, fingerprint, filter, kind of parameter count.
    """

    _cache: Cache

    if TYPE_CHECKING:  # values here would become the defaults of the dataclasses that derive from it

        @property
        def members(self) -> tuple[Member, ...]:
            """The laws with their weights."""

        def predict(self, frame: Points) -> Array:
            """Return the forecast loss of each row, (n,)."""

        def residuals(self) -> Array:
            """Return log(predicted) - log(observed) of the fitted rows, (n_points,)."""

    @property
    def fits(self) -> tuple[LawOnRows, ...]:
        """The fitted laws."""
        return tuple(member.fit for member in self.members)

    @property
    def laws(self) -> tuple[AnyLaw, ...]:
        """The laws, the heaviest first."""
        return tuple(one.law for one in self.fits)

    @property
    def leading(self) -> LawOnRows:
        """The fit of the heaviest law."""
        return self.members[0].fit

    @property
    def plain(self) -> bool:
        """Whether one law was fitted to the rows alone, without what other studies say."""
        return False

    @property
    def without_intervals(self) -> Finding | None:
        """What is said in place of intervals; None where there are some."""
        return None

    def prepare_points(self, frame: Points) -> pd.DataFrame:
        """Return points as laws read them."""
        return self.completed(frame)

    @property
    def _rows(self) -> pd.DataFrame:
        """The fitted rows of trained models."""
        return trained_rows(self)

    @property
    def _directions(self) -> tuple[Direction, ...]:
        """The directions in which these rows vary."""
        return cached_stat(self._rows, "directions", lambda: directions(self._rows))

    def _readable(self, frame: Columns) -> list[AnyRows | None]:
        """Return the rows as each law reads them; None where a law cannot, as without a schedule."""
        readable: list[AnyRows | None] = []
        for j, fit in enumerate(self.fits):
            # Without schedules the columns decide, so that one look at them does for all questions.
            known = ("reads", j, None if fit.law.needs_schedules else tuple(frame.columns))
            try:
                rows = read_by(fit.law, fit.completed(frame))
                if fit.law.needs_schedules or known not in self._cache:
                    fit.law.bind(fit.law.as_taken(rows.take(np.arange(len(rows))[:1])), fit.role)
                    self._cache[known] = True
                readable.append(rows)
            except CptlawError:
                readable.append(None)
        if all(rows is None for rows in readable):
            self.leading.law.bind(self.leading.completed(frame), self.role)  # says what is missing
        return readable

    def weights(self, frame: Points) -> Array:
        """Return what each law counts at each row, shape (n, members)."""
        rows = Columns.of(self.completed(frame))
        return self._weights(rows, self._readable(rows))

    def _weights(self, frame: Columns, readable: Sequence[AnyRows | None]) -> Array:
        share = self._known_weights(frame) * np.array([rows is not None for rows in readable])
        for j, (fit, rows) in enumerate(zip(self.fits, readable, strict=True)):
            if rows is not None:  # at tokens = 0, say, only laws that are finite there count
                for name in fit.law.diverges_at_zero:
                    if name in rows.columns:
                        # A law that is infinite there would take the whole average along.
                        share[np.asarray(rows[name]) <= 0, j] = 0.0
        values: Array = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        return values

    def _known_weights(self, frame: Columns) -> Array:
        """Return what each law counts where all read the rows, (n, members)."""
        return np.ones((len(frame), 1))

    def _outside(self, frame: Columns) -> Array:
        """Return how far rows lie outside the fitted ones, (n, directions), in e-folds."""
        return cached_in(known_at(self, frame), "outside", lambda: outside(self._rows, frame, self._directions))

    def _centres(self, frame: Columns) -> Centres:
        """Return weights and log losses of the laws at each row, (n, members) each, and the rows as each reads them."""
        return cached_in(known_at(self, frame), "centres", lambda: self._evaluate_laws(frame))

    def _evaluate_laws(self, frame: Columns) -> Centres:
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
        finite = share * positive
        share = np.where(finite.sum(axis=1, keepdims=True) > 0, finite, share)
        return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300), centres, readable

    def weighted_centres(self, frame: AnyRows) -> Centres:
        """Return weights and log losses of the laws at each row, (n, members) each, and the rows as each reads them."""
        return self._centres(Columns.of(frame))

    def posterior(self, points: Points, measured: bool = True) -> tuple[Array, Array]:
        """Return the mean, (n,), and the covariance, (n, n), of log losses at points.

        Parameters
        ----------
        points
            Rows with the inputs.
        measured
            Of measured losses; without, of the losses themselves: what a measurement and the base model add is left
            out.

        Examples
        --------
        >>> import cptlaw as cl
        >>> fit = cl.fit("shared-tokens", cl.examples.load("en-fr-pilot"), "target", "ptpp in (31, 62)")
        >>> mean, covariance = fit.posterior("n_params=124672,tokens=1M,replay=25%,ptpp=124,lr_peak=3e-3")
        >>> mean.shape, covariance.shape
        ((1,), (1, 1))
        """
        rows = self.prepare_points(points)
        parts = covariance_parts(self, rows)
        kept = PARTS if measured else ("parameters", "form")
        return np.log(self.predict(rows)), np.sum([parts[name] for name in kept], axis=0)

    def doubt(self, points: Points) -> pd.DataFrame:
        """Return the standard deviation of the log of a measured loss at points by its parts, a row for each point.

        The columns are parameters, form (how far laws lie apart, and what they err by outside their data), base (what
        all runs of one base model share) and noise; in quadrature they are the diagonal of `posterior`.
        """
        rows = self.prepare_points(points)
        parts = covariance_parts(self, rows)
        return pd.DataFrame({name: np.sqrt(np.maximum(np.diag(parts[name]), 0.0)) for name in PARTS}, index=rows.index)

    def half_widths(self, frame: Points, coverage: float) -> HalfWidths:
        """Return half-widths in log loss at rows, (n,) each: of the forms, the parameters, the distance, the noise."""
        frame = Columns.of(self.completed(Columns.of(as_rows(frame))))
        last = known_at(self, frame)
        return cached_in(last, coverage, lambda: self._half_widths(frame, coverage, last))

    def _half_widths(self, frame: Columns, coverage: float, last: Cache) -> HalfWidths:
        far = cached_in(last, "far", lambda: self._far(frame))
        parts = half_widths(self.fits, self._centres(frame), coverage, far=far, kept=last)
        return *parts, np.full(len(frame), self.scatter(coverage))

    def _far(self, frame: Columns) -> Array:
        """Return how far rows lie outside the data, from 0 near them to 1 far out, (n,)."""
        away = np.abs(self._outside(frame)).max(axis=1, initial=0.0)
        return np.asarray(np.clip((away - FAR_FROM) / (FAR_TO - FAR_FROM), 0.0, 1.0))

    def scatter(self, coverage: float) -> float:
        """Return the half-width in log loss that the noise of one measurement has."""
        spread, freedom = self._noise()
        return t_quantile(coverage, freedom) * spread

    @cached
    def _noise(self) -> tuple[float, float]:
        """Return the spread of one measurement around the laws, log loss, and its degrees of freedom."""
        free = max(self.n_points - sum(member.weight * member.fit.rank for member in self.members), 1.0)
        expected = [(member.fit.options.restraint.noise or NOISE_FLOOR) ** 2 for member in self.members]
        mean = float(np.sqrt(np.average(expected, weights=[member.weight for member in self.members])))
        return float(np.sqrt(noise_variance(self.residuals(), free, mean))), free + FLOOR_ROWS

    def log_quantiles(self, frame: Points, probabilities: Sequence[float], measured: bool = True) -> Array:
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
        rows = self.prepare_points(Columns.of(as_rows(frame)))
        asked = np.asarray(probabilities, dtype=float)
        with np.errstate(invalid="ignore", divide="ignore"):  # a loss below zero has no logarithm: absurd-loss says so
            centre = np.log(self.predict(rows))
        values = np.tile(centre, (len(asked), 1))
        for coverage in sorted({round(abs(2.0 * float(one) - 1.0), 12) for one in asked} - {0.0}):
            *of_loss, noise = self.half_widths(rows, coverage)
            half = np.sqrt(sum(part**2 for part in of_loss) + (noise**2 if measured else 0.0))
            for j in np.flatnonzero(np.isclose(np.abs(2.0 * asked - 1.0), coverage, atol=1e-11)):
                values[j] = centre + np.sign(asked[j] - 0.5) * half
        return values

    def forecast(self, frame: Points, interval: float | str | None = 0.9) -> ForecastFrame:
        """Return the rows of `frame` with loss, lo, hi and findings.

        Parameters
        ----------
        frame
            Rows with the inputs, raw units; whatever `cptlaw.runs.points.as_points` reads.
        interval
            Probability that a measured loss lies between lo and hi. It covers how far the laws lie apart, the doubt
            about their parameters, what laws of this kind err by so far outside their data, and the noise. ``None``
            leaves the two columns out.

        Notes
        -----
        ``lo`` and ``hi`` are missing where the data do not bound the loss within a factor of 2; the row's findings then
        say so. Where one law was fitted without what other studies say, the doubt about the parameters is the profile
        of the objective along the forecast, which is as wide as the valley that the rows leave.
        """
        if interval is not None:
            interval = parse_probability(interval, "interval (--interval)")
        asked = as_points(frame)
        rows = self.prepare_points(asked)
        read = Columns.of(rows)
        loss = self.predict(read)
        said: dict[str, Array | float | pd.Series] = {"loss": loss}
        # Said of what was asked and not of what was filled in: plans choose the rate themselves.
        notes = [
            self._left_out(read),
            extrapolations(self.law, self.data, read),
            assumed(self.law, self.data, asked, rows),
        ]
        silent = self.without_intervals
        if interval is not None and silent is not None:
            said |= {"lo": np.nan, "hi": np.nan}
            notes.append([(silent,)] * len(rows))
        elif interval is not None:
            with np.errstate(over="ignore"):
                ends = np.exp(self.log_quantiles(read, [0.5 - 0.5 * interval, 0.5 + 0.5 * interval]))
            said["lo"], said["hi"], unbounded = self.ends_of(loss, *ends)
            notes.append(unbounded)
        out = asked if self.law.needs_schedules else rows
        said["findings"] = findings_of(loss, notes, out.index)
        return ForecastFrame.of(out.assign(**said), interval, [self])

    def ends_of(self, loss: Array, low: Array, high: Array) -> tuple[Array, Array, list[tuple[Finding, ...]]]:
        """Return the ends of intervals, (n,) each, NaN where the rows leave them open, and what is said of that."""
        return bounded(loss, low, high)

    def _left_out(self, rows: Columns) -> list[tuple[Finding, ...]]:
        """Say which laws of weight do not read the rows, (n,)."""
        if len(self.members) < 2:
            return [()] * len(rows)
        readable = self._centres(rows)[2]
        missing = [member for member, read in zip(self.members, readable, strict=True) if read is None]
        weight = sum(member.weight for member in missing)
        if weight < LEFT_OUT:
            return [()] * len(rows)
        names = ", ".join(member.fit.law.spec for member in missing if member.weight >= LEFT_OUT) or "several laws"
        scheduled = any(member.fit.law.needs_schedules for member in missing)
        advice = "Give run and step of the point, with the schedules of the runs." if scheduled else "Give all inputs."
        message = (
            f"laws with {format_percent(weight, 2)} of the weight do not read this point and are left out: {names}."
        )
        return [(Finding("warning", "laws-left-out", message, advice),)] * len(rows)

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, in words."""
        apart = "the spread between the laws, " if len(self.members) > 1 else ""
        return (
            f"{apart}the doubt about parameters, what laws err by outside their "
            "data as learned from other studies, and the noise of one measurement"
        )


def read_by(law: Law, rows: AnyRows) -> AnyRows:
    """Return rows as a law without a loss of base models reads them: a mix for those, which have none, is not asked."""
    if "tokens" not in law.diverges_at_zero or not {"tokens", "replay"} <= set(rows.columns):
        return rows
    replay = np.asarray(rows["replay"], dtype=float)
    open_ = np.isnan(replay) & (np.asarray(rows["tokens"]) == 0)
    return rows.assign(replay=np.where(open_, ANY_MIX, replay)) if open_.any() else rows
