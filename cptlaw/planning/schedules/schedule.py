"""The best learning-rate schedule of a CPT run: for a weight between the two losses, or under limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.planning.limits import Limit, build_limits
from cptlaw.planning.points import drop_of, reached_names, score_limits
from cptlaw.planning.scenario import Goal, ScheduleOfRun, documented, read_scenario
from cptlaw.planning.schedules.box import Best
from cptlaw.planning.schedules.curve_loss import CurveLoss
from cptlaw.planning.schedules.question import ScheduleQuestion
from cptlaw.planning.schedules.schedule_plan import NEAR, SchedulePlan
from cptlaw.planning.schedules.scored import scheduled_scores
from cptlaw.planning.schedules.space import MEANING, Space, build_space
from cptlaw.planning.settle import certificate, solve
from cptlaw.runs.metrics import unit_of

NEAR_POINTS = 41
NEAR_STEPS = 0.02  # 2 % more steps are near the fewest
ON_LIMIT = 1e-4  # relative distance from which a limit counts as binding
TELLING = ("degenerate-shift", "given-parameters", "not-converged", "rank-deficient")


def schedule(target: Any, source: Any = None, **scenario: Unpack[ScheduleOfRun]) -> SchedulePlan:
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
    space = build_space(list(losses.values()), given, given)
    scores, noticed = scheduled_scores(given.scores, list(losses.values()), given.n_params)
    in_points = score_limits(given, scores, given.risk, lambda score: score.base)
    limits = tuple(build_limits(ScheduleOfRun, given, losses, None, in_points, Limit))
    if given.base_source_loss is not None and any(v.name == "loss-potential" for v in space.variables):
        raise UsageError(
            "base_source_loss is one base model's loss, but loss-potential asks for another base model. Leave one out."
        )
    question = ScheduleQuestion(
        target=losses["target"],
        source=losses.get("source"),
        space=space,
        goal=_goal(given, losses, space, limits),
        weight=given.weight_source or 0.0,
        limits=limits,
        measure=given.forgetting,
        base_loss=given.base_source_loss,
        seed=given.seed,
        scores=tuple(scores.values()),
    )
    solution = solve(question, given.risk)
    common = {
        "goal": question.goal,
        "weight_source": given.weight_source,
        "forgetting_measure": question.measure,
        "risk": given.risk,
        "interval": given.interval,
        "unit": unit_of(*(loss.fit for loss in losses.values())),
    }
    if solution.optimum.kept:
        common["price_of_doubt"] = solution.price_of_doubt
        return _answer(solution.question, solution.optimum.place, common, [*solution.findings, *noticed])
    why = certificate(solution.question, solution.optimum.place)
    quantities = {limit.name: limit.quantity for limit in limits if limit not in in_points}
    reachable = {quantities[name]: value for name, value in why.lowest.items() if name in quantities}
    reachable |= reached_names(why.lowest)
    return SchedulePlan(
        feasible=False,
        **common,
        blocking=" and ".join(why.blocking),
        best_reachable={name: value if math.isfinite(value) else None for name, value in reachable.items()},
        findings=by_severity([*solution.findings, *noticed]),
    )


def _goal(given: Any, losses: Mapping[str, CurveLoss], space: Space, limits: Sequence[Limit]) -> Goal:
    """Return what is minimised: what was said, or what follows from the weight and the limits."""
    quantities, weight = {limit.quantity for limit in limits}, given.weight_source
    steps_vary = any(variable.name == "steps" for variable in space.variables)
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
    question: ScheduleQuestion, place: Any, common: Mapping[str, Any], noticed: Sequence[Finding]
) -> SchedulePlan:
    chosen = question.space.at(place)
    best = Best(place, *question.evaluate(place))
    found = question.quantities(chosen)
    cpt, whole = chosen.cpt, chosen.schedule
    fields: dict[str, Any] = {}
    findings = list(noticed)
    for loss in question.losses:
        values, notes = loss.forecast(whole, chosen.replay, common["interval"])
        fields |= {f"{loss.role}_loss{end}": value for end, value in values.items()}
        fields[f"base_{loss.role}_loss"] = found[f"base_{loss.role}_loss"]
        findings += [*notes, *(item for item in loss.fit.findings if item.code in TELLING)]
    binding, edges = _binding(question, best)
    base_lr = whole.lr[: whole.n_pretrain + 1]
    weighted = question.weighted(found) if question.goal == "weighted" else None
    return SchedulePlan(
        feasible=True,
        **common,
        vary=dict(chosen.values),
        # Optima of schedules are flat: a peak without its width would promise more than the laws know.
        near_best=question.near(best, NEAR_STEPS if question.goal == "steps" else NEAR, NEAR_POINTS),
        phases=tuple(whole.to_list()),
        peak=cpt.peak,
        end=float(whole.lr[-1]),
        warmup=cpt.warmup,
        decay=cpt.decay,
        steps=cpt.steps,
        replay=chosen.replay if any(loss.reads_replay for loss in question.losses) else None,
        tokens=None if cpt.tokens_per_step is None else cpt.tokens_per_step * cpt.steps,
        loss_potential=float(base_lr[-1] / base_lr.max()) if whole.n_pretrain and base_lr.max() > 0 else None,
        **fields,
        weighted_loss=weighted,
        weighted_change=None if weighted is None else weighted - question.weighted(found, "base_"),
        forgetting=found.get("forgetting"),
        scores={
            score.role: score.forecast(whole, chosen.replay, common["interval"])
            | drop_of(score.role, found[f"{score.role}_loss"], question.limits)
            for score in question.scores
        },
        binding=binding,
        findings=by_severity([*findings, *edges]),
    )


def _binding(question: ScheduleQuestion, best: Best) -> tuple[tuple[str, ...], list[Finding]]:
    """Name the limits that are met exactly and the ends of ranges at which the best lies, with findings about these."""
    found = [
        limit.name
        for limit, over in zip(question.limits, best.excess, strict=True)
        if over > -ON_LIMIT * max(abs(limit.value), 1e-2)
    ]
    findings = []
    for variable, share in zip(question.space.variables, best.u, strict=True):
        if not 1e-6 < share < 1 - 1e-6:
            word = "smallest" if share < 0.5 else "largest"
            found.append(f"{variable.name} {word}")
            value = variable.value(float(share))
            if variable.name != "steps" and 0 < value != 1:
                findings.append(_at_edge(variable.name, variable.show(value), word))
    return tuple(found), findings


def _at_edge(name: str, text: str, word: str) -> Finding:
    return Finding(
        "info",
        "choice-at-edge",
        f"the best {name} is the {word} one that was searched, {text}; a better one may lie beyond.",
        f"Widen its range, at the risk of extrapolating: {MEANING[name]}.",
        remedy=Remedy("ranges", f"{name}=LOW:HIGH"),
    )


documented(schedule, ScheduleOfRun)
