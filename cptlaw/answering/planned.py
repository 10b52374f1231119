"""The plan behind an answer from runs: the kind that the question asks for, with the best reference that there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cptlaw import planning
from cptlaw.answering.question import KINDS, Asked
from cptlaw.answering.words import as_answer
from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy, by_severity
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MixPlan
from cptlaw.planning.loss import AHEAD, tokens_in_reach
from cptlaw.planning.mixes.expected import best_over_rates
from cptlaw.planning.mixes.mix import build_mixes
from cptlaw.planning.mixes.trade_off import plan_at
from cptlaw.planning.scenario import LimitedData, ReferenceKind, TradeOff, read_scenario
from cptlaw.units import format_percent, format_quantity

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

REFERENCES: tuple[ReferenceKind, ...] = ("measured", "base-law", "asymptote")  # the first that can be had
WHOLE_RANGE = {"min_replay": 0.0, "max_replay": 1.0}  # searched where what was run keeps no limit
MOST_OF_LIMITED = 0.99  # at replay 1 no number of tokens holds one of the new domain
SHORTER = (0.5, 0.25, 0.125)  # of the tokens that a budget pays for, where all of them break a limit


def plan(
    question: Asked, fits: Mapping[str, Fit], risk: float | None, scores: Mapping[str, ScoreFit] | None = None
) -> MixPlan:
    """Return the plan that answers a question, each limit held with a probability.

    Where no replay that was run keeps the limits, all shares are searched, and a finding says so.

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
    given = _given(question, fits, risk, scores)
    within_runs = _best(question, fits, given)
    whole = {name: end for name, end in WHOLE_RANGE.items() if name not in question.given}
    if within_runs.feasible:
        return within_runs
    if not whole or not within_runs.fitted_mix.reads_replay:
        return _with_end(question, within_runs)
    if question.kind == "limited-data" and "max_replay" in whole:
        # All the more replay of as many new tokens is a longer run: none is planned that the runs do not reach.
        mix = within_runs.fitted_mix
        whole["max_replay"] = min(max(1.0 - mix.given.target_tokens / mix.tokens_in_reach, mix.high), MOST_OF_LIMITED)
    over_all_shares = _best(question, fits, {**given, **whole})
    if not over_all_shares.feasible:
        return _with_end(question, over_all_shares)
    return replace(
        over_all_shares,
        findings=by_severity([*over_all_shares.findings, _replay_beyond_runs(within_runs, over_all_shares)]),
    )


def _with_end(question: Asked, refused: MixPlan) -> MixPlan:
    """Return a refusal that says where the search for longer runs ended, unless that was asked for."""
    most = refused.fitted_mix.tokens_in_reach
    if question.kind == "limited-data" and "max_replay" not in question.given:
        remedy, ended = Remedy("max_replay", format_percent(MOST_OF_LIMITED)), refused.fitted_mix.high < MOST_OF_LIMITED
    else:
        remedy, ended = Remedy("tokens"), question.kind == "min-tokens" and question.spendable is None
    if not ended:
        return refused
    note = Finding(
        "info",
        "tokens-searched",
        f"mixes of up to {format_quantity(most)} tokens were searched, {AHEAD:g} times the most that your runs have: "
        f"forecasts of longer runs were held to none.",
        "Add a longer run, or look there all the same.",
        data={"tokens": most},
        remedy=remedy,
    )
    return replace(refused, findings=by_severity([*refused.findings, note]))


def _replay_beyond_runs(within_runs: MixPlan, over_all_shares: MixPlan) -> Finding:
    """Say that only a share of replay beyond those that were run keeps the limits."""
    low, high, needed = within_runs.fitted_mix.low, within_runs.fitted_mix.high, over_all_shares.replay or 0.0
    return Finding(
        "warning",
        "replay-beyond-runs",
        f"no replay that was run, {format_percent(low)} to {format_percent(high)}, keeps the limits; by the laws "
        f"{format_percent(needed)} does, which no run has shown.",
        "Run one there before you rely on it.",
        data={"low": low, "high": high, "replay": needed},
    )


def _given(
    question: Asked, fits: Mapping[str, Fit], risk: float | None, scores: Mapping[str, ScoreFit] | None
) -> dict[str, object]:
    """Return what the plan is asked, with the best reference that there is."""
    source = fits.get("source")
    given = question.plan_arguments | ({"scores": scores} if scores else {})
    if question.kind == "min-tokens" and "max_tokens" not in given:
        given["max_tokens"] = tokens_in_reach(fits.values(), question.n_params)
    if risk is None:
        given.pop("risk", None)
    if source is None:
        given.pop("base_source_loss", None)
    elif question.base_source_loss is None:
        given |= _reference_arguments(question, fits, given)
    return given


def _best(question: Asked, fits: Mapping[str, Fit], given: Mapping[str, Any]) -> MixPlan:
    """Return the plan of the kind that is asked for."""
    source = fits.get("source")
    if question.kind == "limited-data":
        ranged: dict[str, Any] = {**_run_range(given, fits), **given}
        return planning.limited_data(fits["target"], source, **ranged)
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


def _at_tokens(given: Mapping[str, object], fits: Mapping[str, Fit], tokens: float) -> MixPlan:
    """Return the best mix of some tokens. Unlike `trade_off` it is given without a limit too, and without a source."""
    scenario = read_scenario(TradeOff, {**given, "tokens": tokens}, "trade-off")
    build = partial(build_mixes, scenario, fits["target"], fits.get("source"))
    result: MixPlan = best_over_rates(build, lambda mix: plan_at(mix, tokens), "target_loss")
    return result


def _run_range(given: Mapping[str, object], fits: Mapping[str, Fit]) -> dict[str, float]:
    """Return the range of replay that was run, which limited-data alone would leave."""
    scenario = read_scenario(LimitedData, given, "limited-data")
    mix = build_mixes(scenario, fits["target"], fits.get("source"))[0]
    return {"min_replay": mix.fitted_low, "max_replay": mix.fitted_high} if mix.reads_replay else {}


def _reference_arguments(question: Asked, fits: Mapping[str, Fit], given: Mapping[str, object]) -> dict[str, object]:
    """Return the reference that forgetting counts from: the measured loss, or the first that stands in for it."""
    kind, problem = KINDS[question.kind], None
    # Without a limit forgetting is worth a line only where it counts from a base model's loss.
    for reference in REFERENCES if question.max_forgetting is not None else REFERENCES[:2]:
        try:
            asked = read_scenario(kind, {**given, "reference": reference}, question.kind)
            mixes = build_mixes(asked, fits["target"], fits["source"])
        except UsageError as error:
            problem = problem or error
            continue
        if mixes[0].forgetting is not None:
            return {"reference": reference}
    if problem is not None and question.max_forgetting is not None:
        raise UsageError(as_answer(str(problem))) from None
    return {}
