"""The question of the fewest tokens that keep limits.

For each replay a limit needs so many tokens, in closed form where its law has one; losses that may rise and fall, and
averages of laws, are scanned for the first number of tokens at which all limits hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import Limit
from cptlaw.planning.loss import Loss
from cptlaw.planning.mixes.question import (
    MAX_LOG_TOKENS,
    MIN_LOG_TOKENS,
    NEARLY_ALL,
    OUT_OF_REACH,
    ROUNDING,
    MixQuestion,
)
from cptlaw.planning.mixes.repetition import effective_tokens, tokens_for_effective
from cptlaw.planning.mixes.surface import Surface
from cptlaw.planning.search import FINER, GRID, HALF, first_kept, minimise
from cptlaw.planning.solve import Optimum

SCAN = 97  # tokens at which a loss that may rise is looked at, at each replay
COARSE, FINE = (65, 193), (17, 33)  # grids of surfaces, replay and tokens: over all mixes, and about the best
READ_OFF = (
    1e-9  # relative to log tokens: surfaces are right to 1e-5 of a loss, and each step of a root costs all limits
)
ROUGHLY = 1e3  # times finer than the coarse grid: the best mix is looked for once more off a fine surface about it

# Ends of replay and of log tokens.
Window: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


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

    @property
    def scans(self) -> bool:
        """Whether a limited loss may rise with tokens, so that the first number that will do is scanned for.

        Its doubt grows beyond the runs: a limit that is kept with a probability at some tokens may fail again at more.
        """
        return any(
            limit.loss.reads("tokens") and (not limit.loss.falls_with_tokens or limit.margin is not None)
            for limit in self.limits
        )

    def needed(self, replay: Array) -> Array:
        """Return the fewest tokens that keep all limits at each replay, (n,); infinity where none do."""
        most = self.most(replay)
        if self.scans:
            need = self._scanned(replay, most)
        else:
            need = np.full(len(replay), self.least)
            for limit in self.limits:
                need = np.maximum(need, self._needed_by(limit, replay))
        found: Array = np.where(need <= most * (1.0 + ROUNDING), need, np.inf)
        return found

    def _needed_by(self, limit: Limit, replay: Array) -> Array:
        """Return the tokens that one limit needs whose loss falls with them, (n,)."""
        curve = limit.loss.curve(replay)
        tokens: Array
        # In closed form where the law has one and no margin bends the limit; else the root is bracketed from the closed
        # one, which the margin only moves to more tokens.
        if curve is not None and limit.margin is None:
            tokens = curve.tokens(limit.threshold)
        else:
            # Far beyond what was fitted there is an answer on paper; it is given, with a finding that says so, but not
            # sought without end.
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
                # The margin was learned where tokens were fitted; farther out it is taken as at the last of them, the
                # forecast itself is not.
                seen = np.minimum(tokens, NEARLY_ALL * limit.loss.fitted_tokens[1])
                return limit.upper(loss, self.place(shares, seen)) - limit.threshold

            tokens = np.exp(first_kept(excess, start, far))
        if not self.discounts or self.unique is None:
            return tokens
        return tokens_for_effective(tokens, replay, self.unique)

    def _scanned(self, replay: Array, most: Array) -> Array:
        """Return the first number of tokens at which all limits hold, (n,), where losses may rise and fall."""
        low, high = np.full(len(replay), np.log(self.least)), np.log(np.maximum(self._within_reach(most), self.least))
        tokens: Array = np.exp(first_kept(lambda logs: self._excess(logs, replay), low, high, SCAN, READ_OFF))
        return tokens

    def _within_reach(self, most: Array) -> Array:
        found: Array = np.minimum(most, OUT_OF_REACH * self.mix.largest_fitted_tokens)
        return found

    def _surface(self, loss: Loss, window: Window | None = None) -> Surface:
        """Return a loss over all mixes, or over a window of replay and log tokens, evaluated once."""
        if window is None:
            least = self.least if self.unique is None else min(self.least, self.unique)
            far = float(self._within_reach(np.array([self.ceiling]))[0])
            low, high = min(self.low, self.mix.low), max(self.high, self.mix.high)
            window, shape = ((low, high), (np.log(least), np.log(max(far, 2.0 * least)))), COARSE
        else:
            shape = FINE
        # Kept with the loss: rounds of a plan under risk, and its point plan, ask for the same grid.
        if (window, shape) not in loss.surfaces:
            loss.surfaces[window, shape] = Surface(loss, *window, shape)
        found: Surface = loss.surfaces[window, shape]
        return found

    def _excess(self, log_tokens: Array, replay: Array, window: Window | None = None) -> Array:
        """Return by how much the worst limit fails at tokens, (m, n), relative to the scale of each limit."""
        parts = [self._upper(limit, log_tokens, replay, window) / limit.threshold - 1.0 for limit in self.limits]
        found: Array = np.max(parts, axis=0)
        return found

    def _upper(self, limit: Limit, log_tokens: Array, replay: Array, window: Window | None = None) -> Array:
        """Return the loss that must keep a limit at tokens, (m, n), off its surface."""
        shares = np.broadcast_to(replay, log_tokens.shape)
        logs = np.log(self.counted(np.exp(log_tokens), shares)) if self.discounts else log_tokens
        loss = self._surface(limit.loss, window).at(shares, logs)
        return loss if limit.margin is None else limit.upper(loss, self.place(shares, np.exp(logs)))

    def _refined(self, replay: float, tokens: float) -> tuple[float, float]:
        """Return the best replay and its tokens once more, off surfaces that are fine about them."""
        about = float(np.log(tokens))
        far = float(np.log(self._within_reach(self.most(np.array([replay])))[0]))
        # Two steps of the coarse grid to each side: where its interpolation may have put the best.
        steps = (self.high - self.low) / (COARSE[0] - 1), (far - np.log(self.least)) / (COARSE[1] - 1)
        low, high = max(self.low, replay - 2.0 * steps[0]), min(self.high, replay + 2.0 * steps[0])
        least, most = max(float(np.log(self.least)), about - 2.0 * steps[1]), min(far, about + 2.0 * steps[1])
        window = ((low, high), (float(np.log(self.counted(np.exp(least), replay))) - steps[1], most))

        def needed(shares: Array) -> Array:
            ends = np.full(len(shares), least), np.full(len(shares), most)
            logs = first_kept(lambda at: self._excess(at, shares, window), *ends, FINE[1], READ_OFF)
            need = np.exp(logs)
            return np.asarray(np.where(need <= self.most(shares) * (1.0 + ROUNDING), need, np.inf), dtype=float)

        found = minimise(needed, low, high, points=FINE[0], half=32)
        return found if np.isfinite(found[1]) else (replay, tokens)

    def most(self, replay: Array) -> Array:
        """Return the most tokens of a mix that stays within reach and repeats nothing it must not, (n,)."""
        if self.unique is None or self.repetition == "discount":
            return np.full(len(replay), self.ceiling)
        with np.errstate(divide="ignore"):
            # At replay r a mix of D tokens reads (1 - r) D target tokens.
            return np.minimum(self.unique / (1.0 - replay), self.ceiling)

    def best(self, limit: Limit, replay: Array) -> Array:
        """Return the lowest value of a limited quantity at each replay that the tokens allow, (n,)."""
        most = self.most(replay)
        at_most = self.reached_at(limit, replay, self.counted(most, replay))
        if limit.loss.falls_with_tokens or not limit.loss.reads("tokens"):
            return at_most
        upper = self._upper(limit, self._logs(most), replay).min(axis=0)
        lowest = upper if limit.forgetting is None else limit.forgetting.of(upper)
        return np.asarray(np.minimum(lowest, at_most), dtype=float)

    def _logs(self, most: Array) -> Array:
        """Return the log tokens of the scan at each replay, (m, n)."""
        low = np.full(len(most), np.log(self.least))
        return np.linspace(low, np.log(np.maximum(self._within_reach(most), self.least)), SCAN)

    def violation(self, replay: Array) -> Array:
        """Return by how much the worst limit fails with all the tokens that there are, (n,)."""
        worst = self.least / self.most(replay) - 1.0
        if self.scans:
            return np.asarray(
                np.maximum(worst, self._excess(self._logs(self.most(replay)), replay).min(axis=0)), dtype=float
            )
        for limit in self.limits:
            worst = np.maximum(worst, self.best(limit, replay) - limit.value)
        return worst

    def search(self) -> tuple[float, float, float]:
        """Return the best replay, the tokens that count, and its tokens."""
        # A scan costs as much as its points, a closed form as much as its calls.
        points, half, finer = (COARSE[0], 32, ROUGHLY) if self.scans else (GRID, HALF, FINER)
        replay, tokens = minimise(self.needed, self.low, self.high, self.violation, points, half, finer)
        if tokens <= self.least * (1.0 + ROUNDING) and self.high > self.low:
            # Several mixes do with the least tokens: take the one whose limits leave most room.
            replay, _ = minimise(self._room, self.low, self.high)
        elif self.scans and np.isfinite(tokens):
            replay, tokens = self._refined(replay, tokens)
        spent = tokens
        # Nothing keeps the limits: the place that comes nearest, at as many tokens as were fitted, is what the
        # certificate speaks of.
        if not np.isfinite(tokens):
            replay, _ = minimise(self.violation, self.low, self.high, None, points, half, finer)
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
