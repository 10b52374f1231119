"""The best learning-rate schedule of a CPT run: for a weight between the two losses, or under limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.laws.calculus import Array
from cptlaw.planning import asked
from cptlaw.planning.constrained_search import KEPT, Best, minimise_in_box
from cptlaw.planning.curve_side import CurveSide, shared_columns
from cptlaw.planning.limits import MEASURES, Measure
from cptlaw.planning.schedule_plan import NEAR, SchedulePlan
from cptlaw.planning.schedule_space import MEANING, Choice, Space, build_space

Goal = Literal["weighted", "target", "source", "steps"]
GOALS: tuple[Goal, ...] = ("weighted", "target", "source", "steps")
NEAR_POINTS = 41
ROUNDS = 6  # of search and look at the intervals, under a risk
SETTLED = 1e-5  # change of the log room that ends them


@dataclass(frozen=True)
class Limit:
    """A limit: its option, the quantity, and the most that is allowed."""

    name: str
    quantity: str
    value: float


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that decides how good a choice is.

    Parameters
    ----------
    target, source
        The fits; the source may be missing.
    space
        What may be chosen.
    goal, weight
        What is minimised.
    limits, measure, base_loss, risk
        Limits, how forgetting counts, the base model's measured source loss where given, and the probability with which
        limits hold.
    room
        Under a risk, by side: log of the upper end of a measured loss over the forecast, where it was last looked at.
    """

    target: CurveSide
    source: CurveSide | None
    space: Space
    goal: Goal
    weight: float
    limits: tuple[Limit, ...]
    measure: Measure
    base_loss: float | None
    risk: float | None
    room: Mapping[str, float] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[CurveSide, ...]:
        """The fits that there are."""
        return (self.target,) if self.source is None else (self.target, self.source)

    def quantities(self, choice: Choice) -> dict[str, float]:
        """Return losses where CPT starts and ends, forgetting and steps."""
        schedule = choice.schedule
        columns = shared_columns(self.sides, schedule, [schedule.n_pretrain, schedule.n_steps])
        found = {"steps": float(schedule.n_cpt)}
        for side in self.sides:
            start, end = side.losses(columns[side.reading], choice.replay)
            found[f"base_{side.role}_loss"], found[f"{side.role}_loss"] = float(start), float(end)
        if self.source is not None:
            if self.base_loss is not None:
                found["base_source_loss"] = self.base_loss
            found["forgetting"] = self.forgetting(found["source_loss"], found["base_source_loss"])
        return found

    def forgetting(self, loss: float, base: float) -> float:
        """Return the forgetting of a source loss."""
        return loss / base - 1.0 if self.measure == "relative" else loss - base

    def weighted(self, found: Mapping[str, float], start: str = "") -> float:
        """Return the weighted loss; `start` = ``"base_"`` for that of the base model."""
        loss = (1.0 - self.weight) * found[f"{start}target_loss"]
        return loss if self.source is None else loss + self.weight * found[f"{start}source_loss"]

    def value(self, found: Mapping[str, float], steps: float) -> float:
        """Return what is minimised; steps count by their logarithm."""
        if self.goal == "weighted":
            return self.weighted(found)
        return math.log(steps) if self.goal == "steps" else found[f"{self.goal}_loss"]

    def evaluate(self, u: Array) -> tuple[float, Array]:
        """Return the goal and the excess over each limit at a point of the unit box."""
        choice = self.space.at(u)
        found = self.quantities(choice)
        return self.value(found, choice.values.get("steps", found["steps"])), self.excess(choice, found)

    def excess(self, choice: Choice, found: Mapping[str, float] | None = None) -> Array:
        """Return by how much each limit is exceeded, (limits,), at the probability asked for."""
        if not self.limits:
            return np.zeros(0)
        reached = dict(self.quantities(choice) if found is None else found)
        for role, room in self.room.items():
            reached[f"{role}_loss"] *= math.exp(room)
        if "source" in self.room:
            reached["forgetting"] = self.forgetting(reached["source_loss"], reached["base_source_loss"])
        return np.array([reached[limit.quantity] - limit.value for limit in self.limits])

    def looked_at(self, choice: Choice) -> Question:
        """Return the question with the room that limits need at a choice, from the intervals of its forecasts.

        With a risk p the upper end of the central interval of coverage 2 p - 1 must keep a limit.

        Raises
        ------
        UsageError
            If a loss has no upper end: the data do not bound it.
        """
        if self.risk is None:
            return self
        limited = {"target" if limit.quantity == "target_loss" else "source" for limit in self.limits}
        room: dict[str, float] = {}
        for side in self.sides:
            if side.role in limited:
                values, _ = side.forecast(choice.schedule, choice.replay, 2.0 * self.risk - 1.0)
                if values[""] is None or values["_hi"] is None:
                    raise UsageError(
                        f"risk (--risk): the data do not bound the {side.role} loss from above. Add runs, hold "
                        f"parameters of its fit with --fix or --prior, or leave risk out."
                    )
                room[side.role] = math.log(values["_hi"] / values[""])
        return replace(self, room=room)


