"""A law's loss as a function of tokens alone, and its inverse: how many tokens reach a loss.

Axes: ``s`` = parameter vectors evaluated side by side (absent for a single one), ``n`` = rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from cptlaw.laws.calculus import Array, Jet, Positive, weighted

if TYPE_CHECKING:
    from cptlaw.laws.base import Law, Role

# The search for a root keeps log D (in the law's unit) within these; exp(690) is the largest power that is a float.
LOG_LOW, LOG_HIGH = -690.0, 690.0
STEPS = 200  # bisection alone would need 60; Newton needs about 8
TOLERANCE = 1e-14


class TokenCurve(Protocol):
    """Loss against tokens at fixed other inputs, one curve per row (and per parameter vector)."""

    @property
    def limit(self) -> Array:
        """Loss as tokens grow without bound, nats per token, (n,) or (s, n)."""

    def loss(self, tokens: Any) -> Array:
        """Return the loss at raw tokens that broadcast to (s, n)."""

    def tokens(self, loss: Any) -> Array:
        """Return the fewest raw tokens at which the loss is at most `loss`.

        Infinity where it never is; 0 where it always is.
        """


@dataclass(frozen=True)
class PowerCurve:
    """Loss = limit + amplitude * (tokens / unit)^-exponent, inverted in closed form.

    Parameters
    ----------
    limit, amplitude, exponent
        Arrays that broadcast to (s, n); where the amplitude is 0 the exponent means nothing.
    unit
        Raw tokens per unit.
    """

    limit: Array
    amplitude: Array
    exponent: Array
    unit: float

    def loss(self, tokens: Any) -> Array:
        """Return the loss at raw tokens."""
        with np.errstate(divide="ignore", over="ignore"):
            power = np.exp(-self.exponent * np.log(np.asarray(tokens, dtype=float) / self.unit))
            # 0 * inf at zero tokens: a term without amplitude stays absent.
            fall = np.where(self.amplitude > 0, self.amplitude * np.where(self.amplitude > 0, power, 0.0), 0.0)
        return np.asarray(self.limit + fall, dtype=float)

    def tokens(self, loss: Any) -> Array:
        """Return unit * (amplitude / (loss - limit))^(1 / exponent)."""
        gap = np.asarray(loss, dtype=float) - self.limit
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reached = self.unit * np.exp((np.log(self.amplitude) - np.log(gap)) / self.exponent)
        # The limit is approached and never reached, unless no term falls: then every number of tokens has it.
        never = np.where(self.amplitude > 0, gap <= 0, gap < 0)
        return np.where(never, np.inf, np.where(self.amplitude > 0, reached, 0.0))


@dataclass(frozen=True)
class FallingCurve:
    """Any loss that falls with tokens, inverted by Newton's method inside a bracket.

    Parameters
    ----------
    limit
        Loss as tokens grow without bound.
    evaluate
        Loss at D in the law's unit: arrays or Jets, of any shape that broadcasts to (s, n).
    unit
        Raw tokens per unit.
    """

    limit: Array
    evaluate: Callable[[Any], Any]
    unit: float

    def loss(self, tokens: Any) -> Array:
        """Return the loss at raw tokens."""
        given = np.asarray(tokens, dtype=float)
        finite = np.where(np.isfinite(given), given, self.unit) / self.unit
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(np.isfinite(given), self.evaluate(finite), self.limit)

    def tokens(self, loss: Any) -> Array:
        """Return the root of log(L(D) - limit) = log(loss - limit) in log D, which is nearly a straight line."""
        wanted = np.asarray(loss, dtype=float)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            at_zero = np.asarray(self.evaluate(np.zeros(self.limit.shape)), dtype=float)
            wanted, limit, at_zero = np.broadcast_arrays(wanted, self.limit, at_zero)
            # For a power law this is a straight line in log D, so that Newton is there in one step; others need a few.
            goal = np.log(wanted - limit)
            u = np.zeros(wanted.shape)
            low, high = np.full(u.shape, LOG_LOW), np.full(u.shape, LOG_HIGH)
            # Rows whose answer is 0 or infinity take part without being waited for.
            open_rows = (wanted > limit) & (wanted < at_zero)
            for _ in range(STEPS):
                here = _as_jet(self.evaluate(Jet(np.exp(u), {0: np.exp(u)}, None)))
                over = np.log(here.value - limit) - goal
                low, high = np.where(over > 0, u, low), np.where(over > 0, high, u)
                step = -over * (here.value - limit) / here.slopes.get(0, 0.0)
                # Newton where it stays in the bracket, bisection where it does not.
                inside = (u + step > low) & (u + step < high)
                moved = np.where(inside, u + step, 0.5 * (low + high))
                done = np.abs(moved - u) <= TOLERANCE * np.maximum(1.0, np.abs(u))
                u = np.where(done, u, moved)
                if np.all(done | ~open_rows):
                    break
            result = self.unit * np.exp(u)
        # On the upper edge of the bracket the answer is no number of tokens that anyone could write down.
        result = np.where(u >= LOG_HIGH - 1.0, np.inf, result)
        return np.where(wanted >= at_zero, 0.0, np.where(wanted > limit, result, np.inf))


def curve_of(law: Law, params: Mapping[str, float] | Array, frame: pd.DataFrame, role: Role | None) -> TokenCurve:
    """Return a law's loss as a function of tokens alone; see `Law.token_curve`.

    Where the only term that depends on tokens is a power of them (`Law.power_in_tokens`), the curve is read off two
    evaluations, at infinity and, with its slope, at one unit of tokens; its inverse is then in closed form.
    """
    many = isinstance(params, np.ndarray)
    if isinstance(params, np.ndarray):
        named: dict[str, Any] = {name: params[:, i : i + 1] for i, name in enumerate(law.parameters)}
    else:
        named = dict(law.check_params(params))
    fitted = law.fitted(named)
    if "tokens" in law.inputs and "tokens" not in frame.columns:
        frame = frame.assign(tokens=law.units["tokens"])
    others = vars(law.bind(frame, role))
    n, unit = len(frame), law.units.get("tokens", 1.0)
    at_infinity = SimpleNamespace(**{**others, "D": Positive(np.full(n, np.inf))})
    # At one unit, so that the logarithm of D is exactly zero and the value is the amplitude itself.
    at_one = SimpleNamespace(**{**others, "D": Jet(np.ones(n), {0: np.ones(n)}, None)})

    def evaluate(tokens: Any) -> Any:
        return law.evaluate(fitted, SimpleNamespace(**{**others, "D": tokens}))

    shape = SimpleNamespace(**{name: fitted[name] for name in law.shapes})
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        is_power = len(law.power_in_tokens) == 1  # a sum of different powers has no inverse in closed form
        last = law.terms(at_infinity, shape) if is_power else ()
        amplitudes = [fitted[name] for name in law.amplitudes]
        limit = np.asarray(weighted(last, amplitudes) if is_power else law.evaluate(fitted, at_infinity), dtype=float)
        if np.isnan(limit).any():
            # A share of zero times infinitely many tokens: there the law has its limit at any number of them.
            limit = np.where(np.isnan(limit), evaluate(np.full(n, 1e300)), limit)
        limit = np.broadcast_to(limit, (len(params), n) if many else (n,))
        if not is_power:
            return FallingCurve(limit, evaluate, unit)
        first = law.terms(at_one, shape)
        name = law.power_in_tokens[0]
        k = law.amplitudes.index(name)
        # What the term keeps at infinity, as under dcpt's monotone=paper, is part of the limit.
        amplitude = fitted[name] * (first[k].value - last[k])
        slope = fitted[name] * first[k].slopes[0]
        exponent = np.where(amplitude > 0, -slope / amplitude, 1.0)
    return PowerCurve(limit, np.asarray(amplitude, dtype=float), exponent, unit)


def _as_jet(loss: Any) -> Jet:
    return loss if isinstance(loss, Jet) else Jet(loss, {}, None)
