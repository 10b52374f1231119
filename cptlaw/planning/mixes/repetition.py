"""What repeated target tokens are worth (Muennighoff et al. 2023, arXiv:2305.16264, eq. 5).

A run of D tokens at a replay share r reads T = (1 - r) D target tokens. With U unique ones, T > U repeats them, and

    U + U R* (1 - exp(-R / R*)),   R = T / U - 1,   R* = 15.387756

unique tokens would have done as much. Replayed tokens are taken to be unique: the source corpus is the large one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array

HALF_LIFE = 15.387756  # R*, repetitions after which 1 - 1/e of all that repeating can give has been had
MANY_EPOCHS = 4.0  # up to which repeating did next to no harm in any study


def effective_tokens(tokens: ArrayLike, replay: ArrayLike, unique: float) -> Array:
    """Return the tokens D' without repetition that are worth as much as D tokens with it.

    Parameters
    ----------
    tokens, replay
        Tokens of the whole mix and the share of the source corpus; they broadcast against each other.
    unique
        Unique target tokens.

    Examples
    --------
    >>> float(effective_tokens(4e10, 0.0, 1e10).round(-3))
    37256731000.0
    """
    total, share = np.asarray(tokens, dtype=float), np.asarray(replay, dtype=float)
    with np.errstate(invalid="ignore", over="ignore"):
        target = np.where(share < 1, (1.0 - share) * total, 0.0)  # else 0 * inf
        source = np.where(share > 0, share * total, 0.0)
        return np.asarray(source + worth_of(target, unique), dtype=float)


def worth_of(tokens: Array, unique: ArrayLike) -> Array:
    """Return how many tokens of a corpus, read once, do as much as reading `tokens` of its `unique` ones.

    Both broadcast against each other; a corpus may be endless.
    """
    pool = np.where(np.isfinite(unique), unique, 1.0)
    repeats = np.where(np.isfinite(unique), np.maximum(tokens / pool - 1.0, 0.0), 0.0)
    worth = pool * (1.0 - HALF_LIFE * np.expm1(-repeats / HALF_LIFE))
    return np.asarray(np.where(repeats > 0, worth, tokens), dtype=float)


def read_often(epochs: Mapping[str, float]) -> tuple[Finding, ...]:
    """Say which corpora are read more often than is known to be harmless at every size.

    Parameters
    ----------
    epochs
        How often each corpus is read, by name.
    """
    many = {name: value for name, value in epochs.items() if value > MANY_EPOCHS}
    if not many:
        return ()
    shown = ", ".join(f"{name} {value:.2g} times" for name, value in many.items())
    return (
        Finding(
            "warning",
            "repeated-pool",
            f"the plan reads {shown}. What a repeated token is worth is taken to be the same for every model, as "
            f"fitted by Muennighoff et al.; large models on small pools lose more.",
            "Measure a run that repeats it as often at your size, read less of it, or forbid repetition.",
        ),
    )
