"""When a run comes back to where it began: turning length and critical point (Wang et al. 2025, arXiv:2505.07796).

At a constant learning rate everything but the power laws dies out: S1 grows linearly, S2 settles. So after the first
steps, which are computed one by one, losses at any number of steps follow in closed form, and "never" is told from
"not within the steps that were looked at".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, Unpack

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import FitLike
from cptlaw.planning.result import Plan, number_text
from cptlaw.planning.scenario import PlanQuestion, documented, read_scenario
from cptlaw.result import Line
from cptlaw.runs.metrics import USUAL_UNIT, unit_of
from cptlaw.schedules import Phase, Schedule
from cptlaw.units import format_percent, format_quantity
from cptlaw_curves.planning.curve_loss import CurveLoss
from cptlaw_curves.planning.scenario import CriticalPoint, TurningLength
from cptlaw_curves.planning.space import build_space

TurningKind = Literal["zero", "finite", "infinite"]
SETTLED = 25.0  # time constants of the momentum after which S2 counts as settled, e^-25
FAR = 1e15  # steps beyond which a loss is at its limit
LATE_POINTS = 4000  # numbers of steps, evenly in logs from where the areas have settled to FAR
SAME = 1e-9  # nats


@dataclass(frozen=True, repr=False, kw_only=True)
class ReturnPlan(Plan):
    """Whether, and after how many steps, a loss is back where it was.

    Attributes
    ----------
    kind, steps
        ``"zero"``, ``"finite"`` or ``"infinite"``; and steps: 0, a number, or infinity (null in JSON).
    reason
        Why.
    findings
        The worst first.
    unit
        Of the losses.
    """

    kind: TurningKind
    steps: float
    reason: str
    findings: tuple[Finding, ...] = ()
    unit: str = USUAL_UNIT

    @property
    def _length(self) -> str:
        """The steps in words."""
        words = {"zero": "0", "infinite": "infinite"}
        return words.get(self.kind) or f"{format_quantity(self.steps, 4)} steps"


@dataclass(frozen=True, repr=False, kw_only=True)
class TurningPlan(ReturnPlan):
    """Answer of `turning_length`.

    Zero: the weighted loss never exceeds its start. Finite: it rises, and is back after `steps` of CPT. Infinite: it
    rises and never comes back.

    Attributes
    ----------
    weight_source, peak, replay
        The question: weight of the source loss, constant learning rate, mix.
    start, highest, highest_at, limit
        The weighted loss where CPT starts, the highest one and its step, and that after endless training.
    """

    weight_source: float
    peak: float
    replay: float | None
    start: float
    highest: float
    highest_at: float
    limit: float

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return (
            f"Turning length of {format_percent(self.weight_source)} source + "
            f"{format_percent(1 - self.weight_source)} target loss at a constant rate of {self.peak:.3g}"
        )

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        return [
            ("turning length", self._length),
            ("reason", self.reason),
            ("start", f"{number_text(self.start)} {self.unit}"),
            ("highest", f"{number_text(self.highest)} at step {format_quantity(self.highest_at, 4)}"),
            ("limit", number_text(self.limit)),
        ]


@dataclass(frozen=True, repr=False, kw_only=True)
class CriticalPlan(ReturnPlan):
    """Answer of `critical_point`.

    Zero: after any pre-training CPT loses source loss for good. Finite: up to `steps` of pre-training at its peak rate
    the source loss comes back. Infinite: it always comes back.

    Attributes
    ----------
    s1
        The forward area of those steps.
    level
        The source loss at the critical point, which is the limit of the source loss under endless CPT, nats per token.
    base_source_loss, limit, returns
        For the base model at hand: its source loss, the limit of that under endless CPT at a constant rate, and whether
        the limit lies below.
    """

    s1: float
    level: float
    base_source_loss: float
    limit: float
    returns: bool

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return "Critical point of pre-training: beyond it the source loss cannot return in CPT at a constant rate"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        area = f" (S1 {number_text(self.s1)})" if self.kind == "finite" else ""
        how = "can return" if self.returns else "cannot return"
        return [
            ("critical point", self._length + area),
            ("reason", self.reason),
            ("source loss there", number_text(self.level)),
            ("this base model", f"{number_text(self.base_source_loss)}, {how}: CPT tends to {number_text(self.limit)}"),
        ]


def turning_length(target: FitLike, source: FitLike, **scenario: Unpack[TurningLength]) -> TurningPlan:
    """Find after how many steps at a constant rate the weighted loss is back at its start (Fig. 13).

    Parameters
    ----------
    target, source
        Fits of curve laws with a shift, such as cpt-dynamics, or their files.
    **scenario
        The weight lambda_1 of the source loss, the constant rate, its warm-up, and what is known of the run.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.
    """
    given = read_scenario(TurningLength, scenario, "turning-length")
    losses, weight = _curve_losses(target, source, given.n_params), given.weight_source
    base, rate, mix = _base_rate_and_mix(losses, given)
    weights = {"target": 1.0 - weight, "source": weight}
    runs = [(weights[loss.role], _Endless(loss, base, rate, given.warmup, mix)) for loss in losses]

    def composite(steps: Array) -> Array:
        return np.asarray(sum(part * run.loss(steps) for part, run in runs), dtype=float)

    first = runs[0][1].computed
    # Every step while the areas settle, then on a logarithmic scale: what happens late happens slowly.
    steps = np.concatenate([np.arange(first), np.geomspace(first, FAR, LATE_POINTS)])
    values = composite(steps)
    start = float(values[0])
    limit = sum(part * run.limit for part, run in runs)
    top = int(np.argmax(values))
    above = np.flatnonzero(values > start + SAME)
    kind: TurningKind = "zero"
    length, reason = 0.0, "the weighted loss never exceeds its start"
    if len(above):
        back = np.flatnonzero(values[above[0] :] <= start)
        if len(back):
            k = int(above[0] + back[0])
            kind, length = "finite", _crossing(composite, steps[k - 1], steps[k], start)
            reason = f"the weighted loss rises by {values[above[0] : k].max() - start:.3g} nats and comes back"
        elif limit < start - SAME:
            kind, length = "infinite", math.inf
            reason = f"it is back only after more than {FAR:.0e} steps: the limit {limit:.4g} lies just below the start"
        else:
            kind, length = "infinite", math.inf
            reason = f"endless training tends to {limit:.5g}, which is not below the start {start:.5g}"
    return TurningPlan(
        kind=kind,
        steps=length,
        reason=reason,
        weight_source=weight,
        peak=rate,
        replay=mix,
        start=start,
        highest=float(values[top]),
        highest_at=float(steps[top]),
        limit=limit,
        findings=tuple(_weak_shift(losses)),
        unit=unit_of(*(loss.fit for loss in losses)),
        _fits=tuple(loss.fit for loss in losses),
    )


def critical_point(source: FitLike, **scenario: Unpack[CriticalPoint]) -> CriticalPlan:
    """Find the length of pre-training beyond which CPT at a constant rate loses source loss for good.

    Endless CPT brings the source loss to L0 + B, the asymptote of a model trained on the target corpus from the start:
    the forward term dies out and the shift ends at B. Pre-training at a constant rate passes that level where
    A S1^-alpha = B. Annealing moves both: the plan also compares the base model at hand, annealed as it is.

    Parameters
    ----------
    source
        Fit of the source loss by a law with a shift, or its file.
    **scenario
        The constant rate of CPT, which matters where annealing does, and what is known of the run.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.
    """
    given = read_scenario(CriticalPoint, scenario, "critical-point")
    (loss,) = _curve_losses(None, source, given.n_params)
    base, rate, mix = _base_rate_and_mix((loss,), given)
    # At a constant rate S1 grows linearly and S2 settles, so that the limit of the loss is in closed form.
    endless = _Endless(loss, base, rate, None, mix)
    shift = endless.shift_limit
    before = _Endless(loss, base, rate, None, mix).without_annealing()
    level = before.floor + shift
    kind: TurningKind
    if shift <= 0:
        kind, s1 = "infinite", math.inf
        reason = "the shift does not raise the source loss"
    else:
        s1 = before.area_at(level)
        kind = "finite" if s1 > 0 else "zero"
        reason = f"pre-training passes L0 + B = {level:.4g} there, and CPT tends to it"
        if kind == "zero":
            reason = f"even the untrained end of the law lies below L0 + B = {level:.4g}"
    peak_before = float(base.lr.max()) if base is not None else rate
    start = float(endless.loss(np.zeros(1))[0])
    return CriticalPlan(
        kind=kind,
        steps=s1 / peak_before,
        s1=s1,
        reason=reason,
        level=level,
        base_source_loss=start,
        limit=endless.limit,
        returns=endless.limit < start,
        findings=tuple(_weak_shift((loss,))),
        unit=unit_of(loss.fit),
        _fits=(loss.fit,),
    )


class _Endless:
    """One loss under CPT at a constant rate without end.

    Parameters
    ----------
    loss, base, rate, warmup, replay
        The fit, the base model's schedule, the rate, steps of warm-up, and the mix.
    """

    def __init__(
        self,
        loss: CurveLoss,
        base: Schedule | None,
        rate: float,
        warmup: int | None,
        replay: float | None,
    ) -> None:
        if "s1_cpt" not in loss.law.areas_read:
            raise UsageError(
                f"{loss.role}: law {loss.law.name} has no shift between the corpora. Expected cpt-dynamics or a law of "
                f"its kind."
            )
        self._fitted, self._replay, self._rate = loss, replay, rate
        decay = min(float(loss.law.decay), 1 - 1e-6)
        ramp = Phase("cpt", 10**7, "constant", peak=rate, warmup=warmup or 0).warmup
        self.computed = ramp + math.ceil(SETTLED / (1.0 - decay)) + 1
        cpt = Phase("cpt", self.computed, "constant", peak=rate, warmup=ramp)
        whole = Schedule((*(base.phases if base else ()), cpt))
        self._columns = dict(loss.columns(whole, np.arange(whole.n_pretrain, whole.n_steps + 1)))

    def without_annealing(self) -> Self:
        """Leave pre-training's annealing out: the curve of pre-training at a constant rate."""
        for name in ("s2_pretrain", "s2_cpt"):
            if name in self._columns:
                self._columns[name] = np.zeros_like(self._columns[name])
        return self

    def _at(self, steps: Array) -> dict[str, Array]:
        """Return the inputs at any steps: S1 grows linearly beyond those that were computed."""
        k = np.minimum(steps, self.computed).astype(int)
        result = {name: values[k] for name, values in self._columns.items()}
        result["s1_cpt"] = result["s1_cpt"] + self._rate * np.maximum(steps - self.computed, 0.0)
        return result

    def loss(self, steps: Array) -> Array:
        """Return the loss after steps of CPT, (n,)."""
        return self._fitted.losses(self._at(np.asarray(steps, dtype=float)), self._replay)

    @property
    def limit(self) -> float:
        """The loss after endless training."""
        return float(self._without_forward(np.array([self.computed]), 1e300)[0])

    @property
    def shift_limit(self) -> float:
        """The shift after endless training, nats."""
        end, start = (self._without_forward(np.array([self.computed]), area)[0] for area in (1e300, 0.0))
        return float(end - start)

    @property
    def floor(self) -> float:
        """L0 and what else stands without an area."""
        return float(self._without_forward(np.array([self.computed]), 0.0)[0])

    def _without_forward(self, steps: Array, s1_cpt: float) -> Array:
        """Return the loss with the forward term at its limit, zero, and the shift at a given area."""
        columns = self._at(steps)
        columns["s1_cpt"] = np.full(len(steps), s1_cpt)
        # Without its amplitude the forward term is at its limit whatever the area, and the area is free for the shift.
        params = {**self._fitted.params, "A": 0.0}
        return self._fitted.law.predict(params, self._fitted.frame(columns, self._replay), self._fitted.role)

    def area_at(self, level: float) -> float:
        """Return the forward area at which training without shift and annealing reaches a loss."""
        amplitude, power = self._fitted.params["A"], self._fitted.params["alpha"]
        gap = level - self.floor
        return float((amplitude / gap) ** (1.0 / power)) if gap > 0 else math.inf