def schedule(
    target: Any,
    source: Any = None,
    *,
    weight_source: Any = None,
    vary: Any = ("peak",),
    ranges: Any = None,
    schedules: Any = None,
    run: str | None = None,
    shape: str | None = None,
    peak: Any = None,
    steps: Any = None,
    warmup: Any = None,
    decay: Any = None,
    end: Any = None,
    replay: Any = None,
    tokens_per_step: Any = None,
    n_params: Any = None,
    minimise: str | None = None,
    max_forgetting: Any = None,
    max_target_loss: Any = None,
    max_source_loss: Any = None,
    max_steps: Any = None,
    base_source_loss: Any = None,
    forgetting: str = "relative",
    risk: Any = None,
    interval: Any = 0.9,
    seed: int = 0,
) -> SchedulePlan:
    """Find the best CPT schedule for a weight between the losses, or under limits.

    With a weight, lambda_1 L_source + lambda_2 L_target at the last step is minimised (Wang et al. 2025, eq. 5,
    arXiv:2505.07796), with lambda_2 = 1 - lambda_1. Without one, the target loss is minimised under the limits; under
    a limit on the target loss alone the source loss; and where limits on both are given and steps may be chosen, steps.

    Parameters
    ----------
    target, source
        Fits of curve laws, or their files. The source may be missing where no limit and no weight needs it.
    weight_source
        lambda_1 in [0, 1].
    vary
        What may be chosen: peak, decay, end, rewarmup, replay, steps, loss-potential. Names, or one text with commas.
    ranges
        Other ranges, ``{"peak": (1e-5, 4e-4)}`` or ``["peak=1e-5:4e-4"]``. By default the peak lies between 1 % and
        100 % of that of pre-training, steps between a tenth and four times those of the schedule (or up to
        `max_steps`), replay within the fitted range, the re-warm-up between 0 and 30 % of the steps.
    schedules, run
        The schedules that are known: a file, a `Schedule`, or schedules by run; those of the fit where not given. Their
        pre-training is the base model's; the CPT phase is what stands where nothing is chosen. `run` names one where
        base models differ.
    shape, peak, steps, warmup, decay, end, replay, tokens_per_step
        The CPT phase where it is to differ from the known one, as in `cptlaw.schedules.Phase`; ``peak="base"`` goes on
        at the base model's last rate. Default: a cosine to 0 of 10,000 steps, at the peak of pre-training.
    n_params
        Where a law reads it.
    minimise
        ``"target"``, ``"source"``, ``"steps"`` or ``"weighted"``, where the rule above is not what you want.
    max_forgetting, max_target_loss, max_source_loss, max_steps
        Limits.
    base_source_loss, forgetting
        The base model's measured source loss (that of the law where not given: the laws are finite there), and whether
        forgetting is ``"relative"`` to it or ``"absolute"``.
    risk
        Probability above one half with which each limit holds for a measured loss: the upper end of the interval of
        coverage 2 risk - 1, as a forecast gives it, keeps the limit. The base model's loss counts as known.
    interval
        Coverage of the intervals of the losses; ``None`` for none.
    seed
        Of the scan.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.

    Notes
    -----
    The variables are those of the schedule, never the areas: areas are coupled by the schedule.
    """
    size = None if n_params is None else asked.positive(n_params, "n_params", "106M")
    target_side = CurveSide.build(target, "target", size)
    source_side = None if source is None else CurveSide.build(source, "source", size)
    sides = (target_side,) if source_side is None else (target_side, source_side)
    coverage = None if interval is None else asked.probability(interval, "interval")
    overrides = {"schedule": shape, "peak": peak, "warmup": warmup, "decay": decay, "end": end}
    overrides["tokens_per_step"] = tokens_per_step
    space = build_space(
        sides, vary, ranges, schedules, run, steps=steps, max_steps=max_steps, overrides=overrides, replay=replay
    )
    question = _question(
        target_side,
        source_side,
        space,
        weight_source=weight_source,
        minimise=minimise,
        max_forgetting=max_forgetting,
        max_target_loss=max_target_loss,
        max_source_loss=max_source_loss,
        base_source_loss=base_source_loss,
        forgetting=forgetting,
        risk=risk,
    )
    question, best, price = _settled(question, seed)
    common = {
        "goal": question.goal,
        "weight_source": question.weight if weight_source is not None else None,
        "forgetting_measure": question.measure,
        "risk": question.risk,
        "interval": coverage,
    }
    if not best.kept:
        return _infeasible(question, best, common, seed)
    return _answer(question, best, common | {"price_of_doubt": price}, coverage)


