"""Both losses along replay, where the tokens of a plan are given: what its replay was chosen from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cptlaw.planning import MixPlan
from cptlaw.reporting.figures.figure import COLOURS, DASHES, INK, STAR, Figure, axis, bars, blank
from cptlaw.units import format_quantity

PLACES = 61


def losses_by_replay(plan: MixPlan) -> Figure:
    """Draw the losses that a plan's fits forecast along replay, its limits and its choice.

    Parameters
    ----------
    plan
        Answer of a plan of a mix that knows its fits.

    Returns
    -------
    Figure
        Data: replay, tokens, target_loss and, with a source fit, source_loss and forgetting.
    """
    mix: Any = plan.mix
    replay = np.linspace(mix.low, min(mix.high, 0.999), PLACES) if mix.high > mix.low else np.array([mix.low])
    tokens = _tokens(plan, replay)
    data = pd.DataFrame({"replay": replay, "tokens": tokens})
    drawing = blank()
    for place, loss in enumerate(mix.losses):
        name = f"{loss.role}_loss"
        data[name] = loss.at(replay, tokens)
        drawing.add_scatter(
            x=replay,
            y=data[name],
            mode="lines",
            line={"color": COLOURS[place], "width": 2.5, "dash": DASHES[place]},
            name=f"{loss.role} loss",
            hovertemplate=f"%{{x:.1%}} replay: {loss.role} loss %{{y:.4f}}<extra></extra>",
        )
    if mix.forgetting is not None and "source_loss" in data:
        data["forgetting"] = mix.forgetting.of(data["source_loss"].to_numpy())
    for limit in mix.limits:
        drawing.add_hline(y=limit.threshold, line={"color": INK, "width": 1, "dash": "dot"}, annotation_text=limit.name)
    _mark(drawing, plan)
    drawing.update_layout(xaxis=axis("replay"), yaxis=axis("loss", f"loss ({plan.unit})"))
    fixed = float(np.ptp(tokens)) == 0.0
    count = f"{format_quantity(float(tokens[0]))} tokens" if fixed else "as many tokens as the target text makes"
    caption = f"Losses that the fits forecast along replay, with {count}."
    return Figure("losses-by-replay", plan.title, caption, data, drawing)


def _tokens(plan: MixPlan, replay: Any) -> Any:
    """Return the tokens of the mix at each replay: given ones, or those that hold the given target tokens."""
    given = plan.mix.given
    own = getattr(given, "target_tokens", None)
    if own is not None:
        return float(own) / (1.0 - replay)
    tokens = getattr(given, "tokens", None) or plan.tokens or plan.mix.largest_fitted_tokens
    return np.full(len(replay), float(tokens))


def _mark(drawing: Any, plan: MixPlan) -> None:
    if not plan.feasible or plan.replay is None:
        return
    for name in ("target_loss", "source_loss"):
        value, *ends = (getattr(plan, name + end) for end in ("", "_lo", "_hi"))
        if value is None:
            continue
        drawing.add_scatter(
            x=[plan.replay],
            y=[value],
            error_y=bars(value, *ends, color=INK, thickness=1.5),
            mode="markers",
            marker=STAR | {"size": 16},
            name="plan",
            showlegend=name == "target_loss",
            hovertemplate=f"plan: %{{x:.1%}} replay, {name.replace('_', ' ')} %{{y:.4f}}<extra></extra>",
        )
