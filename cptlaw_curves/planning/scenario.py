"""What is asked of schedules: the options of each plan, declared once for Python and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike
from typing import Annotated, Literal, Required, TypedDict

from cptlaw.planning.options import Entry, amount, as_given, choice, count, share
from cptlaw.planning.scenario import SCENARIOS, BaseLoss, Intervals, Limits, Quantity, ScoreLimits, TargetLimit

Goal = Literal["weighted", "target", "source", "steps"]
GOALS: tuple[Goal, ...] = ("weighted", "target", "source", "steps")


class KnownRun(TypedDict, total=False):
    """What is known of a run with a schedule."""

    schedules: Annotated[
        Mapping[str, object] | PathLike[str] | str | None,
        Entry(as_given, "Schedules file. [default: those of the fits]", "F"),
    ]
    run: Annotated[str | None, Entry(as_given, "The run of it whose base model is meant, where they differ.", "RUN")]
    replay: Annotated[Quantity, Entry(share, "Share of the source corpus in the mix, where a law reads it.", "R")]
    n_params: Annotated[Quantity, amount("106M", "Parameters of the model, where a law reads them.", "N")]


class ScheduleOfRun(KnownRun, Limits, TargetLimit, ScoreLimits, BaseLoss, Intervals, total=False):
    """The question of `schedule`."""

    weight_source: Annotated[Quantity, Entry(share, "Weight of the source loss, 0 to 1; the target has the rest.", "W")]
    vary: Annotated[
        Iterable[str] | str,
        Entry(
            as_given,
            "What may be chosen: peak, decay, end, rewarmup, replay, steps, loss-potential.",
            "A,B,..",
            default="peak",
        ),
    ]
    ranges: Annotated[
        Mapping[str, tuple[float, float]] | Iterable[str] | None,
        Entry(as_given, "Another range. May be repeated.", "NAME=LOW:HIGH", several="range"),
    ]
    max_steps: Annotated[Quantity, amount("20K", "Limit on optimiser steps of CPT, as in 20K.", "K")]
    minimise: Annotated[
        str | None,
        choice(GOALS, "What to minimise. [default: follows from the weight and the limits]"),
    ]
    shape: Annotated[
        str | None, Entry(as_given, "Shape of the CPT schedule: cosine, linear, wsd, .. [default: as known]", "NAME")
    ]
    peak: Annotated[
        Quantity, Entry(as_given, "Peak rate where it is not varied; base: the base model's last rate.", "LR")
    ]
    steps: Annotated[Quantity, Entry(as_given, "CPT steps where they are not varied.", "K")]
    warmup: Annotated[Quantity, Entry(as_given, "Steps of re-warm-up, or a share of the steps as in 2%.", "K")]
    decay: Annotated[Quantity, Entry(as_given, "Steps of the decay, or a share of the steps.", "K")]
    end: Annotated[Quantity, Entry(as_given, "Last rate, or a share of the peak.", "LR")]
    tokens_per_step: Annotated[Quantity, Entry(as_given, "Tokens of one optimiser step, as in 4M.", "D")]
    seed: Annotated[int, Entry(partial(count, least=0), "Seed; the same seed repeats the output.", "K", default=0)]


class WholeSchedule(KnownRun, total=False):
    """The question of `whole_schedule`."""

    weight_source: Annotated[Quantity, Entry(share, "Weight of the source loss, 0 to 1.", "W", default=0.0)]
    steps: Annotated[Quantity, Entry(as_given, "CPT steps. [default: as known, or 10K]", "K")]
    highest: Annotated[Quantity, amount("2e-4", "Highest rate. [default: the peak of pre-training]", "LR")]
    # Luo et al. have this floor: a rate of zero has no slope where powers of the rate count.
    floor: Annotated[Quantity, amount("1e-10", "Lowest rate.", "LR", default=1e-10)]


class TurningLength(KnownRun, total=False):
    """The question of `turning_length`."""

    weight_source: Required[Annotated[Quantity, Entry(share, "Weight of the source loss, 0 to 1.", "W")]]
    peak: Annotated[Quantity, amount("2e-4", "The constant rate. [default: the peak of pre-training]", "LR")]
    warmup: Annotated[Quantity, Entry(as_given, "Steps of re-warm-up.", "K")]


class CriticalPoint(KnownRun, total=False):
    """The question of `critical_point`."""

    peak: Annotated[Quantity, amount("2e-4", "The constant rate of CPT. [default: the peak of pre-training]", "LR")]


SCENARIOS |= {"schedule": ScheduleOfRun, "whole-schedule": WholeSchedule}
SCENARIOS |= {"turning-length": TurningLength, "critical-point": CriticalPoint}
