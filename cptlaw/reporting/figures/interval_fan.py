"""The fan of a forecast: one loss along tokens at a size and budget never run, with intervals of rising coverage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cptlaw.fitting.checking.cuts import trained_rows
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.uncertainty.intervals import bands
from cptlaw.reporting.figures.figure import COLOURS, INK, Figure, add_band, axis, blank_drawing, level_text, rgba_of
from cptlaw.runs.metrics import unit_of
from cptlaw.units import format_percent, format_quantity, format_span

COVERAGES = (0.9, 0.5)  # of the intervals of a measured loss, from the profile of the objective; the wide one first
PLACES = 7  # along tokens through which the band is drawn
PROFILES = 4  # of them that are profiled: both ends, and between


def interval_fan(
    fit: Fit,
    at: Mapping[str, float],
    measured: pd.DataFrame | None = None,
) -> Figure:
    """Draw the forecast along tokens with its intervals.

    Parameters
    ----------
    fit
        A fit of a law of tokens.
    at
        The other inputs of the law, raw: n_params, replay, ptpp, as far as it reads them.
    measured
        Losses at these inputs that were not fitted, with ``tokens`` and ``loss``, to hold against the forecast.

    Returns
    -------
    Figure
        Data: tokens, loss, and lo and hi of each coverage, as ``lo_0.5``.
    """
    frame = pd.DataFrame({"tokens": np.geomspace(*_shown_range(fit, at, measured), PLACES)})
    frame = frame.assign(**{name: float(value) for name, value in at.items() if name != "tokens"})
    data = fit.forecast(frame, None).drop(columns="findings")
    drawing = blank_drawing()
    colour = COLOURS[0] if fit.role != "source" else COLOURS[1]
    bounded = fit.without_intervals is None
    for place, coverage in enumerate(COVERAGES if bounded else ()):
        low, high = bands(fit, frame, coverage, PROFILES)
        data[f"lo_{coverage:g}"], data[f"hi_{coverage:g}"] = low, high
        known = np.isfinite(low) & np.isfinite(high)
        fill, name = rgba_of(colour, 0.16 + 0.16 * place), f"{format_percent(coverage)} interval"
        add_band(drawing, frame["tokens"].to_numpy()[known], low[known], high[known], fill, name=name)
    drawing.add_scatter(
        x=data["tokens"],
        y=data["loss"],
        mode="lines",
        line={"color": colour, "width": 2.5},
        name="forecast",
        hovertemplate="%{x:.3s} tokens: %{y:.4f}<extra></extra>",
    )
    caption = f"The {fit.on} loss that {fit.law.spec} forecasts at {_point_text(at)}"
    caption += ", with intervals for one measured loss." if bounded else "; too few runs for intervals."
    if measured is not None and len(measured):
        drawing.add_scatter(
            x=measured["tokens"],
            y=measured["loss"],
            mode="markers",
            marker={"color": "#ffffff", "line": {"color": INK, "width": 1.5}, "size": 8, "symbol": "circle"},
            name="measured, not fitted",
            hovertemplate="measured %{x:.3s} tokens: %{y:.4f}<extra></extra>",
        )
        caption += f" Rings are {len(measured)} losses measured there, which the fit has not seen."
    drawing.update_layout(
        xaxis=axis("tokens", values=data["tokens"].tolist()), yaxis=axis("loss", f"{fit.on} loss ({unit_of(fit)})")
    )
    title = _fan_title(fit, at, data, COVERAGES[0] if bounded else None)
    return Figure(f"interval-fan-{fit.on}", title, caption, data, drawing)


def _fan_title(fit: Fit, at: Mapping[str, float], data: pd.DataFrame, coverage: float | None) -> str:
    """Return the forecast at the tokens that were asked for, else how far it falls."""
    if "tokens" not in at:
        first, last = (float(data["loss"].iloc[end]) for end in (0, -1))
        return f"The {fit.on} loss goes from {first:.3g} to {last:.3g} along tokens"
    # Not read off the curve: between its places it is straight, and a forecast has one number wherever it is printed.
    row = fit.forecast(pd.DataFrame([at]), coverage).reindex(columns=["loss", "lo", "hi"]).iloc[0]
    span = format_span(*row.astype(float))  # to the digits of every other place that says it
    return f"At {format_quantity(float(at['tokens']))} tokens the {fit.on} loss is forecast at {span}"


def _shown_range(fit: Fit, at: Mapping[str, float], measured: pd.DataFrame | None) -> tuple[float, float]:
    rows = trained_rows(fit)
    tokens = rows["tokens"].to_numpy(dtype=float)
    if "n_params" in at and "n_params" in rows.columns:
        tokens = tokens / rows["n_params"].to_numpy(dtype=float) * float(at["n_params"])
    low, high = float(tokens.min()), float(tokens.max())
    if "tokens" in at:
        low, high = min(low, float(at["tokens"])), max(high, float(at["tokens"]))
    if measured is not None and len(measured):
        low, high = min(low, float(measured["tokens"].min())), max(high, float(measured["tokens"].max()))
    return low, high


def _point_text(at: Mapping[str, float]) -> str:
    shown = [level_text(name, float(at[name])) for name in ("n_params", "ptpp", "replay") if name in at]
    if "tokens" in at:
        shown.append(f"around {format_quantity(float(at['tokens']))} tokens")
    return ", ".join(shown)
