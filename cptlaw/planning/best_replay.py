"""The replay with the lowest target loss where tokens follow from replay: what the trade-off and limited data share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import QUANTITY, Limit
from cptlaw.planning.search import minimise
from cptlaw.planning.setting import Setting
from cptlaw.planning.side import Side

ON_LIMIT = 1e-6  # nats per token, or of the base loss: distance from which a limit counts as binding


@dataclass(frozen=True)
class BestReplay:
    """Minimise the target loss over replay, under limits.

    Parameters
    ----------
    target
        The target side.
    tokens
        Tokens of the whole mix at each replay, (n,) to (n,).
    limits
        Limits to keep.
    low, high
        Range of replay.
    """

    target: Side
    tokens: Callable[[Array], Array]
    limits: tuple[Limit, ...]
    low: float
    high: float

    def loss(self, at: Array) -> Array:
        """Return the target loss at each replay, (n,); infinity where a limit fails."""
        return np.where(self.violation(at) <= 0, self.target.losses(at, self.tokens(at)), np.inf)

    def violation(self, at: Array) -> Array:
        """Return by how much the worst limit fails at each replay, (n,)."""
        worst = np.full(len(at), -np.inf)
        for limit in self.limits:
            worst = np.maximum(worst, limit.reached(at, self.tokens(at)) - limit.value)
        return worst

    def solve(self) -> tuple[float, float]:
        """Return the best replay and its target loss; infinite where no replay keeps the limits."""
        return minimise(self.loss, self.low, self.high, self.violation if self.limits else None)

    def mix(self) -> tuple[float, float]:
        """Return replay and tokens of the answer or, where there is none, of the mix that comes nearest."""
        replay, loss = self.solve()
        if not np.isfinite(loss):
            replay, _ = minimise(self.violation, self.low, self.high)
        return replay, float(self.tokens(np.array([replay]))[0])

    def binding(self, at: float) -> tuple[str, ...]:
        """Name the limits on which the best replay lies."""
        point = np.array([at])
        return tuple(
            limit.name for limit in self.limits if limit.reached(point, self.tokens(point))[0] >= limit.value - ON_LIMIT
        )

    def certificate(self) -> dict[str, Any]:
        """Say which limits block, what can be reached, and from which value on there would be a plan."""
        free = replace(self, limits=())
        best: dict[str, float | None] = {"target_loss": free.solve()[1], "forgetting": None}
        blocking: list[str] = []
        for limit in self.limits:
            others = replace(self, limits=tuple(other for other in self.limits if other is not limit))
            if np.isfinite(others.solve()[1]):
                blocking.append(limit.name)
            best[QUANTITY[limit.name]] = self._lowest(limit, others)
        feasible_from = {name: best[QUANTITY[name]] for name in blocking}
        if not blocking:
            # No single one will do: the values at the replay that comes nearest, to be granted together.
            nearest, _ = minimise(self.violation, self.low, self.high)
            point = np.array([nearest])
            blocking = [limit.name for limit in self.limits]
            feasible_from = {limit.name: float(limit.reached(point, self.tokens(point))[0]) for limit in self.limits}
        return {"blocking": " and ".join(blocking), "best_reachable": best, "feasible_from": feasible_from}

    def _lowest(self, limit: Limit, others: BestReplay) -> float:
        def value(at: Array) -> Array:
            return limit.reached(at, self.tokens(at))

        _, lowest = minimise(
            lambda at: np.where(others.violation(at) <= 0, value(at), np.inf), self.low, self.high, others.violation
        )
        return lowest if np.isfinite(lowest) else minimise(value, self.low, self.high)[1]


def price_of_doubt(setting: Setting, certain: BestReplay, loss: float) -> float | None:
    """Return by how much a plan's target loss lies above the plan on point forecasts alone, nats per token.

    Parameters
    ----------
    setting
        What was asked.
    certain
        The question with limits on the point forecasts.
    loss
        Target loss of the plan under risk.
    """
    return None if setting.risk is None else loss - certain.solve()[1]
