"""What studies of others say of a loss, as a fit without rows: the answer without runs is its forecast.

    log loss = log base + change        change: `cptlaw.fitting.learned.forgetting_and_gain`, of the asked kind of text

A base model's loss that was not given is estimated, from size and tokens by a published law, with the doubt that losses
of other corpora and tokenizers have. It is one unknown number for all points of a base model, so that the difference of
two forecasts, such as forgetting, is as sure as what the studies say of changes.

Axes: n = points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.base_models import KEYS, LOSS
from cptlaw.fitting.cached import Cache
from cptlaw.fitting.fit import Fit, HalfWidths
from cptlaw.fitting.learned import forgetting_and_gain as studies
from cptlaw.fitting.members import Member
from cptlaw.fitting.point_covariance import ONE_SD, PARTS
from cptlaw.fitting.provenance import Provenance
from cptlaw.fitting.study_prior import StudyPrior
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import CombinedLaw
from cptlaw.laws.inputs import AnyRows, Columns, Points, as_rows
from cptlaw.result import Line
from cptlaw.runs.points import PointsLike
from cptlaw.units import format_quantity, parse_quantity

Quantity = float | str | None  # a number, or text such as "8.1B"
SPEC = "prior"
NUMBERS = ("n_params", "ptpp", "lr_peak", "base_loss")  # in its file
INPUTS = ("n_params", "ptpp", "tokens", "replay", "lr_peak")
SAME = 1e-6  # relative difference up to which two sizes or budgets are one
# A base model's loss in nats, by its size and tokens (Besiroglu et al. 2024, arXiv:2404.10102). Models of our tables
# from 10M parameters on lie .5 below to .1 above in logs; smaller ones have small vocabularies and lie far off.
PUBLISHED = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
LEAST_SIZE = 1e7
ESTIMATED, ESTIMATED_TINY = 0.3, 0.6  # standard deviation of the log of such a loss; that of models below 1M
USUAL_PTPP, PTPP_SPREAD = 1000.0, 0.8  # where it was not said: that of open models, and the doubt in its column
SHIFT_ASSUMED = Finding(
    "info",
    "shift-assumed",
    "no kind of shift was given: the new text is taken as another domain in the same language.",
    "Say what the new text is; models forget less where it is like the old one, more of another language.",
    remedy=Remedy("shift", "language"),
)


def _filled(values: Array, instead: ArrayLike) -> Array:
    """Return values, (n,), with others where there are none."""
    return np.where(np.isnan(values), instead, values)


@dataclass(frozen=True, repr=False, eq=False)
class PriorFit(Fit):
    """What studies of others say of one loss of a base model: a `Fit` without rows.

    Attributes
    ----------
    on, role
        The loss: ``"source"`` or ``"target"``.
    n_params, ptpp, lr_peak
        The base model and the peak rate, where points leave them open; None where they were not said.
    study
        What is known of the study: kind of shift, peak rate of pre-training, losses of the base model.
    base_loss
        This loss of the base model; None where it was not said.
    """

    on: str
    role: Role
    n_params: float | None = None
    ptpp: float | None = None
    lr_peak: float | None = None
    study: StudyPrior = field(default_factory=StudyPrior)
    base_loss: float | None = None
    data: pd.DataFrame = field(init=False)
    base: pd.DataFrame = field(init=False)
    provenance: Provenance = field(default_factory=Provenance, init=False)
    _cache: Cache = field(default_factory=dict, init=False)
    scores: None = field(default=None, init=False)
    folds: tuple[()] = field(default=(), init=False)
    status: ClassVar[str] = SPEC
    n_points: ClassVar[int] = 0
    n_runs: ClassVar[int] = 0

    def __post_init__(self) -> None:
        known = self.base_loss is not None and self.n_params is not None and self.ptpp is not None
        base = [(self.n_params, self.ptpp, self.base_loss)] if known else []
        vars(self)["data"] = pd.DataFrame({"run": [], "loss": []})
        vars(self)["base"] = pd.DataFrame(base, columns=[*KEYS, "loss"], dtype=float)

    @property
    def law(self) -> CombinedLaw:
        """What it reads, where a law is expected."""
        return CombinedLaw(INPUTS, needs_schedules=False, decreasing=(), name=SPEC, spec=SPEC, equation=EQUATION)

    @property
    def members(self) -> tuple[Member, ...]:
        """Itself, with all the weight."""
        return (Member(cast(Any, self), 1.0, float("nan")),)

    @property
    def uses_studies(self) -> bool:
        """Whether studies of others say how sure it is."""
        return True

    @property
    def of_changes(self) -> bool:
        """Whether it forecasts the change from a base model's loss, in doubt or not."""
        return True

    def fills_in(self, name: str) -> bool:
        """Whether a point may leave an input open."""
        return name in ("n_params", "ptpp", "lr_peak")

    def half_width_of_change(self, rows: pd.DataFrame, half_width: Array, coverage: float) -> Array | None:
        """Return the half-width itself, (n,): changes from a base model are what is forecast."""
        return half_width

    @property
    def lr_pretrain(self) -> float:
        """The peak rate of pre-training, or what is usual for the size."""
        usual = studies.typical_peak(self.n_params or 1e9)
        return float(usual) if self.study.lr_pretrain is None else self.study.lr_pretrain

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it rests on."""
        count = len(studies.learned(self._outcome).studies)
        notes = [
            Finding(
                "warning",
                "no-runs",
                f"no run of yours was measured: what {count} studies of others say is all that speaks here.",
                "Three short runs narrow it; `cptlaw answer` says which.",
                data={"studies": count},
            )
        ]
        if self.base_loss is None:
            notes.append(
                Finding(
                    "info",
                    "base-loss-estimated",
                    f"the base model's {self.role} loss was not given and is estimated: the loss itself is open by a "
                    f"third, its change from the base model's is not.",
                    "One evaluation of the base model tells it.",
                    remedy=Remedy(f"base_{self.role}_loss"),
                )
            )
        return (*notes, *([] if self.study.shift else [SHIFT_ASSUMED]))

    # -- what it says --------------------------------------------------------------------------------------------------

    def completed(self, frame: Points) -> pd.DataFrame:
        """Return points with the model and the rate that they leave open.

        Raises
        ------
        UsageError
            If one has no tokens, no replay or no size.
        """
        rows = as_rows(frame)
        given = {name: np.asarray(rows[name], dtype=float) for name in INPUTS if name in rows.columns}
        for name in ("n_params", "ptpp", "lr_peak"):
            value = getattr(self, name)
            given[name] = _filled(given.get(name, np.full(len(rows), np.nan)), np.nan if value is None else value)
        for name in ("n_params", "tokens", "replay"):
            if name not in given or (name == "n_params" and np.isnan(given[name]).any()):
                raise UsageError(
                    f"points (--at): what studies say is asked at tokens, replay and n_params, and {name} is missing. "
                    f"Give it, as in n_params=8B,ptpp=1875,tokens=20B,replay=10%."
                )
        untrained = given["tokens"] <= 0  # a base model has no mix
        given["replay"] = np.where(untrained, _filled(given["replay"], 0.0), given["replay"])
        if np.isnan([given["tokens"], given["replay"]]).any():
            raise DataError("points: tokens and replay must be numbers in every row. Fill them in, or drop the rows.")
        typical = studies.typical_peak(given["n_params"]) if self.study.lr_pretrain is None else self.study.lr_pretrain
        given["lr_peak"] = _filled(given["lr_peak"], studies.TYPICAL_RATE * typical)
        return rows.assign(**{name: given[name] for name in ("n_params", "lr_peak", "ptpp", "replay")})

    @property
    def _outcome(self) -> studies.Outcome:
        return "forgetting" if self.role == "source" else "gain"

    def in_studies(self, rows: AnyRows) -> Columns:
        """Return points as `forgetting_and_gain` takes them; those without tokens with one."""
        tokens, ptpp = (np.asarray(rows[name], dtype=float) for name in ("tokens", "ptpp"))
        trained = {"tokens": np.where(tokens > 0, tokens, 1.0), "ptpp": _filled(ptpp, USUAL_PTPP)}
        return self.study.frame(Columns.of(rows).assign(**trained))

    def outlook(self, points: Points) -> studies.Outlook:
        """Return forgetting, or the gain of a target loss, at points with tokens."""
        rows = self.completed(Columns.of(as_rows(points)))  # asked at every step of a search: no table is made
        result = studies.expected(self._outcome, self.in_studies(rows))
        per_budget = studies.learned(self._outcome).mean[studies.FEATURES.index("amplitude_budget")]
        unsaid = abs(per_budget) * PTPP_SPREAD * np.isnan(rows["ptpp"])
        return replace(result, spread=np.hypot(result.spread, unsaid))

    def _changes(self, rows: AnyRows, probability: float) -> Array:
        """Return a quantile of the log of the loss over the base model's, (n,)."""
        said = self.outlook(rows)
        if self.role == "source":
            change = np.log1p(np.maximum(said.quantile(probability), -0.999))
        else:
            change = -said.quantile(1.0 - probability)
        return np.where(np.asarray(rows["tokens"]) > 0, change, 0.0)

    def base_losses(self, rows: AnyRows) -> tuple[Array, Array]:
        """Return the log of the base model's loss at points, (n,), and its standard deviation, (n,): 0 if known."""
        size, ptpp = (np.asarray(rows[name], dtype=float) for name in ("n_params", "ptpp"))
        read = size * _filled(ptpp, USUAL_PTPP)
        large = np.maximum(size, LEAST_SIZE)
        fall = PUBLISHED["A"] / large ** PUBLISHED["alpha"]
        fall = fall + PUBLISHED["B"] / np.maximum(read, LEAST_SIZE) ** PUBLISHED["beta"]
        loss = np.log(PUBLISHED["E"] + fall)
        doubt = ESTIMATED + (ESTIMATED_TINY - ESTIMATED) * studies.tiny_share(size)
        if self.role == "target":
            loss = loss + (studies.TYPICAL_NOVELTY if self.study.novelty is None else self.study.novelty)
            doubt = np.hypot(doubt, studies.NOVELTY_SPREAD if self.study.novelty is None else 0.0)
        if self.base_loss is not None:
            own = np.isclose(size, size if self.n_params is None else self.n_params, rtol=SAME, atol=0)
            if self.ptpp is not None:
                own &= np.isclose(ptpp, self.ptpp, rtol=SAME, atol=0)
            loss, doubt = np.where(own, np.log(self.base_loss), loss), np.where(own, 0.0, doubt)
        if self.role == "source" and LOSS in rows.columns:
            given = np.asarray(rows[LOSS], dtype=float)
            loss = np.where(np.isnan(given), loss, np.log(given))
            doubt = np.where(np.isnan(given), doubt, 0.0)
        return loss, np.asarray(doubt)

    def predict(self, frame: PointsLike) -> Array:
        """Return the forecast loss of each row, (n,)."""
        rows = self.completed(frame)
        return np.asarray(np.exp(self.base_losses(rows)[0] + self._changes(rows, 0.5)))

    def log_quantiles(self, frame: PointsLike, probabilities: Sequence[float], measured: bool = True) -> Array:
        """Return quantiles of the log loss at each row, shape (probabilities, n); see `Fit.log_quantiles`.

        What a measurement adds is part of what the studies differ by: with and without, they are the same.
        """
        rows = self.completed(frame)
        base, doubt = self.base_losses(rows)
        median = self._changes(rows, 0.5)
        values = []
        for one in np.asarray(probabilities, dtype=float):
            away = self._changes(rows, float(one)) - median
            far = np.hypot(away, doubt * special.ndtri(one))
            values.append(base + median + np.sign(one - 0.5) * far)
        return np.array(values)

    def _parts(self, rows: pd.DataFrame) -> dict[str, Array]:
        """Return the covariance of log losses by its parts, (n, n) each; in scale with the quantiles of the change."""
        trained = rows["tokens"].to_numpy(dtype=float) > 0
        low, high = (self._changes(rows, 0.5 + sign * ONE_SD / 2) for sign in (-1.0, 1.0))
        wide = 0.5 * (high - low)
        doubts = studies.doubt_of_changes(self._outcome, self.in_studies(rows), self.study.shift is not None)
        parts = {name: one.matrix for name, one in doubts.items()}
        alone = np.sqrt(np.diag(sum(parts.values())))
        scale = np.where(trained, wide / np.maximum(alone, 1e-300), 0.0)
        scaled = {name: np.outer(scale, scale) * part for name, part in parts.items()}
        doubt = self.base_losses(rows)[1]
        return {**scaled, "base": np.outer(doubt, doubt)}

    def half_widths(self, frame: PointsLike, coverage: float) -> HalfWidths:
        """Return half-widths in log loss at rows, (n,) each: of the studies' differences, coefficients, base, noise."""
        rows = self.completed(frame)
        normal = special.ndtri(0.5 + 0.5 * coverage)
        parts = {name: normal * np.sqrt(np.diag(part)) for name, part in self._parts(rows).items()}
        return parts["form"], parts["parameters"], parts["base"], parts["noise"]

    def posterior(self, points: PointsLike, measured: bool = True) -> tuple[Array, Array]:
        """Return the mean, (n,), and the covariance, (n, n), of log losses at points; see `Fit.posterior`."""
        rows = self.completed(points)
        parts = self._parts(rows)
        kept = [name for name in PARTS if measured or name != "noise"]
        return np.log(self.predict(rows)), np.sum([parts[name] for name in kept], axis=0)

    def doubt(self, points: PointsLike) -> pd.DataFrame:
        """Return the standard deviation of the log loss at points by its parts, a row for each; see `Fit.doubt`."""
        rows = self.completed(points)
        parts = self._parts(rows)
        return pd.DataFrame({name: np.sqrt(np.diag(parts[name])) for name in PARTS}, index=rows.index)

    def ends_of(self, loss: Array, low: Array, high: Array) -> tuple[Array, Array, list[tuple[Finding, ...]]]:
        """Return the ends of intervals as they are, (n,) each: no rows leave them open."""
        return low, high, [()] * len(loss)

    def residuals(self) -> Array:
        """Return nothing, for there are no rows, (0,)."""
        return np.zeros(0)

    # -- how it is shown and kept --------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What it is."""
        return f"what studies of others say of the {self.role} loss"

    @property
    def lines(self) -> list[Line]:
        """The model, and the kind of text."""
        size = "any" if self.n_params is None else format_quantity(self.n_params, 4)
        budget = "" if self.ptpp is None else f" ({self.ptpp:g} tokens each)"
        return [
            ("model", f"{size} parameters{budget}"),
            ("new text", self.study.shift or f"not said, taken as another {studies.UNLIKE}"),
            ("from", f"{len(studies.learned(self._outcome).studies)} studies of others; no run of yours"),
        ]

    @property
    def interval_method(self) -> str:
        """Where the intervals of forecasts come from, in words."""
        return "by how much studies of others differ, and what is not known of the base model's loss"

    def to_dict(self) -> dict[str, object]:
        """Return the promised JSON keys."""
        return {
            "law": SPEC,
            "on": self.on,
            "params": {},
            "units": dict(self.law.units),
            **dict.fromkeys(("objective", "n_starts", "n_agree", "rank", "n_free")),
            **self.rests_on,
        }

    def content(self) -> dict[str, object]:
        """Return what its file holds beside the format."""
        known = {name: getattr(self, name) for name in NUMBERS}
        return self.to_dict() | known | {"study": self.study.to_dict()}


