"""What a move of a slider shows: forecast, plan and map, the answer first and its doubt as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.planning.loss import Loss
from cptlaw.planning.mixes.min_tokens import plan_of
from cptlaw.planning.mixes.mix import Mix, build_mixes
from cptlaw.planning.reference import find_reference
from cptlaw.planning.result import flops_of, interval_text
from cptlaw.planning.scenario import MinTokens, ReferenceKind, options_of, read_scenario
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.forgetting_map import draw_map, edges_at, map_grid
from cptlaw.units import format_percent, format_quantity

MAP_SHAPE = (41, 49)
BEYOND = {"n_params": 1000.0, "ptpp": 10.0, "tokens": 30.0}  # times beyond what was fitted that sliders reach
REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote")  # the first that can be had
BASE = "base-law"
LIMITS = tuple(name for name, option in options_of(MinTokens).items() if option.limit)
COVERAGE = 0.9
OF_SOURCE = ("max_forgetting", "max_source_loss", "base_source_loss")


@dataclass(frozen=True, eq=False)
class Fitted:
    """Two fits and how far their sliders go.

    Attributes
    ----------
    target, source
        The fits.
    ranges
        Least and largest value of each slider, raw.
    """

    target: Any
    source: Any
    ranges: dict[str, tuple[float, float]]

    @classmethod
    def build(cls, target: Any, source: Any) -> Fitted:
        """Take fits and find out how far the sliders go."""
        return cls(target, source, slider_ranges([fit for fit in (target, source) if fit is not None]))

    @property
    def fits(self) -> tuple[Any, ...]:
        """The fits that there are, the target first."""
        return (self.target,) if self.source is None else (self.target, self.source)


@dataclass(frozen=True, eq=False)
class Move:
    """What is shown after a move.

    Attributes
    ----------
    lines
        Label and text of each line of the forecast at the mix.
    plan_lines, plan_title, feasible
        The plan; ``feasible`` is ``None`` where no limit was given or it cannot be planned.
    figure
        The map, where there is a source fit.
    notes
        What to be wary of.
    """

    lines: tuple[tuple[str, str], ...]
    plan_title: str
    plan_lines: tuple[tuple[str, str], ...]
    feasible: bool | None
    figure: Figure | None
    notes: tuple[Finding, ...]


def slider_ranges(fits: list[Any]) -> dict[str, tuple[float, float]]:
    """Return how far each slider goes: what was fitted and, upwards, far beyond."""
    ranges: dict[str, tuple[float, float]] = {}
    for name in ("n_params", "ptpp", "replay", "tokens"):
        columns = [fit.data[name].dropna().to_numpy(dtype=float) for fit in fits if name in fit.data.columns]
        values = np.concatenate(columns) if columns else np.zeros(0)
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if name == "replay":
            mixed = values[(values > 0) & (values < 1)]
            low, high = (float(mixed.min()), float(mixed.max())) if len(mixed) else (low, high)
            ranges[name] = (low, high)
        else:
            ranges[name] = (low, high * BEYOND[name])
    return ranges


def move(fitted: Fitted, question: Mapping[str, Any], doubt: bool = False) -> Move:
    """Answer a position of the sliders.

    Parameters
    ----------
    fitted
        The fits.
    question
        Replay and tokens of the mix, and the entries of the scenario of `cptlaw.plan.min_tokens`; ``None`` for what is
        not asked.
    doubt
        Whether with intervals and, where a risk is asked for, the plan that keeps it. Takes up to a second; without it
        the answer is there at once.
    """
    scenario = {name: value for name, value in question.items() if name in options_of(MinTokens) and value is not None}
    if fitted.source is None:
        scenario = {name: value for name, value in scenario.items() if name not in OF_SOURCE}
    limited = any(name in scenario for name in LIMITS)
    risk = scenario.pop("risk", None)
    reference, notes = reference_of(fitted, question)
    asked = {**scenario, **reference, "interval": None, "savings": False}
    if doubt and limited:
        asked["risk"] = risk
    mix = build_mixes(MinTokens, read_scenario(MinTokens, asked, "plan"), fitted.target, fitted.source)[0]
    lines = _forecast(mix, question, COVERAGE if doubt else None)
    plan = plan_of(mix) if limited else None
    figure = None
    if mix.forgetting is not None and mix.reads_replay:
        tokens, replay = map_grid(mix, plan, float(question["tokens"]) * 1.2, MAP_SHAPE)
        edges = edges_at(mix, replay, tokens[0], [risk]) if doubt and limited and risk is not None else {}
        figure = draw_map(mix, plan, tokens, replay, edges, (float(question["tokens"]), float(question["replay"])))
    if plan is None:
        return Move(lines, "No limit is set.", (), None, figure, (*notes, *mix.findings))
    found = tuple(dict.fromkeys((*notes, *plan.findings)))
    return Move(lines, plan.title, tuple(plan.lines), plan.feasible, figure, found)


def reference_of(fitted: Fitted, question: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return from which loss forgetting counts: the measured one, or what stands in for it, which a finding says."""
    if fitted.source is None:
        return {}, ()
    if question.get("base_source_loss") is not None:
        return {"base_source_loss": question["base_source_loss"]}, ()
    known = {
        name: question[name]
        for name, option in options_of(MinTokens).items()
        if option.law_input and question.get(name) is not None
    }
    source = Loss.build(fitted.source, "source", known)
    for kind in REFERENCES:
        try:
            kind = find_reference(source, kind).kind  # what stands in for the measured one names itself
        except UsageError:
            continue
        if kind == "measured":
            return {}, ()
        note = Finding(
            "info",
            "reference",
            f"no source loss of a base model of this size and budget was measured; forgetting counts from {kind}.",
            "Give the base model's source loss where you know it.",
        )
        return {"reference": kind}, (note,)
    return {}, ()


def _forecast(mix: Mix, question: Mapping[str, Any], coverage: float | None) -> tuple[tuple[str, str], ...]:
    tokens, replay = float(question["tokens"]), float(question.get("replay") or 0.0)
    lines = [("compute", f"{format_quantity(flops_of(mix.n_params, tokens))} FLOP")]
    for loss in mix.losses:
        if coverage is None:
            ends: tuple[Any, ...] = (float(loss.at(replay, tokens)[0]), None, None)
        else:
            ends = tuple(end[0] for end in loss.forecast(replay, tokens, coverage).losses.values())
        centre, low, high = ends
        text = f"{centre:.4f}" + interval_text(low, high, lambda value: f"{value:.4f}")
        lines.append((f"{loss.role} loss", f"{text} nats per token"))
        if loss.role == "source" and mix.forgetting is not None:
            how = mix.forgetting
            show = format_percent if how.measure == "relative" else (lambda value: f"{value:.4g} nats")
            low, high = (None if end is None else float(how.of(end)) for end in (low, high))
            text = show(float(how.of(centre))) + interval_text(low, high, show)
            lines.append(("forgetting", f"{text} of the base model's {how.reference.loss:.4g} ({how.reference.kind})"))
    return tuple(lines)
