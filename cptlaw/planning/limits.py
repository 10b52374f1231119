"""What a plan must keep: upper limits on losses, forgetting, scores and tokens, certain or held with a probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array, Number
from cptlaw.planning.loss import EVEN, Loss, LossBase
from cptlaw.planning.options import label
from cptlaw.planning.reference import Reference
from cptlaw.planning.scenario import Measure, PlanQuestion, options_of
from cptlaw.planning.solve import Best, Limit, Points, Space, solve
from cptlaw.units import counted

UNBOUNDED = 1.0  # in log loss: a margin this wide is that of a loss that the data does not bound
ROUNDS = 8
WIDER = 4  # rounds from which the wider of two margins counts, where the answer swings between them
SETTLED = 1e-5  # in log loss: what a further look at the doubt may still change
UNSEEN = 1e-4  # the same, below which nothing is said of it: no printed digit shows it


@dataclass(frozen=True)
class AboveBase:
    """How a loss turns into forgetting, and an error rate into points lost.

    Parameters
    ----------
    reference
        The base model's: its `loss`, and the `half_width` of the doubt about it.
    measure
        ``"relative"``: (loss - base) / base, a fraction. ``"absolute"``: loss - base, nats per token.
    shared
        The loss whose fit the reference is a guess of: what is in doubt about both is not in doubt of the difference.
        None where the two doubts are independent.
    """

    reference: Reference
    measure: Measure
    shared: Loss | None = None

    def of(self, loss: Number) -> Number:
        """Return how far losses lie above the base model's."""
        return forgetting(loss, self.reference.loss, self.measure)

    def half_width(self, points: Mapping[str, ArrayLike], half_width: Array, coverage: float) -> Array:
        """Return the half-width of the log of a loss over the reference at points, (n,), given that of the log loss."""
        result = None if self.shared is None else self.shared.half_width_of_change(points, half_width, coverage)
        own = self.reference.half_width(coverage)
        return np.asarray(np.hypot(half_width, own), dtype=float) if result is None else result

    def ends(
        self, points: Mapping[str, ArrayLike], ends: Mapping[str, float | None], coverage: float | None
    ) -> dict[str, float | None]:
        """Return how far a loss and the ends of its interval lie above, with the doubt about the reference in them.

        Parameters
        ----------
        points
            The one point.
        ends
            The loss under ``""``, the ends of its interval under ``"_lo"`` and ``"_hi"``; None where open.
        coverage
            Of the interval; None without one.
        """
        centre = ends.get("")
        result: dict[str, float | None] = {}
        for end, value in ends.items():
            if end and centre and coverage and self.reference.half_width(coverage) > 0:
                away = None if value is None else np.array([abs(math.log(value / centre))])
                if away is None and self.shared is not None:
                    # A loss at a size that was not run may be open, and how far it lies above its base model's known.
                    away = self.shared.half_width(points, coverage)
                if away is not None:
                    (away,) = self.half_width(points, away, coverage)
                    value = centre * math.exp(-away if end == "_lo" else away)
            result[end] = None if value is None else float(self.of(value))
        return result

    def loss_at(self, value: float) -> float:
        """Return the loss that lies so far above."""
        base = self.reference.loss
        return base * (1.0 + value) if self.measure == "relative" else base + value


def forgetting(loss: Number, base: Number, measure: Measure) -> Number:
    """Return the forgetting of source losses against a base model's."""
    return loss / base - 1.0 if measure == "relative" else loss - base


@dataclass(frozen=True, eq=False)
class Upper:
    """A limited quantity at points: the value that is kept with a probability.

    Parameters
    ----------
    loss
        The loss behind it.
    risk
        The probability; ``None`` for the forecast.
    scale
        How the loss turns into the quantity; ``None`` for the loss itself. Its reference may be in doubt as well, and
        the two doubts are independent of each other.
    """

    loss: Loss
    risk: float | None
    scale: AboveBase | None = None

    def __call__(self, points: Points) -> Array:
        """Return the quantity at points, (n,)."""
        result = self.loss.upper(points, self.risk)
        if self.scale is None:
            return np.asarray(result, dtype=float)
        if self.risk is not None and self.risk > EVEN:
            coverage = 2.0 * self.risk - 1.0
            if self.scale.reference.half_width(coverage) > 0:
                centre = self.loss.upper(points, None)
                with np.errstate(all="ignore"):
                    result = centre * np.exp(self.scale.half_width(points, np.log(result / centre), coverage))
        return np.asarray(self.scale.of(result), dtype=float)


