"""The conditions of a filter: which rows of a table answer it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import UsageError, did_you_mean, shown, visible
from cptlaw.runs.levels import among_levels
from cptlaw.runs.schema import canonical_name

Mask = npt.NDArray[np.bool_]

# Columns that are computed from others where a table does not hold them.
DERIVED = {"atpp": ("tokens", "n_params"), "flops": ("n_params", "tokens")}


class Condition(ABC):
    """A parsed filter."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns named, without repeats: canonical names, and other columns as written."""

    @abstractmethod
    def mask(self, frame: pd.DataFrame) -> Mask:
        """Return which rows of a table answer the condition, (n,).

        Raises
        ------
        UsageError
            If a column is not there, or holds text where a number is asked for or the other way round.
        """


@dataclass(frozen=True)
class Not(Condition):
    """The rows that do not answer ``inner``."""

    inner: Condition

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns named."""
        return self.inner.columns

    def mask(self, frame: pd.DataFrame) -> Mask:
        """Return the complement of the inner mask, see `Condition.mask`."""
        return ~self.inner.mask(frame)


@dataclass(frozen=True)
class Joined(Condition):
    """Several conditions, all of which (``and``) or one of which (``or``) must hold."""

    word: str
    parts: tuple[Condition, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns named."""
        return tuple(dict.fromkeys(column for part in self.parts for column in part.columns))

    def mask(self, frame: pd.DataFrame) -> Mask:
        """Return the joined masks, see `Condition.mask`."""
        # Every part is computed, so that a slip in any of them is told whatever the rows are.
        join = np.logical_and if self.word == "and" else np.logical_or
        mask = self.parts[0].mask(frame)
        for part in self.parts[1:]:
            mask = np.asarray(join(mask, part.mask(frame)), dtype=np.bool_)
        return mask


@dataclass(frozen=True)
class ColumnCondition(Condition):
    """One column against one value, or for ``in`` and ``not in`` against several."""

    column: str
    operator: str
    values: tuple[float | str, ...]
    query: str
    position: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column named."""
        return (canonical_name(self.column) or self.column,)

    def mask(self, frame: pd.DataFrame) -> Mask:
        """Return the rows whose value compares so, see `Condition.mask`."""
        column = find_column(frame, self.column)
        if column is None:
            known = [str(name) for name in frame.columns]
            self._fail(
                f"no column {shown(self.column)}.{did_you_mean(self.column, known)} Columns: {', '.join(known)}."
            )
        is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if column.isna().all():
            return np.zeros(len(frame), dtype=np.bool_)
        if is_number:
            return self._mask_of_numbers(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return self._mask_of_text(column)

    def _mask_of_numbers(self, values: npt.NDArray[np.float64]) -> Mask:
        for value in self.values:
            if isinstance(value, str):
                self._fail(
                    f"column {shown(self.column)} holds numbers, {shown(value)} is text. Write a number without quotes."
                )
        levels = [level for level in self.values if isinstance(level, float)]
        equal = among_levels(values, levels)
        if self.operator in ("==", "in"):
            return np.asarray(equal, dtype=np.bool_)
        if self.operator in ("!=", "not in"):
            return np.asarray(~equal & ~np.isnan(values), dtype=np.bool_)
        beyond = values < levels[0] if self.operator.startswith("<") else values > levels[0]
        return np.asarray(beyond | equal if self.operator.endswith("=") else beyond & ~equal, dtype=np.bool_)

    def _mask_of_text(self, column: pd.Series) -> Mask:
        for value in self.values:
            if not isinstance(value, str):
                text = f"{value:g}"
                self._fail(
                    f'column {shown(self.column)} holds text and {text} is a number. Write it in quotes: "{text}".'
                )
        if self.operator in ("<", "<=", ">", ">="):
            self._fail(f"column {shown(self.column)} holds text, which has no order here. Use ==, !=, in or not in.")
        if pd.api.types.is_bool_dtype(column):
            column = column.map({True: "True", False: "False"})
        equal = column.isin([visible(str(value)) for value in self.values]).to_numpy(dtype=np.bool_)
        if self.operator in ("==", "in"):
            return equal
        return np.asarray(~equal & column.notna().to_numpy(dtype=np.bool_), dtype=np.bool_)

    def _fail(self, message: str) -> NoReturn:
        raise error_in(message, self.query, self.position)


def find_column(frame: pd.DataFrame, name: str) -> pd.Series | None:
    """Return the column that a name in a filter means, or ``None``.

    Parameters
    ----------
    name
        A column of the table, an alias of one, or ``atpp`` (tokens / n_params) or ``flops`` (6 * n_params * tokens).

    Examples
    --------
    >>> find_column(pd.DataFrame({"n_params": [1e6], "tokens": [2e7]}), "atpp").tolist()
    [20.0]
    """
    # A column of that very name comes first: a table may keep `N` beside `n_params`.
    for candidate in (name, canonical_name(name) or name):
        if candidate in frame.columns:
            return frame[candidate]
        if candidate in DERIVED and set(DERIVED[candidate]) <= set(frame.columns):
            first, second = (pd.to_numeric(frame[part], errors="coerce").astype(float) for part in DERIVED[candidate])
            return first / second if candidate == "atpp" else 6.0 * first * second
    return None


def error_in(message: str, query: str, position: int) -> UsageError:
    """Return the error of a filter, with a caret under the place."""
    # A tab or line break before the caret would shift it; of a long filter the part around it is enough.
    first, last = max(0, position - 80), position + 80
    before, after = "..." if first else "", "..." if last < len(query) else ""
    flat = visible(re.sub(r"\s", " ", query[first:last]))
    shift = len(before) + len(visible(re.sub(r"\s", " ", query[first:position])))
    return UsageError(f"In the filter: {message}\n    {before}{flat}{after}\n    {' ' * shift}^")
