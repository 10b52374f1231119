"""The Pareto front: the mixes within a budget that no other beats in both losses."""

from __future__ import annotations

import numpy as np

from cptlaw.planning import ParetoPlan
from cptlaw.reporting.figures.figure import INK, QUIET, SCALE_COLOURS, Figure, axis, bars, blank_drawing
from cptlaw.units import format_percent, format_quantity


def pareto_front(plan: ParetoPlan) -> Figure:
    """Draw target against source loss along the front, coloured by replay, with intervals where there are some.

    Parameters
    ----------
    plan
        Answer of `cptlaw.plan.pareto`.

    Returns
    -------
    Figure
        Data: one row per compromise.
    """
    data = plan.to_frame()
    drawing = blank_drawing()
    style = {"color": QUIET, "thickness": 0.7, "width": 0}
    bounds = {}
    middle = len(data) // 2  # bars of all of them cross each other, and are read by nobody
    kept = np.arange(len(data)) == middle
    for name, direction in (("target_loss", "error_x"), ("source_loss", "error_y")):
        low, high = (data[f"{name}_{end}"].where(kept) for end in ("lo", "hi"))
        bounds[direction] = bars(data[name], low, high, **style)
    drawing.add_scatter(
        x=data["target_loss"],
        y=data["source_loss"],
        mode="lines+markers",
        line={"color": INK, "width": 1},
        marker={
            "color": data["replay"],
            "colorscale": SCALE_COLOURS,
            "size": 10,
            "line": {"color": INK, "width": 1},
            "colorbar": {"title": {"text": "replay", "side": "right"}, "tickformat": ".0%", "thickness": 12},
        },
        text=[format_percent(share) for share in data["replay"]],
        hovertemplate="replay %{text}<br>target %{x:.4f}, source %{y:.4f}<extra></extra>",
        showlegend=False,
        **bounds,
    )
    drawing.update_layout(
        xaxis=axis("loss", f"target loss ({plan.unit})"), yaxis=axis("loss", f"source loss ({plan.unit})")
    )
    ends = [
        f"{format_percent(end['replay'])} replay (target {end['target_loss']:.3g}, source {end['source_loss']:.3g})"
        for end in (data.iloc[0], data.iloc[-1])
    ]
    known = any(bounds.values())
    caption = (
        f"{len(data)} mixes of {format_quantity(float(data['tokens'].iloc[0]), 4)} tokens "
        f"({format_quantity(plan.budget)} FLOP), from {ends[0]} to {ends[1]}. Lower is better on both axes."
        + (
            f" The cross is the interval of both losses at {format_percent(data['replay'].iloc[middle])} replay."
            * known
        )
    )
    first, last = data.iloc[0], data.iloc[-1]
    apart = [abs(float(last[name] - first[name])) for name in ("target_loss", "source_loss")]
    shares = [format_percent(end["replay"]) for end in (first, last)]
    title = (
        f"Between {shares[0]} and {shares[1]} replay, {apart[0]:.2g} {plan.unit.split()[0]} of "
        f"target loss stand against {apart[1]:.2g} of source loss"
        if len(data) > 1
        else f"{shares[0]} replay is best for both losses at once"
    )
    return Figure("pareto-front", title, caption, data, drawing)