@dataclass(frozen=True, kw_only=True)
class LossLimit(Limit):
    """An upper limit on a loss, or on what follows from it.

    Parameters
    ----------
    loss
        The loss.
    scale
        How it turns into the quantity; ``None`` for the loss itself.
    """

    loss: LossBase
    scale: AboveBase | None

    @property
    def threshold(self) -> float:
        """The value of the loss that keeps the limit."""
        return self.value if self.scale is None else self.scale.loss_at(self.value)


Limited = TypeVar("Limited", bound=LossBase)


@dataclass(frozen=True)
class GivenLimit(Generic[Limited]):
    """A limit as it was given: see `LossLimit`, with the probability with which it must hold."""

    name: str
    about: str
    value: float
    loss: Limited
    scale: AboveBase | None
    risk: float | None

    def reached_by(self, reached: Callable[[Points], Array]) -> LossLimit:
        """Return the limit on what a function of points returns, (n,)."""
        return LossLimit(self.name, self.value, reached, self.about, loss=self.loss, scale=self.scale)


MakeLimit: TypeAlias = Callable[[GivenLimit[Limited]], LossLimit]


def limit_on(given: GivenLimit[Loss]) -> LossLimit:
    """Return an upper limit on a loss, or on what a scale makes of it."""
    return given.reached_by(Upper(given.loss, given.risk, given.scale))


def column(points: Points, name: str) -> Array:
    """Return a column of points."""
    return np.asarray(points[name], dtype=float)


def at_most(name: str, what: str, value: float) -> Limit:
    """Return an upper limit on a column of the points."""
    return Limit(name, value, partial(column, name=what), what)


def at_risk(limits: Iterable[Limit], risk: float | None) -> list[Limit]:
    """Return limits that are kept with another probability, or by the forecasts themselves."""
    return [
        replace(limit, reached=replace(limit.reached, risk=risk)) if isinstance(limit.reached, Upper) else limit
        for limit in limits
    ]


@dataclass(frozen=True, eq=False)
class FixedMargin:
    """A limited quantity at points, the doubt about its loss taken to be the same everywhere: a look at it is dear.

    Parameters
    ----------
    loss
        Returns the forecast of the loss behind it at points, (n,).
    quantity
        How points and losses turn into it, (n,).
    doubt
        How far above its forecast the loss may lie at one point, in logs, for the risk; ``None`` without one.
    margin
        The same as it was at the last look.
    """

    loss: Callable[[Points], Array]
    quantity: Callable[[Points, Array], Array]
    doubt: Callable[[Points], float] | None = None
    margin: float = 0.0

    def __call__(self, points: Points) -> Array:
        """Return the quantity at points, (n,)."""
        return np.asarray(self.quantity(points, self.loss(points) * math.exp(self.margin)), dtype=float)

    def with_updated_margin(self, points: Points, least: float = 0.0) -> FixedMargin:
        """Return the same with the doubt at one point, or the least where that is more."""
        if self.doubt is None:
            return self
        # A loss without a bound gets a margin that no limit survives.
        result = float(np.nan_to_num(self.doubt(points), nan=UNBOUNDED, posinf=UNBOUNDED))
        return replace(self, margin=min(max(result, least), UNBOUNDED))


def with_margin(
    given: GivenLimit[Limited],
    forecast: Callable[[Points], Array],
    spread: Callable[[Points], float],
    quantity: Callable[[Points, Array], Array] | None = None,
) -> LossLimit:
    """Return a limit on what a forecast loss comes to, whose doubt is looked at where the answer lies.

    Parameters
    ----------
    given
        The limit; a risk of ``None`` or one half is for the forecast.
    forecast
        Returns the forecast loss at points, (n,).
    spread
        Returns how far above its forecast the loss may lie at one point, in logs, with that probability.
    quantity
        How points and losses turn into what is limited; by the limit's scale where absent.
    """
    scale, risk = given.scale, given.risk

    def scaled(points: Points, losses: Array) -> Array:
        return losses if scale is None else np.asarray(scale.of(losses), dtype=float)

    def doubt(points: Points) -> float:
        half_width = spread(points)
        if scale is None:
            return half_width
        return float(scale.half_width(points, np.array([half_width]), 2.0 * (risk or EVEN) - 1.0)[0])

    sure = None if risk is None or risk <= EVEN else doubt
    return given.reached_by(FixedMargin(forecast, quantity or scaled, sure))


