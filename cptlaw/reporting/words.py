"""The words of a report: the question, the answer, and how likely each limit holds."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from cptlaw.planning import MixPlan
from cptlaw.planning.limits import LossLimit
from cptlaw.planning.points import chances
from cptlaw.planning.result import forgetting_text, score_text
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity, format_span


def _model_text(mix: Mapping[str, float]) -> str:
    text = f"a model of {format_quantity(float(mix['n_params']), 4)} parameters" if "n_params" in mix else "the model"
    return text + (f" pre-trained on {float(mix['ptpp']):.4g} tokens per parameter" if "ptpp" in mix else "")


def question(plan: MixPlan | None, mix: Mapping[str, float]) -> str:
    """Return what was asked, as a question."""
    if plan is None:
        return f"What losses will {_model_text(mix)} reach {_mix_text(mix)}?"
    kept = " and ".join(limit_text(limit, plan) for limit in plan.limits)
    sure = "" if plan.risk is None else f", each with {format_percent(plan.risk)} probability"
    return f"What are the fewest tokens, and the replay, with which {_model_text(mix)} keeps {kept}{sure}?"


def limit_text(limit: LossLimit, plan: MixPlan) -> str:
    """Return a limit as people say it: ``forgetting at most 25%``, ``mmlu down at most 3 points``."""
    kind, _, score = limit.name.partition(" ")
    if kind == "min":
        return f"{score} at least {format_percent(-limit.value)}"
    if kind == "max-drop" and limit.scale is not None:
        base = 1.0 - limit.scale.reference.loss
        return f"{score} down at most {100 * limit.value:g} points from the base model's {format_percent(base)}"
    share = limit.about == "forgetting" and plan.forgetting_measure == "relative"
    most = format_percent(limit.value) if share else f"{limit.value:.4g}"
    return f"{limit.about.replace('_', ' ')} at most {most}"


def _mix_text(mix: Mapping[str, float]) -> str:
    text = f"after {format_quantity(float(mix['tokens']), 4)} adaptation tokens" if "tokens" in mix else "here"
    return text + (f" with {format_percent(float(mix['replay']))} replay" if "replay" in mix else "")


def answer(plan: MixPlan | None, forecasts: pd.DataFrame, unit: str = USUAL_UNIT) -> str:
    """Return the answer in one sentence, losses in `unit`; of scores, those that were limited."""
    if plan is not None and not plan.feasible:
        return _refusal_text(plan)
    losses = []
    for name, row in zip(("target_loss", "source_loss"), forecasts.to_dict("records"), strict=False):
        low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("lo", "hi"))
        limit = None if plan is None else plan.limit_of(name)
        losses.append(f"{row['on']} loss {format_span(float(row['loss']), low, high, limit)}")
    text = " and ".join(losses)
    if plan is None:
        return f"{text[:1].upper()}{text[1:]} {unit}."
    mix = f"{format_quantity(float(plan.tokens or 0), 4)} tokens"
    mix += "" if plan.replay is None else f" with {format_percent(plan.replay)} replay"
    mix += "" if plan.lr_peak is None else f" at a peak rate of {plan.lr_peak:.3g}"
    forgotten = ""
    if plan.forgetting is not None:
        relative = plan.forgetting_measure == "relative"
        ends = (plan.forgetting, plan.forgetting_lo, plan.forgetting_hi)
        text_of = forgetting_text(*ends, relative, plan.limit_of("forgetting"))
        forgotten = f", forgetting {text_of}{'' if relative else ' nats'}"
    scored = "".join(f", {name} {score_text(fields)}" for name, fields in plan.scores.items())
    expected = f"expect {text} {unit}{forgotten}{scored}"
    if plan.risk is None and plan.binding:
        # The optimum lies where a limit binds, so that the measured loss keeps it about every other time.
        return f"At {mix} the forecasts just meet the limits: {expected}."
    return f"Train on {mix}: {expected}."


def _refusal_text(plan: MixPlan) -> str:
    """Return what keeps a plan from being, in the words of its limits, and where one begins."""
    sure = "" if plan.risk is None else f" with {format_percent(plan.risk)} probability"
    text = f"No mix keeps {blocking_text(plan)}{sure}."
    granted = []
    for name, value in (plan.feasible_from or {}).items():
        share = " " in name or name.endswith("-replay")
        share |= name == "max-forgetting" and plan.forgetting_measure == "relative"
        granted.append(f"{_bound_text(name)} at {format_percent(value) if share else format_quantity(value, 4)}")
    return text + (f" With {' and '.join(granted)} one does." if granted else "")


def blocking_text(plan: MixPlan) -> str:
    """Return the limits that block a plan: ``the limit on forgetting and the limit on target loss``."""
    return " and ".join(_bound_text(name) for name in (plan.blocking or "").split(" and "))


def _bound_text(name: str) -> str:
    """Return a bound of a plan as people say it: ``the limit on forgetting``."""
    kind, _, of = name.partition(" ")
    words = {"min": f"the least {of}", "max-drop": f"the most points that {of} loses"}
    words |= {f"{end}-fitted-replay": f"the {end} replay that was run" for end in ("smallest", "largest")}
    return words.get(kind) or f"the limit on {kind.removeprefix('max-').replace('-', ' ')}"


def limits_kept(plan: MixPlan | None, mix: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """Return, for each limit of a plan by name, its words and the probability that what is measured will keep it."""
    if plan is None or not plan.feasible:
        return {}
    sure = {limit.name: limit for limit in plan.limits if limit.loss.knows_doubt}
    held = chances(sure.values(), pd.DataFrame([dict(mix)]))
    return {name: (limit_text(limit, plan), held[name]) for name, limit in sure.items()}
