"""How a compute budget is split: the target loss along model sizes, each with the tokens that the budget leaves it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.planning import AllocatePlan
from cptlaw.reporting.figures.figure import COLOURS, INK, Figure, axis, bars, blank_drawing
from cptlaw.units import format_quantity, format_span

SIZES = 61
SPAN = 16.0  # sizes are drawn from the best one divided by this to the best one times this
ROOM = 0.25  # above the best loss that is drawn
EQUAL = 1e-3  # of the loss: sizes within it are as good as the best one for most purposes


def budget_split(plan: AllocatePlan) -> Figure:
    """Draw the target loss against the model size at a fixed budget, 6 n_params tokens, with the best split marked.

    Parameters
    ----------
    plan
        Answer of `cptlaw.plan.allocate`.

    Returns
    -------
    Figure
        Data: n_params, tokens and target_loss along the curve.

    Raises
    ------
    UsageError
        If the plan does not know its fit.
    """
    if plan.loss is None:
        raise UsageError("this plan does not know its fit, as one read from a file: ask for it again to draw it.")
    sizes = plan.n_params * np.geomspace(1 / SPAN, SPAN, SIZES)
    tokens = plan.n_params * plan.tokens / sizes
    frame = plan.loss.frame(plan.replay or 0.0, tokens).assign(n_params=sizes)
    data = pd.DataFrame({"n_params": sizes, "tokens": tokens, "target_loss": plan.loss.fit.predict(frame)})
    drawing = blank_drawing()
    drawing.add_scatter(
        x=data["n_params"],
        y=data["target_loss"],
        mode="lines",
        line={"color": COLOURS[0], "width": 2},
        text=[
            f"{format_quantity(size)} on {format_quantity(spent)} tokens"
            for size, spent in zip(sizes.tolist(), tokens.tolist(), strict=True)
        ],
        hovertemplate="%{text}: %{y:.4f}<extra></extra>",
        showlegend=False,
    )
    ends = bars(plan.target_loss, plan.target_loss_lo, plan.target_loss_hi, thickness=1.5)
    drawing.add_scatter(
        x=[plan.n_params],
        y=[plan.target_loss],
        error_y=ends,
        mode="markers",
        marker={"color": INK, "symbol": "star", "size": 14},
        hovertemplate=f"best split: {format_quantity(plan.n_params)}<extra></extra>",
        showlegend=False,
    )
    # Sizes that a budget hardly trains, or an interval far beyond the fitted runs, would leave the curve flat where the
    # choice is made: they may leave the frame.
    low, high = float(data["target_loss"].min()), float(data["target_loss"].max())
    high = min(high, low * (1 + ROOM))
    lowest, highest = (plan.target_loss if end is None else end for end in (plan.target_loss_lo, plan.target_loss_hi))
    room = 0.08 * (high - low)
    low = min(low - 2 * room, max(lowest, low * (1 - ROOM)))
    high = max(high, min(highest, high * (1 + ROOM)))
    drawing.update_layout(
        xaxis=axis("n_params", values=sizes.tolist()),
        yaxis=axis("loss", f"target loss ({plan.unit})") | {"range": [low - room, high + room]},
    )
    near = data[data["target_loss"] <= plan.target_loss * (1 + EQUAL)]["n_params"]
    best = f"{format_quantity(plan.n_params)} parameters on {format_quantity(plan.tokens)} tokens"
    title = f"{format_quantity(plan.budget)} FLOP are best spent on {best}"
    caption = (
        f"Every point spends the whole budget. From {format_quantity(near.min())} to {format_quantity(near.max())} "
        f"parameters the target loss stays within {EQUAL:.1%} of the best, "
        f"{format_span(plan.target_loss, plan.target_loss_lo, plan.target_loss_hi)} {plan.unit}."
        f"{' The bar is the interval of a measured loss.' if ends else ''}"
    )
    return Figure("budget-split", title, caption, data, drawing)
