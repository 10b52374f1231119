"""Three runs beside the planned one that people weigh against it: a cheaper, a safer, and one without replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from cptlaw.answering.planned import plan
from cptlaw.answering.question import Asked
from cptlaw.answering.takes import MIX, SURER, lowest_probability
from cptlaw.answering.what_if import point_of
from cptlaw.errors import CptlawError
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan
from cptlaw.planning.points import chances
from cptlaw.units import format_percent

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

SHOWN = ("replay", "tokens", "flops", "lr_peak", "target_loss", "source_loss", "forgetting")
ENDS = ("", "_lo", "_hi")


def choices(
    question: Asked,
    fits: Mapping[str, Fit],
    sure: MixPlan,
    plain: MixPlan,
    scores: Mapping[str, ScoreFit],
    options: tuple[Mapping[str, object], ...],
) -> tuple[Mapping[str, object], ...]:
    """Return the cheaper, the safer and the run without replay, as far as there are any.

    Parameters
    ----------
    question, fits, scores
        As for `cptlaw.answering.planned.plan`.
    sure, plain
        The plan, and the one whose limits hold with 50 % probability.
    options
        What each share of replay comes to, the share 0 first.
    """
    if not sure.feasible or sure.tokens is None:
        return ()
    result: list[dict[str, object]] = []
    for name, change, asked, risk in (*_cheaper_questions(question), *_safer_questions(question)):
        if name in {one["name"] for one in result}:
            continue
        try:
            other = plain if risk is None else plan(asked.replaced(risk=risk), fits, risk, scores)
        except CptlawError:
            continue
        if other.feasible and other.tokens is not None and (name == "safer" or other.tokens < sure.tokens):
            result.append(_choice_entry(name, change, question, other))
    if (sure.replay or 0.0) > 0 and options and options[0]["replay"] == 0.0:
        result.append(_without_replay(question, sure, options[0]))
    return tuple(result)


def _cheaper_questions(question: Asked) -> list[tuple[str, str, Asked, float | None]]:
    """Return what to ask for a cheaper run: half of what may be spent, else limits that hold every other time."""
    spent = next((name for name in ("tokens", "target_tokens", "budget") if getattr(question, name) is not None), None)
    half = [] if spent is None else [_asked_half(question, spent)]
    return [*half, ("cheaper", "limits with 50% probability", question, None)]


def _asked_half(question: Asked, spent: str) -> tuple[str, str, Asked, float | None]:
    words = {"tokens": "half the tokens", "target_tokens": "half the new text", "budget": "half the compute"}[spent]
    return "cheaper", words, question.replaced(**{spent: 0.5 * getattr(question, spent)}), question.risk


def _safer_questions(question: Asked) -> list[tuple[str, str, Asked, float | None]]:
    if not question.limited or question.risk is None:
        return []
    return [
        ("safer", f"limits with {format_percent(risk)} probability", question, risk)
        for risk in SURER
        if risk > question.risk
    ]


def _choice_entry(name: str, change: str, question: Asked, other: MixPlan) -> dict[str, object]:
    kept = chances(other.limits, pd.DataFrame([point_of(question, other)]))
    return {"name": name, "change": change, "method": MIX, **fields_of(other), "probability": lowest_probability(kept)}


def fields_of(other: MixPlan) -> dict[str, object]:
    """Return what is said of a plan that stands beside the answer."""
    return {
        name + end: value for name in SHOWN for end in ENDS if (value := getattr(other, name + end, None)) is not None
    }


def _without_replay(question: Asked, sure: MixPlan, row: Mapping[str, Any]) -> dict[str, object]:
    point = point_of(question, sure) | {"replay": 0.0, "tokens": float(row["tokens"])}
    kept = chances(sure.limits, pd.DataFrame([point]))
    named = {"name": "no-replay", "change": "no replay", "method": MIX}
    return {**named, **row, "probability": lowest_probability(kept)}
