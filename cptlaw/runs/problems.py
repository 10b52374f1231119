"""What is wrong with a table, collected, so that a user sees every kind of problem at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import DataError

# How many bad rows a message shows; all are counted.
SHOWN = 5


class Problems:
    """The problems of one table.

    Parameters
    ----------
    label
        The file, or what else stands for the table in messages.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.messages: list[str] = []

    def add(self, message: str) -> None:
        """Note a problem of the whole table."""
        self.messages.append(f"{self.label}: {message}")

    def add_rows(
        self,
        where: str,
        rows: pd.Index | Sequence[int],
        bad: npt.NDArray[np.bool_],
        describe: Callable[[int], str],
        expected: str,
        remedy: str,
    ) -> None:
        """Note the bad rows of a column, if there are any.

        Parameters
        ----------
        where
            The column, such as ``"column 'loss'"``.
        rows
            The row numbers of the table, shape (n,).
        bad
            Which rows are bad, shape (n,).
        describe
            Tells what stands at a position, 0 <= position < n.
        expected, remedy
            What should stand there, and what the user can do.
        """
        positions = np.flatnonzero(bad)
        if positions.size == 0:
            return
        numbers = np.asarray(rows)
        shown = [(numbers[position], describe(int(position))) for position in positions[:SHOWN]]
        if len(shown) == 1:
            head = f"{self.label}, row {shown[0][0]}, {where}: found {shown[0][1]}."
        else:
            listed = "; ".join(f"row {row} has {what}" for row, what in shown)
            more = f"; and {positions.size - SHOWN} more" if positions.size > SHOWN else ""
            head = f"{self.label}, {where}, {positions.size} rows: {listed}{more}."
        self.messages.append(f"{head} Expected {expected}. {remedy}")

    def raise_if_any(self) -> None:
        """Raise all problems as one `DataError`, if there are any."""
        if len(self.messages) == 1:
            raise DataError(self.messages[0])
        if self.messages:
            listed = "\n".join(f"  {number}. {message}" for number, message in enumerate(self.messages, 1))
            raise DataError(f"{len(self.messages)} problems:\n{listed}")
