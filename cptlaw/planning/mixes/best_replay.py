"""The replay with the lowest target loss where tokens follow from replay: what trade-off and limited data share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.mixes.expected import Mix, planned, with_findings
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.solve import Best, Limit, Points, Space, solve
from cptlaw.units import format_percent

MORE = 1.02  # times the tokens, from which a mix with more replay is worth a word


def lowest_target_loss(mix: FittedMix, space: Space, make: Callable[..., Mix], within: float = 0.0) -> tuple[Mix, Best]:
    """Return the plan for the lowest target loss, and the best point.

    Parameters
    ----------
    space
        What may be chosen: points with ``replay`` and ``tokens``, and ``spent`` where repeated tokens count for less.
    make
        The kind of the plan.
    within
        Share of the lowest target loss by which the fewest tokens may miss it.
    """

    def search(limits: Sequence[Limit]) -> Best:
        lowest = solve(space, mix.target_loss, limits)
        # Nothing can block without a limit, so that it is the law that has no loss here.
        if not lowest.kept and not limits:
            raise UsageError(
                f"law {mix.target.spec} has no finite target loss at any replay of this model. Check n_params, ptpp "
                f"and tokens, and the findings of the fit."
            )
        if within <= 0 or not lowest.kept:
            return lowest
        near = Limit("within", (1.0 + within) * lowest.value, mix.target_loss)
        few = solve(space, spent, (*limits, near))
        return replace(few, value=float(mix.target_loss(few.points)[0])) if few.kept else lowest

    plan, best = planned(mix, space, mix.limits, search, {}, make)
    if not best.kept:
        # Without limits any target loss may be bought, so that is what the target side could reach.
        free = solve(space, mix.target_loss)
        reachable = {**(plan.best_reachable or {}), "target_loss": free.value if free.kept else None}
        plan = replace(plan, best_reachable=reachable)
    elif within > 0:
        plan = with_findings(plan, _more_replay(solve(space, mix.target_loss, mix.limits), best))
    return plan, best


def spent(points: Points) -> Array:
    """Return the tokens that are trained on, of which repeated ones may count for less."""
    return points.get("spent", points["tokens"])


def _more_replay(lowest: Best, best: Best) -> list[Finding]:
    """Say what the lowest target loss would take, where fewer tokens come close to it."""
    few, many = (one.point.get("spent", one.point["tokens"]) for one in (best, lowest))
    if many <= MORE * few:
        return []
    return [
        Finding(
            "info",
            "more-replay-gains-little",
            f"replay {format_percent(lowest.point['replay'])} would have the lowest target loss, "
            f"{100 * (1 - lowest.value / best.value):.2g}% below this plan's, for {many / few:.2g} times the tokens.",
            "Fewer tokens were preferred where two runs could hardly tell the losses apart.",
        )
    ]
