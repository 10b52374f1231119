"""What may be chosen of a schedule, and the schedule that follows from a choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.planning.scenario import PlanQuestion
from cptlaw.planning.solve import Axis
from cptlaw.schedules import Phase, Schedule, SchedulesLike, read_schedules
from cptlaw.schedules.shapes import WITH_DECAY, WITH_END
from cptlaw.units import parse_quantity
from cptlaw_curves.planning.curve_loss import CurveLoss

DEFAULT_STEPS = 10_000
WIDE_REPLAY = (0.0, 0.95)
FEW = 0.1  # of the fitted runs: unasked, no higher peak is planned than so many had
# Where no range is given. A rewarm-up over a third of a run would be most of its schedule.
SHARES = {"decay": (0.02, 1.0), "end": (0.0, 1.0), "rewarmup": (0.0, 0.3), "loss-potential": (0.0, 1.0)}
PHASE_OPTIONS = ("peak", "steps", "warmup", "decay", "end", "tokens_per_step")


# What `--vary` may name.
MEANING = {
    "peak": "the highest learning rate of CPT",
    "decay": "the share of CPT steps over which the rate decays",
    "end": "the last rate, as a share of the peak",
    "rewarmup": "the share of CPT steps over which the rate rises from 0 to the peak",
    "replay": "the share of the source corpus in the mix",
    "steps": "optimiser steps of CPT",
    "loss-potential": "the base model's last learning rate, as a share of its peak",
}


@dataclass(frozen=True)
class ScheduledMix:
    """One point of the space: a schedule and a mix."""

    values: Mapping[str, float]
    schedule: Schedule
    replay: float | None

    @property
    def cpt(self) -> Phase:
        """The phase that is planned."""
        return self.schedule.phases[-1]


@dataclass(frozen=True)
class ScheduleRange:
    """The base model's phases, the CPT phase as it stands where nothing is chosen, and what may be chosen.

    Parameters
    ----------
    base
        Phases of pre-training; empty for an open base model.
    cpt
        The CPT phase. Without a peak it goes on at the base model's last rate.
    replay
        The mix where it is not chosen.
    variables
        What may be chosen.
    """

    base: tuple[Phase, ...]
    cpt: Phase
    replay: float | None
    variables: tuple[Axis, ...]

    def with_values(self, values: Mapping[str, float]) -> ScheduledMix:
        """Return the choice with these values; what they do not name stays as it stands."""
        base = self.base
        if "loss-potential" in values:
            base = (*base[:-1], _with_end(base[-1], values["loss-potential"]))
        before = Schedule(base) if base else None
        steps = max(1, round(values.get("steps", self.cpt.steps)))
        shares = {
            "warmup": values.get("rewarmup", self.cpt.warmup / self.cpt.steps),
            "decay": values.get("decay", self.cpt.decay / self.cpt.steps),
        }
        # Warm-up and decay keep their shares of the run when its length changes, as people rescale schedules.
        counts = {name: min(steps, round(share * steps)) for name, share in shares.items()}
        shape = self.cpt.schedule
        if "decay" in values:
            # A decay can only be chosen of a shape that has one; wsd is that of most trainers.
            shape = shape if shape in WITH_DECAY else "wsd"
            counts["decay"] = max(1, counts["decay"])
        # Rounding must not let the two overlap.
        counts["warmup"] = min(counts["warmup"], steps - counts["decay"])
        peak = values.get("peak", self.cpt.peak)
        if peak is None:
            peak = float(before.lr[-1]) if before is not None else None
        # The end is kept as a share: a lower peak with the same last rate would be another shape of schedule.
        of_peak = self.cpt.end / self.cpt.peak if self.cpt.peak else 0.0
        end = values.get("end", of_peak) * (peak or 0.0) if shape in WITH_END else 0.0
        cpt = replace(
            self.cpt, steps=steps, schedule=shape, peak=peak, end=end, warmup=counts["warmup"], decay=counts["decay"]
        )
        return ScheduledMix(dict(values), Schedule((*base, cpt)), values.get("replay", self.replay))


def _with_end(phase: Phase, potential: float) -> Phase:
    if phase.schedule not in WITH_END or phase.peak is None:
        raise UsageError(
            f"loss-potential: pre-training ends with the schedule {phase.schedule}, which has no end value to choose. "
            f"Expected linear, cosine or wsd with a peak."
        )
    return replace(phase, end=potential * phase.peak)


def build_space(losses: Sequence[CurveLoss], given: PlanQuestion) -> ScheduleRange:
    """Read what is known of the run, and what may be chosen.

    Parameters
    ----------
    given
        What was asked: the entries of the scenario `KnownRun`, and of `ScheduleOfRun` where anything may be chosen or
        is to differ from the known phase.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable, or the base model's schedule is not known.
    """
    values = given.values
    names = _names(values.get("vary", ""))
    base, cpt = _known_phases(losses, given.schedules, given.run)
    said = PHASE_OPTIONS if "vary" in values else ("steps",)
    overrides = {name: values.get(name) for name in said} | {"schedule": values.get("shape")}
    cpt = _with_overrides(cpt, base, overrides)
    reads_replay = any(loss.reads_replay for loss in losses)
    if "replay" in names and not reads_replay:
        laws = dict.fromkeys(loss.law.name for loss in losses)
        raise UsageError(
            f"vary replay: no law of this plan reads replay ({', '.join(laws)}). Fit "
            f"cpt-dynamics-replay to runs at several mixes."
        )
    if reads_replay and given.replay is None and "replay" not in names:
        raise UsageError("the laws of this plan read replay. Give replay= (--replay), or vary it.")
    if "loss-potential" in names and not base:
        raise UsageError("vary loss-potential: the base model's schedule is not known. Give schedules= (--schedules).")
    ranges, most_steps = _ranges(values.get("ranges"), names), values.get("max_steps")
    variables = tuple(_variable(name, base, cpt, losses, ranges.get(name), most_steps) for name in names)
    if most_steps is not None and "steps" not in names and cpt.steps > most_steps:
        raise UsageError(f"max_steps is {most_steps:g}, but CPT has {cpt.steps} steps. Vary steps, or lower them.")
    return ScheduleRange(base, cpt, given.replay, variables)


def _names(vary: str | Iterable[str]) -> tuple[str, ...]:
    names = [item.strip() for item in vary.split(",")] if isinstance(vary, str) else [str(item) for item in vary]
    result = tuple(dict.fromkeys(name.replace("_", "-") for name in names if name))
    for name in result:
        if name not in MEANING:
            raise UsageError(
                f"vary (--vary): {name!r} is unknown. Expected {', '.join(MEANING)}.{did_you_mean(name, MEANING)}"
            )
    return result


def _known_phases(
    losses: Sequence[CurveLoss], schedules: SchedulesLike | None, run: str | None
) -> tuple[tuple[Phase, ...], Phase | None]:
    """Return the phases of pre-training and the CPT phase, where they are known."""
    result = _schedules(losses, schedules)
    if run is not None:
        if run not in result:
            raise UsageError(f"run={run!r} has no schedule.{did_you_mean(run, result)} Known: {', '.join(result)}.")
        result = {run: result[run]}
    # By their phases and not by name: most runs of a table start from the same few base models.
    bases: dict[tuple[Phase, ...], str] = {}  # with the first run of each
    for name, one in result.items():
        bases.setdefault(tuple(phase for phase in one.phases if phase.phase == "pretrain"), name)
    # Schedules of runs from several base models leave open which of them is continued.
    if len(bases) > 1:
        raise UsageError(
            f"the schedules have {len(bases)} different base models. Say for which the plan is: run= (--run), such as "
            f"{', '.join([*bases.values()][:8])}, each of another base model."
        )
    base = next(iter(bases)) if bases else ()
    phases = [one.phases[-1] for one in result.values() if one.phases[-1].phase == "cpt"]
    # A schedule that was logged point by point has no peak or decay that could be chosen anew.
    named = [phase for phase in phases if phase.points is None]
    if not base and any("s1_pretrain" in loss.law.areas_read or "s1" in loss.law.areas_read for loss in losses):
        raise UsageError(
            "the base model's schedule is not known, and the laws read it. Give schedules= (--schedules), a file with "
            "its pretrain phase."
        )
    return base, (named[0] if named else None)


def _schedules(losses: Sequence[CurveLoss], schedules: SchedulesLike | None) -> dict[str, Schedule]:
    if isinstance(schedules, Schedule):
        return {"the schedule": schedules}
    if isinstance(schedules, Mapping | str | Path):
        return read_schedules(schedules)
    if schedules is not None:
        raise UsageError("schedules: expected a Schedule, schedules by run, or a schedules file.")
    kept: dict[str, Schedule] = {}
    for loss in losses:
        kept |= loss.fit.schedules
    return kept


def _with_overrides(cpt: Phase | None, base: Sequence[Phase], overrides: Mapping[str, object]) -> Phase:
    """Return the CPT phase with what the user said of it."""
    values: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    goes_on = values.get("peak") == "base"
    if goes_on:
        del values["peak"]
    if cpt is None:
        peak = next((phase.peak for phase in base if phase.peak is not None), None)
        default: dict[str, Any] = {
            "phase": "cpt",
            "steps": DEFAULT_STEPS,
            "schedule": "cosine",
            "peak": None if goes_on else peak,
        }
        return Phase(**(default | values))
    kept = cpt.to_dict()
    if "steps" in values:
        ratio = parse_quantity(values["steps"], "steps") / cpt.steps
        for name in ("warmup", "decay"):
            if name in kept:
                kept[name] = max(1, round(kept[name] * ratio))
    # The end was said as a rate; with another peak it keeps its share of it.
    if "peak" in values and "end" in kept and cpt.peak:
        kept["end"] = kept["end"] / cpt.peak * parse_quantity(values["peak"], "peak")
    shape = values.get("schedule", cpt.schedule)
    if shape not in WITH_DECAY:
        kept.pop("decay", None)
    if shape not in WITH_END:
        kept.pop("end", None)
    if goes_on:
        kept.pop("peak", None)
        if kept.get("end"):
            raise UsageError("peak='base': the end of a schedule is a rate; give end=0 or a schedule without an end.")
    return Phase(**(kept | values))


def _ranges(
    ranges: Mapping[str, str | Iterable[float]] | Iterable[str] | None, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Read ``{"peak": (1e-5, 4e-4)}`` or ``["peak=1e-5:4e-4"]``."""
    if ranges is None:
        return {}
    pairs = ranges.items() if isinstance(ranges, Mapping) else (str(item).partition("=")[::2] for item in ranges)
    result = {}
    for name, value in pairs:
        if name not in names:
            raise UsageError(f"range (--range): {name!r} is not varied.{did_you_mean(str(name), names)}")
        ends: list[object] = [*(value.split(":") if isinstance(value, str) else value)]
        if len(ends) != 2:
            raise UsageError(f"range (--range) {name}: expected two ends, as in {name}=1e-5:4e-4.")
        low, high = (parse_quantity(end, f"range of {name}") for end in ends)
        if not low < high:
            raise UsageError(f"range (--range) {name}: {low:g} is not below {high:g}.")
        result[str(name)] = (low, high)
    return result


