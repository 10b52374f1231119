"""What a move of a control shows: a sentence, the map and both loss curves; the answer first, its doubt as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.planning.mixes.expected import best_of, expected_at, fixed_fields
from cptlaw.planning.mixes.min_tokens import plan_of
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.mixes.trade_off import TradeOffPlan, plan_at
from cptlaw.planning.result import MixPlan
from cptlaw.planning.scenario import MinTokens, TradeOff
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.forgetting_map import draw_map, edges_of, map_grid
from cptlaw.uncertainty.chances import probability_above, probability_below
from cptlaw.uncertainty.intervals import MIN_RUNS
from cptlaw_app import sentences
from cptlaw_app.curves import draw_curves
from cptlaw_app.fitted import Fitted
from cptlaw_app.scenario import Scenario

# Fine enough for contours at this size of the map, and a move stays below a tenth of a second.
MAP_SHAPE = (33, 49)
COVERAGE = 0.9
MAP_HEIGHT = 430  # pixels
PIN_COLOUR = "#7A1FA2"


@dataclass(frozen=True, eq=False)
class Move:
    """What is shown for a scenario.

    Attributes
    ----------
    sentence
        The answer.
    chances
        With what probability each limit holds, in words; empty without doubt.
    asides
        What it costs, and what doubt does to it.
    plan
        The mix behind it.
    probabilities
        Limit -> probability.
    chart, curves
        The map, where laws read tokens and replay and forgetting is known; both losses along tokens or replay.
    notes
        What to be wary of, the worst first.
    """

    sentence: str
    chances: tuple[str, ...]
    asides: tuple[str, ...]
    plan: MixPlan
    probabilities: Mapping[str, float]
    chart: Figure | None
    curves: Figure
    notes: tuple[Finding, ...]


def move(
    fitted: Fitted,
    scenario: Scenario,
    doubt: bool = False,
    pins: Sequence[tuple[float, float]] = (),
    draws: bool = True,
) -> Move:
    """Answer a scenario.

    Parameters
    ----------
    doubt
        Whether with intervals, probabilities and the plan that keeps the risk. Takes up to a second or two; without it
        the answer is there at once.
    pins
        Tokens and replay of pinned scenarios, to mark on the map.
    draws
        Whether map and curves are wanted; without them the answer's `chart` is none, and its curves are the quick ones.
    """
    # Fewer runs have no intervals; the point answer is still one, and a finding says what is missing.
    knows = all(fit.n_runs >= MIN_RUNS for fit in fitted.fits)
    sure = doubt and knows
    plan, mix, notes = _plan(fitted, scenario, sure, doubt)
    chances = _probabilities(fitted, scenario, plan) if sure else {}
    chart = _chart(fitted, scenario, mix, plan, pins, sure) if draws else None
    found = by_severity([*notes, *plan.findings, *fitted.notes])
    if doubt and not knows:
        found = by_severity([*found, _too_few(fitted)])
    return Move(
        sentences.answer(scenario, plan, mix, sure),
        sentences.chances(scenario, plan, chances),
        sentences.asides(scenario, plan, sure),
        plan,
        chances,
        chart,
        draw_curves(fitted, mix, plan, COVERAGE if sure and draws else None),
        found,
    )


def _too_few(fitted: Fitted) -> Finding:
    fewest = min(fit.n_runs for fit in fitted.fits)
    return Finding(
        "warning",
        "too-few-runs",
        f"there are {fewest} runs, which cannot say how runs differ: no intervals, and limits hold as often as not.",
        f"Bring a table of at least {MIN_RUNS} runs.",
    )


def _plan(
    fitted: Fitted, scenario: Scenario, sure: bool, explained: bool
) -> tuple[MixPlan, FittedMix, tuple[Finding, ...]]:
    """Return the mix that answers a scenario, and the mix's own scenario as it was built."""
    asked = {
        "n_params": scenario.n_params or 1.0,
        "ptpp": scenario.ptpp,
        "lr_peak": scenario.lr_peak,
        "base_source_loss": scenario.base_source_loss,
        "max_forgetting": scenario.max_forgetting,
        "interval": COVERAGE if sure else None,
        **fitted.in_points(scenario),
    }
    limited = scenario.max_forgetting is not None or bool(scenario.limited_scores)
    if scenario.tokens is None and "tokens" in fitted.ranges:
        if scenario.max_target_loss is None:
            raise UsageError(
                "As few tokens as will do: for what? Tick the limit on the target loss, or give the tokens."
            )
        # What next runs would save takes as long as ten moves; the page has a button for it.
        asked |= {"max_target_loss": scenario.max_target_loss}
        # A replay that the user has chosen is a range of one value.
        asked |= {"min_replay": scenario.replay, "max_replay": scenario.replay}
        asked |= {"risk": scenario.risk} if sure else {}
        mixes, notes = fitted.mixes(MinTokens, asked)
        return _best([plan_of(mix, explained) for mix in mixes], mixes, "tokens", notes)
    # Laws that read no tokens still need a number to be planned with.
    tokens = 1.0 if scenario.tokens is None else scenario.tokens
    fixed = scenario.replay is not None or "replay" not in fitted.ranges
    asked |= {"tokens": tokens} | ({"risk": scenario.risk} if sure and limited and not fixed else {})
    mixes, notes = fitted.mixes(TradeOff, asked)
    if not fixed:
        return _best([plan_at(mix, tokens) for mix in mixes], mixes, "target_loss", notes)
    return _best([_as_given(mix, scenario.replay, tokens) for mix in mixes], mixes, "target_loss", notes)


