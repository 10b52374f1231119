"""The best replay at a given number of tokens (usage 1 of Que et al. 2024, eq. 10, arXiv:2406.01375)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

import numpy as np

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.planning.loss import FitLike
from cptlaw.planning.mixes.best_replay import lowest_target_loss
from cptlaw.planning.mixes.expected import at_edge, best_over_rates, with_findings
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.result import MixPlan
from cptlaw.planning.scenario import TradeOff, documented, read_scenario
from cptlaw.planning.solve import Space


@dataclass(frozen=True, repr=False)
class TradeOffPlan(MixPlan):
    """Answer of `trade_off`. See `MixPlan` for its attributes."""

    def _question(self) -> str:
        return "Lowest target loss under a limit on the source"


def trade_off(target: FitLike, source: FitLike, **scenario: Unpack[TradeOff]) -> TradeOffPlan:
    """Find the replay with the lowest target loss at given tokens, under a limit on forgetting.

    Where the target loss rises with replay and the source loss falls, that is the replay at which the limit is just
    kept, to 1e-9. With a risk the target loss that is minimised stays the point forecast; the plan says what the risk
    adds to it (`price_of_doubt`).

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files. Laws of the mix alone will do.
    **scenario
        Tokens, model and limits; at least one limit.

    Returns
    -------
    TradeOffPlan
        With ``feasible=False``, what blocks and the best within reach, where no replay keeps the limits.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.
    """
    given = read_scenario(TradeOff, scenario, "trade-off")
    if source is None:
        raise UsageError("trade-off needs source= (--source), a fit of the source loss.")
    if not (
        {"max_forgetting", "max_source_loss", "max_target_loss"} & given.given or given.min_score or given.max_drop
    ):
        raise UsageError(
            "trade-off needs a limit: max_forgetting (--max-forgetting), a highest loss, min_score (--min) or "
            "max_drop (--max-drop)."
        )
    build = partial(build_mixes, given, target, source)
    plan: TradeOffPlan = best_over_rates(build, lambda mix: plan_at(mix, given.tokens), "target_loss")
    return plan


def plan_at(mix: FittedMix, tokens: float) -> TradeOffPlan:
    """Answer the question for one mix."""
    space = Space((mix.axis(),), lambda chosen: {**chosen, "tokens": np.full(len(chosen["replay"]), tokens)})
    plan, _ = lowest_target_loss(mix, space, TradeOffPlan)
    result: list[Finding] = []
    if not any(loss.reads("tokens") for loss in mix.losses):
        result.append(
            Finding(
                "info",
                "tokens-unread",
                "no law here reads tokens: the losses are those at the runs' own tokens, whatever is asked.",
                "Train as long as the runs did, or fit runs of several token counts with a law of tokens.",
            )
        )
    if plan.replay is not None:
        result += at_edge(mix, plan.replay)
    return replace(with_findings(plan, result), tokens=tokens if plan.tokens is None else plan.tokens)


def crossing(shares: Sequence[float], losses: Sequence[float], limit: float) -> float:
    """Return the share at which measured losses, joined by straight lines, cross a limit: no law needed.

    Goes from the end that keeps the limit and stops where it is first broken.

    Parameters
    ----------
    shares
        Shares of a corpus at which losses were measured, in any order.
    losses
        The measured losses, nats per token.
    limit
        The highest loss allowed.

    Raises
    ------
    DataError
        If the limit is nowhere crossed from an end that keeps it.

    Examples
    --------
    Table 5 of Que et al. 2024: general loss against the share of chemistry, limit 3 % above 2.8602.

    >>> shares = [0.90, 0.91, 0.92, 0.924, 0.93, 0.94, 1.0]
    >>> general = [2.9052, 2.9193, 2.9376, 2.9445, 2.9644, 2.9848, 3.4667]
    >>> round(crossing(shares, general, 2.8602 * 1.03), 5)
    0.92445
    """
    if len(shares) != len(losses) or len(shares) < 2:
        raise DataError(
            f"crossing: {len(shares)} shares and {len(losses)} losses. Expected two or more of each, in pairs."
        )
    order = np.argsort(np.asarray(shares, dtype=float), kind="stable")
    x, y = np.asarray(shares, dtype=float)[order], np.asarray(losses, dtype=float)[order]
    if not np.all(np.isfinite(x) & np.isfinite(y)) or np.any(np.diff(x) <= 0):
        raise DataError("crossing: shares and losses must be finite, and no share may occur twice.")
    if y[0] > limit:
        x, y = x[::-1], y[::-1]
    above = np.flatnonzero(y > limit)
    if not len(above) or above[0] == 0:
        raise DataError(
            f"crossing: losses from {y.min():g} to {y.max():g} over shares {x.min():g} to {x.max():g} do not cross "
            f"{limit:g} from an end that keeps it. Measure at more shares, or change the limit."
        )
    i = int(above[0])
    return float(x[i - 1] + (limit - y[i - 1]) * (x[i] - x[i - 1]) / (y[i] - y[i - 1]))


documented(trade_off, TradeOff)
