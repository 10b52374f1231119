"""A fitted score: its members and their weights; it forecasts and plans like a fitted loss, with points for nats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.cached import Cache
from cptlaw.fitting.checking.distance import directions_of, outside
from cptlaw.fitting.checking.extrapolation import extrapolations
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.point_covariance import ONE_SD
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.saved import CountedRows, Saved
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.fitting.uncertainty.answers import ForecastFrame
from cptlaw.laws.base import Role
from cptlaw.laws.combined_law import CombinedLaw
from cptlaw.result import Line, Table
from cptlaw.runs.points import PointsLike, as_points
from cptlaw.units import counted, format_percent, parse_probability
from cptlaw_scores.laws.score_law import Array
from cptlaw_scores.members import ScoreMember
from cptlaw_scores.weights import arcsine

LEAST_WEIGHT = 0.01  # of a member, below which the doubt about its loss moves the score too little to be computed
HEAVY = 0.05  # weight of a member from which its scatter counts as that of the runs
TAILS = 0.9  # coverage of the interval of which the loss's doubt is read where one number stands for it
ALONG = ("n_params", "tokens", "ptpp")


@dataclass(frozen=True, repr=False, eq=False)
class ScoreFit(CountedRows, Saved):
    """A fitted score: one member, or the average of several.

    Attributes
    ----------
    on, metric, role
        The eval, what its score is, and its role.
    chance, n_items
        Score of guessing, and questions behind a score.
    members
        The members, the heaviest first.
    scale
        By what factor forecasts miss more than links and forms say, by the rollouts of all tasks.
    loss_scale
        The same for the carrying losses.
    freedom
        Degrees of freedom of these doubts: the cuts and the scores that they were seen in.
    growth
        What forecasts miss beyond that per e-fold beyond the fitted models, on the arcsine scale, by rollouts.
    data
        Measured scores: run, inputs in raw units, ``loss`` (the score, 0 to 1), n_items.
    base
        Measured scores of base models: n_params, ptpp, loss.
    findings
        The worst first.
    rollouts
        The rollouts that the weights rest on.
    provenance
        Where the data came from.
    skipped
        Losses that could not be fitted, with the reason.
    """

    on: str
    metric: str
    role: Role
    chance: float
    n_items: float
    members: tuple[ScoreMember, ...]
    scale: float
    loss_scale: float
    freedom: float
    growth: float
    data: pd.DataFrame
    base: pd.DataFrame
    findings: tuple[Finding, ...]
    rollouts: tuple[str, ...]
    provenance: Provenance
    skipped: tuple[str, ...] = ()
    is_score_fit: ClassVar[bool] = True
    status: ClassVar[str] = "converged"  # Fisher scoring always ends at an optimum
    _cache: Cache = field(default_factory=dict)

    # -- what is the same as for a loss ----------------------------------------------------------------------------

    @property
    def law(self) -> CombinedLaw:
        """Stand-in for a `Law` where several are averaged."""
        losses = [part.loss.law for part in self.members if part.loss is not None]
        own = [name for part in self.members for name in part.law.inputs if name != "carrier"]
        inputs = dict.fromkeys([*own, *(name for one in losses for name in one.inputs)])
        if "flops" in inputs:
            inputs = dict.fromkeys([*(name for name in inputs if name != "flops"), "n_params", "tokens"])
        first, alone = self.members[0], len(self.members) == 1
        spec = first.name if alone else "score-auto"
        return CombinedLaw(
            inputs=tuple(inputs),
            needs_schedules=len(losses) == len(self.members) and all(one.needs_schedules for one in losses),
            decreasing=(),
            name=spec.partition(":")[0],
            spec=spec,
            equation=first.law.equation if alone else "the average of several laws of a score",
        )

    @property
    def law_option(self) -> str:
        """What ``--law`` takes to fit it again."""
        return self.law.spec if len(self.members) == 1 else "auto"

    @property
    def fits(self) -> list[LawOnRows]:
        """The fits of single laws of the losses that carry it."""
        return [one for loss in self.losses.values() for one in loss.fits]

    @property
    def losses(self) -> dict[str, Fit]:
        """The fitted losses that carry the score, by eval."""
        return {
            part.carrier: part.loss for part in self.members if part.carrier is not None and isinstance(part.loss, Fit)
        }

    @property
    def carrier(self) -> str | None:
        """The eval whose loss carries most of the score; ``None`` where all members are direct."""
        heavy: dict[str, float] = {}
        for part in self.members:
            if part.carrier is not None and part.loss is not None:
                heavy[part.carrier] = heavy.get(part.carrier, 0.0) + part.weight
        return max(heavy, key=lambda name: heavy[name]) if heavy else None

    @property
    def carrier_fit(self) -> Fit | None:
        """The fit of that loss; ``None`` where all members are direct."""
        return None if self.carrier is None else self.losses[self.carrier]

    # -- forecasts -------------------------------------------------------------------------------------------------

    def _scores(self, frame: pd.DataFrame) -> tuple[Array, Array, list[Array | None]]:
        """Return scores and the standard deviation by the link's doubt, (members, n) each, and the carriers' losses."""
        known = self._losses(frame)
        losses = [known[part.carrier] for part in self.members]
        each = [part.at(frame, loss) for part, loss in zip(self.members, losses, strict=True)]
        return np.array([score for score, _ in each]), np.array([doubt for _, doubt in each]), losses

    @property
    def weights(self) -> Array:
        """What each member counts, (members,)."""
        values: Array = np.array([part.weight for part in self.members])
        return values

    def predict(self, frame: PointsLike) -> Array:
        """Return the forecast score of each row, from 0 to 1, shape (n,)."""
        rows = as_points(frame)
        losses = self._losses(rows)
        values: Array = self.weights @ np.array([part.score(rows, losses.get(part.carrier)) for part in self.members])
        return values

    def _losses(self, frame: pd.DataFrame) -> dict[str | None, Array | None]:
        """Return the carrying losses at rows, (n,), by eval: several members read one loss."""
        return {name: part.losses(frame) for name, part in {part.carrier: part for part in self.members}.items()}

    def beyond(self, frame: pd.DataFrame) -> Array:
        """Return by how many e-folds rows lie outside the fitted models along the worst direction, (n,)."""
        along = directions_of(name for name in ALONG if name in frame.columns and name in self.data.columns)
        values: Array = np.abs(outside(self.data, frame, along)).max(axis=1, initial=0.0)
        return values

    def parts(self, frame: PointsLike) -> dict[str, Array]:
        """Return the standard deviations on the arcsine scale that make the doubt, (n,) each.

        ``loss`` is the doubt about the carrying losses, ``link`` that about the parameters of the links, ``form`` the
        spread between the members, ``distance`` what forecasts miss beyond that so far from the fitted models, by
        rollouts, and ``items`` the noise of a measurement: the questions, and what runs scatter by themselves.
        """
        frame = as_points(frame)
        return self._parts(frame, *self._scores(frame))

    def _parts(
        self, frame: pd.DataFrame, scores: Array, deviation: Array, losses: list[Array | None]
    ) -> dict[str, Array]:
        weight = self.weights[:, None]
        p = np.clip((weight * scores).sum(axis=0), 1e-6, 1 - 1e-6)
        own = np.clip(scores, 1e-6, 1 - 1e-6)
        # The slope of arcsin(sqrt p) is 1 / sqrt(4 p (1 - p)): standard deviations of shares become those of the
        # arcsine scale.
        link = (weight * deviation**2 / (4.0 * own * (1.0 - own))).sum(axis=0)
        form = (weight * (arcsine(scores) - arcsine(p)) ** 2).sum(axis=0)
        normal = t_quantile(TAILS, self.freedom)
        up, down = (self._by_loss(frame, scores, losses, chance) for chance in (0.5 - TAILS / 2, 0.5 + TAILS / 2))
        loss = (0.5 * (np.abs(up) + np.abs(down)) / normal) ** 2
        # Rollouts forecast the loss too, so that what they miss holds its doubt already.
        distance = np.maximum((self.growth * self.beyond(frame)) ** 2 - loss, 0.0)
        # What runs scatter by is what is left by the member that leaves least; a worse one leaves its misfit too.
        rho = min(part.rho for part in self.members if part.weight >= HEAVY or part is self.members[0])
        # On the arcsine scale n items have the variance 1/(4 n) at any score; rho is what runs scatter by however many
        # are asked.
        items = np.full(len(frame), 0.25 / self.n_items + 0.25 * rho)
        variances = {"loss": loss, "link": link, "form": form, "distance": distance, "items": items}
        return {name: np.sqrt(value) for name, value in variances.items()}

    def _by_loss(self, frame: pd.DataFrame, scores: Array, losses: list[Array | None], chance: float) -> Array:
        """Return by how much the score moves, on the arcsine scale, where the losses lie at a quantile, (n,)."""
        moved = np.zeros(len(frame))
        known: dict[str, Array] = {}
        for part, p, loss in zip(self.members, scores, losses, strict=True):
            if loss is None or part.loss is None or part.given(frame) is not None or part.weight < LEAST_WEIGHT:
                continue
            if part.carrier not in known:
                ends = part.loss.log_quantiles(frame, [chance], measured=False)[0]
                centre = np.log(loss)
                ends = np.where(np.isfinite(ends), centre + self.loss_scale * (ends - centre), centre)
                known[str(part.carrier)] = np.exp(ends)
            there, _ = part.at(frame, known[str(part.carrier)])
            moved += part.weight * (arcsine(there) - arcsine(p))
        return moved

    def quantiles(self, frame: PointsLike, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the score at each row, shape (probabilities, n).

        Parameters
        ----------
        frame
            Rows with the inputs; a column named as a carrying eval holds its loss as known.
        probabilities
            Between 0 and 1.
        measured
            Of a measured score, with the noise of its items; False for the score that endless questions would give.
        """
        frame = as_points(frame)
        scores, deviation, losses = self._scores(frame)
        parts = self._parts(frame, scores, deviation, losses)
        centre = arcsine(self.weights @ scores)
        rest = sum(parts[name] ** 2 for name in ("link", "form", "distance"))
        rest = np.sqrt(rest + (parts["items"] ** 2 if measured else 0.0))
        values = np.empty((len(probabilities), len(frame)))
        for j, chance in enumerate(probabilities):
            coverage = abs(2.0 * chance - 1.0)
            if coverage < 1e-12:
                values[j] = centre
                continue
            side = math.copysign(1.0, chance - 0.5)
            by_loss = self._by_loss(frame, scores, losses, 1.0 - chance)
            by_loss = np.where(np.sign(by_loss) == side, by_loss, 0.0)
            half = np.hypot(by_loss, t_quantile(coverage, self.freedom) * rest)
            values[j] = centre + side * half
        shares: Array = np.sin(np.clip(values, 0.0, 0.5 * math.pi)) ** 2
        return shares

    def log_quantiles(self, frame: PointsLike, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the logarithm of the score, shape (probabilities, n); see `quantiles`."""
        values: Array = np.log(np.maximum(self.quantiles(frame, probabilities, measured), 1e-9))
        return values

    def posterior(self, points: PointsLike, measured: bool = True) -> tuple[Array, Array]:
        """Return the mean, (n,), and the covariance, (n, n), of the logarithm of scores at points.

        Parameters
        ----------
        points
            Rows with the inputs.
        measured
            Of measured scores, with the noise of their items.
        """
        parts = self.doubt(points).to_numpy()
        shared = parts[:, :-1] @ parts[:, :-1].T  # what loss, link and form miss, nearby scores miss alike
        noise = np.diag(parts[:, -1] ** 2) if measured else 0.0
        return np.log(np.maximum(self.predict(points), 1e-9)), shared + noise

    def doubt(self, points: PointsLike) -> pd.DataFrame:
        """Return the standard deviation of the logarithm of a measured score at points by its parts, a row for each.

        The columns are parameters (of the loss that carries the score and of the link), form (how far the laws lie
        apart, and what they miss so far out), base (none of its own) and noise (of the items).
        """
        rows = as_points(points)
        parts, score = self.parts(rows), np.clip(self.predict(rows), 1e-6, 1.0 - 1e-6)
        slope = 2.0 * np.sqrt((1.0 - score) / score)  # of the log of a share in its arcsine
        named = {
            "parameters": np.hypot(parts["loss"], parts["link"]),
            "form": np.hypot(parts["form"], parts["distance"]),
            "base": np.zeros(len(rows)),
            "noise": parts["items"],
        }
        slope = slope * t_quantile(ONE_SD, self.freedom)
        return pd.DataFrame({name: slope * part for name, part in named.items()}, index=rows.index)

    def forecast(self, frame: PointsLike, interval: float | str | None = 0.9) -> ForecastFrame:
        """Return the rows of `frame` with loss (the score, 0 to 1), lo, hi, metric, shares of doubt and findings.

        Parameters
        ----------
        frame
            Rows with the inputs, raw units; a column named as a carrying eval holds its loss as known.
        interval
            Probability that a measured score lies between lo and hi; ``None`` leaves the two columns out.
        """
        if interval is not None:
            interval = parse_probability(interval, "interval (--interval)")
        rows = as_points(frame)
        out = rows.copy()
        out["loss"] = self.predict(rows)
        if interval is not None:
            ends = self.quantiles(rows, [0.5 - 0.5 * interval, 0.5 + 0.5 * interval])
            out["lo"], out["hi"] = ends
            parts = self.parts(rows)
            whole = sum(value**2 for value in parts.values())
            for name, value in parts.items():
                out[f"doubt_{name}"] = value**2 / whole
        out["metric"] = self.metric
        result = extrapolations(self.law, self.data, rows)
        out["findings"] = pd.Series(result, index=out.index, dtype=object)
        return ForecastFrame.of(out, interval, [self])

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, in words."""
        return (
            "the doubt about the loss that carries the score, about its link, the spread between its laws, what "
            "rollouts missed beyond their models, and the noise of the questions"
        )

    def residuals(self) -> Array:
        """Return predicted minus observed scores of the measured rows, shape (n_points,)."""
        values: Array = self.predict(self.data) - self.data["loss"].to_numpy(dtype=float)
        return values

    # -- the answer ------------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What was fitted."""
        many = f"{len(self.members)} laws" if len(self.members) > 1 else self.members[0].name
        return f"{self.metric} on {self.on}: {many}"

    @property
    def lines(self) -> list[Line]:
        """Why the members below have these weights, and on what."""
        residual = 100.0 * float(np.sqrt(np.mean(self.residuals() ** 2)))
        count = len(self.rollouts)
        rolled = f"by {count} rollout{'s' * (count > 1)}" if count else "no rollout: too few models"
        return [
            ("weights", rolled),
            (
                "data",
                f"{counted(self.n_points, 'score')} of {counted(self.n_runs, 'run')}, {self.n_items:g} questions each, "
                f"chance {format_percent(self.chance)}, root mean square residual {residual:.2g} points",
            ),
        ]

    @property
    def tables(self) -> list[Table]:
        """The members with their weights and errors."""
        rows = tuple(
            (
                part.name,
                f"{part.weight:.3f}",
                "-" if not np.isfinite(part.error) else f"{100 * part.error:.2f}",
                ", ".join(f"{name} {value:.3g}" for name, value in part.params.items()),
            )
            for part in self.members
        )
        return [
            Table(("law", "weight", "error in rollouts", "parameters"), rows, note="errors in points at a score of 50%")
        ]

    def to_dict(self) -> dict[str, object]:
        """Return the promised JSON keys."""
        return {
            "law": self.law.spec,
            "on": self.on,
            "metric": self.metric,
            "chance": self.chance,
            "n_items": self.n_items,
            "ways": [_member_to_dict(part) for part in self.members],
            "scale": self.scale,
            "loss_scale": self.loss_scale,
            "freedom": self.freedom,
            "growth": self.growth,
            "rollouts": list(self.rollouts),
            **self.rests_on,
        }

    def content(self) -> dict[str, object]:
        """Return what its file holds beside rows: its JSON, members in full, and the fits of the losses they read."""
        document = self.to_dict()
        document["ways"] = [
            {
                **_member_to_dict(part),
                "theta": part.theta.tolist(),
                "covariance": part.covariance.tolist(),
                "chance": part.chance,
            }
            for part in self.members
        ]
        losses = {name: loss.document() for name, loss in self.losses.items()}
        return {**document, "losses": losses, "skipped": list(self.skipped)}


def _member_to_dict(part: ScoreMember) -> dict[str, object]:
    """Return the promised JSON keys of one member."""
    return {
        "law": part.law.name,
        "through": part.carrier,
        "weight": part.weight,
        "error": part.error if np.isfinite(part.error) else None,
        "params": part.params,
        "units": dict(part.units),
        "rho": part.rho,
    }
