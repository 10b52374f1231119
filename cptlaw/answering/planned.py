"""The plan behind an answer from runs: the kind that the question asks for, with the best reference that there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cptlaw import planning
from cptlaw.answering.question import RANGE, Question
from cptlaw.answering.words import as_answer
from cptlaw.errors import UsageError
from cptlaw.planning import MixPlan
from cptlaw.planning.mixes.expected import best_of
from cptlaw.planning.mixes.mix import build_mixes
from cptlaw.planning.mixes.trade_off import plan_at
from cptlaw.planning.scenario import LimitedData, MinTokens, ReferenceKind, TradeOff, read_scenario

REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote")  # the first that can be had
KINDS: Mapping[str, Any] = {"limited-data": LimitedData, "trade-off": TradeOff, "min-tokens": MinTokens}


def plan(
    question: Question, fits: Mapping[str, Any], risk: float | None, scores: Mapping[str, Any] | None = None
) -> MixPlan:
    """Return the plan that answers a question, each limit held with a probability.

    Parameters
    ----------
    question
        What is asked.
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
    given: dict[str, Any] = {"n_params": question.n_params, "ptpp": question.ptpp}
    limits: dict[str, Any] = {"max_forgetting": question.max_forgetting}
    if question.kind == "min-tokens":
        limits["max_target_loss"] = question.max_target_loss
        # An answer names next runs of its own, for the loss whose limit is the more doubtful.
        given["savings"] = False
    elif question.kind == "limited-data":
        given["target_tokens"] = question.target_tokens
    else:
        given["tokens"] = question.spendable
    limits |= {name: getattr(question, name) for name in ("min_score", "max_drop")}
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
        return planning.limited_data(fits["target"], source, **given)
    if question.kind == "min-tokens":
        return planning.min_tokens(fits["target"], source, **given)
    # Unlike `trade_off` an answer is given without a limit too, and without a source.
    mixes = build_mixes(TradeOff, read_scenario(TradeOff, given, "trade-off"), fits["target"], source)
    found: MixPlan = best_of([plan_at(mix, given["tokens"]) for mix in mixes], "target_loss")
    return found


def _reference(question: Question, fits: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
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
