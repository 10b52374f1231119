"""The replay with the lowest target loss where tokens follow from replay: what trade-off and limited data share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.mixes.expected import expected_at, fixed_fields, infeasible_fields
from cptlaw.planning.mixes.mix import Mix
from cptlaw.planning.mixes.question import BestReplay
from cptlaw.planning.solve import certificate, solve

ON_LIMIT = 1e-6  # nats per token, or of the base loss: distance from which a limit counts as binding


def lowest_target_loss(mix: Mix, tokens: Callable[[Array], Array]) -> tuple[dict[str, Any], list[Finding]]:
    """Return the fields of a plan that minimises the target loss over replay, and its findings.

    Parameters
    ----------
    mix
        The scenario.
    tokens
        Tokens of the whole mix at each replay, (n,) to (n,).
    """
    solution = solve(BestReplay.of(mix, tokens=tokens), mix.risk)
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
    fields |= {"feasible": True, "binding": tuple(binding), "price_of_doubt": solution.price_of_doubt}
    return fields | values, [*found, *noticed]
