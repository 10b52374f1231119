"""The data mix: which window of which text is the i-th row of a run. A pure function of i, so a run resumes anywhere.

Rows are windows of `context` tokens (and the one that follows). Corpus and window of row i are found without looking
at any other row: the share of the source corpus is kept exactly at every moment (never off by a whole row), and each
corpus is read in a shuffled order that visits every window once per epoch. Arrays: i (rows,) int64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from cptlaw_sweep.jobs import fingerprint_of
from cptlaw_sweep.specs import MixSpec

Ints = npt.NDArray[np.int64]

Words = npt.NDArray[np.uint64]

_ROUNDS = 6


def scatter(words: Words) -> Words:
    """Scatter the bits of each word: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)), dtype=np.uint64)


def shuffled_position(position: Ints, size: int, key: Words) -> Ints:
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
    >>> sorted(shuffled_position(np.arange(10), 10, key).tolist()) == list(range(10))
    True
    """
    # Both halves of a word must be of one width for a Feistel round, hence an even number of bits.
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)
    words = position.astype(np.uint64)
    todo = np.ones(len(words), dtype=bool)
    while todo.any():
        left, right, keys = words[todo] >> half, words[todo] & mask, key[todo]
        for round_ in range(_ROUNDS):
            noise = scatter(right + keys + np.uint64((round_ + 1) * 0x9E3779B97F4A7C15 % 2**64))
            # One round: half of the word is changed by a function of the other half. Whatever that function, the round
            # can be undone, so that no two positions meet.
            left, right = right, left ^ (noise & mask)
        words[todo] = (left << half) | right
        # Cycle walking: what leaves the range is sent through again, which keeps the map one to one; less than four
        # times on average.
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
    pool
        How many of these the run may read, always the same ones; all where not given.
    """

    text: str
    windows: int
    pool: int | None = None

    @property
    def size(self) -> int:
        """Windows that the run reads before any comes again."""
        return self.windows if self.pool is None else max(1, min(self.pool, self.windows))


def weights_of(definition: MixSpec) -> list[Fraction]:
    """Return the share of each corpus in the mix of a job's definition."""
    if "weights" in definition:
        return [Fraction(weight) for weight in definition["weights"]]
    # A pure run names one text only, though its share may be that of the source, 1, or of the target.
    share = Fraction(definition["share"])
    return [share, 1 - share] if len(definition["texts"]) > 1 else [Fraction(1)]


@dataclass(frozen=True)
class DataMix:
    """Rows drawn from one corpus or several.

    Each corpus but the last takes its share of the rows that those before it have left, so that every count is an exact
    function of the row. With two corpora the share of the first is off by less than one row at every moment, with k by
    less than k - 1.

    Parameters
    ----------
    parts
        The corpora: one, source and target, or more.
    shares
        The share of each but the last in the rows that those before it leave.
    seed
        Decides the order within each corpus.
    """

    parts: Sequence[Part]
    shares: Sequence[Fraction]
    seed: int

    @classmethod
    def of(cls, definition: MixSpec, windows: Mapping[str, int], context: int = 1) -> DataMix:
        """Return the mix of a job's definition, given the windows of each text and their length in tokens."""
        pools = definition.get("pools", {})
        parts = [
            Part(text, windows[text], int(pools[text]) // context if text in pools else None)
            for text in definition["texts"]
        ]
        weights = weights_of(definition)
        # What is left for a corpus is what those before it did not take, so that its share is of the remaining weights.
        shares = [weight / sum(weights[place:]) for place, weight in enumerate(weights[:-1])]
        return cls(parts, shares, int(definition["seed"]))

    def _key(self, text: str, what: str) -> int:
        return int(fingerprint_of([self.seed, text, what])[:16], 16)

    def _drawn_before(self, level: int, row: Ints) -> Ints:
        """Return how many of the rows before each row, of those left to it, a corpus takes, exactly."""
        p, q = self.shares[level].numerator, self.shares[level].denominator
        # Without an offset every run would begin with the target, and mixes of one share would draw at the same rows
        # whatever the seed.
        offset = self._key("mix", "offset" if level == 0 else f"offset-{level}") % q
        return (row * p + offset) // q

    def rows(self, row: Ints) -> tuple[Ints, Ints]:
        """Return the corpus (0, 1, ..) and the window of each row.

        Parameters
        ----------
        row
            Numbers of rows since the start of the run's data, (rows,).
        """
        part, nth, window = np.full_like(row, len(self.parts) - 1), np.empty_like(row), np.empty_like(row)
        open_rows, left = np.arange(len(row)), row  # rows that no corpus has taken yet, numbered among themselves
        for level in range(len(self.shares)):
            before = self._drawn_before(level, left)
            # A row belongs to the corpus if the exact count steps up there: Bresenham's line, in fractions.
            mine = self._drawn_before(level, left + 1) > before
            part[open_rows[mine]], nth[open_rows[mine]] = level, before[mine]
            open_rows, left = open_rows[~mine], (left - before)[~mine]
        nth[open_rows] = left
        for index, corpus in enumerate(self.parts):
            mine = part == index
            if mine.any():
                epoch, position = np.divmod(nth[mine], corpus.size)
                # A new shuffle each time the corpus is read through.
                key = scatter(epoch.astype(np.uint64) + np.uint64(self._key(corpus.text, "order")))
                window[mine] = self._of_pool(corpus, shuffled_position(position, corpus.size, key))
        return part, window

    def _of_pool(self, corpus: Part, place: Ints) -> Ints:
        """Return the windows at places of a corpus's pool: a fixed draw from all of it, the same in every run."""
        if corpus.size == corpus.windows:
            return place
        # Not of the seed: runs that are compared must read the same pool.
        key = np.full(len(place), int(fingerprint_of([corpus.text, "pool"])[:16], 16), dtype=np.uint64)
        return shuffled_position(place, corpus.windows, key)

    def counts(self, rows: int) -> list[int]:
        """Return how many of the first rows come from each corpus."""
        result, left = [], np.array([rows], dtype=np.int64)
        for level in range(len(self.shares)):
            drawn = self._drawn_before(level, left)
            result.append(int(drawn[0]))
            left = left - drawn
        return [*result, int(left[0])]
