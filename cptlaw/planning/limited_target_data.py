"""The best replay where the target corpus is limited and the source corpus is not (Que et al. 2024, eq. 11)."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.planning import asked
from cptlaw.planning.best_replay import BestReplay, price_of_doubt
from cptlaw.planning.expected import expected_at, fixed_fields
from cptlaw.planning.limits import settled
from cptlaw.planning.result import MixPlan
from cptlaw.planning.setting import Setting, build_setting
from cptlaw.units import format_percent, format_quantity

MAX_REPLAY = 0.95  # the mix has target_tokens / (1 - replay) tokens: twenty times the target tokens


@dataclass(frozen=True, repr=False)
class LimitedDataPlan(MixPlan):
    """Answer of `limited_data`. See `MixPlan` for its attributes."""

    def _question(self) -> str:
        return "Lowest target loss from limited target tokens"


def limited_data(
    target: Any,
    *,
    n_params: Any,
    target_tokens: Any,
    ptpp: Any = None,
    source: Any = None,
    max_forgetting: Any = None,
    max_source_loss: Any = None,
    base_source_loss: Any = None,
    reference: str = "measured",
    base_law: Any = None,
    forgetting: str = "relative",
    min_replay: Any = 0.0,
    max_replay: Any = MAX_REPLAY,
    risk: Any = None,
    interval: Any = 0.9,
) -> LimitedDataPlan:
    """Find the replay with the lowest target loss where each target token is read once.

    All target tokens are used; replay adds source tokens to them, D = target_tokens / (1 - replay). Their cost does
    not count, only the target loss (usage 2 of Que et al. 2024, eq. 11, arXiv:2406.01375).

    Parameters
    ----------
    target
        Fit of the target loss, or its file.
    n_params, ptpp
        The model.
    target_tokens
        Tokens of the target corpus.
    source
        Fit of the source loss, to forecast it and for limits on it.
    max_forgetting, max_source_loss
        Limits, if any; they need `source`.
    base_source_loss, reference, base_law, forgetting, interval
        As for `min_tokens`.
    min_replay, max_replay
        Range of replay to search, wider than what the fits have seen: a finding says where the answer lies outside.
    risk
        Probability with which each limit must hold for a measured source loss; needs a limit. The target loss that is
        minimised stays the point forecast; the plan says what the risk adds to it (`price_of_doubt`).

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
    own = asked.positive(target_tokens, "target_tokens", "5B")
    if asked.share(max_replay, "max_replay") >= 1:
        raise UsageError("max_replay (--max-replay): at replay 1 no number of tokens holds a target token. Give less.")
    if source is None and (max_forgetting is not None or max_source_loss is not None):
        raise UsageError("a limit on the source loss or on forgetting needs source= (--source), a fit of that loss.")
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
    if not setting.target.reads_replay:
        raise UsageError(
            f"limited-data asks for the best replay, which law {setting.target.fit.law.name} does not read. Fit a law "
            f"that does, such as dcpt-l3."
        )
    question = BestReplay(setting.target, lambda at: own / (1.0 - at), setting.limits, setting.low, setting.high)
    certain = question
    question, restless = settled(question)
    share, loss = question.solve()
    fields = fixed_fields(setting)
    if not np.isfinite(loss):
        fields |= question.certificate()
        return LimitedDataPlan(feasible=False, findings=by_severity([*setting.findings, *restless]), **fields)
    values, found = expected_at(setting, share, own / (1.0 - share))
    return LimitedDataPlan(
        feasible=True,
        binding=question.binding(share),
        price_of_doubt=price_of_doubt(setting, certain, loss),
        findings=by_severity([*setting.findings, *restless, *found, *_about_the_answer(setting, own, share)]),
        **(fields | values),
    )


def _about_the_answer(setting: Setting, own: float, share: float) -> list[Finding]:
    """Say where the answer is the end of the range rather than an optimum, and where a constraint decides it."""
    law, params = setting.target.fit.law, setting.target.fit.params
    bound = getattr(law, "lower_bound_of_c", None)
    if (
        share <= setting.low + 1e-9
        and getattr(law, "monotone", None) == "paper"
        and bound is not None
        and bound(SimpleNamespace(**params)) is not None
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
    if share <= setting.low + 1e-9:
        return [
            Finding(
                "info",
                "no-interior-optimum",
                f"the target loss only rises with replay here: {format_percent(setting.low)} is best.",
                "Replay may still be needed against forgetting: see trade-off and min-tokens.",
            )
        ]
    if share >= setting.high - 1e-9:
        return [
            Finding(
                "warning",
                "at-max-replay",
                f"the target loss still falls at the highest replay searched, {format_percent(setting.high)}.",
                "Raise max_replay=, and doubt a law that wants so little of the target corpus.",
            )
        ]
    return []
