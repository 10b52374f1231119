"""How a law reads its inputs off the rows of a table: columns, units, and of which corpus the ratio is the share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.laws.calculus import Array, Letters, Positive
from cptlaw.runs.points import PointsLike, as_points
from cptlaw.runs.table import Role
from cptlaw.schedules import Schedule

RatioOf = Literal["source", "own", "target"]

# Paper letters of the inputs, as terms see them.
LETTERS = {"n_params": "N", "tokens": "D", "replay": "r", "ptpp": "P", "s1": "S1", "s2": "S2"}
LETTERS |= {"s1_pretrain": "S1pt", "s1_cpt": "S1cpt", "s2_pretrain": "S2pt", "s2_cpt": "S2cpt"}


@dataclass(frozen=True)
class Context:
    """What is known beside the rows at hand, for a law that computes columns or chooses rows.

    Parameters
    ----------
    rows
        In a fit: all rows of the eval, base models included.
    fitted
        In a forecast: the rows that the law was fitted on, with its inputs.
    schedules
        Learning-rate schedules by run; ``None`` where they are read later on.
    test
        The rows to forecast, in a comparison.
    """

    rows: pd.DataFrame | None = None
    fitted: pd.DataFrame | None = None
    schedules: Mapping[str, Schedule] | None = None
    test: pd.DataFrame | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows as plain columns, without a table around them.

    A plan asks a law for a few hundred small sets of rows, and a DataFrame costs ten times what the law does. What
    reads either of the two takes columns by ``np.asarray(rows[name])`` and uses the methods below alone.

    Parameters
    ----------
    columns
        Values by name, (n,) each.
    index
        What the rows are called in messages.
    """

    columns: Mapping[str, Array]
    index: pd.Index | NDArray[np.intp]

    @classmethod
    def of(cls, rows: pd.DataFrame | Columns) -> Columns:
        """Return the rows of a table as columns."""
        if isinstance(rows, Columns):
            return rows
        return cls({str(name): column.to_numpy() for name, column in rows.items()}, rows.index)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(self.index)

    def assign(self, **more: ArrayLike) -> Columns:
        """Return the rows with more columns: values, or one value for all rows."""
        made = {name: np.asarray(one) if np.ndim(one) else np.full(len(self), one) for name, one in more.items()}
        return Columns({**self.columns, **made}, self.index)

    def take(self, places: NDArray[np.intp] | NDArray[np.bool_]) -> Columns:
        """Return some of the rows, by their places or a mask."""
        return Columns({name: column[places] for name, column in self.columns.items()}, self.index[places])

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a table."""
        return pd.DataFrame(dict(self.columns), index=self.index)


AnyRows: TypeAlias = pd.DataFrame | Columns
Points: TypeAlias = PointsLike | Columns  # whatever may be forecast


def as_rows(points: Points) -> pd.DataFrame:
    """Return points as a table; `Columns` as they are, by the type of the table that they stand for."""
    return cast("pd.DataFrame", points) if isinstance(points, Columns) else as_points(points)


class Inputs:
    """The part of a law that reads its inputs; `cptlaw.laws.base.Law` says what the attributes mean."""

    name: ClassVar[str]
    inputs: tuple[str, ...]
    ratio_of: RatioOf | None = None
    units: Mapping[str, float] = {"n_params": 1.0, "tokens": 1.0}
    ratio_margin: ClassVar[float] = 0.0
    signed_inputs: tuple[str, ...] = ()
    steady_inputs: tuple[str, ...] = ()
    takes_columns: ClassVar[bool] = True

    def __init_subclass__(cls, **more: object) -> None:
        """Give a law that reads its rows in a way of its own a table, where it does not say that `Columns` will do."""
        super().__init_subclass__(**more)
        if {"bind", "_column", "inputs_of"} & vars(cls).keys() and "takes_columns" not in vars(cls):
            cls.takes_columns = False

    def as_taken(self, rows: AnyRows) -> pd.DataFrame:
        """Return rows as this law takes them: a table in place of `Columns`, where it does not take those."""
        return rows.to_pandas() if isinstance(rows, Columns) and not self.takes_columns else as_rows(rows)

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows of a table into the law's inputs, in its units and with its meaning of the ratio.

        Parameters
        ----------
        frame
            Rows with the columns in `inputs`, in raw parameters and raw tokens; `Columns` where the law takes them.
        role
            Role of the eval whose loss is predicted. Where absent it is taken from the column ``eval``, and is
            target where there is none.

        Raises
        ------
        DataError
            If a column is missing, or a value is missing or negative.
        """
        columns = {}
        for name in self.inputs:
            values = self._column(frame, name, role)
            columns[name] = values if name in self.signed_inputs else Positive(values)
        return Letters(**{LETTERS.get(name, name): column for name, column in columns.items()})

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name not in frame.columns:
            missing = [repr(other) for other in self.inputs if other not in frame.columns]
            raise DataError(
                f"law {self.name} needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}; the table has "
                f"{', '.join(map(str, frame.columns))}.{did_you_mean(name, map(str, frame.columns))}"
            )
        values = np.asarray(frame[name], dtype=float)
        good = np.isfinite(values) if name in self.signed_inputs else values >= 0
        if not np.all(good):
            row = int(np.flatnonzero(~good)[0])
            expected = "" if name in self.signed_inputs else ", zero or more"
            raise DataError(
                f"law {self.name} needs {name} in every row{expected}; row {frame.index[row]} has {values[row]}."
            )
        if name in ("n_params", "tokens"):
            return values / self.units[name]
        if name == "replay":
            if np.any(values > 1):
                row = int(np.flatnonzero(values > 1)[0])
                raise DataError(
                    f"replay must lie in [0, 1]; row {frame.index[row]} has {values[row]}. Write 34% or 0.34."
                )
            # Users always give the share of the source corpus; the law's own share is kept off 0 and 1 where it
            # diverges there.
            is_share = self._replay_is_the_share(frame, role)
            return np.clip(np.where(is_share, values, 1.0 - values), self.ratio_margin, 1.0 - self.ratio_margin)
        return values

    def _replay_is_the_share(self, frame: pd.DataFrame, role: Role | None) -> NDArray[np.bool_]:
        """Say for each row whether the law's ratio is replay itself (the source share) or 1 - replay."""
        if self.ratio_of != "own":
            return np.full(len(frame), self.ratio_of != "target")
        return self._is_source(frame, role)

    def _is_source(self, frame: pd.DataFrame, role: Role | None) -> NDArray[np.bool_]:
        """Say for each row whether it is of the source loss, and not of the target loss."""
        if role in ("source", "target"):
            return np.full(len(frame), role == "source")
        if role is None and "eval" in frame.columns:
            roles = np.asarray(frame["eval"]).astype(str)
        else:
            roles = np.full(len(frame), role or "target")
        strange = ~np.isin(roles, ("source", "target"))
        if strange.any():
            name = "this eval" if role else f"eval {str(roles[strange][0])!r}"
            raise UsageError(
                f"law {self.name} needs to know whether {name} measures the source or the target "
                f"corpus, because its ratio is the share of the eval's own corpus. Name it with --source-eval or "
                f"--target-eval (source_eval=, target_eval= in the library)."
            )
        own: NDArray[np.bool_] = roles == "source"
        return own
