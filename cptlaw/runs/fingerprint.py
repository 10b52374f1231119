"""A fingerprint of the measurements in a table, whatever the order of its rows and the file they came in."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

Words = npt.NDArray[np.uint64]
STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64; with it the order of the columns counts


def fingerprint(frame: pd.DataFrame, columns: tuple[str, ...]) -> str:
    """Return the SHA-256 of the rows of a table, in hexadecimal.

    Parameters
    ----------
    frame
        A table of n rows.
    columns
        The columns that count. One that is not there counts like one without any value.

    Notes
    -----
    Each row is mixed into 64 bits; the sorted rows are hashed. This tells tables apart that differ by accident, and is
    no defence against one made to collide.

    Examples
    --------
    >>> table = pd.DataFrame({"run": ["a", "b"], "loss": [2.0, 3.0]})
    >>> fingerprint(table, ("run", "loss")) == fingerprint(table[::-1], ("run", "loss"))
    True
    """
    present = sorted(name for name in columns if name in frame.columns and frame[name].notna().any())
    rows = np.zeros(len(frame), dtype=np.uint64)
    for name in present:
        rows = scatter((rows ^ _words(frame[name])) + STEP)
    digest = hashlib.sha256(f"{len(frame)} {' '.join(present)}\n".encode())
    # One byte order on every machine.
    digest.update(np.sort(rows).astype("<u8").tobytes())
    return digest.hexdigest()


def _words(column: pd.Series) -> Words:
    """Return one 64-bit word per value: the bits of a number, the start of the SHA-256 of a text."""
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # -0.0 becomes 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    codes, distinct = pd.factorize(column)
    starts = [hashlib.sha256(str(text).encode()).digest()[:8] for text in distinct]
    words = np.array([*(int.from_bytes(start, "little") for start in starts), 0], dtype=np.uint64)
    return np.asarray(words[codes], dtype=np.uint64)


def scatter(words: Words) -> Words:
    """Scatter the bits of each word: the finaliser of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)), dtype=np.uint64)
