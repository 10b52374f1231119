"""The best replay where the target corpus is limited and the source corpus is not (Que et al. 2024, eq. 11)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.law_fit import LawFit
from cptlaw.laws.calculus import Array, Letters
from cptlaw.planning.loss import FitLike
from cptlaw.planning.mixes.best_replay import lowest_target_loss
from cptlaw.planning.mixes.expected import best_over_rates, with_findings
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.mixes.repetition import effective_tokens, read_often
from cptlaw.planning.result import MixPlan, quantity_text
from cptlaw.planning.scenario import LimitedData, documented, read_scenario
from cptlaw.planning.solve import Axis, Points, Space
from cptlaw.result import Line
from cptlaw.units import format_percent, format_quantity


@dataclass(frozen=True, repr=False)
class LimitedDataPlan(MixPlan):
    """Answer of `limited_data`. See `MixPlan` for the attributes that all mixes share.

    Attributes
    ----------
    target_epochs
        How often the plan reads the target tokens.
    effective_tokens
        Where it repeats them: unique tokens that would be worth as much as `tokens`.
    """

    target_epochs: float | None = None
    effective_tokens: float | None = None

    def _question(self) -> str:
        return "Lowest target loss from limited target tokens"

    def _expected(self) -> list[Line]:
        lines = super()._expected()
        if self.effective_tokens is not None:
            worth = f"worth {quantity_text(self.effective_tokens)} tokens in all"
            lines.append(("target data", f"read {self.target_epochs:.3g} times, {worth}"))
        return lines


def limited_data(target: FitLike, source: FitLike | None = None, **scenario: Unpack[LimitedData]) -> LimitedDataPlan:
    """Find the replay with the lowest target loss where target tokens are limited: each is read once, or more often.

    All target tokens are used; replay adds source tokens to them, D = target_tokens / (1 - replay). With ``max_epochs``
    they may be read up to so often, and repeats count for less (Muennighoff et al. 2023, arXiv:2305.16264). Their cost
    does not count, only the target loss (usage 2 of Que et al. 2024, eq. 11, arXiv:2406.01375), unless ``within`` is
    given: then the fewest tokens whose target loss is so near the lowest. The range of replay is wider than what the
    fits have seen: a finding says where the answer lies outside. With a risk the target loss that is minimised stays
    the point forecast; the plan says what the risk adds to it (`price_of_doubt`).

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files. The source is needed to forecast it, and for limits on it.
    **scenario
        Target tokens, model and, if any, limits.

    Returns
    -------
    LimitedDataPlan

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.

    Notes
    -----
    A dcpt law fitted with ``monotone="paper"`` cannot answer: its bound C >= C0(D_min) rules out an interior optimum
    for more than e D_min target tokens, 0.36 B as published. An error finding says so.
    """
    given = read_scenario(LimitedData, scenario, "limited-data")
    if given.max_replay >= 1:
        raise UsageError("max_replay (--max-replay): at replay 1 no number of tokens holds a target token. Give less.")
    build = partial(build_mixes, given, target, source)
    plan: LimitedDataPlan = best_over_rates(build, lambda mix: _from(mix, given.target_tokens), "target_loss")
    return plan


def _from(mix: FittedMix, own: float) -> LimitedDataPlan:
    if not mix.target.reads("replay"):
        raise UsageError(
            f"limited-data asks for the best replay, which law {mix.target.spec} does not read. Fit a law that does, "
            f"such as dcpt-l3."
        )
    epochs = mix.given.max_epochs or 1.0

    def tokens(chosen: dict[str, Array]) -> Points:
        replay = chosen["replay"]
        whole = chosen["epochs"] * own / (1.0 - replay)
        counted = effective_tokens(whole, replay, own) if epochs > 1 else whole
        return {**chosen, "spent": whole, "tokens": counted}

    space = Space((mix.axis(), Axis("epochs", 1.0, epochs, log=True)), tokens)
    plan, best = lowest_target_loss(mix, space, LimitedDataPlan, mix.given.within)
    if not plan.feasible:
        return plan
    times = best.point["epochs"]
    plan = replace(plan, target_epochs=times, effective_tokens=best.point["tokens"] if epochs > 1 else None)
    about = _about_the_answer(mix, own, best.point["replay"])
    return with_findings(plan, [*about, *read_often({"the target corpus": times})])


def _about_the_answer(mix: FittedMix, own: float, share: float) -> list[Finding]:
    """Say where the answer is the end of the range rather than an optimum, and where a constraint decides it."""
    law, fit = mix.target.laws[0], mix.target.fit
    bound = getattr(law, "lower_bound_of_c", None) if len(mix.target.laws) == 1 else None
    if (
        share <= mix.low + 1e-9
        and getattr(law, "monotone", None) == "paper"
        and bound is not None
        and isinstance(fit, LawFit)
        and bound(Letters(**fit.params)) is not None
    ):
        least = format_quantity(getattr(law, "min_tokens", 0.0))
        return [
            Finding(
                "error",
                "monotone-paper",
                f"{law.spec} keeps the target loss falling with its own share from {least} tokens on, which rules out "
                f"an optimum with replay for {format_quantity(own)} target tokens, whatever the data says.",
                "Fit again with monotone=none or monotone=soft.",
            )
        ]
    if share <= mix.low + 1e-9:
        return [
            Finding(
                "info",
                "no-interior-optimum",
                f"the target loss only rises with replay here: {format_percent(mix.low)} is best.",
                "Replay may still be needed against forgetting: see trade-off and min-tokens.",
            )
        ]
    if share >= mix.high - 1e-9:
        return [
            Finding(
                "warning",
                "at-max-replay",
                f"the target loss still falls at the highest replay searched, {format_percent(mix.high)}.",
                "Allow more replay, and doubt a law that wants so little of the target corpus.",
                remedy=Remedy("max_replay"),
            )
        ]
    return []


documented(limited_data, LimitedData)
