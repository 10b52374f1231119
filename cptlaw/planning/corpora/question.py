"""The question of a plan of k corpora: the mix with the lowest weighted loss under limits.

Its coordinates are the shares, each times `SHARE_SCALE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.corpora.losses import EvalLoss
from cptlaw.planning.corpora.pools import Pools
from cptlaw.planning.corpora.simplex import KEPT, MixRange, minimise
from cptlaw.planning.limits import Limit
from cptlaw.planning.settle import Optimum, without

SHARE_SCALE = 5.0  # a coordinate of 1 is a fifth of the mix
AROUND = 0.05  # of the mix, that moves to each corpus in turn where the doubt is looked at


@dataclass(frozen=True, eq=False)
class BestMix:
    """The mix with the lowest weighted loss at a number of tokens.

    Parameters
    ----------
    losses
        By eval.
    weights
        Of the losses in what is minimised, by eval; they add up to one.
    limits
        Limits to keep.
    mixes
        The mixes to choose from, without what pools forbid.
    pools
        Unique tokens.
    tokens
        Tokens of the run.
    bounds
        The ends of ranges that were given, such as ``"max-share web"``.
    """

    losses: Mapping[str, EvalLoss]
    weights: Mapping[str, float]
    limits: tuple[Limit, ...]
    mixes: MixRange
    pools: Pools
    tokens: float
    bounds: tuple[str, ...] = ()

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora, in the order of the shares."""
        return next(iter(self.losses.values())).corpora

    @property
    def allowed(self) -> MixRange:
        """The mixes that the pools allow too."""
        return replace(self.mixes, high=np.minimum(self.mixes.high, self.pools.most(self.tokens)))

    def goal(self, shares: Array) -> Array:
        """Return what is minimised at mixes, (n, k) to (n,): the weighted mean of the losses, nats per token."""
        counted = self.pools.counted(shares, self.tokens)
        return np.asarray(sum(weight * self.losses[name].at(*counted) for name, weight in self.weights.items()))

    def values(self, shares: Array) -> Array:
        """Return what is minimised, and by how much each limit fails, at mixes: (n, k) to (n, 1 + limits)."""
        shares = shares / shares.sum(axis=1, keepdims=True)  # steps for slopes leave the simplex
        over = [self.reached(limit, SHARE_SCALE * shares) - limit.value for limit in self.limits]
        return np.stack([self.goal(shares), *over], axis=1)

    # -- what `cptlaw.planning.settle` asks

    def optimum(self) -> Optimum:
        """Return the best mix, or the one that comes nearest to keeping the limits."""
        allowed = self.allowed
        if allowed.empty:
            centre = self.mixes.within(np.full((1, len(self.corpora)), 1.0 / len(self.corpora)))[0]
            return Optimum(SHARE_SCALE * centre, np.inf)
        mix, values = minimise(self.values, allowed)
        kept = bool(np.all(values[1:] <= KEPT))
        return Optimum(SHARE_SCALE * mix, float(values[0]) if kept else np.inf)

    def reached(self, limit: Limit, places: Array) -> Array:
        """Return a limited quantity at places, (n, k) to (n,)."""
        counted = self.pools.counted(places / SHARE_SCALE, self.tokens)
        return limit.reached(limit.loss.at(*counted), places)

    def around(self, place: Array) -> Array:
        """Return where to look at the doubt first: a little more of each corpus, and the place itself."""
        mix = place / SHARE_SCALE
        moved = (1.0 - AROUND) * mix + AROUND * np.eye(len(mix))
        return SHARE_SCALE * np.concatenate([moved, mix[None]])

    def learned(self, limit: Limit, places: Array) -> Limit:
        """Return a limit with its doubt at places, (n, k)."""
        if not limit.doubtful or limit.risk is None:
            return limit
        counted = self.pools.counted(places / SHARE_SCALE, self.tokens)
        return limit.learned(places, *limit.loss.margins(*counted, limit.risk))

    def lifted(self) -> dict[str, Any]:
        """Return the questions with one bound less: a limit, a pool, or a range that was given."""
        found: dict[str, Any] = {limit.name: without(self, limit) for limit in self.limits}
        for i, name in enumerate(self.corpora):
            if self.pools.repetition == "forbid" and self.pools.unique[i] < self.mixes.high[i] * self.tokens:
                more = self.pools.unique.copy()
                more[i] = np.inf
                found[f"unique {name}"] = replace(self, pools=replace(self.pools, unique=more))
            for end, other, bound in (("min-share", "low", 0.0), ("max-share", "high", 1.0)):
                values = getattr(self.mixes, other).copy()
                if f"{end} {name}" in self.bounds and values[i] != bound:
                    values[i] = bound
                    found[f"{end} {name}"] = replace(self, mixes=replace(self.mixes, **{other: values}))
        return found

    def lowest(self, limit: Limit, others: Any) -> float:
        """Return the lowest value of a limited quantity, the limits of `others` kept where they can be."""
        if self.allowed.empty:
            return float("nan")

        def with_limits(limits: tuple[Limit, ...]) -> Array:
            def values(shares: Array) -> Array:
                table = replace(self, limits=limits).values(shares)
                table[:, 0] = self.reached(limit, SHARE_SCALE * shares / shares.sum(axis=1, keepdims=True))
                return table

            return minimise(values, self.allowed)[1]

        found = with_limits(others.limits)
        return float((found if np.all(found[1:] <= KEPT) else with_limits(()))[0])

    def feasible_from(self, name: str, lifted: Any, optimum: Optimum) -> float:
        """Return from which value of a pool or of the end of a range there is an answer: that of the best one."""
        kind, _, corpus = name.partition(" ")
        share = float(optimum.place[self.corpora.index(corpus)] / SHARE_SCALE)
        return share * self.tokens if kind == "unique" else share
