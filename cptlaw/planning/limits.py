"""What a plan must keep: limits on losses and on forgetting, and how many tokens each needs at a given replay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.laws.calculus import Array
from cptlaw.planning.reference import Reference
from cptlaw.planning.side import Side

Measure = Literal["relative", "absolute"]
MEASURES: tuple[Measure, ...] = ("relative", "absolute")
LimitName = Literal["max-forgetting", "max-target-loss", "max-source-loss"]

QUANTITY = {"max-forgetting": "forgetting", "max-target-loss": "target_loss", "max-source-loss": "source_loss"}


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


@dataclass(frozen=True)
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
        Probability with which a measured loss must keep the limit; ``None`` for the point forecast. Parameters come
        from the fit's bootstrap over runs, and the noise of one measurement from its residuals.

    Notes
    -----
    A measured loss L exp(e) keeps a limit T where L <= T exp(-e). The law falls with tokens, so it does so from some
    number of tokens on, one for each draw; with the probability asked for it does from the quantile of these on.
    """

    name: LimitName
    value: float
    side: Side
    forgetting: Forgetting | None = None
    risk: float | None = None

    def tokens(self, replay: Array) -> Array:
        """Return the fewest tokens that keep the limit at each replay, (n,); infinity where none do."""
        needed = self.side.curve(replay, drawn=self.risk is not None).tokens(self._threshold)
        return needed if self.risk is None else upper_quantile(needed, self.risk)

    def reached(self, replay: Array, tokens: Any) -> Array:
        """Return the limited quantity at replay and tokens, (n,): the value kept with the probability asked for."""
        loss = self.side.curve(replay, drawn=self.risk is not None).loss(tokens)
        if self.risk is None:
            return np.asarray(loss if self.forgetting is None else self.forgetting.of(loss), dtype=float)
        measured = loss * np.exp(self.side.noise)
        return upper_quantile(
            measured if self.forgetting is None else self.forgetting.of(measured, self._base), self.risk
        )

    @cached_property
    def _base(self) -> Any:
        """Draws of the reference loss, or the loss itself where it is a measurement."""
        return None if self.forgetting is None else self.forgetting.reference.draws(len(self.side.draws))

    @cached_property
    def _threshold(self) -> Any:
        if self.risk is None:
            return self.value if self.forgetting is None else self.forgetting.loss_at(self.value)
        most = self.value if self.forgetting is None else self.forgetting.loss_at(self.value, self._base)
        return most * np.exp(-self.side.noise)


def upper_quantile(draws: Array, probability: float) -> Array:
    """Return the smallest drawn value that at least this share of the draws does not exceed, (s, n) to (n,).

    A drawn value, never a blend of two: the draws may be infinite.
    """
    rank = max(math.ceil(probability * len(draws) - 1e-9) - 1, 0)
    return np.asarray(np.partition(draws, rank, axis=0)[rank], dtype=float)


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
            if not limit.side.can_draw:
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
