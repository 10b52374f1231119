"""Forgetting and gain along replay, of an answer without runs: what the studies of others expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.reporting.figures.figure import (
    COLOURS,
    DASHES,
    INK,
    STAR,
    Figure,
    add_band,
    add_limit,
    axis,
    bars,
    blank_drawing,
    rgba_of,
)
from cptlaw.units import format_percent, format_quantity

PLACES = 41
HIGHEST = 0.8  # share of replay that is drawn; no study has more
# Curve -> its field, its name for a reader, and its colour: those of the losses that they are about.
CURVES = (("forgetting", "forgetting", 1), ("target_gain", "fall of the target loss", 0))


def forgetting_and_gain(answer: Any) -> Figure:
    """Draw forgetting and the fall of the target loss along replay, each with its band of 90 %, the plan and a limit.

    Parameters
    ----------
    answer
        An `Answer` without runs.

    Returns
    -------
    Figure
        Data: replay, tokens, forgetting and target_gain, each also with ``_lo`` and ``_hi``.
    """
    if answer.along_replay is None:
        raise UsageError("forgetting and gain are drawn of an answer without runs. Take cl.plot(answer) for others.")
    data = pd.DataFrame(answer.along_replay(HIGHEST * np.linspace(0.0, 1.0, PLACES) ** 2))
    drawing = blank_drawing()
    for field, name, place in CURVES:
        low, high = (data[field + end].to_numpy() for end in ("_lo", "_hi"))
        fill = rgba_of(COLOURS[place], 0.14)
        add_band(drawing, data["replay"].to_numpy(), low, high, fill, showlegend=False)
        drawing.add_scatter(
            x=data["replay"],
            y=data[field],
            mode="lines",
            line={"color": COLOURS[place], "width": 2.5, "dash": DASHES[place]},
            name=name,
            hovertemplate=f"%{{x:.0%}} replay: {name} %{{y:.1%}}<extra></extra>",
        )
    if (limit := answer.limits.get("max-forgetting")) is not None:
        text = f"forgetting at most {format_percent(limit)}"
        add_limit(drawing, limit, (0.0, HIGHEST), text)
    if answer.feasible:
        (plan,) = answer.along_replay([answer.replay])
        for field, *_ in CURVES:
            drawing.add_scatter(
                x=[answer.replay],
                y=[plan[field]],
                error_y=bars(plan[field], plan[f"{field}_lo"], plan[f"{field}_hi"], color=INK, thickness=1.5),
                mode="markers",
                marker=STAR | {"size": 16},
                name="plan",
                showlegend=field == CURVES[0][0],
                hovertemplate="plan: %{x:.1%} replay, %{y:.1%}<extra></extra>",
            )
    drawing.update_layout(xaxis=axis("replay"), yaxis=axis("forgetting", "share of the base model's loss"))
    spent = "as many tokens as the new text makes" if data["tokens"].nunique() > 1 else ""
    spent = spent or f"{format_quantity(float(data['tokens'].iloc[0]))} tokens"
    caption = f"What the studies of others expect, with {spent}: lines are medians, bands hold nine in ten outcomes."
    return Figure("forgetting-and-gain", answer.title, caption, data, drawing)
