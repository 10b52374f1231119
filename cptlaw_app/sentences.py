"""The words of the app: the answer in one sentence, how likely limits hold, and advice that names its own controls."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cptlaw.findings import Finding
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.result import MixPlan, interval_text
from cptlaw.reporting.cost import cost_text
from cptlaw.uncertainty.chances import likelihood
from cptlaw.units import format_percent, format_quantity, short_percent
from cptlaw_app.scenario import Scenario, drop_text, least_text

LIMITS = {"max_forgetting": "forgetting at most {}", "max_target_loss": "target loss at most {}"}

# What the advice of findings is in the app, where the command line would name an option.
ADVICE = {
    "extrapolation": "Move the sliders back towards the runs, or bring runs nearer to this plan.",
    "replay-at-edge": "Runs with replay beyond it would show it.",
    "risk-not-settled": "Ask for less certainty, or bring runs near the plan.",
    "unbounded": "Bring runs nearer to the plan, or lower the certainty to 50%.",
    "doubt-decides": "Lower the certainty, loosen the limits, or add runs that narrow the forecasts.",
    "out-of-reach": "Loosen the limit that binds, or say how many tokens there are.",
    "weak-fit": "See the findings of the fit; choose a smaller law under Laws, or leave the choice to auto.",
    "large-forgetting": "Move the limit on forgetting down if that was not meant.",
    "target-falls-with-replay": "Do not trust the replay that follows: choose another law under Laws, or add runs at "
    "other replay.",
    "no-reference": "Type the base model's source loss into its field.",
    "base-loss-differs": "Check the base model's source loss that was typed in.",
    "scores-not-fitted": "Bring a table with scores of four models or more.",
}
CONTROLS = {
    "n-params": "the model size", "ptpp": "the pre-training tokens per parameter", "tokens": "the adaptation tokens",
    "replay": "the replay", "max-forgetting": "the limit on forgetting",
    "max-target-loss": "the limit on the target loss",
    "base-source-loss": "the base model's source loss", "risk": "the certainty", "where": "the rows to fit",
    "min": "the least score", "max-drop": "the most that a score may fall", "base-score": "the base model's score",
    "target-eval": "the eval of the target loss", "source-eval": "the eval of the source loss", "law": "the law",
}  # fmt: skip
_NAMED = re.compile(r"\b\w+=? \(--([a-z-]+)\)")
_COMMAND = re.compile(r"Rename the column, or say which one it is with .*", re.DOTALL)  # the page has a form for it
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_PYTHON = re.compile(r"\b[a-z_]+=(?![\d.])")


def in_app(text: str) -> str:
    """Return a message with the app's controls where the command line's options stood.

    Examples
    --------
    >>> in_app("risk (--risk): 5 is no probability.")
    'the certainty: 5 is no probability.'
    """

    def control(match: re.Match[str]) -> str:
        return CONTROLS.get(match[1], match[1].replace("-", " "))

    return _FLAG.sub(control, _NAMED.sub(control, _COMMAND.sub("Choose it below.", text)))


def advised(finding: Finding) -> Finding:
    """Return a finding with advice that can be followed in the app; what cannot is left out."""
    if finding.code in ADVICE:
        advice = ADVICE[finding.code]
    else:
        kept = [
            part for part in re.split(r"(?<=\.)\s+", finding.advice) if not _PYTHON.search(part) and "--" not in part
        ]
        advice = " ".join(part for part in kept if "cptlaw " not in part)
    return replace(finding, message=in_app(finding.message), advice=advice)


def answer(scenario: Scenario, plan: MixPlan, mix: FittedMix, sure: bool) -> str:
    """Return the answer in one sentence."""
    certainty = f" with {format_percent(scenario.risk)} probability" if sure else ""
    if not plan.feasible:
        return f"No mix keeps {scenario.limits_text}{certainty}{_reach(plan)}."
    losses = _expected(plan)
    tells = f"expect {losses}." if losses else ""
    given = scenario.replay is not None and scenario.tokens is not None
    what = mix_text(plan, mix)
    if given:
        return f"With {what}, {tells}"
    return f"Train on {what}: {tells}"


def mix_text(plan: MixPlan, mix: FittedMix | None = None) -> str:
    """Return the mix in words."""
    reads_tokens = mix is None or any(loss.reads("tokens") for loss in mix.losses)
    parts = [f"{format_quantity(plan.tokens or 0.0, 3)} tokens"] if reads_tokens else []
    if plan.replay is not None:
        parts.append(f"{format_percent(plan.replay, 2)} {'of them ' if parts else ''}replay")
    if plan.lr_peak is not None and mix is not None and _varies(mix):
        parts.append(f"at a peak rate of {plan.lr_peak:.3g}")
    return ", ".join(parts) or "this mix"


def _varies(mix: FittedMix) -> bool:
    """Return whether runs had several peak rates, so that the one to take is worth a word."""
    return any(len(loss.levels("lr_peak")) > 1 for loss in mix.losses)


def _expected(plan: MixPlan) -> str:
    show = partial("{:.4g}".format)
    parts = [f"a target loss of {show(plan.target_loss)}{_ends(plan, 'target_loss', show)}"] if plan.target_loss else []
    if plan.forgetting is not None:
        parts.append(f"forgetting of {short_percent(plan.forgetting)}{_ends(plan, 'forgetting', short_percent)}")
    elif plan.source_loss is not None:
        parts.append(f"a source loss of {show(plan.source_loss)}{_ends(plan, 'source_loss', show)}")
    parts += [f"{name} of {score_text(fields)}" for name, fields in plan.scores.items()]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def score_text(fields: Mapping[str, float | None]) -> str:
    """Return what is expected of a score, with its interval where there is one."""
    return in_points(fields["score"] or 0.0) + interval_text(fields.get("score_lo"), fields.get("score_hi"), in_points)


def in_points(score: float) -> str:
    """Print a score to a tenth of a point, which is what limits are about."""
    return f"{100 * score:.1f}%"


def _ends(plan: MixPlan, name: str, show: Any) -> str:
    return interval_text(getattr(plan, f"{name}_lo"), getattr(plan, f"{name}_hi"), show)


def _reach(plan: MixPlan) -> str:
    best = plan.best_reachable or {}
    parts = []
    if "forgetting" in (plan.blocking or "") and best.get("forgetting") is not None:
        parts.append(f"the least forgetting in reach is {short_percent(best['forgetting'] or 0.0)}")
    if "target" in (plan.blocking or "") and best.get("target_loss") is not None:
        parts.append(f"the lowest target loss in reach is {best['target_loss']:.4g}")
    for name, value in best.items():
        kind, _, on = name.partition(" ")
        option = {"score": f"min {on}", "drop": f"max-drop {on}"}.get(kind, "")
        if on and option in (plan.blocking or "") and value is not None:
            parts.append(
                f"the highest {on} in reach is {in_points(value)}"
                if kind == "score"
                else f"the least fall of {on} in reach is {100 * value:.2g} points"
            )
    return f"; {' and '.join(parts)}" if parts else ""


def chances(scenario: Scenario, plan: MixPlan, found: Mapping[str, float]) -> tuple[str, ...]:
    """Return how likely each limit holds, in words."""
    said = []
    for name, chance in found.items():
        limit = limit_text(scenario, name)
        words = "not known" if math.isnan(chance) else likelihood(chance)
        missed = (
            ""
            if math.isnan(chance) or chance >= scenario.risk - 0.005
            else f", less than the {format_percent(scenario.risk)} asked for"
        )
        # The name of an eval is written as it is.
        said.append(f"{limit.capitalize() if name in LIMITS else limit}: {words}{missed}")
    return tuple(said)


def limit_text(scenario: Scenario, name: str) -> str:
    """Return a limit in words, by its name, which is an option's or ``min NAME`` or ``max-drop NAME``."""
    kind, _, on = name.partition(" ")
    if kind == "min":
        return least_text(on, scenario.min_score[on])
    if kind == "max-drop":
        return drop_text(on, scenario.max_drop[on])
    limit = getattr(scenario, name)
    return LIMITS[name].format(format_percent(limit, 3) if name == "max_forgetting" else f"{limit:.4g}")


