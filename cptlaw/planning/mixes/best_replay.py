"""The replay with the lowest target loss where tokens follow from replay: what trade-off and limited data share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.mixes.expected import expected_at, fixed_fields, infeasible_fields
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.mixes.question import BestReplay
from cptlaw.planning.solve import Solution, certificate, solve
from cptlaw.units import format_percent

MORE = 1.02  # times the tokens, from which a mix with more replay is worth a word
ON_LIMIT = 1e-6  # nats per token, or of the base loss: distance from which a limit counts as binding


def lowest_target_loss(
    mix: FittedMix, tokens: Callable[[Array], Array], within: float = 0.0
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the fields of a plan that asks for `BestReplay`, and its findings."""
    solution = solve(BestReplay.of(mix, tokens=tokens, within=within), mix.risk)
    question, optimum = solution.question, solution.optimum
    fields, found = fixed_fields(mix), [*mix.findings, *solution.findings]
    # Nothing can block without a limit, so that it is the law that has no loss here.
    if not optimum.kept and not question.limits:
        raise UsageError(
            f"law {mix.target.spec} has no finite target loss at any replay of this model. Check n_params, ptpp and "
            f"tokens, and the findings of the fit."
        )
    if not optimum.kept:
        why = infeasible_fields(certificate(question, optimum.place))
        # Without limits any target loss may be bought, so that is what the target side could reach.
        free = replace(question, limits=()).optimum()
        why["best_reachable"] |= {"target_loss": free.value if free.kept else None}
        return fields | why, found
    at = question.mix_at(optimum.place[None])[0]
    values, noticed = expected_at(mix, float(at[0]), float(tokens(at)[0]))
    binding = [limit.name for limit in question.limits if question.best(limit, at)[0] >= limit.value - ON_LIMIT]
    fields |= {"feasible": True, "binding": tuple(binding), "price_of_doubt": _price(solution, within)}
    if within > 0:
        found += _more_replay(question, float(at[0]), float(values["target_loss"]))
    return fields | values, [*found, *noticed]


def _price(solution: Solution, within: float) -> float | None:
    """Return the price of doubt; a mix that a risk moves towards the lowest loss has none."""
    price = solution.price_of_doubt
    return price if price is None or not within else max(price, 0.0)


def _more_replay(question: BestReplay, replay: float, loss: float) -> list[Finding]:
    """Say what the lowest target loss would take, where fewer tokens come close to it."""
    lowest, _, value = replace(question, within=0.0).search()
    few, many = (float(question.tokens(np.array([share]))[0]) for share in (replay, lowest))
    if many <= MORE * few:
        return []
    return [
        Finding(
            "info",
            "more-replay-gains-little",
            f"replay {format_percent(lowest)} would have the lowest target loss, {100 * (1 - value / loss):.2g}% below "
            f"this plan's, for {many / few:.2g} times the tokens.",
            "Fewer tokens were preferred where two runs could hardly tell the losses apart.",
        )
    ]
