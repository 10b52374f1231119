"""Calibration: whether losses come out as forecast, and inside their intervals as often as said."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.findings import Finding
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.uncertainty.intervals import bands
from cptlaw.forecasting.backtest.metrics import inside, metrics
from cptlaw.reporting.figures.figure import COLOURS, QUIET, Figure, axis, bars, blank_drawing, rgba_of
from cptlaw.runs.metrics import unit_of
from cptlaw.units import format_percent

PROFILES = 6  # rows whose interval is profiled; those of the others are theirs or somewhat narrower
MOST_ROWS = 200  # with error bars; more could not be read
SHORT = 0.05  # share of held-out losses by which intervals may hold fewer than they say without a warning


def calibration(fit: Fit, held_out: pd.DataFrame | None = None, interval: float = 0.9) -> Figure:
    """Draw measured losses against forecast ones.

    Parameters
    ----------
    fit
        The fit.
    held_out
        Rows with the law's inputs and ``loss`` that were not fitted; the fitted rows where absent, which shows less:
        a law that fits is not yet one that forecasts.
    interval
        Coverage of the error bars.

    Returns
    -------
    Figure
        Data: the rows with forecast, lo, hi, measured.
    """
    unseen = held_out is not None
    rows = (fit.data if held_out is None else held_out).reset_index(drop=True)
    rows = rows.rename(columns={"loss": "measured"})
    # Intervals of rows that were fitted would be of the fit, and the share inside them says nothing of forecasts.
    bounded = fit.without_intervals is None and unseen
    data = fit.forecast(rows, None).drop(columns="findings").rename(columns={"loss": "forecast"})
    if bounded:
        few = np.unique(np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int))
        ends = np.full((2, len(rows)), np.nan)
        ends[:, few] = bands(fit, rows.iloc[few].reset_index(drop=True), interval, PROFILES)
        data["lo"], data["hi"] = ends
    low = float(min(data["forecast"].min(), data["measured"].min()))
    high = float(max(data["forecast"].max(), data["measured"].max()))
    edge = 0.03 * (high - low or 1.0)
    drawing = blank_drawing()
    drawing.add_scatter(
        x=[low - edge, high + edge],
        y=[low - edge, high + edge],
        mode="lines",
        line={"color": QUIET, "dash": "dash", "width": 1.5},
        name="as forecast",
        hoverinfo="skip",
    )
    style = {"color": rgba_of(COLOURS[0], 0.4), "thickness": 1, "width": 0}
    drawing.add_scatter(
        x=data["forecast"],
        y=data["measured"],
        error_x=bars(data["forecast"], data["lo"], data["hi"], **style) if bounded else None,
        mode="markers",
        marker={"color": COLOURS[0], "size": 6, "symbol": "diamond" if unseen else "circle"},
        name="held out" if unseen else "fitted",
        text=data.get("run"),
        hovertemplate="%{text}<br>forecast %{x:.4f}, measured %{y:.4f}<extra></extra>",
    )
    drawing.update_layout(
        xaxis=axis("loss", f"forecast {fit.on} loss ({unit_of(fit)})"),
        yaxis=axis("loss", f"measured {fit.on} loss ({unit_of(fit)})"),
    )
    scores = metrics(data["forecast"].to_numpy(dtype=float), data["measured"].to_numpy(dtype=float))
    caption = (
        f"{len(data)} {'losses that the fit has not seen' if unseen else 'fitted losses'}; on the dashed line they are "
        f"as forecast. Mean absolute error {format_percent(scores['mae_rel'], 3)}"
    )
    if np.isfinite(scores["slope"]):
        caption += f", slope {scores['slope']:.3f}, intercept {scores['intercept']:.3f} on logarithms (ideally 1 and 0)"
    caption += "."
    if bounded:
        inside, known = count_covered(data)
        caption += f" {inside} of {known} lie within their {format_percent(interval)} intervals."
    title = (
        f"{inside} of {known} held-out {fit.on} losses lie in their {format_percent(interval)} intervals"
        if bounded
        else f"{'Held-out' if unseen else 'Fitted'} {fit.on} losses lie {format_percent(scores['mae_rel'], 2)} off"
    )
    return Figure(f"calibration-{fit.on}", title, caption, data, drawing)


def count_covered(data: pd.DataFrame) -> tuple[int, int]:
    """Return how many measured losses lie between lo and hi, and how many have both ends."""
    # An open interval holds every loss: it is no success.
    known = data.dropna(subset=["lo", "hi"])
    return int(inside(known).sum()), len(known)


def as_doubt(figure: Figure, on: str, interval: float) -> Finding | None:
    """Return what the held-out losses of a calibration figure say of its intervals; None where it has none."""
    if "lo" not in figure.data:
        return None
    inside, known = count_covered(figure.data)
    if not known:
        return None
    short = inside < (interval - SHORT) * known
    return Finding(
        "warning" if short else "info",
        "calibration",
        f"{inside} of {known} held-out {on} losses lie in their {format_percent(interval)} intervals.",
        "Take the intervals of this report for the least doubt there is." if short else "",
    )
