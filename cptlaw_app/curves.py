"""Both losses along tokens at the mix that is shown, or along replay where no law reads tokens, with their bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import Loss
from cptlaw.planning.mixes.mix import FittedMix
from cptlaw.planning.result import MixPlan
from cptlaw.reporting.figures.figure import COLOURS, INK, QUIET, Figure, axis, blank, translucent
from cptlaw.units import format_percent
from cptlaw_app.fitted import Fitted

POINTS = 49
FEW = 5  # places along a curve at which one law is asked for its doubt
HEIGHT = 430
SAME = 0.02  # relative difference up to which a measured size, budget or replay is the one that is shown
WIDER = 3.0  # times beyond the fitted tokens per parameter that curves go


def draw_curves(fitted: Fitted, mix: FittedMix, plan: MixPlan, coverage: float | None) -> Figure:
    """Draw the target loss above the source loss."""
    along = "tokens" if "tokens" in fitted.ranges else "replay"
    replay = plan.replay if plan.replay is not None else 0.5 * (mix.low + mix.high)
    at = _places(fitted, mix, plan) if along == "tokens" else np.linspace(mix.low, mix.high, POINTS)
    drawing = blank(height=HEIGHT)
    parts = []
    losses = list(mix.losses)
    for place, loss in enumerate(losses):
        shares, tokens = (
            (np.full(len(at), replay), at) if along == "tokens" else (at, np.full(len(at), plan.tokens or 1.0))
        )
        table = pd.DataFrame({"role": loss.role, along: at, "loss": loss.at(shares, tokens)})
        colour, axes = COLOURS[place], {"yaxis": f"y{'' if place == 0 else place + 1}"}
        if coverage is not None:
            table["lo"], table["hi"] = _ends(loss, shares, tokens, coverage)
            _band(drawing, table, along, colour, axes, coverage)
        parts.append(table)
        unit = "%{x:.3s} tokens" if along == "tokens" else "%{x:.0%} replay"
        drawing.add_scatter(
            x=at, y=table["loss"].round(5), mode="lines", line={"color": colour, "width": 2.5},
            name=f"{loss.role} loss", hovertemplate=f"{unit}: %{{y:.4f}}<extra></extra>", **axes,
        )  # fmt: skip
        _measured(drawing, loss, replay, along, axes)
        marked = getattr(plan, along)
        value = getattr(plan, f"{loss.role}_loss")
        if plan.feasible and marked is not None and value is not None:
            drawing.add_scatter(
                x=[marked], y=[value], mode="markers", name="the mix", hoverinfo="skip", showlegend=False,
                marker={"symbol": "star", "size": 15, "color": "#ffffff", "line": {"color": "#000000", "width": 1.5}},
                **axes,
            )  # fmt: skip
    _lay_out(drawing, [loss.role for loss in losses], along, at)
    where = "" if along == "replay" else f" at {format_percent(replay, 2)} replay" if mix.reads_replay else ""
    which = "Target and source loss" if len(losses) > 1 else "Target loss"
    caption = f"{which} along {along}{where}, {mix.unit}"
    return Figure("curves", caption, caption, pd.concat(parts, ignore_index=True), drawing)


def _ends(loss: Loss, shares: Array, tokens: Array, coverage: float) -> tuple[Array, Array]:
    """Return the ends of the intervals at each place, (n,) each."""
    # An average answers many places in one call; one law follows its profile at each, so that few must do.
    places = np.arange(len(shares)) if len(loss.laws) > 1 else np.linspace(0, len(shares) - 1, FEW).round().astype(int)
    chances = [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage]
    margins = loss.log_quantiles(loss.frame(shares[places], tokens[places]), chances)
    margins = margins - np.log(loss.at(shares[places], tokens[places]))
    every = np.arange(len(shares))
    centre = np.log(loss.at(shares, tokens))
    low, high = (np.exp(centre + np.interp(every, places, margins[end])) for end in (0, 1))
    return low, high


def _places(fitted: Fitted, mix: FittedMix, plan: MixPlan) -> Array:
    low, high = mix.smallest_fitted_tokens, mix.largest_fitted_tokens
    for fit in fitted.fits:
        if {"n_params", "tokens"} <= set(fit.data.columns):
            high = max(high, float((fit.data["tokens"] / fit.data["n_params"]).max()) * mix.n_params)
    high *= WIDER
    if plan.tokens:
        low, high = min(low, 0.7 * plan.tokens), max(high, 1.5 * min(plan.tokens, 1e3 * high))
    return np.geomspace(low, high, POINTS)


def _band(drawing: Any, table: pd.DataFrame, along: str, colour: str, axes: dict[str, str], coverage: float) -> None:
    known = np.isfinite(table["lo"]) & np.isfinite(table["hi"])
    part = table[known]
    drawing.add_scatter(
        x=[*part[along], *part[along][::-1]],
        y=[*part["hi"].round(5), *part["lo"][::-1].round(5)],
        fill="toself", mode="lines", line={"width": 0}, fillcolor=translucent(colour, 0.2), hoverinfo="skip",
        name=f"{format_percent(coverage)} interval", showlegend=axes["yaxis"] == "y", **axes,
    )  # fmt: skip


def _measured(drawing: Any, loss: Any, replay: float, along: str, axes: dict[str, str]) -> None:
    """Mark the runs that were measured at this model, at the mix that is shown."""
    data = loss.fit.data
    if data.empty or along not in data.columns:
        return
    near = np.ones(len(data), dtype=bool)
    for name, value in loss.known.items():
        if name in ("n_params", "ptpp") and name in data.columns:
            near &= np.abs(data[name].to_numpy(dtype=float) / value - 1.0) <= SAME
    if along == "tokens" and "replay" in data.columns:
        near &= np.abs(data["replay"].to_numpy(dtype=float) - replay) <= SAME
    part = data[near]
    if len(part):
        drawing.add_scatter(
            x=part[along], y=part["loss"], mode="markers", name="measured", showlegend=axes["yaxis"] == "y",
            marker={"color": "#ffffff", "line": {"color": INK, "width": 1.2}, "size": 6}, **axes,
            hovertemplate="measured: %{y:.4f}<extra></extra>",
        )  # fmt: skip


def _lay_out(drawing: Any, roles: list[str], along: str, at: Array) -> None:
    bottom = axis(along, values=at.tolist() if along == "tokens" else ())
    settings: dict[str, Any] = {"xaxis": {**bottom, "anchor": "y2" if len(roles) > 1 else "y"}}
    domains = ([0.54, 1.0], [0.0, 0.46]) if len(roles) > 1 else ([0.0, 1.0],)
    for place, (role, domain) in enumerate(zip(roles, domains, strict=True)):
        settings[f"yaxis{'' if place == 0 else place + 1}"] = axis("loss", f"{role} loss") | {"domain": domain}
    # One line for the mix under the cursor of the map; the page moves it.
    line = {"type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "visible": False}
    shape = {**line, "x0": float(at[0]), "x1": float(at[0]), "line": {"color": QUIET, "width": 1, "dash": "dot"}}
    settings |= {"shapes": [shape], "uirevision": "curves", "hovermode": "closest"}
    drawing.update_layout(settings, overwrite=True)  # merging into what is not there yet takes six times as long
