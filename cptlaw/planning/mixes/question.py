"""The two questions about a mix: the fewest tokens under limits, and the best replay at tokens that follow from it.

Their coordinates are replay and the logarithm of the tokens that count for the laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import Limit
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.search import minimise
from cptlaw.planning.solve import Optimum, without

REPLAY_SCALE = 5.0  # a coordinate of 1 is a fifth of the range of replay
ROUNDING = 1e-12
# A plan of more than this many times the tokens that a fit has seen is one on paper only: a law whose exponent has gone
# to zero answers with more tokens than there are atoms.
OUT_OF_REACH = 1e6
NEARLY_ALL = 1e3  # times the most tokens that a fit has seen: where doubt is taken if no number of tokens will do
MIN_LOG_TOKENS, MAX_LOG_TOKENS = -20.0, 600.0


@dataclass(frozen=True)
class MixQuestion:
    """What both questions share."""

    mix: FittedMix
    limits: tuple[Limit, ...]
    low: float
    high: float

    @classmethod
    def of(cls, mix: FittedMix, **more: Any) -> Self:
        """Return the question that a scenario asks."""
        return cls(mix=mix, limits=mix.limits, low=mix.low, high=mix.high, **more)

    # -- coordinates ---------------------------------------------------------------------------------------------------

    def place(self, replay: Any, tokens: Any) -> Array:
        """Return coordinates, (n, 2); tokens are those that count for the laws."""
        replay, tokens = np.broadcast_arrays(np.atleast_1d(replay), np.atleast_1d(tokens))
        with np.errstate(divide="ignore"):
            log = np.clip(np.log(tokens), MIN_LOG_TOKENS, MAX_LOG_TOKENS)
        return np.stack([REPLAY_SCALE * replay.ravel(), log.ravel()], axis=1)

    def mix_at(self, place: Array) -> tuple[Array, Array]:
        """Return replay and tokens that count, (n,) each, of coordinates (n, 2)."""
        return place[:, 0] / REPLAY_SCALE, np.exp(place[:, 1])

    def reached(self, limit: Limit, places: Array) -> Array:
        """Return a limited quantity at places, (n, 2) to (n,)."""
        return limit.reached(limit.loss.at(*self.mix_at(places)), places)

    def reached_at(self, limit: Limit, replay: Array, tokens: Array) -> Array:
        """Return a limited quantity at replay and tokens that count, (n,); tokens may be infinite."""
        curve = limit.loss.curve(replay)
        if curve is None:
            tokens = (
                np.minimum(tokens, OUT_OF_REACH * self.mix.largest_fitted_tokens) if self._counts(limit) else tokens
            )
            loss = limit.loss.at(replay, tokens)
        else:
            loss = curve.loss(tokens)
        seen = NEARLY_ALL * limit.loss.fitted_tokens[1]
        return limit.reached(loss, self.place(replay, np.minimum(tokens, seen)))

    def _counts(self, limit: Limit) -> bool:
        return bool(limit.loss.reads("tokens"))

    # -- the doubt -----------------------------------------------------------------------------------------------------

    def around(self, place: Array) -> Array:
        """Return where to look at the doubt first: at other replays, with more tokens, and at the place itself."""
        step = 0.25 * REPLAY_SCALE * (self.high - self.low)
        ends = np.clip([place[0] - step, place[0] + step], REPLAY_SCALE * self.low, REPLAY_SCALE * self.high)
        places = [(end, place[1]) for end in ends if abs(end - place[0]) > 1e-6]
        return np.array([*places, *self._further(place), place])

    def _further(self, place: Array) -> list[tuple[float, float]]:
        return []

    def learned(self, limit: Limit, places: Array) -> Limit:
        """Return a limit with its doubt at places, (n, 2)."""
        if not limit.doubtful or limit.risk is None:
            return limit
        return limit.learned(places, *limit.loss.margins(*self.mix_at(places), limit.risk))

    # -- the search ----------------------------------------------------------------------------------------------------

    def optimum(self) -> Optimum:
        """Return the best mix, or the one that comes nearest to keeping the limits."""
        replay, tokens, value = self.search()
        return Optimum(self.place(replay, tokens)[0], value)

    def search(self) -> tuple[float, float, float]:
        """Return replay, tokens that count, and what is minimised, infinite where nothing keeps the limits."""
        raise NotImplementedError

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return the lowest value of a limited quantity that the tokens allow at each replay, (n,)."""
        raise NotImplementedError

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails at each replay where the tokens are best for it, (n,)."""
        raise NotImplementedError

    # -- where there is no answer --------------------------------------------------------------------------------------

    def lifted(self) -> dict[str, Any]:
        """Return the questions with one bound less."""
        found: dict[str, Any] = {limit.name: without(self, limit) for limit in self.limits}
        if "min_replay" in self.mix.given.given and self.mix.fitted_low < self.low:
            found["min-replay"] = replace(self, low=self.mix.fitted_low)
        if "max_replay" in self.mix.given.given and self.mix.fitted_high > self.high:
            found["max-replay"] = replace(self, high=self.mix.fitted_high)
        return found

    def lowest(self, limit: Limit, others: Any) -> float:
        """Return the lowest value of a limited quantity, the other limits kept where they can be."""

        def within(replay: Array) -> Array:
            return np.where(others.violation(replay) <= 0, self.best(limit, replay), np.inf)

        _, value = minimise(within, self.low, self.high, others.violation)
        if not np.isfinite(value):
            _, value = minimise(lambda replay: self.best(limit, replay), self.low, self.high)
        return value

    def feasible_from(self, name: str, lifted: Any, optimum: Optimum) -> float:
        """Return the replay that an end of the range must reach."""
        sign = -1.0 if name == "min-replay" else 1.0

        def ordered(replay: Array) -> Array:
            return np.where(lifted.violation(replay) <= 0, sign * replay, np.inf)

        return sign * minimise(ordered, lifted.low, lifted.high, lifted.violation)[1]


@dataclass(frozen=True)
class BestReplay(MixQuestion):
    """The replay with the lowest target loss where tokens follow from replay.

    Parameters
    ----------
    tokens
        Tokens of the whole mix at each replay, (n,) to (n,).
    within
        Share of the lowest target loss by which the fewest tokens may miss it.
    """

    tokens: Callable[[Array], Array]
    within: float = 0.0

    def search(self) -> tuple[float, float, float]:
        """Return the best replay, its tokens and its target loss."""

        def loss(replay: Array) -> Array:
            return np.where(self.violation(replay) <= 0, self.mix.target.at(replay, self.tokens(replay)), np.inf)

        replay, value = minimise(loss, self.low, self.high, self.violation if self.limits else None)
        if not np.isfinite(value):
            replay, _ = minimise(self.violation, self.low, self.high)
        elif self.within > 0:
            replay, value = self._fewest_near((1.0 + self.within) * value)
        return replay, float(self.tokens(np.array([replay]))[0]), value

    def _fewest_near(self, highest: float) -> tuple[float, float]:
        """Return the replay of the fewest tokens whose target loss is at most `highest`, and that loss."""

        def loss(replay: Array) -> Array:
            return self.mix.target.at(replay, self.tokens(replay))

        def excess(replay: Array) -> Array:
            return np.maximum(self.violation(replay), loss(replay) / highest - 1.0)

        def tokens(replay: Array) -> Array:
            return np.where(excess(replay) <= 0, self.tokens(replay), np.inf)

        replay, _ = minimise(tokens, self.low, self.high, excess)
        return replay, float(loss(np.array([replay]))[0])

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return a limited quantity at each replay, (n,)."""
        tokens = self.tokens(replay)
        return limit.reached(limit.loss.at(replay, tokens), self.place(replay, tokens))

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails at each replay, (n,)."""
        worst = np.full(len(replay), -np.inf)
        for limit in self.limits:
            worst = np.maximum(worst, self.best(limit, replay) - limit.value)
        return worst
