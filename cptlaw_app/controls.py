"""The controls: where each slider begins and ends, where it starts, and what their positions ask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.planning.scenario import TradeOff
from cptlaw.units import format_percent, format_quantity, parse_quantity
from cptlaw_app.fitted import Fitted
from cptlaw_app.scenario import Scenario

SLIDERS = {
    "n_params": "model size",
    "ptpp": "pre-training tokens each",
    "tokens": "adaptation tokens",
    "replay": "replay",
    "max_forgetting": "forgetting, at most",
    "max_target_loss": "target loss, at most",
    "risk": "certainty of each limit",
}
CHOSEN = {"tokens": "as few as keep the limits", "replay": "choose the best"}
LIMITS = {"max_forgetting": "limit forgetting", "max_target_loss": "limit the target loss"}
LOGARITHMIC = ("n_params", "ptpp", "tokens")
SHARES = ("replay", "max_forgetting", "risk")
BEST = "best"  # of the measured peak rates
ROOM = 1.5  # times what the runs show that limits reach
CLOSE = 0.02  # in logs: a slider this near to a measured model is at it


def raw(name: str, value: Any) -> float:
    """Return what a slider's position stands for."""
    try:  # a browser's slider gives its position as text
        at = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise UsageError(f"{SLIDERS[name]}: not a number. Move the slider.")
    if name in LOGARITHMIC and not -10 < at < 40:
        raise UsageError(f"{SLIDERS[name]}: out of range. Move the slider.")
    return 10.0**at if name in LOGARITHMIC else at


def position(name: str, value: float) -> float:
    """Return where a slider stands for a value."""
    return math.log10(value) if name in LOGARITHMIC else value


def text(name: str, value: float) -> str:
    """Return a value as people write it."""
    if name in SHARES:
        return format_percent(value, 3)
    return f"{value:.4g}" if name == "max_target_loss" else format_quantity(value, 4)


def first(fitted: Fitted) -> Scenario:
    """Return the scenario that a page starts with: the largest runs' model and tokens, and a limit that can be kept."""
    largest: dict[str, Any] = {}
    for name in ("n_params", "ptpp", "tokens"):
        if name in fitted.ranges:
            columns = [fit.data[name].to_numpy(dtype=float) for fit in fitted.fits if name in fit.data.columns]
            largest[name] = float(max(values.max() for values in columns))
    start = Scenario(**largest)
    asked = {"n_params": start.n_params or 1.0, "ptpp": start.ptpp, "tokens": start.tokens or 1.0, "interval": None}
    mix = fitted.mixes(TradeOff, asked)[0][0]
    if mix.source is None or mix.forgetting is None or "replay" not in fitted.ranges:
        return start
    shares = np.array([mix.low, mix.high])
    lost = mix.forgetting.of(mix.source.at(shares, np.full(2, start.tokens or 1.0)))
    middle = max(0.6 * float(lost.max()) + 0.4 * float(lost.min()), 0.02)
    return Scenario(**largest, max_forgetting=float(f"{middle:.1g}"))


def spans(fitted: Fitted, scenario: Scenario) -> dict[str, tuple[float, float, float]]:
    """Return least, most and present position of each slider that there is."""
    found = {}
    for name, (low, high) in fitted.ranges.items():
        value = getattr(scenario, name)
        if value is None:
            value = 0.5 * (low + high) if name == "replay" else min(high, getattr(first(fitted), name) or high)
        low, high = min(low, value), max(high, value)
        found[name] = tuple(position(name, each) for each in (low, high, value))
    losses = fitted.target.data["loss"].to_numpy(dtype=float)
    limit = scenario.max_target_loss or float(np.quantile(losses, 0.3))
    found["max_target_loss"] = (min(0.6 * float(losses.min()), limit), max(float(losses.max()), limit), limit)
    if fitted.source is not None:
        limit = 0.1 if scenario.max_forgetting is None else scenario.max_forgetting
        values = fitted.source.base["loss"] if len(fitted.source.base) else fitted.source.data["loss"]
        most = float(fitted.source.data["loss"].max() / max(float(values.min()), 1e-9)) - 1.0
        found["max_forgetting"] = (min(0.0, limit), max(ROOM * limit, min(most, 2.0), 0.1), limit)
    found["risk"] = (0.5, 0.99, scenario.risk)
    return {name: (round(low, 6), round(high, 6), value) for name, (low, high, value) in found.items()}


def read(
    fitted: Fitted,
    sliders: Mapping[str, Any],
    chosen: Mapping[str, Any],
    rate: Any,
    base: Any,
    scores: Mapping[str, Mapping[str, float]] | None = None,
) -> Scenario:
    """Return what the controls ask.

    Parameters
    ----------
    fitted
        The fits.
    sliders
        Positions by name.
    chosen
        Boxes that are ticked, by name: that tokens or replay are to be chosen, that a limit is in force.
    rate
        The peak rate, or `BEST`.
    base
        The base model's source loss as it was typed; empty for none.
    scores
        What is asked of scores, by option and eval, as `cptlaw_app.scored.read` returns it.

    Raises
    ------
    UsageError
        If a value is unusable.
    """
    values: dict[str, Any] = {}
    for name in fitted.ranges:
        if name in CHOSEN and chosen.get(name):
            continue
        values[name] = measured(fitted, name, raw(name, sliders.get(name)))
    for name in LIMITS:
        if chosen.get(name) and (name == "max_target_loss" or fitted.source is not None):
            values[name] = raw(name, sliders.get(name))
    values["risk"] = raw("risk", sliders.get("risk"))
    if rate not in (None, "", BEST):
        values["lr_peak"] = parse_quantity(rate, "peak rate")
    if base not in (None, ""):
        values["base_source_loss"] = parse_quantity(base, "the base model's source loss")
    in_points: dict[str, Any] = dict(scores or {})
    return replace(Scenario.read(values), **in_points)


def measured(fitted: Fitted, name: str, value: float) -> float:
    """Return the level that was run where a slider comes close, so that a measured base model is found."""
    if name not in ("n_params", "ptpp"):
        return value
    frames = [frame for fit in fitted.fits for frame in (fit.base, fit.data) if name in frame and len(frame)]
    levels = np.unique(np.concatenate([frame[name].dropna().to_numpy(dtype=float) for frame in frames]))
    if not len(levels):
        return value
    nearest = float(levels[np.abs(np.log(levels / value)).argmin()])
    return nearest if abs(np.log(nearest / value)) < CLOSE else value
