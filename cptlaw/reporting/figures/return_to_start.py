"""When a loss is back where it began, or beyond which length of pre-training it cannot return."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.planning import CriticalPlan, TurningPlan
from cptlaw.reporting.figures.figure import COLOURS, QUIET, Figure, axis, blank
from cptlaw.units import format_quantity


def return_to_start(plan: TurningPlan | CriticalPlan) -> Figure:
    """Draw the loss along the steps, the level to which it is compared, and where the two meet.

    Parameters
    ----------
    plan
        Answer of `cptlaw.plan.turning_length`: the weighted loss along continual pre-training, and its start. Of
        `cptlaw.plan.critical_point`: the source loss along pre-training, and the limit of endless CPT.

    Returns
    -------
    Figure
        Data: step, loss, level.

    Raises
    ------
    UsageError
        If the plan does not know its curve, as one that was read from a file.
    """
    if plan.curve is None:
        raise UsageError("this plan does not know its curve, as one read from a file: ask for it again to draw it.")
    steps, losses = plan.curve
    turning = isinstance(plan, TurningPlan)
    level = plan.start if isinstance(plan, TurningPlan) else plan.level
    names = ("weighted loss", "its start") if turning else ("source loss in pre-training", "limit of endless CPT")
    data = pd.DataFrame({"step": steps, "loss": losses, "level": level})
    drawing = blank()
    drawing.add_scatter(
        x=data["step"],
        y=data["loss"],
        mode="lines",
        line={"color": COLOURS[0], "width": 2.5},
        name=names[0],
        hovertemplate="step %{x:.4s}: %{y:.4f}<extra></extra>",
    )
    drawing.add_scatter(
        x=data["step"], y=data["level"], mode="lines", line={"color": QUIET, "dash": "dash"}, name=names[1]
    )
    if 0 < plan.steps < math.inf:
        drawing.add_scatter(
            x=[plan.steps],
            y=[level],
            mode="markers",
            marker={"color": COLOURS[1], "symbol": "star", "size": 14},
            name="turning length" if turning else "critical point",
        )
    ticks = [10.0**k for k in range(math.ceil(np.log10(steps[0])), math.floor(np.log10(steps[-1])) + 1)]
    scale = {"type": "log", "tickvals": ticks, "ticktext": [format_quantity(tick) for tick in ticks]}
    where = "continual pre-training" if turning else "pre-training"
    drawing.update_layout(
        xaxis=axis("step", f"step of {where}") | scale, yaxis=axis("loss", f"{names[0]} ({plan.unit})")
    )
    said = {
        "finite": f"after {format_quantity(plan.steps, 4)} steps",
        "zero": "from the first step",
        "infinite": "never",
    }
    meets = "it is back at its start" if turning else "it passes the limit"
    caption = f"{names[0].capitalize()} along {where}; {meets} {said[plan.kind]}: {plan.reason}."
    return Figure("return-to-start", plan.title, caption, data, drawing)
