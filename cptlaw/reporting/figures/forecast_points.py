"""Forecasts with their intervals, along the input in which their points differ."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.fitting.uncertainty.answers import ForecastFrame, interval_words
from cptlaw.reporting.figures.figure import COLOURS, SYMBOLS, Drawing, Figure, axis, bars, blank_drawing, level_text
from cptlaw.runs.metrics import unit_of

INPUTS = ("tokens", "replay", "ptpp", "n_params", "lr_peak", "step")
POINT = "point"


def forecast_points(frame: ForecastFrame) -> Figure:
    """Draw forecast losses with their intervals, along the input with the most levels.

    Parameters
    ----------
    frame
        As `cptlaw.forecast` and `Fit.forecast` give it.

    Returns
    -------
    Figure
        Data: the rows of `frame` without findings.
    """
    data = pd.DataFrame(frame).drop(columns="findings", errors="ignore").reset_index(drop=True)
    across = _most_varied(data)
    if across == POINT:
        data[POINT] = np.arange(1, len(data) + 1)
    drawing = blank_drawing()
    lines = [name for name in ("law", "on") if name in data]
    lines += [name for name in INPUTS if name in data and name != across and data[name].nunique() > 1]
    groups = data.groupby(lines, sort=False, dropna=False, observed=True) if lines else [((), data)]
    for place, (level, part) in enumerate(groups):
        names = dict(zip(lines, level if isinstance(level, tuple) else (level,), strict=True))
        _add(drawing, part.sort_values(across), across, _levels_label(names), place)
    fits = getattr(frame, "fits", ())
    on = sorted(set(data["on"].astype(str))) if "on" in data else sorted({fit.on for fit in fits})
    loss = f"{' and '.join(on)} loss" if on else "loss"
    drawing.update_layout(
        xaxis=_axis_of_input(across, data),
        yaxis=axis("loss", f"{loss} ({unit_of(*fits)})" if fits else loss),
        showlegend=bool(lines),
    )
    bounds = interval_words(frame.interval)
    shown = f" Bars are the {bounds} of a measured loss." if bounds else ""
    along = across.replace("_", " ")
    title = f"The {loss} goes from {data['loss'].iloc[0]:.3g} to {data['loss'].iloc[-1]:.3g} along {along}"
    words = f"{len(data)} forecasts of the {loss} along {along}"
    # Along one input two forecasts have a direction; several laws or losses, or points without an order, have none.
    one_line = len(data) > 1 and not lines and across != POINT
    return Figure("forecast-points", title if one_line else frame.answer.title, f"{words}.{shown}", data, drawing)


def _most_varied(data: pd.DataFrame) -> str:
    counts = {name: int(data[name].nunique()) for name in INPUTS if name in data}
    best = max(counts, key=lambda name: counts[name], default=POINT)
    return best if counts.get(best, 0) > 1 else POINT


def _axis_of_input(name: str, data: pd.DataFrame) -> dict[str, object]:
    if name == POINT:
        return axis(POINT, "point") | {"dtick": 1}
    values = data[name].tolist() if pd.api.types.is_numeric_dtype(data[name]) else []
    return axis(name, values=values)


def _levels_label(names: dict[str, object]) -> str:
    return ", ".join(level_text(name, value) for name, value in names.items()) or "forecast"


def _add(drawing: Drawing, part: pd.DataFrame, along: str, label: str, place: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    bounded = {"lo", "hi"} <= set(part.columns)
    drawing.add_scatter(
        x=part[along],
        y=part["loss"],
        error_y=bars(part["loss"], part["lo"], part["hi"], thickness=1.5, width=5) if bounded else None,
        mode="lines+markers" if len(part) > 1 else "markers",
        marker={"color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
        line={"color": colour, "width": 1.5, "dash": "dot"},
        name=label,
        hovertemplate=f"{label}<br>%{{x:.4s}}: %{{y:.4f}}<extra></extra>",
    )
