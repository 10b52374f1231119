"""The question of the best schedule: what is minimised over schedules and mixes, under which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import Limit, forgetting
from cptlaw.planning.scenario import Goal, Measure
from cptlaw.planning.schedules.box import KEPT, Best, minimise_in_box
from cptlaw.planning.schedules.curve_loss import CurveLoss, shared_columns
from cptlaw.planning.schedules.scored import ScheduledScore
from cptlaw.planning.schedules.space import ScheduledMix, Space
from cptlaw.planning.settle import Optimum, without


@dataclass(frozen=True, eq=False)
class ScheduleQuestion:
    """Everything that decides how good a schedule is. Coordinates are shares of the ranges of what may be chosen.

    Parameters
    ----------
    target, source
        The losses; the source may be missing.
    space
        What may be chosen.
    goal, weight
        What is minimised.
    limits, measure, base_loss
        Limits, how forgetting counts, and the base model's measured source loss where given.
    seed
        Of the scan.
    scores
        Scores that limits are about.
    """

    target: CurveLoss
    source: CurveLoss | None
    space: Space
    goal: Goal
    weight: float
    limits: tuple[Limit, ...]
    measure: Measure
    base_loss: float | None
    seed: int
    scores: tuple[ScheduledScore, ...] = ()

    @property
    def losses(self) -> tuple[CurveLoss, ...]:
        """The losses that there are."""
        return (self.target,) if self.source is None else (self.target, self.source)

    def quantities(self, chosen: ScheduledMix) -> dict[str, float]:
        """Return losses where CPT starts and ends, forgetting and steps."""
        schedule = chosen.schedule
        columns = shared_columns(self.losses, schedule, [schedule.n_pretrain, schedule.n_steps])
        found = {"steps": float(schedule.n_cpt)}
        for loss in self.losses:
            start, end = loss.losses(columns[loss.reading], chosen.replay)
            found[f"base_{loss.role}_loss"], found[f"{loss.role}_loss"] = float(start), float(end)
        if self.source is not None:
            if self.base_loss is not None:
                # A measured loss of the base model is better than the law's own where CPT starts.
                found["base_source_loss"] = self.base_loss
            found["forgetting"] = forgetting(found["source_loss"], found["base_source_loss"], self.measure)
        return found | {f"{score.role}_loss": score.error_rate(found) for score in self.scores}

    def weighted(self, found: Mapping[str, float], start: str = "") -> float:
        """Return the weighted loss; `start` = ``"base_"`` for that of the base model."""
        loss = (1.0 - self.weight) * found[f"{start}target_loss"]
        return loss if self.source is None else loss + self.weight * found[f"{start}source_loss"]

    def value(self, chosen: ScheduledMix, found: Mapping[str, float]) -> float:
        """Return what is minimised; steps count by their logarithm."""
        if self.goal == "weighted":
            return self.weighted(found)
        return (
            math.log(chosen.values.get("steps", found["steps"])) if self.goal == "steps" else found[f"{self.goal}_loss"]
        )

    def limited(self, limit: Limit, found: Mapping[str, float], place: Array) -> float:
        """Return a limited quantity where the forecasts are `found`, as its margin at the place has it."""
        upper = float(limit.upper(np.array([found[f"{limit.loss.role}_loss"]]), place[None])[0])
        if limit.quantity == "points" and limit.forgetting is not None:
            return float(limit.forgetting.of(upper))
        if limit.quantity != "forgetting":
            return upper
        return float(forgetting(upper, found["base_source_loss"], self.measure))

    def evaluate(self, place: Array) -> tuple[float, Array]:
        """Return what is minimised and the excess over each limit at a place."""
        chosen = self.space.at(place)
        found = self.quantities(chosen)
        excess = [self.limited(limit, found, place) - limit.value for limit in self.limits]
        return self.value(chosen, found), np.array(excess)

    def best(self) -> Best:
        """Return the best place of the box."""
        return minimise_in_box(self.evaluate, len(self.space.variables), self.seed)

    # -- as `cptlaw.planning.settle` asks it

    def optimum(self) -> Optimum:
        """Return the best place, or the one that comes nearest to keeping the limits; steps are counted as such."""
        best = self.best()
        value = math.exp(best.value) if self.goal == "steps" else best.value
        return Optimum(best.u, value if best.kept else math.inf)

    def reached(self, limit: Limit, places: Array) -> Array:
        """Return a limited quantity at places, (n, d) to (n,)."""
        return np.array([self.limited(limit, self.quantities(self.space.at(place)), place) for place in places])

    def around(self, place: Array) -> Array:
        """Return the place itself: a look at the doubt about a whole curve is dear, and margins vary slowly."""
        return place[None]

    def learned(self, limit: Limit, places: Array) -> Limit:
        """Return a limit with its doubt at the last of the places."""
        if not limit.doubtful or limit.risk is None:
            return limit
        chosen = self.space.at(places[-1])
        margins = limit.loss.margins(chosen.schedule, chosen.replay, limit.risk)
        # Only the newest place: margins of whole curves vary slowly, and each look costs a profile.
        return replace(limit, margin=None).learned(places[-1:], *margins)

    def lifted(self) -> dict[str, Any]:
        """Return the questions with one limit less."""
        return {limit.name: without(self, limit) for limit in self.limits}

    def lowest(self, limit: Limit, others: Any) -> float:
        """Return the lowest value of a limited quantity with the other limits kept; infinity where they cannot be."""

        def least(place: Array) -> tuple[float, Array]:
            found = self.quantities(self.space.at(place))
            excess = [self.limited(other, found, place) - other.value for other in others.limits]
            return self.limited(limit, found, place), np.array(excess)

        best = minimise_in_box(least, len(self.space.variables), self.seed)
        return best.value if best.kept else math.inf

    def feasible_from(self, name: str, lifted: Any, optimum: Optimum) -> float:
        """Refuse: limits are all that bounds a schedule."""
        raise NotImplementedError(name)

    def near(self, best: Best, tolerance: float, points: int) -> dict[str, tuple[float, float]]:
        """Return for each variable the range over which what is minimised stays near the best, the others held."""
        found = {}
        for k, variable in enumerate(self.space.variables):
            allowed = [best.u[k]]
            for share in np.linspace(0.0, 1.0, points):
                place = best.u.copy()
                place[k] = share
                value, excess = self.evaluate(place)
                if value <= best.value + tolerance and np.all(excess <= KEPT):
                    allowed.append(share)
            found[variable.name] = (variable.value(min(allowed)), variable.value(max(allowed)))
        return found
