"""From a loss to a score: the link, the measured models, and a forecast with the doubt of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.errors import UsageError
from cptlaw.reporting.figures.figure import COLOURS, QUIET, Figure, add_band, axis, bars, blank_drawing, rgba_of
from cptlaw.runs.metrics import unit_of
from cptlaw.runs.points import PointsLike, as_points
from cptlaw.units import format_percent

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

STEPS = 80


def score_link(fit: ScoreFit, at: PointsLike | None = None, interval: float = 0.9) -> Figure:
    """Draw a score against the loss that carries it.

    Parameters
    ----------
    fit
        A fitted score.
    at
        Points to forecast: rows, or one as text; none where absent.
    interval
        Coverage of the band around the link and of the bars of the forecast.

    Returns
    -------
    Figure
        Data: kind (measured, link, forecast), loss, score, lo, hi, loss_lo, loss_hi.

    Raises
    ------
    UsageError
        If no law of the score reads a loss.
    """
    part = next((one for one in fit.members if one.carrier is not None), None)
    if part is None or part.carrier is None or part.loss is None:
        raise UsageError(f"no law of {fit.on} reads a loss: there is no link to draw.")
    ends = [0.5 - 0.5 * interval, 0.5 + 0.5 * interval]
    measured = pd.DataFrame({"kind": "measured", "loss": part.losses(fit.data), "score": fit.data["loss"]})
    asked = None if at is None else as_points(at)
    forecast = pd.DataFrame()
    if asked is not None:
        expected = part.losses(asked)
        spread = np.exp(part.loss.log_quantiles(asked, ends, measured=False))
        result = fit.forecast(asked, interval)
        forecast = pd.DataFrame({"kind": "forecast", "loss": expected, "score": result["loss"].to_numpy()})
        forecast = forecast.assign(lo=result["lo"].to_numpy(), hi=result["hi"].to_numpy())
        forecast = forecast.assign(loss_lo=spread[0], loss_hi=spread[1])
    everything = np.concatenate([measured["loss"], forecast.get("loss_lo", []), forecast.get("loss_hi", [])])
    grid = np.linspace(float(np.nanmin(everything)), float(np.nanmax(everything)), STEPS)
    # A typical model stands for the inputs that other laws read: along the link only the loss changes.
    rows = pd.concat([fit.data.tail(1)] * STEPS, ignore_index=True).assign(**{part.carrier: grid})
    score, deviation = part.at(rows, grid)
    half = fit.scale * deviation * float(special.ndtri(ends[1]))
    link = pd.DataFrame({"kind": "link", "loss": grid, "score": score})
    link = link.assign(lo=np.clip(score - half, 0.0, 1.0), hi=np.clip(score + half, 0.0, 1.0))
    drawing = blank_drawing()
    fill = rgba_of(COLOURS[0], 0.18)
    add_band(drawing, grid, link["lo"], link["hi"], fill, name="doubt about the link")
    drawing.add_scatter(x=grid, y=score, mode="lines", line={"color": COLOURS[0]}, name=part.law.name, hoverinfo="skip")
    drawing.add_scatter(
        x=measured["loss"],
        y=measured["score"],
        mode="markers",
        marker={"color": QUIET, "size": 6},
        name="measured",
        hovertemplate="loss %{x:.3f}, score %{y:.3f}<extra></extra>",
    )
    drawing.add_hline(y=fit.chance, line={"color": QUIET, "dash": "dot", "width": 1})
    caption = (
        f"Each dot is a model: its {part.carrier} loss and its score on {fit.on} ({fit.metric}, {fit.n_items:g} "
        f"questions). The line is {part.law.equation}, its doubt at {format_percent(interval)}; dotted: chance."
    )
    if len(forecast):
        style = {"color": rgba_of(COLOURS[1], 0.7), "thickness": 1.5}
        drawing.add_scatter(
            x=forecast["loss"],
            y=forecast["score"],
            error_x=bars(forecast["loss"], forecast["loss_lo"], forecast["loss_hi"], **style),
            error_y=bars(forecast["score"], forecast["lo"], forecast["hi"], **style),
            mode="markers",
            marker={"color": COLOURS[1], "size": 9, "symbol": "square"},
            name="forecast",
            hovertemplate="loss %{x:.3f}, score %{y:.3f}<extra></extra>",
        )
        first = forecast.iloc[0]
        caption += (
            f" The square is the forecast, {format_percent(first['score'])}: its horizontal bar is the doubt about the "
            f"loss, its vertical bar that about a measured score, {format_percent(first['lo'])} to "
            f"{format_percent(first['hi'])}, with the loss, the link, the other laws and the questions in it."
        )
    drawing.update_layout(
        xaxis=axis("loss", f"{part.carrier} loss ({unit_of(part.loss)})"),
        yaxis={**axis("loss", f"{fit.on} ({fit.metric})"), "tickformat": ".0%"},
    )
    data = pd.concat([measured, link, forecast], ignore_index=True)
    title = f"{fit.on} follows the {part.carrier} loss"
    return Figure(f"score-{fit.on}", title, caption, data, drawing)
