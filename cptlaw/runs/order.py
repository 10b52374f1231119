"""One order of rows whatever order a table has them in, so that sums round the same and results agree to the bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def in_order(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the rows in ascending order of the columns that are there, the first named first; the index stays."""
    keys = [_key(frame[name]) for name in dict.fromkeys(by) if name in frame.columns]
    if not keys or len(frame) < 2:
        return frame
    order = np.lexsort(keys[::-1])
    return frame if np.array_equal(order, np.arange(len(order))) else frame.iloc[order]


def _key(column: pd.Series) -> NDArray[np.float64] | NDArray[np.intp]:
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=float)
    codes: NDArray[np.intp] = pd.factorize(column.astype(str), sort=True)[0]
    return codes
