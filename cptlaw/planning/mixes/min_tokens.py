"""The fewest tokens, and the replay, that keep limits on forgetting and losses (arXiv:2510.23198, section on planning).

At a fixed model size that is also the fewest FLOPs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.limits import at_most, at_risk, column
from cptlaw.planning.loss import FitLike
from cptlaw.planning.mixes.expected import at_edge, best_over_rates, planned, with_findings
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.mixes.repetition import effective_tokens, read_often
from cptlaw.planning.result import MixPlan, quantity_text
from cptlaw.planning.scenario import MinTokens, documented, read_scenario
from cptlaw.planning.solve import ON_LIMIT, Axis, Best, Limit, Points, Space, solve, worst_excess
from cptlaw.result import Line
from cptlaw.units import format_percent, format_quantity

ROUNDING = 1e-9
MOST_TIMES = 1e6  # times the most fitted tokens: no plan looks farther


@dataclass(frozen=True, repr=False)
class MinTokensPlan(MixPlan):
    """Answer of `min_tokens`. See `MixPlan` for the attributes that all mixes share.

    Attributes
    ----------
    unique_target_tokens, repetition, target_epochs
        The unique target tokens that there are, what is said of repeating them, and how often the plan reads them.
    effective_tokens
        With repeated target tokens: unique tokens that would be worth as much as `tokens`.
    max_tokens
        The tokens that may be spent, where that was said.
    """

    unique_target_tokens: float | None = None
    repetition: str | None = None
    target_epochs: float | None = None
    effective_tokens: float | None = None
    max_tokens: float | None = None

    def _question(self) -> str:
        return "Fewest tokens"

    def _price(self, value: float) -> str:
        return f"{quantity_text(value)} tokens"

    def _where_reached(self) -> str:
        if self.unique_target_tokens is not None and self.repetition == "forbid":
            return " with all target tokens"
        return " in the limit of many tokens" if self.max_tokens is None else " with all tokens"

    def _expected(self) -> list[Line]:
        lines = super()._expected()
        if self.target_epochs is not None:
            read = f"{quantity_text(self.unique_target_tokens)} tokens, read {self.target_epochs:.3g} times"
            lines.append(("target data", read))
        return lines


def min_tokens(target: FitLike, source: FitLike | None = None, **scenario: Unpack[MinTokens]) -> MinTokensPlan:
    """Find the fewest adaptation tokens, and the replay, that keep limits on forgetting and losses.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files. Limits on the source side need `source`.
    **scenario
        The model and the limits, at least one of them. Numbers, or text such as ``"8.1B"``, as everywhere here. With a
        risk the plan says what that costs in tokens (`price_of_doubt`).

    Returns
    -------
    MinTokensPlan
        With ``feasible=False``, the limits that block and the best values within reach, where no mix will do.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.

    Notes
    -----
    Tokens are never fewer than the smallest fitted ones: below them nothing was measured. Minimises ATPP, D / N, of
    Goffinet et al. 2025 (arXiv:2510.23198). Repeated target tokens are worth what Muennighoff et al.
    2023 (arXiv:2305.16264) found.

    Examples
    --------
    >>> import cptlaw as cl
    >>> runs = cl.examples.load("en-fr-pilot")
    >>> rows = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    >>> target, source = (cl.fit("ptpp-floor", runs, on=eval, where=rows) for eval in ("target", "source"))
    >>> plan = cl.plan.min_tokens(
    ...     target, source, n_params=124672, ptpp=279, max_forgetting="18%", max_target_loss=1.75, interval=None
    ... )
    >>> plan.feasible, plan.binding
    (True, ('max-forgetting', 'max-target-loss'))
    """
    given = read_scenario(MinTokens, scenario, "min-tokens")
    limited = {"max_forgetting", "max_target_loss", "max_source_loss"} & given.given
    if not (limited or given.min_score or given.max_drop):
        raise UsageError(
            "min-tokens needs a limit: max_forgetting (--max-forgetting), max_target_loss (--max-target-loss), "
            "max_source_loss, min_score (--min) or max_drop. Without one, no tokens at all are the fewest."
        )
    plan: MinTokensPlan = best_over_rates(partial(build_mixes, given, target, source), _plan, "tokens")
    return plan


@dataclass(frozen=True)
class Tokens:
    """The tokens to choose from.

    Parameters
    ----------
    least, most
        Bounds. Below the fewest fitted tokens laws claim that losses only fall, while forgetting sets in there.
    unique, repetition
        Unique target tokens, where they are limited, and what is said of repeating them.
    epochs
        How often they may be read at most, where that was said.
    """

    least: float
    most: float
    unique: float | None
    repetition: str
    epochs: float | None = None

    @classmethod
    def of(cls, mix: FittedMix) -> Tokens:
        """Return the tokens that a scenario allows.

        Raises
        ------
        UsageError
            If no law reads tokens.
        """
        if not any(loss.reads("tokens") for loss in mix.losses):
            specs = " and ".join(loss.spec for loss in mix.losses)
            raise UsageError(
                f"min-tokens asks for tokens, which {specs} does not read. Fit a law of tokens, such as ptpp-floor or "
                f"dcpt-l3, or ask for the replay at given tokens with trade-off."
            )
        given, far = mix.given, MOST_TIMES * mix.largest_fitted_tokens
        most = far if given.max_tokens is None else min(given.max_tokens, far)
        repetition = given.repetition if given.max_epochs is None else "discount"
        return cls(
            min(mix.smallest_fitted_tokens, most), most, given.unique_target_tokens, repetition, given.max_epochs
        )

    @property
    def discounts(self) -> bool:
        """Whether repeated target tokens count for less."""
        return self.unique is not None and self.repetition == "discount"

    def counted(self, chosen: dict[str, Array]) -> Points:
        """Return points with the tokens that are spent beside those that count for the laws."""
        spent, replay = chosen["tokens"], chosen["replay"]
        points = {**chosen, "spent": spent, "of the target": (1.0 - replay) * spent}
        if self.discounts and self.unique is not None:
            points["tokens"] = effective_tokens(spent, replay, self.unique)
        return points

    def space(self, mix: FittedMix) -> Space:
        """Return what may be chosen."""
        return Space((mix.axis(), Axis("tokens", self.least, self.most, log=True)), self.counted)

    def limits(self) -> tuple[Limit, ...]:
        """Return the limits on tokens of the target."""
        if self.unique is None or (self.discounts and self.epochs is None):
            return ()
        return (at_most("unique-target-tokens", "of the target", self.unique * (self.epochs or 1.0)),)


def fewest(mix: FittedMix, tokens: Tokens, limits: Sequence[Limit]) -> Best:
    """Return the mix with the fewest tokens that keeps limits."""
    space = tokens.space(mix)
    best = solve(space, partial(column, name="spent"), limits)
    if best.kept and best.point["spent"] <= tokens.least * (1.0 + ROUNDING):
        # Several mixes do with the least tokens: take the one whose limits leave most room.
        least = space.widened(tokens=(tokens.least, tokens.least))
        roomy = solve(least, lambda points: worst_excess(limits, points), limits)
        best = replace(roomy, value=tokens.least) if roomy.kept else best
    return best


def _plan(mix: FittedMix) -> MinTokensPlan:
    """Answer the question for one mix."""
    tokens, relaxed = Tokens.of(mix), {}
    space, limits = tokens.space(mix), (*mix.limits, *tokens.limits())
    if mix.given.max_tokens is not None:
        far = max(MOST_TIMES * mix.largest_fitted_tokens, tokens.most)
        relaxed["max-tokens"] = space.widened(tokens=(tokens.least, far)), partial(column, name="spent")
    search = partial(fewest, mix, tokens)
    plan, best = planned(mix, space, limits, search, relaxed, MinTokensPlan)
    plan = replace(plan, unique_target_tokens=tokens.unique, max_tokens=mix.given.max_tokens)
    if tokens.unique is not None:
        plan = replace(plan, repetition=tokens.repetition)
    if best.kept:
        replay, spent = best.point["replay"], best.point["spent"]
        effective = best.point["tokens"] if tokens.discounts else None
        plan = replace(plan, binding=_binding(mix, tokens, plan.binding, best), effective_tokens=effective)
        plan = with_findings(plan, [*at_edge(mix, replay), *_at_floor(tokens, spent)])
        if tokens.unique is not None:
            times = (1.0 - replay) * spent / tokens.unique
            plan = with_findings(replace(plan, target_epochs=times), read_often({"the target corpus": times}))
    elif mix.given.risk is not None and (certain := search(at_risk(limits, None))).kept:
        plan = with_findings(plan, [_doubt_decides(certain)])
    return plan


def _binding(mix: FittedMix, tokens: Tokens, limits: Sequence[str], best: Best) -> tuple[str, ...]:
    """Name what keeps the tokens from being fewer."""
    replay, spent = best.point["replay"], best.point["spent"]
    result = [name for name in limits if name != "unique-target-tokens"]
    if spent <= tokens.least * (1.0 + ROUNDING):
        result.append("smallest-fitted-tokens")
    if tokens.unique is not None and (1.0 - replay) * spent >= tokens.unique * (tokens.epochs or 1.0) * (
        1.0 - ON_LIMIT
    ):
        result.append("unique-target-tokens")
    # A range of one replay was not chosen, so that its ends keep nothing from being better.
    if mix.low < mix.high:
        for end, name in ((mix.low, "min_replay"), (mix.high, "max_replay")):
            if name in mix.given.given and abs(replay - end) <= 1e-9:
                result.append(name.replace("_", "-"))
    return tuple(result)


def _at_floor(tokens: Tokens, spent: float) -> tuple[Finding, ...]:
    if spent > tokens.least * (1.0 + ROUNDING):
        return ()
    return (
        Finding(
            "info",
            "smallest-fitted-tokens",
            f"all limits already hold at {format_quantity(spent)} tokens, the fewest that the fits have seen. Below "
            f"them the laws are wrong: they claim that losses only fall, while forgetting sets in there.",
            "Fewer tokens may do; runs measured earlier would show it.",
        ),
    )


def _doubt_decides(certain: Best) -> Finding:
    return Finding(
        "info",
        "doubt-decides",
        f"the point forecasts alone would allow a plan: {format_quantity(certain.value)} tokens at replay "
        f"{format_percent(certain.point['replay'])}.",
        "Lower risk=, loosen the limits, or add runs that narrow the forecasts.",
    )


documented(min_tokens, MinTokens)
