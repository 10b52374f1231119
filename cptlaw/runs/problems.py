"""What is wrong with a table, collected, so that a user sees every kind of problem at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import quote
from cptlaw.runs.question import NotUnderstoodError

# How many bad rows a message shows; all are counted.
SHOWN = 5


class Problems:
    """The problems of one table.

    Parameters
    ----------
    label
        The file, or what else stands for the table in messages.
    of_points
        Whether they are points to forecast, of which no option says how they are read.
    """

    def __init__(self, label: str, of_points: bool = False) -> None:
        self.label, self.of_points = label, of_points
        self.messages: list[str] = []
        self.choices: tuple[str, ...] = ()

    def add(self, message: str, choices: Iterable[str] = ()) -> None:
        """Note a problem of the whole table, with the options that would answer it."""
        self.messages.append(f"{self.label}: {message}")
        self.offer(choices)

    def offer(self, choices: Iterable[str]) -> None:
        """Note the options that would answer a problem; those of the first one are kept."""
        self.choices = self.choices or tuple(choices)

    def add_rows(
        self,
        where: str,
        cells: pd.Series,
        bad: npt.NDArray[np.bool_],
        expected: str,
        remedy: str,
        *,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        """Note the bad rows of a column, if there are any.

        Parameters
        ----------
        where
            The column, such as ``"column 'loss'"``.
        cells
            What stands there, shape (n,), indexed by the row numbers of the table.
        bad
            Which rows are bad, shape (n,).
        expected, remedy
            What should stand there, and what the user can do.
        describe
            Tells what stands at a position, 0 <= position < n, where that is not the cell itself.
        """
        positions = np.flatnonzero(bad)
        if positions.size == 0:
            return
        first = [int(position) for position in positions[:SHOWN]]
        found = [(cells.index[k], describe(k) if describe else _quoted(cells.iloc[k])) for k in first]
        if len(found) == 1:
            head = f"{self.label}, row {found[0][0]}, {where}: found {found[0][1]}."
        else:
            listed = "; ".join(f"row {row} has {what}" for row, what in found)
            more = f"; and {positions.size - SHOWN} more" if positions.size > SHOWN else ""
            head = f"{self.label}, {where}, {positions.size} rows: {listed}{more}."
        self.messages.append(f"{head} Expected {expected}. {remedy}")

    def raise_if_any(self) -> None:
        """Raise all problems as one `DataError`, if there are any."""
        if self.messages:
            listed = "\n".join(f"  {number}. {message}" for number, message in enumerate(self.messages, 1))
            several = f"{len(self.messages)} problems:\n{listed}"
            raise NotUnderstoodError(self.messages[0] if len(self.messages) == 1 else several, self.choices)


def _quoted(value: Any) -> str:
    return "nothing" if pd.api.types.is_scalar(value) and pd.isna(value) else quote(str(value))