def _settled(question: Question, seed: int) -> tuple[Question, Best, float | None]:
    """Search, look at the intervals where the best choice lies, and search again until they do not move any more.

    Also returns the price of doubt: what the intervals add to what is minimised.
    """
    dimensions = len(question.space.variables)
    best = certain = minimise_in_box(question.evaluate, dimensions, seed)
    for _ in range(ROUNDS if question.risk is not None else 0):
        before, question = question.room, question.looked_at(question.space.at(best.u))
        if before and all(abs(question.room[role] - before[role]) <= SETTLED for role in before):
            break
        best = minimise_in_box(question.evaluate, dimensions, seed)
    if question.risk is None or not (best.kept and certain.kept):
        return question, best, None
    if question.goal == "steps":
        return question, best, math.exp(best.value) - math.exp(certain.value)
    return question, best, best.value - certain.value


def _question(
    target: CurveSide,
    source: CurveSide | None,
    space: Space,
    *,
    weight_source: Any,
    minimise: str | None,
    max_forgetting: Any,
    max_target_loss: Any,
    max_source_loss: Any,
    base_source_loss: Any,
    forgetting: str,
    risk: Any,
) -> Question:
    limits = []
    if max_forgetting is not None:
        limits.append(Limit("max-forgetting", "forgetting", asked.quantity(max_forgetting, "max_forgetting")))
    if max_source_loss is not None:
        limits.append(
            Limit("max-source-loss", "source_loss", asked.positive(max_source_loss, "max_source_loss", "2.1"))
        )
    if max_target_loss is not None:
        limits.append(
            Limit("max-target-loss", "target_loss", asked.positive(max_target_loss, "max_target_loss", "1.8"))
        )
    weight = None if weight_source is None else asked.share(weight_source, "weight_source")
    on_source = [limit.name for limit in limits if limit.quantity != "target_loss"]
    if source is None and (on_source or weight):
        what = on_source[0] if on_source else "a weight of the source loss"
        raise UsageError(f"{what} needs source= (--source), a fit of the source loss.")
    goal: Goal
    if minimise is not None:
        goal = asked.one_of(minimise, "minimise", GOALS)
    elif weight is not None:
        goal = "weighted"
    elif max_target_loss is not None and on_source and any(v.name == "steps" for v in space.variables):
        goal = "steps"
    else:
        goal = "source" if max_target_loss is not None and not on_source and source is not None else "target"
    if goal == "weighted" and weight is None:
        raise UsageError("minimise='weighted' needs weight_source= (--weight-source), such as 0.5.")
    if goal == "source" and source is None:
        raise UsageError("minimise='source' needs source= (--source), a fit of the source loss.")
    if goal == "steps" and not (limits and any(v.name == "steps" for v in space.variables)):
        raise UsageError("minimise='steps' needs a limit that steps help to keep, and --vary steps.")
    chance = None if risk is None else asked.probability(risk, "risk")
    if chance is not None:
        if chance <= 0.5:
            raise UsageError(f"risk (--risk): {risk!r}: expected a probability above one half, such as 0.9.")
        if not limits:
            raise UsageError("risk (--risk) is the probability with which limits hold, but no limit was given.")
        for side in (target, source):
            if side is not None and not side.can_draw:
                raise UsageError(
                    f"risk (--risk): the {side.role} fit has {side.fit.n_runs} runs, which cannot say how runs differ. "
                    f"Fit on at least three, or leave risk out."
                )
    base = None if base_source_loss is None else asked.positive(base_source_loss, "base_source_loss", "2.1")
    if base is not None and any(v.name == "loss-potential" for v in space.variables):
        raise UsageError(
            "base_source_loss is one base model's loss, but loss-potential asks for another base model. Leave one out."
        )
    measure = asked.one_of(forgetting, "forgetting", MEASURES)
    return Question(target, source, space, goal, weight or 0.0, tuple(limits), measure, base, chance)


