"""A table as it was found, before its columns are named and its rows are checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

# Name of the index that holds the row numbers.
ROW = "row"


@dataclass(frozen=True)
class RawTable:
    """A table as it was found.

    Parameters
    ----------
    frame
        Its columns under their own names. The index holds the row numbers that messages name: the line of the file for
        CSV and JSON Lines (the header of a CSV file is line 1), the position from 0 for all else.
    path
        The file, if there is one.
    """

    frame: pd.DataFrame
    label: str
    path: Path | None = None