def _allowed(name: str, value: float) -> str:
    """Return from which value of a limit there is a mix, in words."""
    kind, _, on = name.partition(" ")
    if kind == "min":
        return f"{on} of {in_points(value)}"
    if kind == "max-drop":
        return f"{on} to fall by {100 * value:.2g} points"
    if "forgetting" in name:
        return f"forgetting of {short_percent(value)}"
    return f"{name.removeprefix('max-').replace('-', ' ')} of {format_quantity(value, 4)}"


def asides(scenario: Scenario, plan: MixPlan, sure: bool) -> tuple[str, ...]:
    """Return what the mix costs and what doubt does to it."""
    if not plan.feasible:
        values = plan.feasible_from or {}
        shown = [_allowed(name, value) for name, value in values.items()]
        return (f"There is a mix if you allow {' and '.join(shown)}.",) if shown else ()
    found = []
    if scenario.n_params and scenario.tokens != 1.0 and plan.tokens and plan.flops:
        found.append(cost_text(plan.flops))
        found.append(f"{plan.tokens / scenario.n_params:.3g} adaptation tokens per parameter")
    if plan.target_tokens and plan.source_tokens is not None and scenario.n_params:
        found.append(
            f"{format_quantity(plan.target_tokens)} tokens of the new domain and {format_quantity(plan.source_tokens)} "
            "of the old"
        )
    if sure and plan.price_of_doubt:
        price = plan.price_of_doubt
        more = (
            f"{format_quantity(price)} tokens"
            if scenario.tokens is None
            else f"{price:.2g} {plan.unit.split()[0]} of target loss"
        )
        found.append(f"the certainty costs {more}")
    return tuple(found)
