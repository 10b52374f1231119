"""The best learning-rate schedule of a CPT run: for a weight between the two losses, or under limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.laws.calculus import Array
from cptlaw.planning.descent import Domain
from cptlaw.planning.limits import (
    GivenLimit,
    LossLimit,
    Solution,
    build_limits,
    column,
    forgetting,
    iterate_margins,
    with_margin,
)
from cptlaw.planning.loss import EVEN, FitLike
from cptlaw.planning.mixes.expected import binding
from cptlaw.planning.points import drop_of, infeasible_fields, score_limits
from cptlaw.planning.scenario import PlanQuestion, documented, read_scenario
from cptlaw.planning.solve import Best, Limit, Points, Space, certificate, worst_excess
from cptlaw.runs.metrics import unit_of
from cptlaw_curves.planning.curve_loss import CurveLoss, shared_columns
from cptlaw_curves.planning.scenario import Goal, ScheduleOfRun
from cptlaw_curves.planning.schedule_plan import NEAR, SchedulePlan, show_choice
from cptlaw_curves.planning.scored import ScheduledScore, scheduled_scores
from cptlaw_curves.planning.space import MEANING, ScheduledMix, ScheduleRange, build_space

# Steps of a schedule are whole numbers: with finer differences their rounding would be taken for a slope.
STEP = 2e-3  # of the range of a choice
NEAR_POINTS = 41
NEAR_STEPS = 0.02  # 2 % more steps are near the fewest
AT_END = 1e-6  # of a range
Scheduled = TypeVar("Scheduled", CurveLoss, ScheduledScore)


def schedule(target: FitLike, source: FitLike | None = None, **scenario: Unpack[ScheduleOfRun]) -> SchedulePlan:
    """Find the best CPT schedule for a weight between the losses, or under limits.

    With a weight, lambda_1 L_source + lambda_2 L_target at the last step is minimised (Wang et al. 2025, eq. 5,
    arXiv:2505.07796), with lambda_2 = 1 - lambda_1. Without one, the target loss is minimised under the limits; under
    a limit on the target loss alone the source loss; and where limits on both are given and steps may be chosen, steps.

    Parameters
    ----------
    target, source
        Fits of curve laws, or their files. The source may be missing where no limit and no weight needs it.
    **scenario
        What may be chosen, within which ranges, what is known of the run, weight and limits. By default the peak lies
        between 1 % and 100 % of that of pre-training, steps between a tenth and four times those of the schedule (or up
        to `max_steps`), replay within the fitted range, the re-warm-up between 0 and 30 % of the steps. ``ranges`` may
        be ``{"peak": (1e-5, 4e-4)}`` or ``["peak=1e-5:4e-4"]``; ``schedules`` a file, a `Schedule`, or schedules by
        run. The CPT phase is what stands where nothing is chosen: a cosine to 0 of 10,000 steps at the peak of
        pre-training where none is known. Forgetting counts from `base_source_loss` or, without it, from the law's own
        loss where CPT starts. Limits in points are about `scores`, read off the losses at the schedule's end: of
        their ways only those through a loss of the plan count, for others see no schedule. Under a risk the base
        model's loss counts as known.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.

    Notes
    -----
    The variables are those of the schedule, never the areas: areas are coupled by the schedule.
    """
    given = read_scenario(ScheduleOfRun, scenario, "schedule")
    losses = {"target": CurveLoss.build(target, "target", given.n_params)}
    if source is not None:
        losses["source"] = CurveLoss.build(source, "source", given.n_params)
    range_ = build_space(list(losses.values()), given)
    names = [axis.name for axis in range_.variables]
    if given.base_source_loss is not None and "loss-potential" in names:
        raise UsageError(
            "base_source_loss is one base model's loss, but loss-potential asks for another base model. Leave one out."
        )
    scores, noticed = scheduled_scores(given.scores, list(losses.values()), given.n_params)
    question = ScheduleQuestion(given, losses, range_, tuple(scores.values()))
    in_points = score_limits(given, scores, question.limit, lambda score: score.base)
    limits = build_limits(given, losses, None, in_points, question.limit)
    goal = _goal(given, losses, "steps" in names, limits)
    value = partial(question.value, goal=goal)
    solution = iterate_margins(question.space, value, limits)
    common = {
        "goal": goal,
        "weight_source": given.weight_source,
        "forgetting_measure": given.forgetting,
        "risk": given.risk,
        "interval": given.interval,
        "unit": unit_of(*(loss.fit for loss in losses.values())),
        "_fits": tuple(loss.fit for loss in losses.values()),
    }
    if solution.best.kept:
        if given.risk is not None and solution.certain.kept:
            ends = (solution.best.value, solution.certain.value)  # steps count by their logarithm
            common["price_of_doubt"] = float(np.subtract(*(np.exp(ends) if goal == "steps" else ends)))
        return _answer(question, solution, value, common, noticed)
    why = infeasible_fields(certificate(question.space, solution.limits, solution.best, {}), solution.limits)
    return SchedulePlan(**common, **why, findings=(*solution.findings, *noticed))


@dataclass(frozen=True, eq=False)
class ScheduleQuestion:
    """What decides how good a schedule is.

    Parameters
    ----------
    given
        What was asked, as `read_scenario` returns it.
    losses
        By role; the source may be missing.
    range_
        What may be chosen.
    scores
        Scores that limits are about.
    """

    given: PlanQuestion
    losses: Mapping[str, CurveLoss]
    range_: ScheduleRange
    scores: tuple[ScheduledScore, ...] = ()

    @property
    def space(self) -> Space:
        """The choices, with what follows from each."""
        return Space(self.range_.variables, self._points, Domain(STEP, seed=self.given.seed))

    def chosen(self, point: Mapping[str, float]) -> ScheduledMix:
        """Return the schedule and the mix of one point."""
        return self.range_.with_values({axis.name: float(point[axis.name]) for axis in self.range_.variables})

    def _points(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        count = len(next(iter(columns.values()))) if columns else 1
        rows = [
            self.quantities(self.chosen({name: column[i] for name, column in columns.items()})) for i in range(count)
        ]
        return {**columns, **{name: np.array([row[name] for row in rows]) for name in rows[0]}}

    def quantities(self, chosen: ScheduledMix) -> dict[str, float]:
        """Return losses where CPT starts and ends, forgetting, the weighted loss and the logarithm of the steps."""
        schedule = chosen.schedule
        losses, weight = tuple(self.losses.values()), self.given.weight_source or 0.0
        columns = shared_columns(losses, schedule, [schedule.n_pretrain, schedule.n_steps])
        result = {"log steps": math.log(chosen.values.get("steps", schedule.n_cpt))}
        for loss in losses:
            start, end = loss.losses(columns[loss.reading], chosen.replay)
            result[f"base_{loss.role}_loss"], result[f"{loss.role}_loss"] = float(start), float(end)
        if "source" in self.losses and self.given.base_source_loss is not None:
            # A measured loss of the base model is better than the law's own where CPT starts.
            result["base_source_loss"] = self.given.base_source_loss
        for start_ in ("", "base_"):
            of_source = weight * result.get(f"{start_}source_loss", 0.0)
            result[f"{start_}weighted"] = (1.0 - weight) * result[f"{start_}target_loss"] + of_source
        return result | {f"{score.role}_loss": score.error_rate(result) for score in self.scores}

    def value(self, points: Points, goal: Goal) -> Array:
        """Return what is minimised at points, (n,); steps count by their logarithm."""
        return column(points, {"weighted": "weighted", "steps": "log steps"}.get(goal, f"{goal}_loss"))

    def limit(self, given: GivenLimit[Scheduled]) -> LossLimit:
        """Return a limit on a loss, on forgetting, or on a score."""
        loss = given.loss

        def of_base(points: Points, losses: Array) -> Array:
            return np.asarray(forgetting(losses, points["base_source_loss"], self.given.forgetting), dtype=float)

        def spread(points: Points) -> float:
            chosen = self.chosen({name: column[0] for name, column in points.items()})
            return loss.doubt(chosen.schedule, chosen.replay, given.risk or EVEN)

        forecast = partial(column, name=f"{loss.role}_loss")
        return with_margin(given, forecast, spread, of_base if given.about == "forgetting" else None)

    def near(self, solution: Solution, value: Callable[..., Array], tolerance: float) -> dict[str, tuple[float, float]]:
        """Return for each choice the range over which what is minimised stays near the best, the others held."""
        result = {}
        for axis in self.range_.variables:
            tried = axis.at(np.linspace(0.0, 1.0, NEAR_POINTS))
            point = {one.name: np.full(len(tried), solution.best.point[one.name]) for one in self.range_.variables}
            points = self._points({**point, axis.name: tried})
            good = (value(points) <= solution.best.value + tolerance) & (worst_excess(solution.limits, points) <= 0)
            allowed = [solution.best.point[axis.name], *tried[good].tolist()]
            result[axis.name] = (min(allowed), max(allowed))
        return result


def _goal(given: PlanQuestion, losses: Mapping[str, CurveLoss], steps_vary: bool, limits: Sequence[Limit]) -> Goal:
    """Return what is minimised: what was said, or what follows from the weight and the limits."""
    quantities, weight = {limit.about for limit in limits}, given.weight_source
    if weight and "source" not in losses:
        raise UsageError("a weight of the source loss needs source= (--source), a fit of the source loss.")
    goal: Goal
    if given.minimise is not None:
        goal = given.minimise
    elif weight is not None:
        goal = "weighted"
    elif "target_loss" in quantities and len(quantities) > 1 and steps_vary:
        goal = "steps"
    else:
        goal = "source" if quantities == {"target_loss"} and "source" in losses else "target"
    if goal == "weighted" and weight is None:
        raise UsageError("minimise='weighted' needs weight_source= (--weight-source), such as 0.5.")
    if goal == "source" and "source" not in losses:
        raise UsageError("minimise='source' needs source= (--source), a fit of the source loss.")
    if goal == "steps" and not (limits and steps_vary):
        raise UsageError("minimise='steps' needs a limit that steps help to keep, and --vary steps.")
    return goal


def _answer(
    question: ScheduleQuestion,
    solution: Solution,
    value: Callable[..., Array],
    common: Mapping[str, Any],
    noticed: Sequence[Finding],
) -> SchedulePlan:
    best, goal = solution.best, common["goal"]
    chosen, result = question.chosen(best.point), best.point
    cpt, whole = chosen.cpt, chosen.schedule
    fields: dict[str, Any] = {}
    findings = [*solution.findings, *noticed]
    for loss in question.losses.values():
        values, notes = loss.forecast(whole, chosen.replay, common["interval"])
        fields |= {f"{loss.role}_loss{end}": one for end, one in values.items()}
        fields[f"base_{loss.role}_loss"] = result[f"base_{loss.role}_loss"]
        findings += notes
    if "source" in question.losses:
        fields["forgetting"] = forgetting(result["source_loss"], result["base_source_loss"], question.given.forgetting)
    if goal == "weighted":
        fields |= {"weighted_loss": best.value, "weighted_change": best.value - result["base_weighted"]}
    ends, edges = _at_ends(question, best)
    base_lr = whole.lr[: whole.n_pretrain + 1]
    return SchedulePlan(
        feasible=True,
        **common,
        vary=dict(chosen.values),
        # Optima of schedules are flat: a peak without its width would promise more than the laws know.
        near_best=question.near(solution, value, NEAR_STEPS if goal == "steps" else NEAR),
        phases=tuple(whole.to_list()),
        peak=cpt.peak,
        end=float(whole.lr[-1]),
        warmup=cpt.warmup,
        decay=cpt.decay,
        steps=cpt.steps,
        replay=chosen.replay if any(loss.reads_replay for loss in question.losses.values()) else None,
        tokens=None if cpt.tokens_per_step is None else cpt.tokens_per_step * cpt.steps,
        loss_potential=float(base_lr[-1] / base_lr.max()) if whole.n_pretrain and base_lr.max() > 0 else None,
        **fields,
        scores={
            score.role: score.forecast(whole, chosen.replay, common["interval"])
            | drop_of(score.role, result[f"{score.role}_loss"], solution.limits)
            for score in question.scores
        },
        binding=(*binding(solution.limits, best), *ends),
        findings=(*findings, *edges),
    )


def _at_ends(question: ScheduleQuestion, best: Best) -> tuple[list[str], list[Finding]]:
    """Name the ends of ranges at which the best lies, with findings about these."""
    result, findings = [], []
    for axis in question.range_.variables:
        value = best.point[axis.name]
        low, high = (abs(value - end) <= AT_END * (axis.high - axis.low) for end in (axis.low, axis.high))
        if low or high:
            word = "smallest" if low else "largest"
            result.append(f"{axis.name} {word}")
            if axis.name != "steps" and 0 < value != 1:
                findings.append(_at_edge(axis.name, show_choice(axis.name, value), word))
    return result, findings


def _at_edge(name: str, text: str, word: str) -> Finding:
    if (name, word) == ("peak", "largest"):  # trained: studies/dynamics.md, "Schedules that were trained"
        return Finding(
            "warning",
            "peak-at-edge",
            f"the best peak is the largest one that was searched, {text}: where few fitted runs had such rates, laws "
            f"of loss curves expect too little loss. Of two plans that were trained, the one at the edge lost to half "
            f"of its peak.",
            "Train half of that peak beside it, or search below it.",
            remedy=Remedy("ranges", f"peak=LOW:{text}"),
        )
    return Finding(
        "info",
        "choice-at-edge",
        f"the best {name} is the {word} one that was searched, {text}; a better one may lie beyond.",
        f"Widen its range, at the risk of extrapolating: {MEANING[name]}.",
        remedy=Remedy("ranges", f"{name}=LOW:HIGH"),
    )


documented(schedule, ScheduleOfRun)
