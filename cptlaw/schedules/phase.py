"""One phase of a run's learning-rate schedule: what a line of a schedules file says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from cptlaw.errors import UsageError, did_you_mean, quote
from cptlaw.schedules.shapes import NEEDS_DECAY, SHAPES, WITH_DECAY, WITH_END, Array, Span
from cptlaw.units import parse_quantity, parse_share

PhaseName = Literal["pretrain", "cpt"]
PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
FILE = "file"

# Steps of a phase: each has a rate in memory. The longest runs that were published have some millions.
MOST_STEPS = 20_000_000


@dataclass(frozen=True)
class Phase:
    """Optimiser steps under one learning-rate schedule.

    Parameters
    ----------
    phase
        ``"pretrain"`` or ``"cpt"``.
    steps
        Optimiser steps. For points, the last of them where not given.
    schedule
        constant, linear, cosine, wsd (linear decay), wsd-exp, wsd-1-sqrt, two-stage, inverse-sqrt, or file, which
        takes `points`.
    peak
        Highest learning rate, the one after the warm-up. Where not given, the rate at which the phase before ended:
        no re-warm-up.
    warmup
        Steps of linear warm-up from `start` to `peak`: whole steps, or a share of them as ``"10%"``.
    decay
        Steps of the last part: of the decay (wsd, wsd-exp, wsd-1-sqrt, and inverse-sqrt with a linear end), or at the
        second rate (two-stage). Whole steps, or a share as ``"20%"``.
    end
        Learning rate at the last step, or a share of the peak as ``"10%"``.
    start
        Learning rate before the first step of the warm-up; 0 where not given, as trainers do. Without a warm-up it
        only matters for a CPT phase that no pre-training precedes: the rate at which the base model ended.
    file
        Name of the file that the points came from, for messages.
    tokens_per_step
        Tokens of one optimiser step.
    points
        Steps and learning rates of a file or a log, counted from the start of the phase; in between, straight lines.

    Raises
    ------
    UsageError
        If a value is unusable, or is one that the schedule does not read.

    Examples
    --------
    >>> Phase("cpt", 4, "cosine", peak=1e-4, end=0.0).rates(previous=0.0)
    array([1.00000000e-04, 8.53553391e-05, 5.00000000e-05, 1.46446609e-05,
           0.00000000e+00])
    """

    phase: PhaseName
    steps: int
    schedule: str
    peak: float | None = None
    warmup: int = 0
    decay: int = 0
    end: float = 0.0
    start: float | None = None
    file: str | None = None
    tokens_per_step: float | None = None
    points: tuple[Array, Array] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Tuples: a list or a mapping, which YAML may hold, is in no dictionary, for it has no hash.
        for name, known in (("phase", PHASES), ("schedule", (*SHAPES, FILE))):
            value = getattr(self, name)
            if value not in known:
                near = did_you_mean(str(value), known)
                raise UsageError(f"{name}: {quote(value)} is unknown. Expected one of {', '.join(known)}.{near}")
        if (self.schedule == FILE) != (self.points is not None):
            raise UsageError("schedule: the schedule 'file' needs a file of (step, lr), and only it reads one.")
        if self.points is not None:
            object.__setattr__(self, "points", _checked_points(*self.points, self._where))
            assert self.points is not None
            if self.steps is None:
                object.__setattr__(self, "steps", int(self.points[0][-1]))
        steps = _whole(self.steps, "steps")
        if steps < 1:
            raise UsageError(f"steps: {quote(self.steps)}: expected one optimiser step or more.")
        object.__setattr__(self, "steps", steps)
        for name in ("warmup", "decay"):
            object.__setattr__(self, name, _share_or_whole(getattr(self, name), name, steps))
        peak = None if self.peak is None else _rate(self.peak, "peak")
        object.__setattr__(self, "peak", peak)
        for name in ("end", "start"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _share_or_rate(value, name, peak))
        if self.tokens_per_step is not None:
            tokens = parse_quantity(self.tokens_per_step, "tokens_per_step")
            if not tokens > 0:
                raise UsageError(
                    f"tokens_per_step: {quote(self.tokens_per_step)}: expected a positive number, such as 4M."
                )
            object.__setattr__(self, "tokens_per_step", tokens)
        self._check_together()

    @property
    def _where(self) -> str:
        return self.file or "points"

    def _check_together(self) -> None:
        """Refuse values that contradict each other or that the schedule would silently ignore."""
        name = self.schedule
        if self.points is not None:
            self._check_points(self.points[0][-1])
        elif self.decay and name not in WITH_DECAY:
            raise UsageError(
                f"decay: the schedule {name} has no last part. Did you mean wsd, or leave decay out (it ends at its "
                f"last step anyway)?"
            )
        elif self.end and name not in WITH_END:
            raise UsageError(f"end: the schedule {name} has no end value. Did you mean linear, cosine or wsd?")
        if name in NEEDS_DECAY and not self.decay:
            raise UsageError(f"decay: the schedule {name} needs the number of its last steps, such as decay: 20%.")
        if name == "wsd-exp" and not (self.end > 0 and self.peak != 0):
            raise UsageError("end: the schedule wsd-exp falls by a factor and never reaches 0. Give end, such as 1%.")
        if name == "inverse-sqrt" and not self.warmup:
            raise UsageError("warmup: the schedule inverse-sqrt falls from the end of its warm-up. Give warmup.")
        if self.warmup + self.decay > self.steps:
            raise UsageError(f"warmup + decay: {self.warmup} + {self.decay} steps do not fit into {self.steps} steps.")

    def _check_points(self, last: float) -> None:
        """Refuse what a schedule from a file, whose rates are all given, cannot be told."""
        if last < self.steps:
            raise UsageError(
                f"{self._where}: ends at step {last:g}, but the phase has {self.steps} steps. Add the rows that are "
                f"missing, or lower steps."
            )
        if self.decay or self.end or self.peak is not None or self.start is not None:
            raise UsageError(
                f"{self._where}: a schedule from a file has its peak, start, decay and end in the file. Leave these "
                f"out; warmup may say how many of its first steps are warm-up."
            )

    def rates(self, previous: float | None = None) -> Array:
        """Return the learning rates at steps 0 to `steps` of the phase, shape (steps + 1,).

        Parameters
        ----------
        previous
            The rate at which the phase before ended, which is the peak where none is given.

        Raises
        ------
        UsageError
            If there is no peak, or none above zero.
        """
        if self.points is not None:
            lr: Array = np.interp(np.arange(self.steps + 1), *self.points)
            return lr
        peak = previous if self.peak is None else self.peak
        if peak is None or (self.peak is None and not peak > 0):
            raise UsageError(
                f"peak: the {self.phase} phase has none, and the phase before "
                f"{'does not exist' if peak is None else 'ends at 0'}. Give peak, such as 2e-4."
            )
        lr = np.empty(self.steps + 1)
        first = self.start or 0.0
        lr[: self.warmup] = first + (peak - first) * (np.arange(self.warmup) / max(self.warmup, 1))
        length = self.steps - self.warmup
        of = Span(length, peak, self.end, self.decay, self.warmup)
        lr[self.warmup :] = SHAPES[self.schedule](np.arange(length + 1, dtype=float), of)
        return lr

    def stretched(self, times: float, rate: float = 1.0) -> Phase:
        """Return this phase so many times as long, its rates so many times as high; a warm-up keeps its steps."""
        steps = max(round(times * self.steps), 1)
        if self.points is not None:
            return replace(self, steps=steps, points=(self.points[0] * (steps / self.steps), self.points[1] * rate))
        decay, peak = round(times * self.decay), None if self.peak is None else rate * self.peak
        warmup = min(self.warmup, steps - decay)
        return replace(self, steps=steps, decay=decay, warmup=warmup, peak=peak, end=rate * self.end)

    def to_dict(self) -> dict[str, Any]:
        """Return the phase as a line of a schedules file says it, without the points of a file."""
        every = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "points"}
        unsaid = {"warmup": not self.warmup, "decay": not self.decay, "end": self.schedule not in WITH_END}
        return {name: value for name, value in every.items() if value is not None and not unsaid.get(name)}


def _whole(value: object, name: str, hint: str = "") -> int:
    number = parse_quantity(value, name)
    if number != math.floor(number) or not 0 <= number <= MOST_STEPS:
        raise UsageError(
            f"{name}: {quote(value)}: expected a whole number of optimiser steps, such as 20000 or 20K, and "
            f"{MOST_STEPS:,} at most.{hint}"
        )
    return int(number)


def _is_share(value: object) -> bool:
    return isinstance(value, str) and value.strip().endswith("%")


def _share_or_whole(value: object, name: str, steps: int) -> int:
    """Read a number of steps, or a share of the phase's steps."""
    if not _is_share(value):
        return _whole(value, name, " A share of the steps is written with its sign, such as 10%.")
    return round(parse_share(value, name) * steps)


