"""The map of a plan: forgetting over tokens and replay, where all limits hold, the optimum, and what doubt does to it.

The layout of figure 2 of Goffinet et al. 2025 (arXiv:2510.23198).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.laws.calculus import Array
from cptlaw.planning import MinTokensPlan
from cptlaw.planning.setting import Setting, build_setting
from cptlaw.reporting.figures.figure import INK, MAP_COLOURS, Figure, axis, blank
from cptlaw.units import format_percent, format_quantity

ROWS, COLUMNS = 61, 81  # of the map: replay, tokens
RISKS = (0.8, 0.95)
WALKS = 3  # places of an edge at which the doubt is walked
DARK = "#B3261E"
WIDER = 3.0  # times beyond what the fits have seen that the map shows


def forgetting_map(
    target: Any,
    source: Any,
    *,
    n_params: Any,
    ptpp: Any = None,
    plan: MinTokensPlan | None = None,
    risks: tuple[float, ...] = RISKS,
    max_tokens: float | None = None,
    **limits: Any,
) -> Figure:
    """Draw forgetting over tokens and replay, the mixes that keep all limits, the plan and the contours of risk.

    Parameters
    ----------
    target, source
        Fits of the two losses.
    n_params, ptpp, limits
        The question, as for `cptlaw.plan.min_tokens`.
    plan
        Its answer, for the star.
    risks
        Probabilities for the contours: beyond each, all limits hold at least that likely. None are drawn where the fits
        have too few runs, or without a limit.
    max_tokens
        Where the map ends, at least.

    Returns
    -------
    Figure
        Data: replay, tokens, source_loss, target_loss, forgetting, feasible.
    """
    setting = build_setting(target, source, n_params=n_params, ptpp=ptpp, interval=None, **limits)
    if setting.source is None or setting.forgetting is None:
        raise UsageError(
            "a map of forgetting needs a source fit and the base model's source loss: give base_source_loss= or "
            "another reference=."
        )
    tokens, replay = map_grid(setting, plan, max_tokens)
    known = bool(setting.limits) and all(limit.side.knows_doubt for limit in setting.limits)
    edges = {risk: tokens_needed(setting, replay, risk) for risk in risks} if known else {}
    return draw_map(setting, plan, tokens, replay, edges)


def draw_map(
    setting: Setting,
    plan: MinTokensPlan | None,
    tokens: Array,
    replay: Array,
    edges: Mapping[float, Array],
    here: tuple[float, float] | None = None,
) -> Figure:
    """Draw the map of a setting that is already built.

    Parameters
    ----------
    setting
        Fits, model, reference and limits.
    plan
        For the star.
    tokens, replay
        The grid, (t,) and (r,).
    edges
        For each risk the fewest tokens at each replay, (r,).
    here
        Tokens and replay of a mix to mark.
    """
    assert setting.forgetting is not None
    data = map_table(setting, tokens, replay)
    shape = (len(replay), len(tokens))
    relative = setting.forgetting.measure == "relative"
    z = data["forgetting"].to_numpy().reshape(shape)
    drawing = blank(height=460)
    drawing.add_heatmap(
        x=tokens,
        y=replay,
        z=np.round(z, 5),
        colorscale=list(MAP_COLOURS),
        zsmooth="best",
        colorbar={
            "title": {"text": "forgetting" if relative else "forgetting (nats)", "side": "right"},
            "tickformat": ".0%" if relative else ".2f",
            "thickness": 12,
            "xpad": 4,
        },
        hovertemplate=f"%{{x:.3s}} tokens, %{{y:.0%}} replay<br>forgetting %{{z:{'.1%' if relative else '.3f'}}}"
        "<extra></extra>",
    )
    drawing.add_contour(
        x=tokens,
        y=replay,
        z=np.round(data["target_loss"].to_numpy().reshape(shape), 5),
        contours={"coloring": "lines", "showlabels": True, "labelfont": {"size": 11, "color": INK}},
        line={"width": 1, "dash": "dot"},
        colorscale=[[0, INK], [1, INK]],
        showscale=False,
        showlegend=True,
        ncontours=7,
        name="target loss (nats per token)",
        hoverinfo="skip",
    )
    said = _limits(drawing, setting, tokens, replay, edges)
    if plan is not None and plan.feasible and plan.tokens is not None:
        drawing.add_scatter(
            x=[plan.tokens],
            y=[plan.replay],
            mode="markers",
            marker={"symbol": "star", "size": 18, "color": "#ffffff", "line": {"color": "#000000", "width": 1.5}},
            name="plan",
            hovertemplate="plan: %{x:.4s} tokens, %{y:.1%} replay<extra></extra>",
        )
    if here is not None:
        drawing.add_scatter(
            x=[here[0]],
            y=[here[1]],
            mode="markers",
            marker={"symbol": "circle-cross-open", "size": 14, "color": "#000000", "line": {"width": 2}},
            name="your mix",
            hovertemplate="your mix: %{x:.4s} tokens, %{y:.1%} replay<extra></extra>",
        )
    drawing.update_layout(
        xaxis={
            **axis("tokens", values=tokens.tolist()),
            "range": np.log10(tokens[[0, -1]]).tolist(),
            "showgrid": False,
        },
        yaxis={**axis("replay"), "range": replay[[0, -1]].tolist(), "showgrid": False},
        plot_bgcolor="#e9e9ec",
    )
    return Figure("forgetting-map", "Forgetting over tokens and replay", _caption(setting, plan, said), data, drawing)


def map_table(setting: Setting, tokens: Array, replay: Array) -> pd.DataFrame:
    """Return losses, forgetting and feasibility on a grid, row by row of replay.

    Parameters
    ----------
    setting
        Fits, model, reference and limits.
    tokens, replay
        Raw tokens (t,) and shares (r,).
    """
    assert setting.source is not None
    assert setting.forgetting is not None
    mesh_replay, mesh_tokens = (mesh.ravel() for mesh in np.meshgrid(replay, tokens, indexing="ij"))
    target, source = (side.losses(mesh_replay, mesh_tokens) for side in (setting.target, setting.source))
    needed = tokens_needed(setting, replay, None)
    return pd.DataFrame(
        {
            "replay": mesh_replay,
            "tokens": mesh_tokens,
            "source_loss": source,
            "target_loss": target,
            "forgetting": setting.forgetting.of(source),
            "feasible": mesh_tokens >= np.repeat(needed, len(tokens)),
        }
    )


def tokens_needed(setting: Setting, replay: Array, risk: float | None) -> Array:
    """Return the fewest tokens at which all limits hold at each replay, (r,), with a probability where one is given."""
    found = np.zeros(len(replay))
    for limit in setting.limits:
        needed = replace(limit, risk=None, laws=None).tokens(replay)
        if risk is not None:
            doubtful = replace(limit, risk=risk, laws=None)
            # What the data allows is walked at a few places of the edge, then at the edge that follows from it.
            for _ in range(2):
                places = np.flatnonzero(np.isfinite(needed) & (needed > 0))
                if not len(places):
                    break
                places = places[np.unique(np.linspace(0, len(places) - 1, WALKS).round().astype(int))]
                doubtful = doubtful.learned(replay[places], needed[places])
                needed = doubtful.tokens(replay)
        found = np.maximum(found, needed)
    return found


def map_grid(
    setting: Setting,
    plan: MinTokensPlan | None,
    max_tokens: float | None = None,
    shape: tuple[int, int] = (ROWS, COLUMNS),
) -> tuple[Array, Array]:
    """Return tokens (t,) and replay (r,) of a map: what was fitted and somewhat more, with room around the plan."""
    low, high = setting.smallest_fitted_tokens, WIDER * setting.largest_fitted_tokens
    for side in setting.sides:
        if "n_params" in side.fit.data.columns:  # as many tokens per parameter as were run, at the planned size
            high = max(high, float((side.fit.data["tokens"] / side.fit.data["n_params"]).max()) * setting.n_params)
    if plan is not None and plan.tokens is not None:
        low, high = min(low, plan.tokens / 2), max(high, 2 * min(plan.tokens, 1e3 * high))
    if max_tokens is not None:
        high = max(high, max_tokens)
    replay = np.linspace(setting.low, setting.high, shape[0]) if setting.high > setting.low else np.array([setting.low])
    return np.geomspace(low, high, shape[1]), replay


def _limits(drawing: Any, setting: Setting, tokens: Array, replay: Array, edges: Mapping[float, Array]) -> list[str]:
    """Shade what breaks a limit, draw the edge, and the same edge at each risk; say which of them the map shows."""
    if not setting.limits:
        return []
    need = tokens_needed(setting, replay, None)
    edge = np.where(np.isfinite(need), need, 1e3 * tokens[-1])
    drawing.add_scatter(
        x=[*np.minimum(edge, 1e3 * tokens[-1]), tokens[0] / 1e3, tokens[0] / 1e3],
        y=[*replay, replay[-1], replay[0]],
        fill="toself",
        mode="lines",
        line={"color": INK, "width": 2.5},
        fillcolor="rgba(255,255,255,0.45)",
        name="edge: limits hold to the right",
        hoverinfo="skip",
    )
    shown = []
    for (risk, need), dash in zip(edges.items(), ("dot", "dash", "longdash", "dashdot"), strict=False):
        inside = np.isfinite(need) & (need <= tokens[-1])
        if inside.any():
            shown.append(format_percent(risk))
        drawing.add_scatter(
            x=np.where(np.isfinite(need), np.minimum(need, 1e3 * tokens[-1]), np.nan),
            y=replay,
            mode="lines",
            line={"color": DARK, "width": 2, "dash": dash},
            name=f"limits hold with {format_percent(risk)}",
            hovertemplate=f"{format_percent(risk)}: %{{x:.3s}} tokens at %{{y:.0%}} replay<extra></extra>",
        )
    return shown


def _caption(setting: Setting, plan: MinTokensPlan | None, shown: list[str]) -> str:
    assert setting.forgetting is not None
    model = f"{format_quantity(setting.n_params)} parameters"
    if np.isfinite(setting.target.ptpp):
        model += f" and ptpp {setting.target.ptpp:g}"
    text = (
        f"Colour is forgetting of a model of {model} against the base model's {setting.forgetting.reference.loss:.4g} "
        f"nats per token, thin dotted lines are target loss."
    )
    if setting.limits:
        text += " Mixes under the white veil break a limit."
        text += f" Red lines: the limits hold with {' and '.join(shown)} probability." if shown else ""
    if plan is not None and plan.feasible and plan.tokens is not None:
        text += f" The star is the plan: {format_quantity(plan.tokens, 4)} tokens"
        text += f" at {format_percent(plan.replay)} replay." if plan.replay is not None else "."
    elif plan is not None:
        text += f" No mix keeps all limits: {plan.blocking} blocks."
    return text