def _best(
    plans: Sequence[MixPlan], mixes: Sequence[FittedMix], value: str, notes: tuple[Finding, ...]
) -> tuple[MixPlan, FittedMix, tuple[Finding, ...]]:
    best = best_of(plans, value)
    return best, next(mix for plan, mix in zip(plans, mixes, strict=True) if plan is best), notes


def _as_given(mix: FittedMix, replay: float | None, tokens: float) -> TradeOffPlan:
    """Return a mix that leaves nothing to choose as a plan: whether it keeps limits is said by their probabilities."""
    share = mix.low if replay is None else replay
    values, found = expected_at(mix, share, tokens)
    return TradeOffPlan(feasible=True, findings=by_severity([*mix.findings, *found]), **fixed_fields(mix), **values)


def _probabilities(fitted: Fitted, scenario: Scenario, plan: MixPlan) -> dict[str, float]:
    if not plan.feasible:
        return {}
    row = row_of(scenario, plan)
    found = {}
    if scenario.max_forgetting is not None and fitted.source is not None and plan.base_source_loss is not None:
        highest = plan.base_source_loss * (1.0 + scenario.max_forgetting)
        found["max_forgetting"] = probability_below(plan.mix.source, row, highest)
    if scenario.max_target_loss is not None:
        found["max_target_loss"] = probability_below(fitted.target, row, scenario.max_target_loss)
    for name, least in scenario.min_score.items():
        found[f"min {name}"] = probability_above(fitted.planned_scores[name], row, least)
    for name, drop in scenario.max_drop.items():
        base = plan.scores[name]["base"]
        found[f"max-drop {name}"] = probability_above(fitted.planned_scores[name], row, (base or 0.0) - drop)
    return found


def row_of(scenario: Scenario, plan: MixPlan) -> pd.DataFrame:
    """Return a planned mix as a row of inputs of laws."""
    values = {"n_params": scenario.n_params, "ptpp": plan.ptpp, "tokens": plan.tokens, "replay": plan.replay}
    given = {**values, "lr_peak": plan.lr_peak}
    return pd.DataFrame([{name: float(value) for name, value in given.items() if value is not None}])


def _mark(figure: Figure, pins: Sequence[tuple[float, float]]) -> None:
    """Mark pinned mixes, tokens and replay, on a map by their numbers."""
    figure.drawing.add_scatter(
        x=[tokens for tokens, _ in pins],
        y=[replay for _, replay in pins],
        mode="markers+text",
        text=[str(number) for number in range(1, len(pins) + 1)],
        textfont={"color": "#ffffff", "size": 11},
        marker={"size": 18, "color": PIN_COLOUR, "line": {"color": "#ffffff", "width": 1.5}},
        name="pinned",
        hoverinfo="skip",
    )


def _chart(
    fitted: Fitted, scenario: Scenario, mix: FittedMix, plan: MixPlan, pins: Sequence[tuple[float, float]], sure: bool
) -> Figure | None:
    if mix.forgetting is None or not {"tokens", "replay"} <= set(fitted.ranges):
        return None
    limits = {"max_forgetting": scenario.max_forgetting, "max_target_loss": scenario.max_target_loss}
    limits |= fitted.in_points(scenario)
    limited = any(value is not None for value in limits.values())
    asked = {
        "n_params": scenario.n_params or 1.0,
        "ptpp": scenario.ptpp,
        "lr_peak": plan.lr_peak,
        "base_source_loss": scenario.base_source_loss,
        "interval": None,
        "risk": scenario.risk if sure and limited else None,
        **limits,
    }
    # The map shows all mixes that keep the limits, whatever the plan minimises: the question with the fewest tokens has
    # both limits.
    board = fitted.mixes(MinTokens, asked)[0][0]
    if board.forgetting is None:
        return None
    spent = plan.tokens or scenario.tokens
    tokens, replay = map_grid(board, plan, None if spent is None else 1.2 * spent, MAP_SHAPE)
    risky = sure and limited and scenario.risk > 0.5
    edges = edges_of(board, tokens, replay, [scenario.risk]) if risky else {}
    # A mix that was chosen by hand is marked as such: a star would call it the best.
    free = scenario.replay is None
    here = None if free or plan.tokens is None or plan.replay is None else (plan.tokens, plan.replay)
    figure = draw_map(board, plan if free else None, tokens, replay, edges, here)
    if pins:
        _mark(figure, pins)
    figure.drawing.update_layout({"height": MAP_HEIGHT, "uirevision": "map"}, overwrite=True)
    return figure
