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
from cptlaw.planning.mixes.mix import Mix
from cptlaw.planning.mixes.repetition import effective_tokens, tokens_for_effective
from cptlaw.planning.search import first_kept, minimise
from cptlaw.planning.solve import Optimum, without

REPLAY_SCALE = 5.0  # a coordinate of 1 is a fifth of the range of replay
ROUNDING = 1e-12
# A plan of more than this many times the tokens that a fit has seen is one on paper only: a law whose exponent has gone
# to zero answers with more tokens than there are atoms.
OUT_OF_REACH = 1e6
NEARLY_ALL = 1e3  # times the most tokens that a fit has seen: where doubt is taken if no number of tokens will do
SCAN = 97  # tokens at which a loss that may rise is looked at, at each replay
MIN_LOG_TOKENS, MAX_LOG_TOKENS = -20.0, 600.0


@dataclass(frozen=True)
class MixQuestion:
    """What both questions share.

    Parameters
    ----------
    mix
        The scenario.
    limits
        Limits to keep.
    low, high
        Range of replay.
    """

    mix: Mix
    limits: tuple[Limit, ...]
    low: float
    high: float

    @classmethod
    def of(cls, mix: Mix, **more: Any) -> Self:
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
    """

    tokens: Callable[[Array], Array]

    def search(self) -> tuple[float, float, float]:
        """Return the best replay, its tokens and its target loss."""

        def loss(replay: Array) -> Array:
            return np.where(self.violation(replay) <= 0, self.mix.target.at(replay, self.tokens(replay)), np.inf)

        replay, value = minimise(loss, self.low, self.high, self.violation if self.limits else None)
        if not np.isfinite(value):
            replay, _ = minimise(self.violation, self.low, self.high)
        return replay, float(self.tokens(np.array([replay]))[0]), value

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return a limited quantity at each replay, (n,)."""
        tokens = self.tokens(replay)
        return limit.reached(limit.loss.at(replay, tokens), self.place(replay, tokens))

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails at each replay, (n,)."""
        found: Array = np.max(
            [self.best(limit, replay) - limit.value for limit in self.limits], axis=0, initial=-np.inf
        )
        return found


@dataclass(frozen=True)
class FewestTokens(MixQuestion):
    """The fewest tokens that keep the limits.

    For each replay a limit needs so many tokens, in closed form where its law has one; losses that may rise and fall
    are scanned for the first number of tokens at which all limits hold.

    Parameters
    ----------
    least, ceiling
        What bounds tokens from below and above.
    unique, repetition
        Unique target tokens, where they are limited, and what is said of repeating them.
    """

    least: float
    ceiling: float
    unique: float | None
    repetition: str

    @property
    def discounts(self) -> bool:
        """Whether repeated target tokens count for less."""
        return self.unique is not None and self.repetition == "discount"

    def counted(self, tokens: Any, replay: Any) -> Array:
        """Return the tokens that count for the laws."""
        if not self.discounts or self.unique is None:
            return np.asarray(tokens, dtype=float)
        return effective_tokens(tokens, replay, self.unique)

    def needed(self, replay: Array) -> Array:
        """Return the fewest tokens that keep all limits at each replay, (n,); infinity where none do."""
        most = self.most(replay)
        if all(limit.loss.falls_with_tokens or not limit.loss.reads("tokens") for limit in self.limits):
            need = np.full(len(replay), self.least)
            for limit in self.limits:
                need = np.maximum(need, self._needed_by(limit, replay))
        else:
            need = self._scanned(replay, most)
        found: Array = np.where(need <= most * (1.0 + ROUNDING), need, np.inf)
        return found

    def _needed_by(self, limit: Limit, replay: Array) -> Array:
        """Return the tokens that one limit needs whose loss falls with them, (n,)."""
        curve = limit.loss.curve(replay)
        tokens: Array
        if curve is not None and limit.margin is None:
            tokens = curve.tokens(limit.threshold)
        else:
            far = np.full(len(replay), np.log(OUT_OF_REACH * self.mix.largest_fitted_tokens))
            start = np.full(len(replay), np.log(self.least))
            if curve is not None:  # the margin only ever asks for more
                with np.errstate(divide="ignore"):
                    start = np.clip(np.log(curve.tokens(limit.threshold)), MIN_LOG_TOKENS, MAX_LOG_TOKENS)
                far = np.maximum(far, start)

            def excess(log_tokens: Array) -> Array:
                shares = np.broadcast_to(replay, log_tokens.shape)
                tokens = np.exp(log_tokens)
                loss = limit.loss.at(shares, tokens) if curve is None else curve.loss(tokens)
                seen = np.minimum(tokens, NEARLY_ALL * limit.loss.fitted_tokens[1])
                return limit.upper(loss, self.place(shares, seen)) - limit.threshold

            tokens = np.exp(first_kept(excess, start, far))
        if not self.discounts or self.unique is None:
            return tokens
        return tokens_for_effective(tokens, replay, self.unique)

    def _scanned(self, replay: Array, most: Array) -> Array:
        """Return the first number of tokens at which all limits hold, (n,), where losses may rise and fall."""
        far = np.minimum(most, OUT_OF_REACH * self.mix.largest_fitted_tokens)
        low, high = np.full(len(replay), np.log(self.least)), np.log(np.maximum(far, self.least))
        tokens: Array = np.exp(first_kept(lambda logs: self._excess(logs, replay), low, high, SCAN))
        return tokens

    def _excess(self, log_tokens: Array, replay: Array) -> Array:
        """Return by how much the worst limit fails at tokens, (m, n), relative to the scale of each limit."""
        shares = np.broadcast_to(replay, log_tokens.shape)
        counted = self.counted(np.exp(log_tokens), shares)
        place = self.place(shares, counted)
        parts = [limit.upper(limit.loss.at(shares, counted), place) / limit.threshold - 1.0 for limit in self.limits]
        found: Array = np.max(parts, axis=0)
        return found

    def most(self, replay: Array) -> Array:
        """Return the most tokens of a mix that stays within reach and repeats nothing it must not, (n,)."""
        if self.unique is None or self.repetition == "discount":
            return np.full(len(replay), self.ceiling)
        with np.errstate(divide="ignore"):
            return np.minimum(self.unique / (1.0 - replay), self.ceiling)

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return the lowest value of a limited quantity at each replay that the tokens allow, (n,)."""
        most = self.most(replay)
        at_most = self.reached_at(limit, replay, self.counted(most, replay))
        if limit.loss.falls_with_tokens or not limit.loss.reads("tokens"):
            return at_most
        far = np.minimum(most, OUT_OF_REACH * self.mix.largest_fitted_tokens)
        logs = np.linspace(np.full(len(replay), np.log(self.least)), np.log(np.maximum(far, self.least)), SCAN)
        shares = np.broadcast_to(replay, logs.shape)
        counted = self.counted(np.exp(logs), shares)
        values = limit.reached(limit.loss.at(shares, counted), self.place(shares, counted))
        found: Array = np.minimum(values.min(axis=0), at_most)
        return found

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails with all the tokens that there are, (n,)."""
        worst = self.least / self.most(replay) - 1.0
        if all(limit.loss.falls_with_tokens or not limit.loss.reads("tokens") for limit in self.limits):
            for limit in self.limits:
                worst = np.maximum(worst, self.best(limit, replay) - limit.value)
            return worst
        far = np.minimum(self.most(replay), OUT_OF_REACH * self.mix.largest_fitted_tokens)
        logs = np.linspace(np.full(len(replay), np.log(self.least)), np.log(np.maximum(far, self.least)), SCAN)
        found: Array = np.maximum(worst, self._excess(logs, replay).min(axis=0))
        return found

    def search(self) -> tuple[float, float, float]:
        """Return the best replay, the tokens that count, and its tokens."""
        replay, tokens = minimise(self.needed, self.low, self.high, self.violation)
        if tokens <= self.least * (1.0 + ROUNDING) and self.high > self.low:
            # Several mixes do with the least tokens: take the one whose limits leave most room.
            replay, _ = minimise(self._room, self.low, self.high)
        spent = tokens
        if not np.isfinite(tokens):
            replay, _ = minimise(self.violation, self.low, self.high)
            spent = min(float(self.most(np.array([replay]))[0]), NEARLY_ALL * self.mix.largest_fitted_tokens)
        return replay, float(self.counted(spent, replay)), tokens

    def _room(self, replay: Array) -> Array:
        """Return the worst quantity relative to its limit at the least tokens, (n,); infinity where one fails."""
        counted = self.counted(self.least, replay)
        worst = np.full(len(replay), -np.inf)
        for limit in self.limits:
            reached = limit.reached(limit.loss.at(replay, counted), self.place(replay, counted))
            worst = np.maximum(worst, (reached - limit.value) / max(abs(limit.value), 1e-3))
        return np.where(self.needed(replay) <= self.least * (1.0 + ROUNDING), worst, np.inf)

    def _further(self, place: Array) -> list[tuple[float, float]]:
        """Return a place with more tokens: a risk asks for them."""
        return [(float(place[0]), float(place[1] + np.log(3.0)))]

    def lifted(self) -> dict[str, Any]:
        """Return the questions with one bound less."""
        found = super().lifted()
        ends = {name: found.pop(name) for name in ("min-replay", "max-replay") if name in found}
        if self.unique is not None and self.repetition == "forbid":
            found["unique-target-tokens"] = replace(self, unique=None)
        if self.mix.given.max_tokens is not None:
            found["max-tokens"] = replace(self, ceiling=OUT_OF_REACH * self.mix.largest_fitted_tokens)
        return found | ends

    def feasible_from(self, name: str, lifted: Any, optimum: Optimum) -> float:
        """Return from which value of a bound that is no limit there is a plan."""
        if name == "max-tokens":
            return optimum.value
        if name == "unique-target-tokens":
            # The fewest target tokens of any mix that keeps the limits.
            return minimise(lambda replay: (1.0 - replay) * lifted.needed(replay), lifted.low, lifted.high)[1]
        return super().feasible_from(name, lifted, optimum)
