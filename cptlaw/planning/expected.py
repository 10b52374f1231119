"""What to expect at a mix: losses and forgetting with their intervals, and what to be wary of there."""

from __future__ import annotations

from typing import Any

import numpy as np

from cptlaw.findings import Finding
from cptlaw.planning.result import flops_of
from cptlaw.planning.setting import Setting
from cptlaw.units import format_percent, format_quantity

FLAT = 1e-6  # relative slope in replay up to which the target loss counts as flat: a plan may sit on its minimum


def expected_at(
    setting: Setting, replay: float, tokens: float, effective: float | None = None
) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return the fields of a `MixPlan` at one mix, and findings about that point.

    Parameters
    ----------
    setting
        Fits, model and reference.
    replay, tokens
        The mix.
    effective
        Tokens that count for the laws where some are repeated; `tokens` where absent.
    """
    counted = tokens if effective is None else effective
    values: dict[str, Any] = {
        "replay": replay if setting.reads_replay else None,
        "tokens": tokens,
        "atpp": tokens / setting.n_params,
        "flops": flops_of(setting.n_params, tokens),
    }
    if setting.reads_replay:
        values |= {"target_tokens": (1.0 - replay) * tokens, "source_tokens": replay * tokens}
    found: list[Finding] = []
    for side in setting.sides:
        name = f"{side.role}_loss"
        expected = side.forecast(replay, counted, setting.interval)
        values |= {name + end: loss[0] for end, loss in expected.losses.items()}
        found += expected.findings
    found += below_fitted_tokens(setting, tokens)
    if setting.source is not None and setting.forgetting is not None:
        how = setting.forgetting
        for end in ("", "_lo", "_hi"):
            loss = values.get(f"source_loss{end}")
            values[f"forgetting{end}"] = None if loss is None else how.of(loss)
    slope = setting.target.slope_in_replay(replay, counted)
    if slope < -FLAT * values["target_loss"]:
        found.append(
            Finding(
                "warning",
                "target-falls-with-replay",
                f"at this mix the target law ({setting.target.fit.law.spec}) claims that one more percent of replay "
                f"changes the target loss by {slope / 100:.2g} nats per token, so that less of the target corpus would "
                f"be better.",
                "Do not trust the replay that follows from it: compare with ratio_of=own or a dcpt law, or add runs at "
                "other replay.",
            )
        )
    return values, tuple(found)


def below_fitted_tokens(setting: Setting, tokens: float) -> tuple[Finding, ...]:
    """Warn of mixes with fewer tokens than the fits have seen, where the laws are wrong in kind."""
    least = setting.smallest_fitted_tokens
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


def fixed_fields(setting: Setting) -> dict[str, Any]:
    """Return the fields of a `MixPlan` that do not depend on the answer."""
    how = setting.forgetting
    return {
        "n_params": setting.n_params,
        "ptpp": setting.target.ptpp if np.isfinite(setting.target.ptpp) else None,
        "forgetting_measure": "relative" if how is None else how.measure,
        "base_source_loss": None if how is None else how.reference.loss,
        "reference": None if how is None else how.reference.kind,
        "risk": setting.risk,
        "interval": setting.interval,
    }


def at_edge(setting: Setting, replay: float) -> tuple[Finding, ...]:
    """Say that the best replay is the end of what the fits have seen, so that a better one may lie beyond."""
    if not setting.reads_replay or setting.low == setting.high:
        return ()
    found = []
    ends_of_range = ((setting.low, setting.given_low, "smallest"), (setting.high, setting.given_high, "largest"))
    for end, given, word in ends_of_range:
        if not given and abs(replay - end) <= 1e-9:
            found.append(
                Finding(
                    "info",
                    "replay-at-edge",
                    f"the best replay is the {word} fitted one, {format_percent(end)}; a better one may lie beyond.",
                    "Add runs beyond it, or widen the range with min_replay= or max_replay= at the risk of "
                    "extrapolating.",
                )
            )
    return tuple(found)