@dataclass(frozen=True)
class KnownBase:
    """What may be said of a study before it has runs, as users give it.

    Parameters
    ----------
    n_params, ptpp, lr_peak
        The base model and the peak rate of CPT, where points leave them open.
    lr_pretrain
        Peak rate of pre-training.
    base_source_loss, base_target_loss
        Losses of the base model.
    replay_of
        ``"other"`` where the base model has never read the replayed text.
    """

    n_params: Quantity = None
    ptpp: Quantity = None
    lr_peak: Quantity = None
    lr_pretrain: Quantity = None
    base_source_loss: Quantity = None
    base_target_loss: Quantity = None
    replay_of: str | None = None

    def positive(self, name: str) -> float | None:
        """Return a number by its name; None where it was not given.

        Raises
        ------
        UsageError
            If it is not above 0.
        """
        value = getattr(self, name)
        if value is None:
            return None
        named = f"{name} (--{name.replace('_', '-')})"
        number = parse_quantity(value, named)
        if not 0 < number < np.inf:
            raise UsageError(f"{named}: {value!r}. Expected a number above 0.")
        return number


def prior_fit(on: str, known: KnownBase, shift: str | None = None) -> PriorFit:
    """Return what studies of others say of a loss, as a fit without rows.

    Parameters
    ----------
    on
        The loss, by its role.
    known
        The base model, its losses and rates.
    shift
        Kind of new text; ``None`` where it was not told.

    Raises
    ------
    UsageError
        If a value is none that can be.
    """
    if on not in ("source", "target"):
        raise UsageError(f"on (--on): {on!r}. Without runs there are two losses: source and target.")
    if known.replay_of not in (None, "own", "other"):
        raise UsageError(f"replay_of (--replay-of): {known.replay_of!r}. Expected own or other.")
    source, target = known.positive("base_source_loss"), known.positive("base_target_loss")
    novelty = None if source is None or target is None else float(np.log(target / source))
    pretrain = known.positive("lr_pretrain")
    study = StudyPrior(studies.check_shift(shift), pretrain, novelty, unread=known.replay_of == "other")
    return PriorFit(
        on,
        "source" if on == "source" else "target",
        known.positive("n_params"),
        known.positive("ptpp"),
        known.positive("lr_peak"),
        study,
        source if on == "source" else target,
    )


EQUATION = "L = L0 (1 + forgetting) of the source, L0 exp(-gain) of the target, as studies of others say"


def prior_from(document: Mapping[str, Any]) -> PriorFit:
    """Return the prior that a file's document holds.

    Raises
    ------
    LookupError, TypeError, ValueError
        If the document is damaged.
    """
    if document["role"] not in ("source", "target"):
        raise ValueError(f"role is {document['role']!r}, neither source nor target")
    size, budget, rate, loss = (None if document[name] is None else float(document[name]) for name in NUMBERS)
    study = StudyPrior.from_dict(document["study"])
    return PriorFit(str(document["on"]), document["role"], size, budget, rate, study, loss)
