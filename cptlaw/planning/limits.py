"""What a plan must keep: limits on losses and on forgetting, and how many tokens each needs at a given replay."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.reference import Reference
from cptlaw.planning.side import Side
from cptlaw.uncertainty.intervals import measurement_scatter, rollout_width
from cptlaw.uncertainty.profile import walk

Measure = Literal["relative", "absolute"]
MEASURES: tuple[Measure, ...] = ("relative", "absolute")
LimitName = Literal["max-forgetting", "max-target-loss", "max-source-loss"]

QUANTITY = {"max-forgetting": "forgetting", "max-target-loss": "target_loss", "max-source-loss": "source_loss"}


MIN_LOG_TOKENS, MAX_LOG_TOKENS = -20.0, 600.0
DOUBLINGS, BISECTIONS, CLOSE = 12, 60, 1e-10  # of the search for the fewest tokens, in log tokens
MOST_STRETCH = 2.0  # the interpolated end of a profile never lies farther beyond the last law met
ROUNDS = 8
SETTLED = 1e-4  # relative change of a limited quantity that a further walk may still make


@dataclass(frozen=True)
class Forgetting:
    """How a source loss turns into forgetting.

    Parameters
    ----------
    reference
        The base model's source loss.
    measure
        ``"relative"``: (loss - base) / base, a fraction. ``"absolute"``: loss - base, nats per token.
    """

    reference: Reference
    measure: Measure

    def of(self, loss: Any, base: Any = None) -> Any:
        """Return the forgetting of source losses; `base` replaces the reference, for draws of it."""
        start = self.reference.loss if base is None else base
        return loss / start - 1.0 if self.measure == "relative" else loss - start

    def loss_at(self, value: float, base: Any = None) -> Any:
        """Return the source loss at which forgetting is `value`."""
        start = self.reference.loss if base is None else base
        return start * (1.0 + value) if self.measure == "relative" else start + value


@dataclass(frozen=True, eq=False)
class Limit:
    """An upper limit on one quantity, certain or held with a probability.

    Parameters
    ----------
    name
        As the option is called.
    value
        The most that is allowed: nats per token, or a fraction for relative forgetting.
    side
        The fit that forecasts the quantity.
    forgetting
        For limits on forgetting.
    risk
        Probability with which a measured loss must keep the limit; ``None`` for the point forecast.
    laws
        Parameter vectors that the data allows with this probability, (s, parameters), as far as `learned` met them.
    stretch
        Doubt about the fitted loss where it was last learned, relative to the worst of `laws` there, at least 1.

    Notes
    -----
    With a risk p the upper end of the central interval of coverage 2 p - 1, as `cptlaw.forecast` gives it, must keep
    the limit. That end is known exactly where a walk along the profile was made; in between, the worst of the laws
    that all walks met stands for it. `settled` walks where the plan lies, until that changes nothing any more.
    """

    name: LimitName
    value: float
    side: Side
    forgetting: Forgetting | None = None
    risk: float | None = None
    laws: Array | None = None
    stretch: float = 1.0

    def tokens(self, replay: Array) -> Array:
        """Return the fewest tokens that keep the limit at each replay, (n,); infinity where none do."""
        threshold = self.value if self.forgetting is None else self.forgetting.loss_at(self.value)
        needed = self.side.curve(replay).tokens(threshold)
        if self.laws is None:
            return needed
        with np.errstate(divide="ignore"):
            start = np.clip(np.log(needed), MIN_LOG_TOKENS, MAX_LOG_TOKENS)
        upper = self._upper(replay)
        low, high, step = start.copy(), start.copy(), np.full(len(start), 0.5)
        for _ in range(DOUBLINGS):
            fails = upper(np.exp(np.minimum(high, MAX_LOG_TOKENS))) > threshold
            low, high = np.where(fails, high, low), np.where(fails, high + step, high)
            step = np.where(fails, 2.0 * step, step)
            if not fails.any() or high[fails].min() > MAX_LOG_TOKENS:
                break
        never = ~np.isfinite(needed) | (high > MAX_LOG_TOKENS)
        low, high = np.minimum(low, MAX_LOG_TOKENS), np.minimum(high, MAX_LOG_TOKENS)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            fails = upper(np.exp(middle)) > threshold
            low, high = np.where(fails, middle, low), np.where(fails, high, middle)
            if np.all(high - low < CLOSE):
                break
        return np.where(never, np.inf, np.where(needed <= 0, needed, np.exp(high)))

    def reached(self, replay: Array, tokens: Any) -> Array:
        """Return the limited quantity at replay and tokens, (n,): the value kept with the probability asked for."""
        loss = self.side.curve(replay).loss(tokens) if self.laws is None else self._upper(replay)(tokens)
        return np.asarray(loss if self.forgetting is None else self.forgetting.of(loss), dtype=float)

    def learned(self, replay: Any, tokens: Any) -> Limit:
        """Return the limit with what the data allows at some mixes; the limit itself where it is certain.

        Parameters
        ----------
        replay, tokens
            One mix, or several: numbers or (n,).
        """
        if self.risk is None or self._coverage == 0:
            return self
        replay, tokens = (np.atleast_1d(np.asarray(value, dtype=float)) for value in (replay, tokens))
        met = walk(self.side.fit, self.side.frame(replay, tokens), self._coverage)
        laws = met.allowed if self.laws is None else np.concatenate([self.laws, met.allowed])
        point = self.side.curve(replay).loss(tokens)
        farthest = np.log(self.side.curve(replay, laws).loss(tokens) / point).max(axis=0)
        exact = met.ends[:, 1] - np.log(point)
        # Where the data bounds nothing the walk ends at a factor of e, which no limit will hold.
        known = np.isfinite(exact) & (farthest > 0)
        stretch = float(np.clip((exact[known] / farthest[known]).max(initial=1.0), 1.0, MOST_STRETCH))
        return replace(self, laws=self._worst(laws, float(tokens.max())), stretch=stretch)

    @property
    def _coverage(self) -> float:
        """Coverage of the central interval whose upper end must keep the limit."""
        return 0.0 if self.risk is None else 2.0 * self.risk - 1.0

    @cached_property
    def _own_doubt(self) -> float:
        """Doubt that does not come from the law, in log loss: the noise of a measurement, and the reference's own."""
        scatter = measurement_scatter(self.side.fit, self._coverage)
        if self.forgetting is None:
            return scatter
        return math.hypot(scatter, self.forgetting.reference.half_width(self._coverage))

    def _upper(self, replay: Array) -> Callable[[Any], Array]:
        """Return the upper end of the loss at each replay, (n,), as a function of tokens."""
        point, excess = self.side.curve(replay), self._excess(self.laws, replay)
        width, own = rollout_width(self.side.fit), self._own_doubt

        def upper(tokens: Any) -> Array:
            above = self.stretch * np.maximum(excess(tokens).max(axis=0), 0.0)
            return np.asarray(point.loss(tokens) * np.exp(width * np.hypot(above, own)), dtype=float)

        return upper

    def _excess(self, laws: Any, replay: Array) -> Callable[[Any], Array]:
        """Return by how much each law lies above the forecast, in log loss relative to its own reference, (s, n)."""
        point, others = self.side.curve(replay), self.side.curve(replay, laws)
        shift: Any = 0.0
        if self.forgetting is not None:
            base = self.forgetting.reference.under(laws)
            shift = np.log(self.forgetting.loss_at(self.value, base)) - np.log(self.forgetting.loss_at(self.value))
        return lambda tokens: np.log(others.loss(tokens)) - np.log(point.loss(tokens)) - shift

    def _worst(self, laws: Array, tokens: float) -> Array:
        """Return the laws that lie highest somewhere a plan may come to; the others decide nothing."""
        levels, (least, most) = self.side.fitted_replay, self.side.fitted_tokens
        replay = np.linspace(levels[0], levels[-1], 17) if len(levels) else np.zeros(1)
        worst, excess = {0}, self._excess(laws, replay)  # the first is the fit itself
        for at in np.geomspace(min(least, tokens), 100.0 * max(most, tokens), 17):
            worst.update(excess(at).argmax(axis=0).tolist())
        return laws[sorted(worst)]


