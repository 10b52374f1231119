"""How a law reads its inputs off the rows of a table: columns, units, and of which corpus the ratio is the share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.laws.calculus import Array, Positive
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


@dataclass(frozen=True)
class Columns:
    """Rows as plain columns of numbers, without a table around them.

    A plan asks a law for a few hundred small sets of rows, and a DataFrame costs ten times what the law does.

    Parameters
    ----------
    columns
        Numbers by name, (n,) each.
    """

    columns: Mapping[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def index(self) -> range:
        """What the rows are called in messages."""
        return range(len(self))


class Inputs:
    """The part of a law that reads its inputs; `cptlaw.laws.base.Law` says what the attributes mean."""

    name: ClassVar[str]
    inputs: tuple[str, ...]
    ratio_of: RatioOf | None = None
    units: Mapping[str, float] = {"n_params": 1.0, "tokens": 1.0}
    ratio_margin: ClassVar[float] = 0.0
    signed_inputs: tuple[str, ...] = ()
    steady_inputs: tuple[str, ...] = ()

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> SimpleNamespace:
        """Turn rows of a table into the law's inputs, in its units and with its meaning of the ratio.

        Parameters
        ----------
        frame
            Rows with the columns in `inputs`, in raw parameters and raw tokens; `Columns` will do.
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
        return SimpleNamespace(**{LETTERS.get(name, name): column for name, column in columns.items()})

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name not in frame.columns:
            missing = [repr(other) for other in self.inputs if other not in frame.columns]
            raise DataError(
                f"law {self.name} needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}; the table has "
                f"{', '.join(map(str, frame.columns))}.{did_you_mean(name, map(str, frame.columns))}"
            )
        result: Any = frame[name]
        values: Array = result if isinstance(frame, Columns) else result.to_numpy(dtype=float)
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
        if role is None and "eval" in frame.columns:
            roles = frame["eval"].astype(str).to_numpy()
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
