"""A run's learning rate at every optimiser step, from its phases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from cptlaw.errors import UsageError
from cptlaw.schedules.phase import FILE, PHASES, Phase, PhaseName
from cptlaw.schedules.shapes import Array


@dataclass(frozen=True)
class Schedule:
    """The learning rate of one run, pre-training first, then continual pre-training (CPT).

    Steps count from 0 across all phases. Index 0 of every array is the state before the first update, as in the
    reference code of Tissue et al. (arXiv:2408.11029), index k the k-th update; so a run of 20,000 steps has 20,001
    entries, and step j of CPT stands at ``n_pretrain + j``. Step 0 of CPT is the last step of pre-training.

    Where no pre-training is given (an open base model), entry 0 is the rate at which the base model ended: `start` of
    the first phase, 0 where not given.

    Parameters
    ----------
    phases
        In order; pre-training comes before CPT.

    Attributes
    ----------
    lr
        Learning rate at each step, shape (n_steps + 1,); read-only.
    n_pretrain, n_cpt, n_steps
        Optimiser steps.

    Examples
    --------
    >>> run = Schedule([
    ...     Phase("pretrain", 4, "constant", peak=2e-4),
    ...     Phase("cpt", 2, "linear", peak=1e-4),
    ... ])
    >>> run.lr * 1e4
    array([2. , 2. , 2. , 2. , 2. , 0.5, 0. ])
    >>> run.n_pretrain, run.n_cpt
    (4, 2)
    """

    phases: tuple[Phase, ...]

    def __init__(self, phases: Iterable[Phase]) -> None:
        result = tuple(phases)
        if not result:
            raise UsageError("a schedule needs one phase or more.")
        for phase in result:
            if not isinstance(phase, Phase):
                raise UsageError(f"a schedule is made of Phase objects; found {type(phase).__name__}.")
        # The areas of the laws keep one momentum for each phase, so that a model that went back to pre-training has no
        # place.
        order = [PHASES.index(phase.phase) for phase in result]
        if order != sorted(order):
            raise UsageError("phases: pretrain stands after cpt. Expected the phases in the order in which they ran.")
        object.__setattr__(self, "phases", result)
        self.lr  # noqa: B018  a phase without a peak shows here, not at first use

    @classmethod
    def from_lr(
        cls,
        step: ArrayLike,
        lr: ArrayLike,
        *,
        phase: PhaseName = "cpt",
        warmup: int | None = None,
        tokens_per_step: float | None = None,
        before: Schedule | None = None,
        label: str = "lr",
    ) -> Schedule:
        """Make a schedule from the column ``lr`` of a run: straight lines between the steps that were logged.

        Parameters
        ----------
        step, lr
            Steps of the phase and the learning rates logged there, each (n,); in any order, repeats allowed where
            they agree.
        phase
            The phase that was logged.
        warmup
            Steps of warm-up; where not given, the first steps over which the rate rises.
        tokens_per_step
            Tokens of one step.
        before
            The schedule that ran before, such as that of the base model.
        label
            What stands for the log in messages.

        Raises
        ------
        UsageError
            If a step has two rates, or the log begins too late to tell the first ones.
        """
        at, rates = np.asarray(step, dtype=float), np.asarray(lr, dtype=float)
        kept = np.isfinite(at) & np.isfinite(rates)
        # Logs repeat a step after a restart, and for each eval; the same pair counts once.
        pairs = np.unique(np.stack([at[kept], rates[kept]], axis=1), axis=0)
        if not len(pairs):
            raise UsageError(f"{label}: no row has both a step and a learning rate.")
        points = (pairs[:, 0], pairs[:, 1])
        logged = Phase(
            phase, int(points[0][-1]), FILE, points=points, tokens_per_step=tokens_per_step, file=label,
            warmup=_rising(*points) if warmup is None else warmup,
        )  # fmt: skip
        return cls([*(before.phases if before else ()), logged])

    @cached_property
    def lr(self) -> Array:
        """Learning rate at each step, (n_steps + 1,)."""
        first = self.phases[0]
        parts = [first.rates()]
        # Entry 0 is the state before the first step: the rate at which the base model ended, and none was used for a
        # training from scratch.
        if first.phase == "cpt" and not first.warmup and first.points is None:
            parts[0][0] = first.start or 0.0
        for phase in self.phases[1:]:
            parts.append(phase.rates(previous=float(parts[-1][-1]))[1:])
        lr = np.concatenate(parts)
        lr.flags.writeable = False
        return lr

    @cached_property
    def n_pretrain(self) -> int:
        """Optimiser steps of pre-training; 0 where none is given."""
        return sum(phase.steps for phase in self.phases if phase.phase == "pretrain")

    @cached_property
    def n_cpt(self) -> int:
        """Optimiser steps of CPT."""
        return sum(phase.steps for phase in self.phases if phase.phase == "cpt")

    @property
    def n_steps(self) -> int:
        """Optimiser steps of all phases."""
        return self.n_pretrain + self.n_cpt

    @cached_property
    def segments(self) -> tuple[tuple[Phase, int, int], ...]:
        """Each phase with the first and last index of its steps; index 0 belongs to no phase's updates."""
        ends = np.cumsum([phase.steps for phase in self.phases])
        return tuple(
            (phase, int(end) - phase.steps + 1, int(end)) for phase, end in zip(self.phases, ends, strict=True)
        )

    def stretched(self, pretrain: float, cpt: float, rate: float = 1.0) -> Schedule:
        """Return this schedule with phases so many times as long, and rates of CPT so many times as high."""
        return Schedule(
            phase.stretched(pretrain) if phase.phase == "pretrain" else phase.stretched(cpt, rate)
            for phase in self.phases
        )

    def to_list(self) -> list[dict[str, object]]:
        """Return the phases as the entry of a schedules file."""
        return [phase.to_dict() for phase in self.phases]

    def __repr__(self) -> str:
        parts = [
            f"{phase.phase} {phase.steps} steps {phase.schedule}"
            + ("" if phase.peak is None else f" peak {phase.peak:g}")
            for phase in self.phases
        ]
        return f"Schedule({'; '.join(parts)})"


def _rising(steps: Array, rates: Array) -> int:
    """Return the step at which a logged rate stops rising for the first time: the end of its warm-up."""
    top = 0
    while top + 1 < len(rates) and rates[top + 1] > rates[top]:
        top += 1
    # A rise to the very end is a schedule of its own, not a warm-up.
    return 0 if top + 1 == len(rates) else int(steps[top])
