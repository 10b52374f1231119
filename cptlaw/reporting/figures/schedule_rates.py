"""The learning rate of a planned schedule, step by step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.planning import SchedulePlan, WholePlan
from cptlaw.reporting.figures.figure import COLOURS, Figure, axis, blank_drawing
from cptlaw.schedules import Phase, Schedule
from cptlaw.units import format_quantity

POINTS = 2000  # of a long schedule that are drawn


def schedule_rates(plan: SchedulePlan | WholePlan) -> Figure:
    """Draw the learning rate of the continual pre-training that a plan of a schedule chose.

    Parameters
    ----------
    plan
        Answer of `cptlaw.plan.schedule` or `cptlaw.plan.whole_schedule`.

    Returns
    -------
    Figure
        Data: step, lr.

    Raises
    ------
    UsageError
        If no schedule keeps the limits.
    """
    rates = _planned_rates(plan)
    at = np.unique(np.linspace(0, len(rates) - 1, min(len(rates), POINTS)).round().astype(int))
    data = pd.DataFrame({"step": at, "lr": rates[at]})
    drawing = blank_drawing()
    drawing.add_scatter(
        x=data["step"],
        y=data["lr"],
        mode="lines",
        line={"color": COLOURS[0], "width": 2.5},
        name="planned rate",
        hovertemplate="step %{x}: %{y:.3g}<extra></extra>",
    )
    drawing.update_layout(
        xaxis=axis("step", "step of continual pre-training"),
        yaxis=axis("lr") | {"rangemode": "tozero", "exponentformat": "e"},
    )
    caption = f"Learning rate over {format_quantity(float(len(rates) - 1))} steps, highest {rates.max():.3g}."
    return Figure("schedule-rates", plan.title, caption, data, drawing)


def _planned_rates(plan: SchedulePlan | WholePlan) -> np.ndarray:
    if isinstance(plan, WholePlan):
        return np.array([0.0, *plan.lr])
    if plan.phases is None:
        raise UsageError("no schedule keeps the limits, so there is none to draw: see what blocks it.")
    whole = Schedule([Phase(**phase) for phase in plan.phases])
    return np.asarray(whole.lr[whole.n_pretrain :])
