"""The map of a plan: forgetting over tokens and replay, where all limits hold, the optimum, and what doubt does to it.

The layout of figure 2 of Goffinet et al. 2025 (arXiv:2510.23198).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.fitting.fit import Fit
from cptlaw.laws.calculus import Array
from cptlaw.planning import MinTokensPlan, MixPlan
from cptlaw.planning.limits import at_risk
from cptlaw.planning.mixes.mix import CHOSEN, FittedMix, build_mixes
from cptlaw.planning.scenario import MinTokens, read_scenario
from cptlaw.planning.solve import worst_excess
from cptlaw.reporting.figures.figure import INK, MAP_COLOURS, STAR, Drawing, Figure, axis, blank_drawing
from cptlaw.reporting.figures.losses_by_replay import losses_by_replay
from cptlaw.reporting.still import tick_step
from cptlaw.reporting.words import blocking_text
from cptlaw.units import format_percent, format_quantity

ROWS, COLUMNS = 51, 61  # of the map: replay, tokens
RISKS = (0.8, 0.95)
LABEL = {"size": 11, "color": INK}
DARK = "#B3261E"
BEYOND = 3.0  # how far the map goes on, in times the most tokens that were fitted


def forgetting_map(
    target: Fit,
    source: Fit,
    *,
    plan: MixPlan | None = None,
    risks: tuple[float, ...] = RISKS,
    max_tokens: float | None = None,
    **scenario: object,
) -> Figure:
    """Draw forgetting over tokens and replay, the mixes that keep all limits, the plan and the contours of risk.

    Parameters
    ----------
    target, source
        Fits of the two losses.
    plan
        The answer, for the star.
    risks
        Probabilities for the contours: beyond each, all limits hold at least that likely. None are drawn where the fits
        have too few runs, or without a limit.
    max_tokens
        Where the map ends, at least.
    **scenario
        The question, as for `cptlaw.plan.min_tokens`.

    Returns
    -------
    Figure
        Data: replay, tokens, source_loss, target_loss, forgetting, feasible.
    """
    given = read_scenario(MinTokens, {**scenario, "interval": None}, "forgetting-map")
    # Where the runs vary the peak rate there is a mix for each; the map shows the one that the plan chose.
    chosen = {name: value for name in CHOSEN if (value := getattr(plan, name, None)) is not None}
    mix = build_mixes(given, target, source, chosen)[0]
    if mix.source is None or mix.forgetting is None:
        raise UsageError(
            "a map of forgetting needs a source fit and the base model's source loss: give base_source_loss= or "
            "another reference=."
        )
    if mix.low == mix.high:
        raise UsageError(
            f"a map of forgetting goes over shares of replay, and there is one, {format_percent(mix.low)}: "
            "cptlaw.figures.interval_fan draws forecasts along tokens."
        )
    known = bool(mix.limits) and all(limit.loss.knows_doubt for limit in mix.limits)
    return _draw_map(mix, plan, risks if known else (), max_tokens or 0.0)


def map_of_plan(plan: MinTokensPlan) -> Figure:
    """Draw the map of a plan of the fewest tokens; without forgetting or with one share of replay, both losses."""
    mix = plan.fitted_mix
    if mix.source is None or mix.forgetting is None or mix.low == mix.high:
        return losses_by_replay(plan)
    return _draw_map(mix, plan, () if plan.risk is None else (plan.risk,))


def _draw_map(mix: FittedMix, plan: MixPlan | None, risks: Sequence[float], max_tokens: float = 0.0) -> Figure:
    """Draw the map of a scenario that is already built: fits, model, reference and limits."""
    assert mix.forgetting is not None
    tokens, replay = _map_grid(mix, plan, max_tokens)
    shares, counts = (mesh.ravel() for mesh in np.meshgrid(replay, tokens, indexing="ij"))
    losses = {loss.role: loss.at(shares, counts) for loss in (*mix.losses, *mix.scores.values())}
    broken = worst_excess(at_risk(mix.limits, None), {"replay": shares, "tokens": counts})
    data = pd.DataFrame(
        {
            "replay": shares,
            "tokens": counts,
            "source_loss": losses["source"],
            "target_loss": losses["target"],
            "forgetting": mix.forgetting.of(losses["source"]),
            "feasible": broken <= 0,
        }
    )
    shape = (len(replay), len(tokens))
    relative = mix.forgetting.measure == "relative"
    z = data["forgetting"].to_numpy().reshape(shape)
    drawing = blank_drawing(height=430)
    drawing.add_heatmap(
        x=tokens,
        y=replay,
        # Five digits, or the page carries five thousand numbers of seventeen digits.
        z=np.round(z, 5),
        customdata=np.round(data[["target_loss", "source_loss"]].to_numpy().reshape(*shape, 2), 4),
        colorscale=list(MAP_COLOURS),
        zsmooth="best",
        colorbar={
            "title": {"text": "forgetting" if relative else f"forgetting ({mix.unit.split()[0]})", "side": "right"},
            "tickformat": ".0%" if relative else ".2f",
            "thickness": 12,
            "xpad": 4,
        },
        hovertemplate=f"%{{x:.3s}} tokens, %{{y:.0%}} replay<br>forgetting %{{z:{'.1%' if relative else '.3f'}}}"
        "<br>target loss %{customdata[0]:.3f}, source loss %{customdata[1]:.3f}<extra></extra>",
    )
    drawing.add_contour(
        x=tokens,
        y=replay,
        z=np.round(data["target_loss"].to_numpy().reshape(shape), 5),
        contours=_contour_levels(data["target_loss"]) | {"coloring": "lines", "showlabels": True, "labelfont": LABEL},
        line={"width": 1, "dash": "dot"},
        colorscale=[[0, INK], [1, INK]],
        showscale=False,
        showlegend=True,
        autocontour=False,
        name=f"target loss ({mix.unit})",
        hoverinfo="skip",
    )
    values = _draw_limits(drawing, mix, risks, data) if mix.limits else []
    if plan is not None and plan.feasible and plan.tokens is not None:
        drawing.add_scatter(
            x=[plan.tokens],
            y=[plan.replay],
            mode="markers",
            marker=STAR | {"size": 18},
            name="plan",
            hovertemplate="plan: %{x:.4s} tokens, %{y:.1%} replay<extra></extra>",
        )
    drawing.update_layout(
        xaxis={
            **axis("tokens", values=tokens.tolist()),
            "range": np.log10(tokens[[0, -1]]).tolist(),
            "showgrid": False,
        },
        yaxis={**axis("replay"), "range": replay[[0, -1]].tolist(), "showgrid": False},
        plot_bgcolor="#e9e9ec",
        overwrite=True,  # merging into what is not there yet takes six times as long
    )
    return Figure("forgetting-map", _map_title(mix, plan, data), _map_caption(mix, plan, values), data, drawing)


def _contour_levels(losses: pd.Series[float]) -> dict[str, float]:
    """Return five levels or so between round numbers, which limits are: no line lies under the edge of a limit."""
    low, high = float(losses.min()), float(losses.max())
    size = tick_step(max(high - low, 1e-9) / 5)
    return {"start": (math.floor(low / size) + 0.5) * size, "end": high, "size": size}


def _map_grid(mix: FittedMix, plan: MixPlan | None, max_tokens: float) -> tuple[Array, Array]:
    """Return tokens (t,) and replay (r,) of a map: what was fitted and somewhat more, with room around the plan."""
    low, high = mix.smallest_fitted_tokens, BEYOND * mix.largest_fitted_tokens
    for loss in mix.losses:
        if "n_params" in loss.fit.data.columns:  # as many tokens per parameter as were run, at the planned size
            high = max(high, float((loss.fit.data["tokens"] / loss.fit.data["n_params"]).max()) * mix.n_params)
    if plan is not None and plan.tokens is not None:
        low, high = min(low, plan.tokens / 2), max(high, 2 * plan.tokens)
    shares = [mix.low, mix.high, *([] if plan is None or plan.replay is None else [plan.replay])]
    return np.geomspace(low, max(high, max_tokens), COLUMNS), np.linspace(min(shares), max(shares), ROWS)


def _draw_limits(drawing: Drawing, mix: FittedMix, risks: Sequence[float], data: pd.DataFrame) -> list[str]:
    """Shade what breaks a limit, draw the edge, and the same edge at each risk; say which of them the map shows.

    Edges are contours and no function of replay: forgetting grows with tokens, so that more of them may break a limit.
    """
    points = {name: data[name].to_numpy() for name in ("replay", "tokens")}
    x, y = (np.unique(points[name]) for name in ("tokens", "replay"))

    def broken(risk: float | None) -> Array:
        return worst_excess(at_risk(mix.limits, risk), points).reshape(len(y), len(x))

    edge = {"x": x, "y": y, "showlegend": True, "hoverinfo": "skip"}
    plain = broken(None)
    if plain.max() > 0:
        drawing.add_contour(
            z=plain,
            contours={"type": "constraint", "operation": "<", "value": 0.0},
            fillcolor="rgba(255,255,255,0.45)",
            line={"color": INK, "width": 2.5},
            name="edge of the limits (veil: broken)",
            **edge,
        )
    shown = []
    for risk, dash in zip(risks, ("dot", "dash", "longdash", "dashdot"), strict=False):
        beyond = broken(risk)
        if beyond.min() > 0 or beyond.max() <= 0:
            continue  # its edge does not cross the map
        shown.append(format_percent(risk))
        drawing.add_contour(
            z=beyond,
            contours={"coloring": "none", "start": 0.0, "end": 0.0, "size": 1.0},
            autocontour=False,
            line={"color": DARK, "width": 2, "dash": dash},
            name=f"limits hold with {format_percent(risk)}",
            showscale=False,
            **edge,
        )
    return shown


def _map_title(mix: FittedMix, plan: MixPlan | None, data: pd.DataFrame) -> str:
    """Return what the map shows, in one sentence."""
    if plan is not None and not plan.feasible:
        return f"No mix keeps {blocking_text(plan)}"
    if plan is not None and plan.tokens is not None:
        fewest = "the fewest tokens that keep them" if isinstance(plan, MinTokensPlan) else "the plan"
        return f"Where the limits hold, and {fewest}" if mix.limits else "Forgetting of every mix, and the plan"
    assert mix.forgetting is not None
    ends = [float(data["forgetting"].min()), float(data["forgetting"].max())]
    relative = mix.forgetting.measure == "relative"
    least, most = (format_percent(end, 2) if relative else f"{end:.2g} {mix.unit.split()[0]}" for end in ends)
    return f"The mix moves forgetting between {least} and {most}"


def _map_caption(mix: FittedMix, plan: MixPlan | None, shown: list[str]) -> str:
    assert mix.forgetting is not None
    model = f"{format_quantity(mix.n_params)} parameters"
    if mix.ptpp is not None:
        model += f" and ptpp {mix.ptpp:g}"
    text = (
        f"Colour is forgetting of a model of {model} against the base model's {mix.forgetting.reference.loss:.4g} "
        f"{mix.unit}, thin dotted lines are target loss."
    )
    if mix.limits:
        text += " Mixes under the white veil break a limit."
        text += f" Red lines: the limits hold with {' and '.join(shown)} probability." if shown else ""
    if plan is not None and plan.feasible and plan.tokens is not None:
        text += f" The star is the plan: {format_quantity(plan.tokens, 4)} tokens"
        text += f" at {format_percent(plan.replay)} replay." if plan.replay is not None else "."
    elif plan is not None:
        text += f" No mix keeps {blocking_text(plan)}."
    return text
