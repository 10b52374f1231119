"""The fewest tokens, and the replay, that keep limits on forgetting and losses (arXiv:2510.23198, section on planning).

For each replay r a limit k needs D_k(r) tokens, in closed form; a mix needs D(r) = max_k D_k(r); the plan is the least
D(r). At a fixed model size that is also the fewest FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.planning.mixes.expected import at_edge, best_of, expected_at, fixed_fields, infeasible_fields
from cptlaw.planning.mixes.fewest import FewestTokens
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.mixes.question import OUT_OF_REACH, ROUNDING
from cptlaw.planning.mixes.repetition import read_often
from cptlaw.planning.mixes.saving import Saving, saving
from cptlaw.planning.result import MixPlan, quantity_text
from cptlaw.planning.scenario import MinTokens, documented, read_scenario
from cptlaw.planning.solve import Solution, certificate, solve
from cptlaw.result import Line
from cptlaw.units import format_percent, format_quantity

ON_LIMIT = 1e-6  # share of the tokens without which a binding limit fails


@dataclass(frozen=True, repr=False)
class MinTokensPlan(MixPlan):
    """Answer of `min_tokens`. See `MixPlan` for the attributes that all mixes share.

    Attributes
    ----------
    saving
        With `risk`: the runs that would pay for themselves by narrowing the intervals, and what they save.
    unique_target_tokens, repetition, target_epochs
        The unique target tokens that there are, what is said of repeating them, and how often the plan reads them.
    effective_tokens
        With repeated target tokens: unique tokens that would be worth as much as `tokens`.
    max_tokens
        The tokens that may be spent, where that was said.
    """

    saving: Saving | None = None
    unique_target_tokens: float | None = None
    repetition: str | None = None
    target_epochs: float | None = None
    effective_tokens: float | None = None
    max_tokens: float | None = None

    def _question(self) -> str:
        return "Fewest tokens"

    def _price(self, value: float) -> str:
        return f"{quantity_text(value)} tokens"

    def _reach(self) -> str:
        if self.unique_target_tokens is not None and self.repetition == "forbid":
            return " with all target tokens"
        return " in the limit of many tokens" if self.max_tokens is None else " with all tokens"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        lines = super().lines
        if self.target_epochs is not None:
            lines.append(
                (
                    "target data",
                    f"{quantity_text(self.unique_target_tokens)} tokens, read {self.target_epochs:.3g} times",
                )
            )
        if self.saving is not None:
            lines.append(("next runs", _saving_text(self.saving)))
        return lines


def _saving_text(found: Saving) -> str:
    if not found.cells:
        return f"none within {quantity_text(found.budget)} FLOPs, the price of doubt, would pay for themselves"
    return (
        f"{len(found.cells)} for {quantity_text(found.flops)} FLOPs would save about "
        f"{quantity_text(found.saved_tokens)} tokens ({quantity_text(found.saved_flops)} FLOPs)"
    )


def min_tokens(target: Any, source: Any = None, **scenario: Unpack[MinTokens]) -> MinTokensPlan:
    """Find the fewest adaptation tokens, and the replay, that keep limits on forgetting and losses.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files. Limits on the source side need `source`.
    **scenario
        The model and the limits, at least one of them. Numbers, or text such as ``"8.1B"``, as everywhere here. With a
        risk the plan says what that costs in tokens (`price_of_doubt`) and, unless ``savings=False``, which next runs
        would pay for themselves, as `cptlaw.suggest` does.

    Returns
    -------
    MinTokensPlan
        With ``feasible=False``, the limits that block and the best values within reach, where no mix will do.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.

    Notes
    -----
    Tokens are never fewer than the smallest fitted ones: below them nothing was measured. Minimises ATPP, D / N, of
    Goffinet et al. 2025 (arXiv:2510.23198); exact to 1e-6. Repeated target tokens are worth what Muennighoff et al.
    2023 (arXiv:2305.16264) found.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    >>> target, source = (cl.fit("ptpp-floor", runs, on=eval, where=rows) for eval in ("target", "source"))
    >>> plan = cl.plan.min_tokens(
    ...     target, source, n_params=124672, ptpp=279, max_forgetting="18%", max_target_loss=1.75, interval=None
    ... )
    >>> plan.feasible, plan.binding
    (True, ('max-forgetting', 'max-target-loss'))
    """
    given = read_scenario(MinTokens, scenario, "min-tokens")
    limited = {"max_forgetting", "max_target_loss", "max_source_loss"} & given.given
    if not (limited or given.min_score or given.max_drop):
        raise UsageError(
            "min-tokens needs a limit: max_forgetting (--max-forgetting), max_target_loss (--max-target-loss), "
            "max_source_loss, min_score (--min) or max_drop. Without one, no tokens at all are the fewest."
        )
    plans = [plan_of(mix) for mix in build_mixes(MinTokens, given, target, source)]
    found: MinTokensPlan = best_of(plans, "tokens")
    return found


def question_of(mix: FittedMix) -> FewestTokens:
    """Return the question that a scenario asks.

    Raises
    ------
    UsageError
        If no law of it reads tokens.
    """
    if not any(loss.reads("tokens") for loss in mix.losses):
        specs = " and ".join(loss.spec for loss in mix.losses)
        raise UsageError(
            f"min-tokens asks for tokens, which {specs} does not read. Fit a law of tokens, such as ptpp-floor or "
            f"dcpt-l3, or ask for the replay at given tokens with trade-off."
        )
    given = mix.given
    ceiling = np.inf if given.max_tokens is None else given.max_tokens
    # Below the fewest fitted tokens laws claim that losses only fall, while forgetting sets in there.
    least = min(mix.smallest_fitted_tokens, ceiling)
    return FewestTokens.of(
        mix, least=least, ceiling=ceiling, unique=given.unique_target_tokens, repetition=given.repetition
    )


def plan_of(mix: FittedMix, explained: bool = True) -> MinTokensPlan:
    """Answer the question for one mix; unless `explained`, what blocks where nothing will do is not searched for."""
    solution = solve(question_of(mix), mix.risk)
    question, optimum, certain = solution.question, solution.optimum, solution.certain
    fields = fixed_fields(mix) | {"unique_target_tokens": question.unique, "max_tokens": mix.given.max_tokens}
    if question.unique is not None:
        fields["repetition"] = question.repetition
    found = [*mix.findings, *solution.findings]
    if not optimum.kept:
        if certain is not None and certain.kept:
            found.append(_doubt_decides(certain.value, float(question.mix_at(certain.place[None])[0][0])))
        why = infeasible_fields(certificate(question, optimum.place)) if explained else {"feasible": False}
        return MinTokensPlan(findings=by_severity(found), **fields, **why)
    replay, tokens = float(question.mix_at(optimum.place[None])[0][0]), optimum.value
    counted = float(question.counted(tokens, replay))
    values, noticed = expected_at(mix, replay, tokens, counted)
    if question.unique is not None:
        fields["target_epochs"] = (1.0 - replay) * tokens / question.unique
        found += read_often({"the target corpus": fields["target_epochs"]})
    return MinTokensPlan(
        feasible=True,
        binding=_binding(question, replay, tokens),
        effective_tokens=counted if question.discounts else None,
        price_of_doubt=solution.price_of_doubt,
        saving=_saving(mix, solution, replay, counted),
        findings=by_severity(
            [*found, *noticed, *at_edge(mix, replay), *_at_floor(question, tokens), *_far(mix, tokens)]
        ),
        **fields,
        **values,
    )


def _saving(mix: FittedMix, solution: Solution, replay: float, counted: float) -> Saving | None:
    """Return which next runs would pay for themselves, where that was not declined and the doubt is settled."""
    price, risk = solution.price_of_doubt, mix.risk
    if not mix.given.savings or price is None or risk is None or risk <= 0.5 or solution.findings:
        return None
    question = solution.question
    if mix.scores:  # what next runs would change of a score goes through its losses, which plans of their own ask
        return None
    return saving(
        question.limits,
        (replay, counted),
        price,
        2.0 * risk - 1.0,
        lambda limits: replace(question, limits=limits).optimum().value,
    )


def _binding(question: FewestTokens, replay: float, tokens: float) -> tuple[str, ...]:
    """Name what keeps the tokens from being fewer."""
    mix, at = question.mix, np.array([replay])
    # What fails as soon as tokens are a little fewer binds; a comparison with the limit itself would hang on its last
    # digit.
    fewer = question.counted(np.array([tokens * (1.0 - ON_LIMIT)]), at)
    found = [limit.name for limit in question.limits if question.reached_at(limit, at, fewer)[0] > limit.value]
    if tokens <= question.least * (1.0 + ROUNDING):
        found.append("smallest-fitted-tokens")
    if question.unique is not None and (1.0 - replay) * tokens >= question.unique * (1.0 - ON_LIMIT):
        found.append("unique-target-tokens")
    # A range of one replay was not chosen, so that its ends keep nothing from being better.
    if mix.low < mix.high:
        for end, name in ((mix.low, "min_replay"), (mix.high, "max_replay")):
            if name in mix.given.given and abs(replay - end) <= 1e-9:
                found.append(name.replace("_", "-"))
    return tuple(found)


def _at_floor(question: FewestTokens, tokens: float) -> tuple[Finding, ...]:
    if tokens > question.least * (1.0 + ROUNDING):
        return ()
    return (
        Finding(
            "info",
            "smallest-fitted-tokens",
            f"all limits already hold at {format_quantity(tokens)} tokens, the fewest that the fits have seen. Below "
            f"them the laws are wrong: they claim that losses only fall, while forgetting sets in there.",
            "Fewer tokens may do; runs measured earlier would show it.",
        ),
    )


def _far(mix: FittedMix, tokens: float) -> tuple[Finding, ...]:
    most = mix.largest_fitted_tokens
    if tokens <= OUT_OF_REACH * most:
        return ()
    return (
        Finding(
            "error",
            "out-of-reach",
            f"the plan needs {tokens / most:.1g} times the most tokens that a fit has seen: it exists on paper only.",
            "Loosen the limit that binds, or give the tokens that you can spend with max_tokens= (--max-tokens).",
        ),
    )


def _doubt_decides(tokens: float, replay: float) -> Finding:
    return Finding(
        "info",
        "doubt-decides",
        f"the point forecasts alone would allow a plan: {format_quantity(tokens)} tokens at replay "
        f"{format_percent(replay)}.",
        "Lower risk=, loosen the limits, or add runs that narrow the forecasts.",
    )


documented(min_tokens, MinTokens)