class Question(Protocol):
    """What is settled: something with limits that has an answer."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits."""

    def mix(self) -> tuple[float, float]:
        """Return replay and tokens of the answer or, where there is none, of the mix that comes nearest."""


Asked = TypeVar("Asked", bound=Question)


def settled(question: Asked) -> tuple[Asked, tuple[Finding, ...]]:
    """Return the question with limits that know what the data allows at its answer, and a finding if it moved on.

    The answer is sought, the profile of each limited loss is walked there, and again with what was met, until the walk
    says nothing new.
    """
    for _ in range(ROUNDS):
        replay, tokens = question.mix()
        limits = tuple(limit.learned(replay, tokens) for limit in question.limits)
        at = np.array([replay])
        news = [
            abs(after.reached(at, tokens)[0] - before.reached(at, tokens)[0]) / max(abs(after.value), 1e-2)
            for before, after in zip(question.limits, limits, strict=True)
        ]
        question = replace(question, limits=limits)  # type: ignore[type-var]
        if max(news, default=0.0) <= SETTLED:
            return question, ()
    return question, (
        Finding(
            "warning",
            "risk-not-settled",
            f"after {ROUNDS} rounds the doubt at the plan still changes it: its limits may hold with somewhat less "
            f"than the probability asked for.",
            "Narrow the range of replay, or add runs near the plan.",
        ),
    )


def build_limits(
    target: Side | None,
    source: Side | None,
    forgetting: Forgetting | None,
    *,
    max_forgetting: float | None = None,
    max_target_loss: float | None = None,
    max_source_loss: float | None = None,
    risk: float | None = None,
) -> tuple[Limit, ...]:
    """Return the limits that were given, in the order forgetting, source loss, target loss.

    Raises
    ------
    UsageError
        If a limit lacks its fit, if `risk` is given without a limit, or with a fit of fewer than three runs.
    """
    limits: list[Limit] = []
    if max_forgetting is not None:
        side = _needed(source, "source")
        if forgetting is None:
            raise UsageError("a limit on forgetting needs the base model's source loss: give base_source_loss=.")
        limits.append(Limit("max-forgetting", max_forgetting, side, forgetting, risk))
    if max_source_loss is not None:
        limits.append(Limit("max-source-loss", max_source_loss, _needed(source, "source"), None, risk))
    if max_target_loss is not None:
        limits.append(Limit("max-target-loss", max_target_loss, _needed(target, "target"), None, risk))
    if risk is not None:
        if not limits:
            raise UsageError("risk (--risk) is the probability with which limits hold, but no limit was given.")
        for limit in limits:
            if not limit.side.knows_doubt:
                raise UsageError(
                    f"risk (--risk): the {limit.side.role} fit has {limit.side.fit.n_runs} runs, which cannot say how "
                    f"runs differ. Fit on at least three, or leave risk out."
                )
    return tuple(limits)


def _needed(side: Side | None, role: str) -> Side:
    if side is None:
        raise UsageError(
            f"a limit on the {role} loss or on forgetting needs {role}= (--{role}), a fit of the {role} loss."
        )
    return side