def _variable(
    name: str,
    base: Sequence[Phase],
    cpt: Phase,
    losses: Sequence[CurveLoss],
    given: tuple[float, float] | None,
    most_steps: float | None,
) -> Axis:
    if name == "peak":
        return _peak(base, cpt, losses, given)
    if name == "steps":
        high = most_steps or (4.0 * cpt.steps if given is None else given[1])
        # Ten times fewer to four times more: the law was fitted near these lengths, and the plan should stay where it
        # holds.
        low, high = given or (min(0.1 * cpt.steps, 0.1 * high), high)
        if most_steps is not None:
            high = min(high, most_steps)
        return Axis(name, max(1.0, math.floor(low)), math.floor(high), log=True)
    low, high = given or (_fitted_replay(losses) if name == "replay" else SHARES[name])
    if not 0 <= low < high <= 1:
        raise UsageError(f"range (--range) {name}: expected shares from 0 to 1, as in {name}=10%:50%.")
    return Axis(name, low, high)


def _peak(base: Sequence[Phase], cpt: Phase, losses: Sequence[CurveLoss], given: tuple[float, float] | None) -> Axis:
    """Return the peak rate: up to the base model's highest, and to one that more than a few fitted runs had."""
    top = max([phase.peak for phase in base if phase.peak is not None] or [cpt.peak or 0.0])
    if given is None and not top > 0:
        raise UsageError("vary peak: the base model's peak is not known. Give its range: --range peak=1e-5:4e-4.")
    low, high = given or (0.01 * top, min([top, *_measured_peaks(losses)]))
    if not low > 0:
        raise UsageError(f"range (--range) peak: {low:g} is not above 0. Expected ends such as 1e-5:4e-4.")
    return Axis("peak", low, high, log=True)


def _measured_peaks(losses: Sequence[CurveLoss]) -> list[float]:
    """Return the peak that a tenth of the fitted runs reach, for each loss that was fitted to runs of CPT.

    Where few runs had higher rates, laws of loss curves expect too little loss: `python -m studies dynamics_trained`.
    """
    found = []
    for loss in losses:
        runs = loss.fit.data["run"].astype(str).unique() if "run" in loss.fit.data else ()
        last = [loss.fit.schedules[run].phases[-1] for run in runs if run in loss.fit.schedules]
        peaks = [phase.peak for phase in last if phase.phase == "cpt" and phase.peak]
        if peaks:
            found.append(float(np.quantile(peaks, 1.0 - FEW, method="inverted_cdf")))
    return found


def _fitted_replay(losses: Sequence[CurveLoss]) -> tuple[float, float]:
    """Return the range of replay that the fits have seen, or nearly all of it where they have seen one mix."""
    seen = [loss.fit.data["replay"] for loss in losses if loss.reads_replay and "replay" in loss.fit.data]
    fitted = (min(float(s.min()) for s in seen), max(float(s.max()) for s in seen)) if seen else WIDE_REPLAY
    return fitted if fitted[0] < fitted[1] else WIDE_REPLAY
