"""The plan of a mix: the best one, what to expect of it, and what to be wary of there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, TypeVar

import numpy as np

from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.planning.limits import at_risk
from cptlaw.planning.loss import AHEAD
from cptlaw.planning.mixes.mix import LARGEST, SMALLEST, FittedMix
from cptlaw.planning.points import infeasible_fields, score_fields
from cptlaw.planning.result import MixPlan, flops_of
from cptlaw.planning.solve import ON_LIMIT, Best, Limit, RelaxedBounds, Space, certificate
from cptlaw.schedules.valley import advised_by_runs
from cptlaw.units import format_percent, format_quantity

# Relative slope in replay up to which the target loss counts as flat: a plan may sit on its minimum, and ten per cent
# more replay for half a thousandth of the loss decide nothing.
FLAT = 5e-3
Mix = TypeVar("Mix", bound=MixPlan)
LOOKS = 3  # at rates between those that were run
SAME_RATE = 0.01  # relative difference of two rates up to which a look tells nothing new


def planned(
    mix: FittedMix,
    space: Space,
    limits: Sequence[Limit],
    search: Callable[[Sequence[Limit]], Best],
    relaxed: RelaxedBounds,
    make: Callable[..., Mix],
) -> tuple[Mix, Best]:
    """Return the plan of a mix, and the best mix.

    Parameters
    ----------
    space, limits
        What may be chosen, and what must be kept.
    search
        Returns the best mix under some limits: those that were given, or the same on the forecasts themselves.
    relaxed
        Bounds of the space that may block, beside the ends of the range of replay: see `certificate`.
    make
        The kind of the plan.
    """
    best = search(limits)
    if not best.kept:
        sure = at_risk(limits, None) if mix.given.risk else ()
        why = infeasible_fields(
            certificate(space, limits, best, {**relaxed, **mix.relaxed_bounds(space)}, sure), limits
        )
        why["best_reachable"] = {"target_loss": None, "forgetting": None, **why["best_reachable"]}
        refused = [*mix.findings, *beyond_fitted(mix, why["feasible_from"])]
        return make(findings=tuple(refused), _mix=mix, **fixed_fields(mix), **why), best
    values, noticed = _expected_at(mix, best.point)
    plan = make(
        feasible=True,
        binding=binding(limits, best),
        findings=(*mix.findings, *noticed),
        _mix=mix,
        **{**fixed_fields(mix), **values},
    )
    if mix.scores:
        point = {name: best.point[name] for name in ("replay", "tokens")}
        plan = replace(plan, scores=score_fields(mix.scores, mix.limits, point, mix.given.interval))
    if mix.given.risk is not None:
        certain = search(at_risk(limits, None))
        # A risk may move the fewest tokens near the lowest loss towards that loss; then it costs nothing.
        plan = replace(plan, price_of_doubt=max(best.value - certain.value, 0.0) if certain.kept else None)
    return plan, best


def with_findings(plan: Mix, noticed: Iterable[Finding]) -> Mix:
    """Return a plan with more findings."""
    return replace(plan, findings=(*plan.findings, *noticed))


def _expected_at(mix: FittedMix, best: Mapping[str, float]) -> tuple[dict[str, float | None], list[Finding]]:
    """Return what to expect at one mix, and findings about it; where tokens repeat, those that count are others."""
    replay, counted = best["replay"], best["tokens"]
    tokens = best.get("spent", counted)
    point = {"replay": replay, "tokens": counted}
    values: dict[str, float | None] = {
        "replay": replay if mix.reads_replay else None,
        "tokens": tokens,
        "atpp": tokens / mix.n_params,
        "flops": flops_of(mix.given.trained, tokens),
    }
    advised = advised_by_runs(mix.target.fit, mix.n_params, tokens)
    values["batch_tokens"] = advised.get("batch_tokens")
    if mix.target.known.get("lr_peak") is None:
        values["lr_peak"] = advised.get("lr_peak")
    if mix.reads_replay:
        values |= {"target_tokens": (1.0 - replay) * tokens, "source_tokens": replay * tokens}
    findings: list[Finding] = []
    for loss in mix.losses:
        name = f"{loss.role}_loss"
        expected = loss.forecast(point, mix.given.interval)
        values |= {name + end: value[0] for end, value in expected.losses.items()}
        findings += expected.findings
    findings += [*below_fitted_tokens(mix, tokens), *out_of_reach(mix.tokens_in_reach, tokens)]
    if mix.source is not None and mix.forgetting is not None:
        of_loss = {end: values.get(f"source_loss{end}") for end in ("", "_lo", "_hi")}
        above = mix.forgetting.ends(point, of_loss, mix.given.interval)
        values |= {f"forgetting{end}": value for end, value in above.items()}
    slope = mix.target.slope_in_replay(replay, counted)
    # Where all runs have one replay, what the target law says of it is its prior, and nothing to warn of.
    varied = mix.target.fit.data.empty or len(mix.target.fitted_replay) > 1
    if varied and slope < -FLAT * (values["target_loss"] or np.inf):
        findings.append(
            Finding(
                "warning",
                "target-falls-with-replay",
                f"at this mix the target law ({mix.target.spec}) claims that one more percent of replay "
                f"changes the target loss by {slope / 100:.2g} {mix.unit}, so that less of the target corpus would "
                f"be better.",
                "Do not trust the replay that follows from it: add runs at other replay, or compare with a law that "
                "cannot say so, such as dcpt-l3.",
            )
        )
    return values, findings


def below_fitted_tokens(mix: FittedMix, tokens: float) -> tuple[Finding, ...]:
    """Warn of mixes with fewer tokens than the fits have seen, where the laws are wrong in kind."""
    least = mix.smallest_fitted_tokens
    if tokens >= least * (1.0 - 1e-9):
        return ()
    return (
        Finding(
            "warning",
            "below-fitted-tokens",
            f"{format_quantity(tokens)} tokens are fewer than the smallest fitted ones, {format_quantity(least)}. The "
            f"laws claim that both losses fall from the first token on, while forgetting sets in there.",
            "Measure runs from their first evaluations on, or plan with more tokens.",
        ),
    )


def out_of_reach(reach: float, tokens: float) -> tuple[Finding, ...]:
    """Say that a mix has more tokens than any forecast was ever held to runs at: see `tokens_in_reach`."""
    most = reach / AHEAD
    if tokens <= reach * (1.0 + 1e-9):
        return ()
    times = f"{float(f'{tokens / most:.2g}'):,.10g}"
    return (
        Finding(
            "error",
            "out-of-reach",
            f"{format_quantity(tokens)} tokens are {times} times the most that the runs have: forecasts were held to "
            f"longer runs up to {AHEAD:g} times, and this plan exists on paper only.",
            "Loosen the limit that binds, plan with fewer tokens, or add a longer run.",
            data={"tokens": tokens, "most": most},
            remedy=Remedy("max_tokens"),
        ),
    )


class FixedFields(TypedDict):
    """Fields of a plan that do not depend on the answer: see `cptlaw.planning.result.MixPlan`."""

    n_params: float
    ptpp: float | None
    lr_peak: float | None
    merge_weight: float | None
    lora_rank: float | None
    forgetting_measure: str
    base_source_loss: float | None
    reference: str | None
    risk: float | None
    interval: float | None
    _fits: tuple[Forecaster, ...]


def fixed_fields(mix: FittedMix) -> FixedFields:
    """Return the fields of a plan that do not depend on the answer: the model, its reference, and how sure it is."""
    how, known = mix.forgetting, mix.target.known
    return {
        "n_params": mix.n_params,
        "ptpp": mix.ptpp,
        "lr_peak": known.get("lr_peak"),
        "merge_weight": known.get("merge_weight"),
        "lora_rank": known.get("lora_rank"),
        "forgetting_measure": "relative" if how is None else how.measure,
        "base_source_loss": None if how is None else how.reference.loss,
        "reference": None if how is None else how.reference.kind,
        "risk": mix.given.risk,
        "interval": mix.given.interval,
        "_fits": tuple(loss.fit for loss in (*mix.losses, *mix.scores.values())),
    }


def binding(limits: Sequence[Limit], best: Best) -> tuple[str, ...]:
    """Name the limits that keep a plan from being better."""
    return tuple(limit.name for limit in limits if limit.excess(best.points)[0] >= -ON_LIMIT)


def at_edge(mix: FittedMix, replay: float) -> tuple[Finding, ...]:
    """Say that the best replay is the end of what the fits have seen, so that a better one may lie beyond."""
    if not mix.reads_replay or mix.low == mix.high:
        return ()
    findings = []
    ends_of_range = ((mix.low, "min_replay", "smallest"), (mix.high, "max_replay", "largest"))
    for end, name, word in ends_of_range:
        if name not in mix.given.given and abs(replay - end) <= 1e-9:
            findings.append(
                Finding(
                    "info",
                    "replay-at-edge",
                    f"the best replay is the {word} fitted one, {format_percent(end)}; a better one may lie beyond.",
                    "Add runs beyond it, or look there at the risk of extrapolating.",
                    data={"replay": end},
                    remedy=Remedy(name),
                )
            )
    return tuple(findings)


def beyond_fitted(mix: FittedMix, granted: dict[str, float]) -> Iterator[Finding]:
    """Say at which replay that was never run the limits would be kept; what is granted then names the option."""
    ends = ((SMALLEST, "min-replay", "up to", np.floor), (LARGEST, "max-replay", "from", np.ceil))
    for end, option, word, rounded in ends:
        if end in granted:
            granted[option] = granted.pop(end)
            replay = format_percent(float(rounded(granted[option] * 1e3) / 1e3))  # to the side that keeps the limits
            yield Finding(
                "info",
                "replay-at-edge",
                f"runs have replay {format_percent(mix.low)} to {format_percent(mix.high)}, none of these keeps the "
                f"limits; {word} {replay} they are kept, as far as the laws hold there.",
                "Add runs beyond it, or look there at the risk of extrapolating.",
                data={"replay": granted[option]},
                remedy=Remedy(option.replace("-", "_"), replay),
            )


def best_over_rates(build: Callable[..., list[FittedMix]], plan_of: Callable[[FittedMix], Mix], value: str) -> Mix:
    """Return the plan with the least value over the measured peak rates and what lies between them.

    Too high a rate costs the target as well, and under a limit replay, so that the best may lie where nothing was run;
    a plan never leaves the rates that were run near its size. Each look is at where a parabola through the best plan
    and those beside it is lowest.

    Parameters
    ----------
    build
        Builds the mixes, one for each measured level of what is chosen so, or the one whose levels are given.
    plan_of
        Plans for one mix.
    value
        The attribute of plans that is to be low.
    """
    plans = [plan_of(mix) for mix in build()]
    best = best_of(plans, value)
    known = best.fitted_mix.target.known
    beside = [plan for plan in plans if {**plan.fitted_mix.target.known, "lr_peak": best.lr_peak} == known]
    for _ in range(LOOKS):
        rate = _between(beside, best, value)
        if rate is None:
            break
        beside.append(plan_of(build({**known, "lr_peak": rate})[0]))
        best = best_of(beside, value)
    return best


def _between(plans: Sequence[MixPlan], best: MixPlan, value: str) -> float | None:
    """Return the rate where a parabola through the best plan and those beside it is lowest.

    Where one beside it keeps no limit, halfway to that one; ``None`` where the best is lowest at its own rate.
    """
    if len(plans) < 2 or not best.feasible:
        return None
    rates, values = (np.array([getattr(plan, name) for plan in plans], dtype=float) for name in ("lr_peak", value))
    own = float(np.log(rates[[plan is best for plan in plans].index(True)]))
    near = np.argsort(np.abs(np.log(rates) - own), kind="stable")[:3]
    x, y = np.log(rates[near]) - own, values[near]
    off = 0.0
    if np.isnan(y).any():
        off = 0.5 * float(x[np.isnan(y)][0])
    elif len(near) == 3:
        bend, slope, _ = np.polyfit(x, y, 2)
        off = float(np.clip(-slope / (2.0 * bend), x.min(), x.max())) if bend > 0 else 0.0
    rate = float(f"{np.exp(own + off):.3g}")
    return None if np.isclose(rate, rates, rtol=SAME_RATE).any() else rate


def best_of(plans: Sequence[Mix], value: str) -> Mix:
    """Return the plan with the least value, of those for each measured rate; feasible ones before others."""
    worst = float("inf")

    def rank(plan: MixPlan) -> tuple[bool, float]:
        result = getattr(plan, value)
        return not plan.feasible, worst if result is None else result

    return min(plans, key=rank)
