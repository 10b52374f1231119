"""Pools of unique tokens of k corpora, and what reading them again is worth.

Of a corpus with U unique tokens a run of D tokens at the share h reads h D. Forbidding repetition keeps h D at U or
below. Else every token beyond the pool counts for less (`cptlaw.planning.mixes.repetition`), and the laws are read at
the mix and the tokens that would have done as much without repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.mixes.repetition import worth_of


@dataclass(frozen=True, eq=False)
class Pools:
    """Unique tokens of the corpora, (k,), infinite where a corpus never ends.

    Parameters
    ----------
    unique
        Tokens, in the order of the corpora.
    repetition
        ``"forbid"`` or ``"discount"``.
    """

    unique: Array
    repetition: str

    @classmethod
    def of(cls, corpora: tuple[str, ...], unique: Mapping[str, float], repetition: str) -> Pools:
        """Return the pools of corpora, those that are not named without an end."""
        return cls(np.array([unique.get(name, np.inf) for name in corpora]), repetition)

    def most(self, tokens: float) -> Array:
        """Return the largest share of each corpus that its pool allows, (k,)."""
        if self.repetition == "discount":
            return np.ones(len(self.unique))
        return np.minimum(self.unique / tokens, 1.0)

    def epochs(self, shares: Array, tokens: float) -> Array:
        """Return how often each pool is read, (n, k) of shares (n, k); 0 where it has no end."""
        read: Array = shares * tokens / self.unique
        return read

    def counted(self, shares: Array, tokens: float) -> tuple[Array, Array]:
        """Return the shares, (n, k), and the tokens, (n,), that count for the laws."""
        if self.repetition == "forbid" or not np.isfinite(self.unique).any():
            return shares, np.full(len(shares), tokens)
        worth = worth_of(shares * tokens, self.unique)
        total = worth.sum(axis=1)
        return worth / total[:, None], total
