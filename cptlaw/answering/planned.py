"""The plan behind an answer from runs: the kind that the question asks for, with the best reference that there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw import planning
from cptlaw.answering.question import RANGE, WITHIN, Asked
from cptlaw.answering.words import as_answer
from cptlaw.errors import UsageError
from cptlaw.planning import MixPlan
from cptlaw.planning.mixes.expected import best_of
from cptlaw.planning.mixes.mix import build_mixes
from cptlaw.planning.mixes.trade_off import plan_at
from cptlaw.planning.scenario import LimitedData, MinTokens, ReferenceKind, TradeOff, read_scenario

LIMITS = ("max_forgetting", "max_target_loss", "min_score", "max_drop")
REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote")  # the first that can be had
# The mix of a pareto question without limits is the end of the front with the lowest target loss.
KINDS: Mapping[str, Any] = {
    "limited-data": LimitedData,
    "trade-off": TradeOff,
    "min-tokens": MinTokens,
    "pareto": TradeOff,
}
SHORTER = (0.5, 0.25, 0.125)  # of the tokens that a budget pays for, where all of them break a limit


def plan(
    question: Asked, fits: Mapping[str, Any], risk: float | None, scores: Mapping[str, Any] | None = None
) -> MixPlan:
    """Return the plan that answers a question, each limit held with a probability.

    Parameters
    ----------
    fits
        The fitted losses by role; the source may be missing.
    risk
        The probability; ``None`` for the forecasts themselves.
    scores
        Fitted scores by eval, of which limits are in points.

    Raises
    ------
    UsageError
        If forgetting is limited and there is no base model's loss that it could count from.
    """
    source = fits.get("source")
    given: dict[str, Any] = {"n_params": question.n_params, "ptpp": question.ptpp, "lr_peak": question.lr_peak}
    if question.kind == "min-tokens":
        given["max_tokens"] = question.spendable
    elif question.kind == "limited-data":
        given |= {"target_tokens": question.target_tokens, "within": WITHIN}
    else:
        given["tokens"] = question.spendable
    limits = {name: getattr(question, name) for name in LIMITS}
    given |= limits
    given |= {name: getattr(question, name) for name in RANGE}
    if scores:
        given |= {"scores": scores, "base_score": question.base_score}
    # A risk without a limit is refused by the plans: there would be nothing to keep with that probability.
    if any(value is not None for value in limits.values()):
        given["risk"] = risk
    if source is not None:
        given["base_source_loss"] = question.base_source_loss
    given = {name: value for name, value in given.items() if value is not None}
    if source is not None and question.base_source_loss is None:
        given |= _reference(question, fits, given)
    if question.kind == "limited-data":
        return planning.limited_data(fits["target"], source, **(_run_range(given, fits) | given))
    if question.kind == "min-tokens":
        return planning.min_tokens(fits["target"], source, **given)
    whole = _at_tokens(given, fits, given["tokens"])
    if whole.feasible or question.budget is None:
        return whole
    # A budget is the most that may be spent: a shorter run forgets less.
    for share in SHORTER:
        less = _at_tokens(given, fits, share * given["tokens"])
        if less.feasible:
            return less
    return whole


def _at_tokens(given: Mapping[str, Any], fits: Mapping[str, Any], tokens: float) -> MixPlan:
    """Return the best mix of some tokens. Unlike `trade_off` it is given without a limit too, and without a source."""
    scenario = read_scenario(TradeOff, {**given, "tokens": tokens}, "trade-off")
    mixes = build_mixes(TradeOff, scenario, fits["target"], fits.get("source"))
    found: MixPlan = best_of([plan_at(mix, tokens) for mix in mixes], "target_loss")
    return found


def _run_range(given: Mapping[str, Any], fits: Mapping[str, Any]) -> dict[str, float]:
    """Return the range of replay that was run, which limited-data alone would leave."""
    scenario = read_scenario(LimitedData, given, "limited-data")
    mix = build_mixes(LimitedData, scenario, fits["target"], fits.get("source"))[0]
    return {"min_replay": mix.fitted_low, "max_replay": mix.fitted_high} if mix.reads_replay else {}


def _reference(question: Asked, fits: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference that forgetting counts from: the measured loss, or the first that stands in for it."""
    kind, problem = KINDS[question.kind], None
    # Without a limit forgetting is worth a line only where it counts from a base model's loss.
    for reference in REFERENCES if question.max_forgetting is not None else REFERENCES[:2]:
        try:
            asked = read_scenario(kind, {**given, "reference": reference}, question.kind)
            mixes = build_mixes(kind, asked, fits["target"], fits["source"])
        except UsageError as error:
            problem = problem or error
            continue
        if mixes[0].forgetting is not None:
            return {"reference": reference}
    if problem is not None and question.max_forgetting is not None:
        raise UsageError(as_answer(str(problem))) from None
    return {}
