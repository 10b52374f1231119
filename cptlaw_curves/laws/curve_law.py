"""What the laws of whole loss curves share: areas of the learning-rate schedule as inputs, and their options.

A curve law reads columns that follow from the schedule of a row's run and the row's step: forward areas S1, annealing
areas S2, split by phase where the law tells the phases apart. Where a table brings them as columns (``s1``, ``s2``,
``s1_pretrain``, ..) they are taken as they are; else `CurveLaw.attach` computes them, at the resolution of single
steps whatever the steps of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cptlaw.errors import DataError, did_you_mean
from cptlaw.laws.base import LETTERS, Context, Law, Option, Role, Shape
from cptlaw.laws.calculus import Array, Computed, Jet, Letters, Value
from cptlaw.laws.curve_rows import global_steps, rows_by_run
from cptlaw.laws.parameters import count, number
from cptlaw.schedules import LAMBDA, Schedule, areas

DECAY = Shape(0.5, 0.9999, start=(0.9, 0.9995), scale="gap")  # a memory of two steps to ten thousand
# On curves of 5,000 to 50,000 steps at four peaks and sizes: 0 to .06 (studies/dynamics.md).
KAPPA = Shape(0.0, 1.0, start=(0.02, 0.3), scale="linear", usual=(0.05, 0.05))
NODES = 52  # of the Chebyshev interpolation of S2 in lambda: 1e-9 of S2 over the range of DECAY
FITTED = "fit"
WARMUP = Option(
    "peak",
    ("peak", "actual"),
    "peak lets the warm-up of pre-training count as if it had run at the peak, as the reference code does; actual as "
    "it ran. A warm-up in CPT always counts as it ran.",
)
FADING = Option(
    False,
    "true or false",
    "The gain of annealing shrinks with the training before it, as S1^-kappa: on far longer runs than the fitted "
    "ones a fixed gain is too large. Not published.",
)
SKIP_STEPS = Option(
    0,
    "a whole number of steps, such as 1000",
    "Leave out rows of the first steps of each run's schedule, which break the law (the first 1,000 or so of a "
    "training from scratch).",
    count,
)


def _decay(given: object) -> float | str:
    if given == FITTED:
        return FITTED
    value = number(given)
    if not 0 <= value < 1:
        raise ValueError(given)
    return value


class CurveLaw(Law):
    """A law of the loss at every step, for any schedule."""

    order = 50
    correlated_along = "step"
    source = "Tissue et al. 2024, arXiv:2408.11029"
    areas_read: tuple[str, ...]
    lr_power: float = 0.0

    choices = {
        "decay": Option(
            LAMBDA,
            "a number from 0 to below 1, such as 0.999, or fit",
            "lambda, by which the momentum of the annealing area decays per step; 0.999 as published, another number, "
            "or fit to make it a parameter.",
            _decay,
        ),
        "warmup": WARMUP,
        "boundary": Option(
            "origin",
            ("origin", "carry", "reset_jump", "reset"),
            "Where pre-training's momentum goes when CPT begins; see cptlaw.schedules.areas.",
        ),
        "decay_unit": Option(
            "step",
            ("step", "tokens"),
            "tokens rescales lambda where phases differ in tokens per step: lambda^(ratio of tokens). Not published.",
        ),
        "skip_steps": SKIP_STEPS,
    }
    decay: float | str
    warmup: Literal["peak", "actual"]
    boundary: Literal["origin", "carry", "reset_jump", "reset"]
    decay_unit: Literal["step", "tokens"]
    skip_steps: int

    def configure(self) -> None:
        """Make lambda a parameter where it is to be fitted."""
        if self.decay == FITTED:
            self.shapes = self.shapes | {"lambda": DECAY}
            # A table of S2 over lambda for each row: within the search a new lambda then costs a polynomial and no pass
            # over a schedule of many thousand steps.
            self.objects = tuple(f"{name}_by_decay" for name in self.areas_read if name.startswith("s2"))
            self.decreasing = tuple(name for name in self.decreasing if not name.startswith("s2"))  # tables are read
        elif any(name.startswith("s2") for name in self.areas_read):
            self.constants = {"lambda": float(self.decay)}

    @property
    def area_options(self) -> dict[str, Any]:
        """How areas are read off a schedule: the keywords of `cptlaw.schedules.areas`."""
        return {"warmup": self.warmup, "boundary": self.boundary, "decay_unit": self.decay_unit}

    # -- from schedules to columns ---------------------------------------------------------------------------------

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns that follow from a schedule."""
        return (*self.areas_read, *self.objects)

    @property
    def needs_schedules(self) -> bool:
        """It does."""
        return True

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Add the columns that follow from schedules, where these are known; see `attach`."""
        return frame if context.schedules is None else self.attach(frame, context.schedules)

    def attach(self, frame: pd.DataFrame, schedules: Mapping[str, Schedule]) -> pd.DataFrame:
        """Return a copy of rows with the columns that the law reads off their schedules.

        Parameters
        ----------
        frame
            Rows with ``run`` and ``step``, and ``phase`` (pretrain or cpt) where a run has rows of both phases. Steps
            count from the start of their phase; without a column ``phase`` they are steps of the last phase.
        schedules
            Schedules by run.

        Raises
        ------
        DataError
            If a run has no schedule, or a row's step lies outside it.
        """
        if set(self.computed) <= set(frame.columns):
            return frame.copy()
        for name in ("run", "step"):
            if name not in frame.columns:
                raise DataError(
                    f"law {self.name} needs the columns run and step, by which it finds the learning rates of a row; "
                    f"the table lacks {name!r}. Or give {', '.join(self.areas_read)} themselves."
                )
        # Run by run: a schedule is read once, whatever the number of its rows.
        columns: dict[str, NDArray[np.generic]] = {
            name: np.empty(len(frame), dtype=object if name in self.objects else float) for name in self.computed
        }
        for run, rows in rows_by_run(frame):
            if run not in schedules:
                raise DataError(
                    f"law {self.name}: run {run!r} has no learning-rate schedule.{did_you_mean(run, schedules)} Name "
                    f"it in a schedules file (--schedules F, schedules= in the library), or give the table columns lr, "
                    f"or lr_schedule and lr_peak."
                )
            at = global_steps(frame.iloc[rows], schedules[run], f"law {self.name}: run {run!r}")
            for name, values in self.read(schedules[run], at).items():
                columns[name][rows] = values
        return frame.assign(**columns)

    def read(self, schedule: Schedule, at: NDArray[np.intp]) -> dict[str, Array]:
        """Return the computed columns of one schedule at steps counted across its phases."""
        # Where lambda is fitted these columns are at the published one; the terms read the tables beside them.
        decay = LAMBDA if self.decay == FITTED else float(self.decay)
        result = areas(schedule, decay, lr_power=self.lr_power, **self.area_options)
        columns: dict[str, Array] = {name: getattr(result, name)[at] for name in self.areas_read}
        if self.objects:
            names = [name.removesuffix("_by_decay") for name in self.objects]
            tables = _decay_tables(schedule, names, lr_power=self.lr_power, **self.area_options)
            for name, table in tables.items():
                rows = np.empty(len(at), dtype=object)
                rows[:] = list(table[at])
                columns[f"{name}_by_decay"] = rows
        return columns

    def rows(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Return the rows without those of the first `skip_steps` steps of their schedules."""
        # Nothing is left out unless asked for. Choosing the number by rollout was tried: it halved the errors of
        # rollouts within three curves, and on longer runs made two worse and one better (studies/dynamics.md).
        schedules = context.schedules or {}
        if not self.skip_steps or not {"run", "step"} <= set(frame.columns):
            return frame
        keep = np.ones(len(frame), dtype=bool)
        for run, rows in rows_by_run(frame):
            steps = frame["step"].to_numpy(dtype=float)[rows]
            if run in schedules:
                steps = global_steps(frame.iloc[rows], schedules[run], f"law {self.name}: run {run!r}")
            keep[rows] = steps >= self.skip_steps
        return frame[keep]

    # -- inputs ----------------------------------------------------------------------------------------------------

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs; see `Law.bind`."""
        x = super().bind(frame, role)
        for name in self.objects:
            if name not in frame.columns:
                raise DataError(f"law {self.name} needs the column {name!r}; law.attach(rows, schedules) gives it.")
            setattr(x, name, np.stack(list(frame[name])))
        return x

    def _column(self, frame: pd.DataFrame, name: str, role: Role | None) -> Array:
        if name in self.areas_read and name not in frame.columns:
            raise DataError(
                f"law {self.name} needs the column {name!r}, which follows from a learning-rate schedule. Give "
                f"schedules (--schedules F, schedules= in the library) with rows that name run and step, or the column."
            )
        return super()._column(frame, name, role)

    def annealed(self, x: Letters, name: str, p: Letters) -> Value:
        """Return the annealing area of a column (``s2``, ``s2_cpt``, ..), at the fitted lambda where it is fitted."""
        if self.decay == FITTED:
            return interpolated(vars(x)[f"{name}_by_decay"], vars(p)["lambda"])
        area: Value = getattr(x, LETTERS[name])
        return area


def _decay_tables(schedule: Schedule, names: Sequence[str], **options: Any) -> dict[str, Array]:
    """Return the Chebyshev coefficients of S2 in the axis of lambda at each step, shape (steps, NODES)."""
    middle, half = _axis_of_decay()
    at = chebyshev.chebpts1(NODES)
    result = [areas(schedule, float(DECAY.from_axis(middle + half * u)), **options) for u in at]
    # Interpolated at Chebyshev points a smooth function loses digits exponentially: 52 of them leave 1e-9 of S2.
    to_coefficients = np.linalg.inv(chebyshev.chebvander(at, NODES - 1)).T
    return {name: np.stack([getattr(one, name) for one in result], axis=1) @ to_coefficients for name in names}


def _axis_of_decay() -> tuple[float, float]:
    low, high = float(DECAY.to_axis(DECAY.low)), float(DECAY.to_axis(DECAY.high))
    return 0.5 * (low + high), 0.5 * (high - low)


def interpolated(table: Array, decay: Computed) -> Computed:
    """Return S2 at lambda from its coefficients (n, NODES): S2 is smooth in log(1 - lambda), and no schedule is read.

    Parameters
    ----------
    table
        What `CurveLaw.read` gives for each row.
    decay
        lambda, a number, array or Jet of shape (s, 1).
    """
    middle, half = _axis_of_decay()
    value = decay.value if isinstance(decay, Jet) else decay
    u = np.ravel((DECAY.to_axis(value) - middle) / half)
    coefficients = table.T
    orders = [coefficients, chebyshev.chebder(coefficients), chebyshev.chebder(coefficients, 2)]
    values, first, second = (chebyshev.chebval(u, c).T for c in orders)
    if not isinstance(decay, Jet):
        return values if np.ndim(value) else values[0]
    # The chain rule by hand, first and second order: the table is a function of the axis, and the axis one of lambda.
    gap = 1.0 / (1.0 - value)  # the slope of the axis -log(1 - lambda)
    slope = first / half * gap
    return decay.chain(values, slope, second / half**2 * gap**2 + slope * gap)