def _answer(question: Question, best: Best, common: Mapping[str, Any], interval: float | None) -> SchedulePlan:
    choice = question.space.at(best.u)
    found = question.quantities(choice)
    cpt, whole = choice.cpt, choice.schedule
    losses: dict[str, Any] = {}
    findings: list[Finding] = []
    for side in question.sides:
        values, notes = side.forecast(whole, choice.replay, interval)
        losses |= {f"{side.role}_loss{end}": value for end, value in values.items()}
        losses[f"base_{side.role}_loss"] = found[f"base_{side.role}_loss"]
        findings += [*notes, *(item for item in side.fit.findings if item.code in _TELLING)]
    base_lr = whole.lr[: whole.n_pretrain + 1]
    weighted = question.weighted(found) if question.goal == "weighted" else None
    binding = [
        limit.name
        for limit, over in zip(question.limits, best.excess, strict=True)
        if over > -1e-4 * max(abs(limit.value), 1e-2)
    ]
    for variable, x in zip(question.space.variables, best.u, strict=True):
        if x <= 1e-6 or x >= 1 - 1e-6:
            word = "smallest" if x < 0.5 else "largest"
            binding.append(f"{variable.name} {word}")
            if variable.name != "steps" and 0 < variable.value(float(x)) != 1:
                findings.append(_at_edge(variable.name, variable.show(variable.value(float(x))), word))
    return SchedulePlan(
        feasible=True,
        **common,
        vary=dict(choice.values),
        near_best=_near(question, best),
        phases=tuple(whole.to_list()),
        peak=cpt.peak,
        end=float(whole.lr[-1]),
        warmup=cpt.warmup,
        decay=cpt.decay,
        steps=cpt.steps,
        replay=choice.replay if any(side.reads_replay for side in question.sides) else None,
        tokens=None if cpt.tokens_per_step is None else cpt.tokens_per_step * cpt.steps,
        loss_potential=float(base_lr[-1] / base_lr.max()) if whole.n_pretrain and base_lr.max() > 0 else None,
        **losses,
        weighted_loss=weighted,
        weighted_change=None if weighted is None else weighted - question.weighted(found, "base_"),
        forgetting=found.get("forgetting"),
        binding=tuple(binding),
        findings=by_severity(findings),
    )


_TELLING = ("degenerate-shift", "given-parameters", "not-converged", "rank-deficient")


def _at_edge(name: str, text: str, word: str) -> Finding:
    return Finding(
        "info",
        "choice-at-edge",
        f"the best {name} is the {word} one that was searched, {text}; a better one may lie beyond.",
        f"Widen the range with ranges= (--range {name}=LOW:HIGH), at the risk of extrapolating ({MEANING[name]}).",
    )


def _near(question: Question, best: Best) -> dict[str, tuple[float, float]]:
    """Return for each choice the range over which the goal stays near the best, the others held."""
    tolerance = NEAR if question.goal != "steps" else 0.02  # 2 % more steps
    found = {}
    for k, variable in enumerate(question.space.variables):
        allowed = [best.u[k]]
        for x in np.linspace(0.0, 1.0, NEAR_POINTS):
            u = best.u.copy()
            u[k] = x
            value, excess = question.evaluate(u)
            if value <= best.value + tolerance and np.all(excess <= KEPT):
                allowed.append(x)
        found[variable.name] = (variable.value(min(allowed)), variable.value(max(allowed)))
    return found


def _infeasible(question: Question, best: Best, common: Mapping[str, Any], seed: int) -> SchedulePlan:
    """Say which limits cannot be kept, and how far one can get."""
    reachable: dict[str, float | None] = {}
    blocking = []
    dimensions = len(question.space.variables)
    for k, limit in enumerate(question.limits):
        others = tuple(other for j, other in enumerate(question.limits) if j != k)
        without = replace(question, limits=others)
        alone = replace(question, limits=(limit,))

        def least(u: Array, without: Question = without, alone: Question = alone) -> tuple[float, Array]:
            choice = without.space.at(u)
            found = without.quantities(choice)
            return float(alone.excess(choice, found)[0]), without.excess(choice, found)

        lowest = minimise_in_box(least, dimensions, seed)
        reachable[limit.quantity] = lowest.value + limit.value if lowest.kept else None
        if lowest.kept:  # lifting this one alone makes a plan
            blocking.append(limit.name)
    names = blocking or [limit.name for limit, over in zip(question.limits, best.excess, strict=True) if over > KEPT]
    return SchedulePlan(
        feasible=False,
        **common,
        blocking=" or ".join(names) if blocking else " and ".join(names),
        best_reachable=reachable,
    )