@dataclass(frozen=True, eq=False)
class Solution:
    """What came of a question whose doubt was looked at where its answer lies.

    Parameters
    ----------
    best, certain
        The best point, and that on the forecasts alone.
    limits
        With the doubt as it is at the best point.
    findings
        What is to be said of the way.
    """

    best: Best
    certain: Best
    limits: list[LossLimit]
    findings: tuple[Finding, ...] = ()

    @property
    def price_of_doubt(self) -> float | None:
        """By how much the value lies above that on the forecasts alone; ``None`` without an answer to either."""
        return self.best.value - self.certain.value if self.best.kept and self.certain.kept else None


def iterate_margins(space: Space, value: Callable[[Points], Array], limits: Sequence[LossLimit]) -> Solution:
    """Answer a question under limits whose quantities have a `FixedMargin`, as `with_margin` gives them.

    The answer is sought, the doubt about each limited loss is looked at there, and the answer is sought again, until
    the look shows nothing new.
    """
    best = certain = solve(space, value, limits)
    current, news = list(limits), math.inf
    if not any(_margin_of(limit).doubt for limit in limits):
        return Solution(best, certain, current)
    for turn in range(ROUNDS):
        margins = [_margin_of(limit).margin for limit in current]
        least = margins if turn >= WIDER else [0.0] * len(current)
        current = [
            replace(limit, reached=_margin_of(limit).with_updated_margin(best.points, floor))
            for limit, floor in zip(current, least, strict=True)
        ]
        news = max(abs(_margin_of(limit).margin - before) for limit, before in zip(current, margins, strict=True))
        if news <= SETTLED:
            break
        best = solve(space, value, current)
    notes = [_unbounded_finding(limit) for limit in current if _margin_of(limit).margin >= UNBOUNDED]
    if news > UNSEEN:
        notes.append(
            Finding(
                "warning",
                "risk-not-settled",
                f"after {ROUNDS} rounds the doubt at the plan still changes it, as it does far beyond the runs: take "
                f"the probabilities that stand beside the limits, not the one asked for.",
                "Runs nearer to the plan settle it; so does a looser limit, or a lower risk.",
            )
        )
    return Solution(best, certain, current, tuple(notes))


def _margin_of(limit: Limit) -> FixedMargin:
    assert isinstance(limit.reached, FixedMargin)
    return limit.reached


def _unbounded_finding(limit: LossLimit) -> Finding:
    return Finding(
        "warning",
        "unbounded",
        f"the data does not bound the {limit.loss.role} loss from above at the plan: no probability above one half "
        f"can be given for {limit.name}.",
        "Add runs nearer to the plan, hold parameters of the fit, or ask for a probability of one half.",
    )


def build_limits(
    given: PlanQuestion,
    losses: Mapping[str, Limited],
    how: AboveBase | None,
    more: Iterable[LossLimit],
    make: MakeLimit[Limited],
) -> list[LossLimit]:
    """Return the limits that were given, in the order in which the scenario declares them.

    Parameters
    ----------
    given
        What was asked, as `read_scenario` returns it.
    losses
        The losses by role.
    how
        How forgetting counts, where that is known beforehand.
    more
        Limits of other kinds, such as those in points.
    make
        Makes a limit of what was given.

    Raises
    ------
    UsageError
        If a limit lacks its fit, if `risk` is given without a limit, or with a fit of fewer than three runs.
    """
    limits: list[LossLimit] = []
    for name, option in options_of(given.scenario).items():
        value = getattr(given, name)
        if not option.limit or value is None:
            continue
        # Forgetting is a limit on the source loss in other words.
        role = "target" if option.limit == "target_loss" else "source"
        if role not in losses:
            raise UsageError(
                f"{label(name)}: a limit on the {role} loss or on forgetting needs {role}= (--{role}), a fit of the "
                f"{role} loss."
            )
        scale = how if option.limit == "forgetting" else None
        limits.append(make(GivenLimit(name.replace("_", "-"), option.limit, value, losses[role], scale, given.risk)))
    limits += more
    check_risk(given.risk, limits)
    return limits


def check_risk(risk: float | None, limits: Sequence[LossLimit]) -> None:
    """Refuse a probability without a limit, or with a loss whose fit cannot say how sure it is.

    Raises
    ------
    UsageError
        If no limit was given, or a fit has fewer than three runs.
    """
    if risk is None:
        return
    if not limits:
        raise UsageError("risk (--risk) is the probability with which limits hold, but no limit was given.")
    for limit in limits:
        if not limit.loss.knows_doubt:
            raise UsageError(
                f"risk (--risk): the {limit.loss.role} fit has {counted(limit.loss.n_runs, 'run')}, which cannot say "
                f"how runs differ. Fit on at least three, or let the forecasts themselves keep the limits: without it."
            )
