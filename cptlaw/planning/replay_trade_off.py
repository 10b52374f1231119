"""The best replay at a given number of tokens (usage 1 of Que et al. 2024, eq. 10, arXiv:2406.01375)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.errors import DataError, UsageError
from cptlaw.findings import by_severity
from cptlaw.planning import asked
from cptlaw.planning.best_replay import BestReplay, price_of_doubt
from cptlaw.planning.expected import at_edge, expected_at, fixed_fields
from cptlaw.planning.limits import settled
from cptlaw.planning.result import MixPlan
from cptlaw.planning.setting import build_setting


@dataclass(frozen=True, repr=False)
class TradeOffPlan(MixPlan):
    """Answer of `trade_off`. See `MixPlan` for its attributes."""

    def _question(self) -> str:
        return "Lowest target loss under a limit on the source"


def trade_off(
    target: Any,
    source: Any,
    *,
    n_params: Any,
    tokens: Any,
    ptpp: Any = None,
    max_forgetting: Any = None,
    max_source_loss: Any = None,
    base_source_loss: Any = None,
    reference: str = "measured",
    base_law: Any = None,
    forgetting: str = "relative",
    min_replay: Any = None,
    max_replay: Any = None,
    risk: Any = None,
    interval: Any = 0.9,
) -> TradeOffPlan:
    """Find the replay with the lowest target loss at given tokens, under a limit on forgetting.

    Where the target loss rises with replay and the source loss falls, that is the replay at which the limit is just
    kept, to 1e-9.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files.
    n_params, tokens, ptpp
        The model, and the adaptation tokens, replay included.
    max_forgetting, max_source_loss
        Limits; at least one. A fraction of the base model's source loss or, with ``forgetting="absolute"``, nats per
        token; and nats per token.
    base_source_loss, reference, base_law, forgetting, min_replay, max_replay, interval
        As for `min_tokens`.
    risk
        Probability with which each limit must hold for a measured source loss at these tokens, under the source fit's
        uncertainty. The target loss that is minimised stays the point forecast; the plan says what the risk adds to it
        (`price_of_doubt`).

    Returns
    -------
    TradeOffPlan
        With ``feasible=False``, what blocks and the best within reach, where no replay keeps the limits.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.
    """
    if max_forgetting is None and max_source_loss is None:
        raise UsageError("trade-off needs a limit: max_forgetting (--max-forgetting) or max_source_loss.")
    total = asked.positive(tokens, "tokens", "10B")
    setting = build_setting(
        target,
        source,
        n_params=n_params,
        ptpp=ptpp,
        max_forgetting=max_forgetting,
        max_source_loss=max_source_loss,
        base_source_loss=base_source_loss,
        reference=reference,
        base_law=base_law,
        forgetting=forgetting,
        min_replay=min_replay,
        max_replay=max_replay,
        risk=risk,
        interval=interval,
    )
    question = BestReplay(setting.target, lambda at: np.full(len(at), total), setting.limits, setting.low, setting.high)
    certain = question
    question, restless = settled(question)
    share, loss = question.solve()
    fields = fixed_fields(setting)
    if not np.isfinite(loss):
        fields |= question.certificate() | {"tokens": total}
        return TradeOffPlan(feasible=False, findings=by_severity([*setting.findings, *restless]), **fields)
    values, found = expected_at(setting, share, total)
    edges = at_edge(setting, share)
    return TradeOffPlan(
        feasible=True,
        binding=question.binding(share),
        price_of_doubt=price_of_doubt(setting, certain, loss),
        findings=by_severity([*setting.findings, *restless, *found, *edges]),
        **(fields | values),
    )


def crossing(shares: Sequence[float], losses: Sequence[float], limit: float) -> float:
    """Return the share at which measured losses, joined by straight lines, cross a limit: no law needed.

    Walks from the end that keeps the limit and stops where it is first broken.

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
