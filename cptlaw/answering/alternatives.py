"""What else saves the source: the same run without replay, merged back with its base, or trained as an adapter.

The numbers are measured on models of 46K to 204K parameters under two shifts (docs/how_to/merge_or_replay.md);
`python -m studies merge_law --write` and `adapters --write` make alternatives.json. For other models they are a hint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.fitting.fit import Fit
from cptlaw.fitting.uncertainty.intervals import LARGEST
from cptlaw.laws.calculus import Array

WEIGHTS = np.arange(1, 10) / 10  # of a merge
LEAST_REPLAY = 0.005  # of a plan that could do without
ENDS = (0.05, 0.5, 0.95)
TRAINED = (0.5, 16.0)  # tokens per parameter of the measured adaptations; beyond them the nearest end speaks
SIZES = (4.6e4, 2e5)  # of the measured models, likewise
MEASURED_ON = "English to French and to code, 46K to 204K parameters, 16 tokens per parameter"


@cache
def _learned_numbers() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("alternatives.json").read_text(encoding="utf-8")))


def share_of_change(role: str, weight: float, tokens_per_param: float, n_params: float) -> tuple[float, float]:
    """Return which share of the change of a loss is left at a weight of a merge, and the half-width of that loss.

    Parameters
    ----------
    role
        ``"source"`` or ``"target"``.
    weight
        0 is the base model, 1 the adapted one.
    tokens_per_param, n_params
        Of the adaptation, and of the model.
    """
    known, w = _learned_numbers()["merge"][role], weight
    logs = [np.log(np.clip(tokens_per_param, *TRAINED) / 16.0), np.log(np.clip(n_params, *SIZES) / 1e5)]
    a, b = np.asarray(known["slopes"]) @ [1.0, *logs]
    share = w**2 * (3 - 2 * w) + a * w * (1 - w) ** 2 - b * w**2 * (1 - w)
    return float(share), float(known["half_width"] * 4 * w * (1 - w))


def alternatives(
    fits: Mapping[str, Fit],
    point: Mapping[str, float],
    *,
    base_target_loss: float | None,
    base_source_loss: float | None,
    forgetting: float | None,
) -> tuple[Mapping[str, object], ...]:
    """Return what the planned run without replay would come to, merged back or as an adapter.

    Parameters
    ----------
    fits
        The fitted losses by role.
    point
        Inputs of the laws at the planned mix.
    base_target_loss, base_source_loss
        Of the base model, before any adaptation; without both there is nothing to say.
    forgetting
        Of the plan, as a share: the merge is the one that comes nearest to it.

    Returns
    -------
    tuple
        Each with ``method``, ``forgetting`` and ``target_loss`` (ends of 90 % as ``_lo`` and ``_hi``), ``measured_on``;
        a merge has its ``merge_weight``, an adapter its ``rank_over_width``.
    """
    if base_source_loss is None or forgetting is None or base_target_loss is None or "source" not in fits:
        return ()
    if not point.get("replay", 0.0) > LEAST_REPLAY:
        return ()
    row = pd.DataFrame([{**point, "replay": 0.0}])
    logs = {role: fits[role].log_quantiles(row, ENDS)[:, 0] for role in ("target", "source")}
    if not all(np.ptp(one) <= 2 * LARGEST for one in logs.values()):  # what nothing bounds is no alternative
        return ()
    without = {role: np.exp(one) for role, one in logs.items()}
    base = {"target": base_target_loss, "source": base_source_loss}
    return merge_and_adapters(base, without, forgetting, point["tokens"], point["n_params"])


def merge_and_adapters(
    base: Mapping[str, float], without: Mapping[str, Array], forgetting: float, tokens: float, n_params: float
) -> tuple[Mapping[str, object], ...]:
    """Return the merge of a run without replay that comes nearest to some forgetting, and that run as an adapter.

    Nothing where the plan forgets nothing: only the base model itself comes near to that.

    Parameters
    ----------
    base, without
        Losses by role: of the base model, and of the run without replay at `ENDS`.
    forgetting, tokens, n_params
        Of the plan, and of the model.
    """
    if forgetting <= 0 or without["source"][1] <= base["source"] or not np.isfinite(list(without.values())).all():
        return ()
    merges = [_merged_run(base, without, float(weight), tokens / n_params, n_params) for weight in WEIGHTS]
    nearest = min(merges, key=lambda one: abs(float(one["forgetting"]) - forgetting))
    return (nearest, *(_adapter_run(base, without, entry) for entry in _learned_numbers()["lora"][1:3]))


def measured_base(base: pd.DataFrame, point: Mapping[str, float]) -> float | None:
    """Return the measured target loss of the asked base model, of those that a fit knows: at its size and budget."""
    for name in ("n_params", "ptpp"):
        if name in point and base[name].notna().any():
            base = base[np.isclose(base[name].to_numpy(dtype=float), point[name], rtol=0.02)]
    return float(base["loss"].mean()) if len(base) else None


def _merged_run(
    base: Mapping[str, float], without: Mapping[str, Array], weight: float, tokens_per_param: float, n_params: float
) -> Mapping[str, float | str]:
    result: dict[str, float | str] = {"name": "no-replay-merged", "method": "merge", "merge_weight": round(weight, 1)}
    for role, start in base.items():
        share, wide = share_of_change(role, weight, tokens_per_param, n_params)
        losses = start + (without[role] - start) * share
        low, middle, high = losses * np.array([1 - wide, 1.0, 1 + wide])
        result |= _interval_fields(role, start, low, middle, high)
    return {**result, "measured_on": MEASURED_ON}


def _adapter_run(
    base: Mapping[str, float], without: Mapping[str, Array], entry: Mapping[str, object]
) -> Mapping[str, object]:
    rank = entry["rank_over_width"]
    result: dict[str, object] = {"name": f"adapter-{rank:.2g}-of-width", "method": "lora", "rank_over_width": rank}
    gains, rises = (np.asarray(entry[name]) for name in ("gain", "forgetting"))
    for role, shares in (("target", gains[::-1]), ("source", rises)):  # of a gain the least is the highest loss
        ends = base[role] + (without[role] - base[role]) * shares
        result |= _interval_fields(role, base[role], ends.min(), ends[1], ends.max())
    return {**result, "measured_on": MEASURED_ON}


def _interval_fields(role: str, base: float, low: float, middle: float, high: float) -> dict[str, float]:
    values = dict(zip(("", "_lo", "_hi"), (middle, low, high), strict=True))
    if role == "target":
        gains = zip(
            ("", "_hi", "_lo"), values.values(), strict=True
        )  # the lower end of a loss is the higher one of its fall
        return {f"target_loss{end}": float(value) for end, value in values.items()} | {
            f"target_gain{end}": 1.0 - float(value) / base for end, value in gains
        }
    return {f"forgetting{end}": float(value) / base - 1.0 for end, value in values.items()}
