"""Token ids in Megatron's indexed format: `NAME.idx` says where each document lies in `NAME.bin`."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cptlaw.errors import DataError

MAGIC = b"MMIDIDX\x00\x00"
DTYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}


def documents(prefix: str) -> Iterator[npt.NDArray[np.integer]]:
    """Read the ids of each document, in order; the file is mapped, never held.

    Parameters
    ----------
    prefix
        Path of both files without ``.bin`` and ``.idx``.

    Raises
    ------
    DataError
        If the index is of another format, or points outside the file.
    """
    index, content = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    with index.open("rb") as file:
        head = file.read(34)
        if len(head) < 34 or head[:9] != MAGIC:
            raise DataError(f"{index}: not an index of Megatron ({head[:9]!r}). Expected NAME.idx beside NAME.bin.")
        version, code, sequences, boundaries = struct.unpack("<QBQQ", head[9:])
        if version != 1 or code not in DTYPES:
            raise DataError(f"{index}: version {version} with ids of type {code} cannot be read.")
        if index.stat().st_size < 34 + 12 * sequences + 8 * boundaries:
            raise DataError(f"{index}: truncated. Copy it again.")
        lengths = np.fromfile(file, dtype="<i4", count=sequences).astype(np.int64)
        places = np.fromfile(file, dtype="<i8", count=sequences)
        bounds = np.fromfile(file, dtype="<i8", count=boundaries)
    dtype = np.dtype(DTYPES[code]).newbyteorder("<")
    if not sequences:
        return
    if (places + lengths * dtype.itemsize).max() > content.stat().st_size or places.min() < 0 or lengths.min() < 0:
        raise DataError(f"{content}: shorter than its index says. Copy it again.")
    ids = np.memmap(content, dtype=np.uint8, mode="r")
    for first, last in itertools.pairwise(bounds):
        parts = [
            ids[places[row] : places[row] + lengths[row] * dtype.itemsize].view(dtype)
            for row in range(int(first), int(last))
        ]
        if parts:
            yield np.concatenate(parts)