def _rate(value: object, name: str) -> float:
    rate = -1.0 if _is_share(value) else parse_quantity(value, name)
    if not 0 <= rate < 100:
        raise UsageError(f"{name}: {quote(value)}: expected a learning rate, such as 2e-4.")
    return rate


def _share_or_rate(value: object, name: str, peak: float | None) -> float:
    """Read a learning rate, or a share of the peak."""
    if not _is_share(value):
        return _rate(value, name)
    if peak is None:
        raise UsageError(f"{name}: {quote(value)} is a share of the peak, but the phase gives no peak.")
    return parse_quantity(value, name) * peak


def _checked_points(steps: object, rates: object, where: str) -> tuple[Array, Array]:
    at, lr = np.array(steps, dtype=float), np.array(rates, dtype=float)
    if at.ndim != 1 or at.shape != lr.shape or not at.size:
        raise UsageError(f"{where}: expected one learning rate per step, and one step or more.")
    if not (np.all(np.isfinite(at)) and np.all(np.isfinite(lr)) and np.all(lr >= 0) and at[0] >= 0):
        raise UsageError(f"{where}: expected finite numbers: steps from 0 on, and learning rates of 0 or more.")
    if np.any(np.diff(at) <= 0):
        row = int(np.flatnonzero(np.diff(at) <= 0)[0]) + 1
        raise UsageError(
            f"{where}: step {at[row]:g} follows step {at[row - 1]:g}. Expected each step once, in order; keep the "
            f"rows of one run only."
        )
    if at[0] > 1 and len(at) > 1 and at[0] > 2 * np.max(np.diff(at)):
        raise UsageError(
            f"{where}: begins at step {at[0]:g}, so the learning rate before it is not known. Add a row for step 0 or "
            f"1, or name the schedule in a schedules file."
        )
    for array in (at, lr):
        array.flags.writeable = False
    return at, lr
