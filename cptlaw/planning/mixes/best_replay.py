"""The replay with the lowest target loss where tokens follow from replay: what trade-off and limited data share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.mixes.expected import binding, expected_at, fixed_fields, infeasible_fields
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.solve import Best, Limit, Space, certificate, solve
from cptlaw.units import format_percent

MORE = 1.02  # times the tokens, from which a mix with more replay is worth a word


def lowest_target_loss(
    mix: FittedMix, tokens: Callable[[Array], Array], within: float = 0.0
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the fields of a plan for the lowest target loss, and its findings.

    Parameters
    ----------
    tokens
        Tokens of the whole mix at each replay, (n,) to (n,).
    within
        Share of the lowest target loss by which the fewest tokens may miss it.
    """
    space = Space((mix.axis(),), lambda chosen: {**chosen, "tokens": tokens(chosen["replay"])})
    best = solve(space, mix.target_loss, mix.limits)
    fields, result = fixed_fields(mix), list(mix.findings)
    # Nothing can block without a limit, so that it is the law that has no loss here.
    if not best.kept and not mix.limits:
        raise UsageError(
            f"law {mix.target.spec} has no finite target loss at any replay of this model. Check n_params, ptpp and "
            f"tokens, and the findings of the fit."
        )
    if not best.kept:
        why = infeasible_fields(certificate(space, mix.limits, best, mix.wider(space)))
        # Without limits any target loss may be bought, so that is what the target side could reach.
        free = solve(space, mix.target_loss)
        why["best_reachable"] |= {"target_loss": free.value if free.kept else None}
        return fields | why, result
    lowest, best = best, _fewest(space, mix, mix.limits, best, within)
    values, noticed = expected_at(mix, best.point["replay"], best.point["tokens"])
    fields |= {
        "feasible": True,
        "binding": binding(mix.limits, best),
        "price_of_doubt": _price(space, mix, best, within),
    }
    if within > 0:
        result += _more_replay(lowest, best)
    return fields | values, [*result, *noticed]


def _fewest(space: Space, mix: FittedMix, limits: tuple[Limit, ...], lowest: Best, within: float) -> Best:
    """Return the fewest tokens whose target loss is so near the lowest."""
    if within <= 0 or not lowest.kept:
        return lowest
    near = Limit("within", (1.0 + within) * lowest.value, mix.target_loss)
    solution = solve(space, lambda points: points["tokens"], (*limits, near))
    return replace(solution, value=float(mix.target_loss(solution.points)[0])) if solution.kept else lowest


def _price(space: Space, mix: FittedMix, best: Best, within: float) -> float | None:
    """Return by how much doubt raises the target loss; a mix that a risk moves towards the lowest has no price."""
    if mix.risk is None:
        return None
    plain = tuple(limit.plain() for limit in mix.limits)
    certain = _fewest(space, mix, plain, solve(space, mix.target_loss, plain), within)
    price = best.value - certain.value
    return (max(price, 0.0) if within else price) if certain.kept else None


def _more_replay(lowest: Best, best: Best) -> list[Finding]:
    """Say what the lowest target loss would take, where fewer tokens come close to it."""
    few, many = best.point["tokens"], lowest.point["tokens"]
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
