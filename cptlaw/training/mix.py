"""The data mix: which window of which text is the i-th row of a run. A pure function of i, so a run resumes anywhere.

Rows are windows of `context` tokens (and the one that follows). Corpus and window of row i are found without looking
at any other row: the share of the source corpus is kept exactly at every moment (never off by a whole row), and each
corpus is read in a shuffled order that visits every window once per epoch. Arrays: i (rows,) int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cptlaw.training.jobs import fingerprint_of

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_ROUNDS = 6


def _scatter(words: Words) -> Words:
    """Scatter the bits of each word: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def shuffled(position: Ints, size: int, key: Words) -> Ints:
    """Return where each position goes in a shuffle of ``range(size)``, without making the shuffle.

    A Feistel network permutes the smallest power of four that holds the range; what falls outside is sent through
    again until it falls inside. Unlike a library's shuffle it never changes between versions, and it takes no memory.

    Parameters
    ----------
    position
        Positions, (rows,), each in ``range(size)``.
    size
        How many there are.
    key
        A key per position, (rows,): positions with equal keys belong to one shuffle.

    Examples
    --------
    >>> key = np.full(10, 7, dtype=np.uint64)
    >>> sorted(shuffled(np.arange(10), 10, key).tolist()) == list(range(10))
    True
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)
    words = position.astype(np.uint64)
    todo = np.ones(len(words), dtype=bool)
    while todo.any():
        left, right, keys = words[todo] >> half, words[todo] & mask, key[todo]
        for round_ in range(_ROUNDS):
            noise = _scatter(right + keys + np.uint64((round_ + 1) * 0x9E3779B97F4A7C15 % 2**64))
            left, right = right, left ^ (noise & mask)
        words[todo] = (left << half) | right
        todo = words >= np.uint64(size)
    return words.astype(np.int64)


@dataclass(frozen=True)
class Part:
    """One corpus of a mix.

    Parameters
    ----------
    text
        The fingerprint of the prepared text.
    windows
        How many windows it has.
    """

    text: str
    windows: int


@dataclass(frozen=True)
class Mix:
    """Rows drawn from a source and a target corpus.

    Parameters
    ----------
    parts
        The corpora: one, or source and target.
    share
        The share of rows from the first corpus.
    seed
        Decides the order within each corpus.
    """

    parts: Sequence[Part]
    share: Fraction
    seed: int

    @classmethod
    def of(cls, definition: Mapping[str, Any], windows: Mapping[str, int]) -> Mix:
        """Return the mix of a job's definition, given the windows of each text."""
        parts = [Part(text, windows[text]) for text in definition["texts"]]
        return cls(parts, Fraction(definition["share"]), int(definition["seed"]))

    def _key(self, text: str, what: str) -> int:
        return int(fingerprint_of([self.seed, text, what])[:16], 16)

    def drawn_before(self, row: Ints) -> Ints:
        """Return how many of the rows before each row come from the first corpus, exactly."""
        p, q = self.share.numerator, self.share.denominator
        offset = self._key("mix", "offset") % q
        return (row * p + offset) // q

    def rows(self, row: Ints) -> tuple[Ints, Ints]:
        """Return the corpus (0 or 1) and the window of each row.

        Parameters
        ----------
        row
            Numbers of rows since the start of the run's data, (rows,).
        """
        before = self.drawn_before(row)
        first = self.drawn_before(row + 1) > before
        part = np.where(first, 0, 1) if len(self.parts) > 1 else np.zeros_like(row)
        nth = np.where(part == 0, before, row - before) if len(self.parts) > 1 else row
        window = np.empty_like(row)
        for index, corpus in enumerate(self.parts):
            mine = part == index
            if mine.any():
                epoch, position = np.divmod(nth[mine], corpus.windows)
                key = _scatter(epoch.astype(np.uint64) + np.uint64(self._key(corpus.text, "order")))
                window[mine] = shuffled(position, corpus.windows, key)
        return part, window

    def counts(self, rows: int) -> list[int]:
        """Return how many of the first rows come from each corpus."""
        if len(self.parts) == 1:
            return [rows]
        first = int(self.drawn_before(np.array([rows]))[0])
        return [first, rows - first]
