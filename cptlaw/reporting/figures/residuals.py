"""Residuals by factor: where the law is wrong in kind, and not just noisy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.fitting import Fit
from cptlaw.reporting.figures.figure import COLOURS, INK, LOGARITHMIC, Figure, Panels, axis, blank
from cptlaw.units import format_percent

FACTORS = ("tokens", "n_params", "replay", "ptpp")
BINS = 8  # of a factor with many levels, for the line of medians


def residuals(fit: Fit) -> Figure:
    """Draw relative residuals against each factor, with their median by level.

    A law that fits leaves no trend in any panel; a median that bends away from zero is a part of the loss that the law
    does not know.

    Parameters
    ----------
    fit
        The fit; its own rows are drawn.

    Returns
    -------
    Figure
        Data: run, the law's inputs, loss, residual (fitted over observed, less one).
    """
    data = fit.data.assign(residual=np.expm1(fit.residuals()))
    factors = [name for name in FACTORS if name in data.columns and data[name].nunique() > 1]
    factors += [
        name for name in fit.law.inputs if name not in FACTORS and name in data.columns and data[name].nunique() > 1
    ]
    drawing = blank()
    panels = Panels(tuple(f"by {name}" for name in factors), 2, 1, row_height=250)
    trends: dict[str, float] = {}
    for i, name in enumerate(factors):
        drawing.add_scatter(
            x=data[name],
            y=data["residual"],
            mode="markers",
            marker={"color": COLOURS[0], "size": 5, "opacity": 0.55},
            name="one measurement",
            showlegend=i == 0,
            legendgroup="points",
            text=data["run"],
            hovertemplate="%{text}: %{y:.2%}<extra></extra>",
            **panels.ids(i),
        )
        median = _medians(data, name)
        trends[name] = float(median["residual"].abs().max())
        drawing.add_scatter(
            x=median[name],
            y=median["residual"],
            mode="lines+markers",
            line={"color": COLOURS[1], "width": 2},
            marker={"symbol": "square", "size": 7},
            name="median",
            showlegend=i == 0,
            legendgroup="median",
            hovertemplate="median %{y:.2%}<extra></extra>",
            **panels.ids(i),
        )
    y = {**axis("residual", "fitted over observed loss, less one (%)"), "tickformat": ".1%", "zeroline": True}
    panels.apply(drawing, [axis(name, values=data[name].tolist()) for name in factors], y | {"zerolinecolor": INK}, 62)
    worst = max(trends, key=lambda name: trends[name], default="")
    most = f" The median strays farthest along {worst}, by {format_percent(trends[worst], 2)}." if worst else ""
    return Figure(
        f"residuals-{fit.on}",
        f"The {fit.on} fit strays most along {worst}, by {format_percent(trends[worst], 2)}"
        if worst
        else f"Residuals of the {fit.on} fit",
        f"Points are fitted over observed losses, less one; squares their medians. Without a trend in any panel the "
        f"law misses nothing of that factor.{most}",
        data.reset_index(drop=True),
        drawing,
    )


def _medians(data: pd.DataFrame, name: str) -> pd.DataFrame:
    values = data[name].astype(float)
    if values.nunique() > BINS:
        scaled = np.log(values) if name in LOGARITHMIC and (values > 0).all() else values
        group = pd.cut(scaled, BINS, labels=False)
        return data.groupby(group, observed=True)[[name, "residual"]].median()
    return data.groupby(name, as_index=False, observed=True)[["residual"]].median()