def _crossing(composite: Callable[[Array], Array], low: float, high: float, start: float) -> float:
    """Return the first whole step, between two steps, at which the weighted loss is back at its start."""
    if high - low <= 1:
        # Steps are whole; between two neighbours there is nothing to search.
        return float(math.ceil(high))
    from scipy.optimize import brentq

    result = brentq(lambda steps: float(composite(np.array([steps]))[0]) - start, low, high, rtol=1e-12)
    return float(math.ceil(result))


def _curve_losses(target: FitLike | None, source: FitLike, n_params: float | None) -> tuple[CurveLoss, ...]:
    """Return the losses that were given, the target loss first."""
    result = [] if target is None else [CurveLoss.build(target, "target", n_params)]
    return (*result, CurveLoss.build(source, "source", n_params))


def _base_rate_and_mix(losses: Sequence[CurveLoss], given: PlanQuestion) -> tuple[Schedule | None, float, float | None]:
    """Return the base model's schedule, the constant rate, and the mix."""
    space = build_space(losses, given)
    base = Schedule(space.base) if space.base else None
    if given.peak is not None:
        return base, given.peak, space.replay
    if base is None:
        raise UsageError("the base model's peak is not known. Give peak= (--peak), the constant learning rate.")
    return base, float(base.lr.max()), space.replay


def _weak_shift(losses: Sequence[CurveLoss]) -> list[Finding]:
    """Say of which losses the shift is a logarithm, which has no end: see `cptlaw_curves.laws.dynamics`."""
    findings = []
    for loss in losses:
        bend = loss.params["beta"]
        if bend < 0.05:
            findings.append(
                Finding(
                    "warning",
                    "shift-without-asymptote",
                    f"the shift of the {loss.role} loss has beta = {bend:.3g}: it is a logarithm, and where it ends "
                    f"({loss.params['B']:.3g} nats) is not determined. Neither is what follows from its end.",
                    "Fit longer runs, or bound the transfer gap.",
                )
            )
    return findings


documented(turning_length, TurningLength)
documented(critical_point, CriticalPoint)
