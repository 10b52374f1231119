"""A table as it was found, before its rows are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from cptlaw.errors import DataError
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.naming import Naming, name_columns
from cptlaw.runs.question import ColumnNames

# Name of the index that holds the row numbers.
ROW = "row"
MOST_COLUMNS = 5_000  # each is looked at by every reader of layouts, two milliseconds and 50 KB in all


def check_columns(count: int, label: str) -> None:
    """Refuse a table of more columns than are read.

    Raises
    ------
    DataError
        If there are too many.
    """
    if count > MOST_COLUMNS:
        raise DataError(
            f"{label}: holds {count:,} columns, and {MOST_COLUMNS:,} are the most that are read. Take those that "
            "matter, or put losses below each other in rows."
        )


@dataclass(frozen=True)
class RawTable:
    """A table as it was found, and what is known of its columns.

    Parameters
    ----------
    frame
        Its columns under their own names. The index holds the row numbers that messages name: the line of the file for
        CSV and JSON Lines (the header of a CSV file is line 1), the position from 0 for all else.
    path
        The file, if there is one.
    columns
        Canonical name -> name in the file, as the user gave it or as its values tell.
    notes
        What was assumed so far.
    accounted_for
        Further columns of the file about which nothing is left to ask: parts of an expression, or no setting.
    scales
        What the numbers of columns were multiplied by, as the unit in their name says.
    """

    frame: pd.DataFrame
    label: str
    path: Path | None = None
    columns: ColumnNames | None = None
    notes: tuple[str, ...] = ()
    accounted_for: frozenset[str] = frozenset()
    scales: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_columns(len(self.frame.columns), self.label)

    @cached_property
    def naming(self) -> Naming:
        """Which column is read as which canonical one."""
        names = [name for name in map(str, self.frame.columns) if name not in self.ignored]
        return name_columns(names, self.columns, self.label)

    @cached_property
    def ignored(self) -> frozenset[str]:
        """The columns that are no setting, as the user said: none is read as one, whatever its name is."""
        said = (self.columns or {}).get(IGNORE, [])
        return frozenset([said] if isinstance(said, str) else said)

    @property
    def taken(self) -> Mapping[str, str]:
        """Canonical name -> name in the file."""
        return self.naming.file_columns

    @property
    def free(self) -> list[str]:
        """The columns that are read as no canonical one, and may be."""
        read = {*self.taken.values(), *self.ignored}
        return [str(name) for name in self.frame.columns if name not in read]

    def named(self, columns: Mapping[str, str], *notes: str) -> RawTable:
        """Return the table with further columns named."""
        return replace(self, columns={**(self.columns or {}), **columns}, notes=(*self.notes, *notes))

    def reshaped(self, frame: pd.DataFrame, *notes: str) -> RawTable:
        """Return another table in place of this one."""
        return replace(self, frame=frame, notes=(*self.notes, *notes))
