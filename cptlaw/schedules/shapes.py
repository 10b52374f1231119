"""The named shapes of a learning-rate schedule, between the warm-up and the end of a phase.

Each takes the step counted from the end of the warm-up, ``t`` (n,), and the length of that part, and gives the
learning rate, (n,). They are what trainers run: the value at ``t = 0`` is the peak, that at the last step the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """What a shape needs to know of its phase.

    Parameters
    ----------
    length
        Steps from the end of the warm-up to the end of the phase.
    peak, end
        Learning rates.
    decay
        Steps of the last part, where the shape has one.
    warmup
        Steps of the warm-up, from which the inverse square root counts.
    """

    length: int
    peak: float
    end: float
    decay: int
    warmup: int

    def decayed(self, t: Array) -> Array:
        """Return how much of the last part is done, 0 before it and 1 at its end."""
        return np.clip((t - (self.length - self.decay)) / max(self.decay, 1), 0.0, 1.0)


def _constant(t: Array, of: Span) -> Array:
    return np.full_like(t, of.peak)


def _linear(t: Array, of: Span) -> Array:
    return of.peak + (of.end - of.peak) * (t / max(of.length, 1))


def _cosine(t: Array, of: Span) -> Array:
    return of.end + 0.5 * (of.peak - of.end) * (1.0 + np.cos(np.pi * (t / max(of.length, 1))))


def _wsd(t: Array, of: Span) -> Array:
    return of.peak + (of.end - of.peak) * of.decayed(t)


def _wsd_exp(t: Array, of: Span) -> Array:
    return np.asarray(of.peak * (of.end / of.peak) ** of.decayed(t), dtype=np.float64)


def _wsd_sqrt(t: Array, of: Span) -> Array:
    return of.peak + (of.end - of.peak) * np.sqrt(of.decayed(t))


def _two_stage(t: Array, of: Span) -> Array:
    # From step `steps - decay` on, as in the public curves of Luo et al. (arXiv:2503.12811).
    return np.where(t >= of.length - of.decay, of.end, of.peak)


def _inverse_sqrt(t: Array, of: Span) -> Array:
    origin = max(of.warmup, 1)
    falling: Array = of.peak * np.sqrt(origin / (origin + t))
    if not of.decay:
        return falling
    from_here = of.peak * np.sqrt(origin / (origin + of.length - of.decay))
    done = of.decayed(t)
    return np.where(done > 0, from_here + (of.end - from_here) * done, falling)


# Name in a schedules file -> shape. `wsd`, `wsd-exp` and `wsd-1-sqrt` differ in how the last part falls.
SHAPES: dict[str, Callable[[Array, Span], Array]] = {
    "constant": _constant,
    "linear": _linear,
    "cosine": _cosine,
    "wsd": _wsd,
    "wsd-exp": _wsd_exp,
    "wsd-1-sqrt": _wsd_sqrt,
    "two-stage": _two_stage,
    "inverse-sqrt": _inverse_sqrt,
}

WITH_DECAY = frozenset({"wsd", "wsd-exp", "wsd-1-sqrt", "two-stage", "inverse-sqrt"})
NEEDS_DECAY = WITH_DECAY - {"inverse-sqrt"}
WITH_END = frozenset({"linear", "cosine"}) | WITH_DECAY
