"""Observed losses against the fitted law, by facet: replay by model size, as the papers lay it out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cptlaw.fitting.fit import Fit
from cptlaw.fitting.uncertainty.intervals import bands
from cptlaw.reporting.figures.figure import (
    AXES,
    COLOURS,
    DASHES,
    SYMBOLS,
    Drawing,
    Figure,
    Panels,
    add_band,
    axis,
    blank_drawing,
    level_text,
    rgba_of,
)
from cptlaw.runs.metrics import unit_of
from cptlaw.units import format_percent, format_quantity

MOST_LEVELS = 4  # of a facet; more would be too small to read
MOST_LINES = 6
PROFILES = 2  # within the fitted rows doubt about the law is small beside the noise, and profiles elsewhere have met it
MOST_NARROW = 3  # panels beside each other on a phone


def observed_fitted(fit: Fit, interval: float = 0.9) -> Figure:
    """Draw observed and fitted losses along tokens, one panel per replay and model size, one colour per budget.

    Parameters
    ----------
    fit
        The fit; its own rows are drawn.
    interval
        Coverage of the bands for a measured loss.

    Returns
    -------
    Figure
        Data: run, the law's inputs, observed, fitted, lo, hi.
    """
    rows = fit.data.reset_index(drop=True)
    bounded = fit.without_intervals is None
    # Runs of several seeds share their inputs, and the fitted loss there.
    inputs = [name for name in rows.columns if name not in ("run", "loss")]
    places = rows[inputs].drop_duplicates().reset_index(drop=True)
    fitted = fit.forecast(places, None).drop(columns="findings")
    low, high = bands(fit, places, interval, PROFILES) if bounded else (np.nan, np.nan)
    fitted = fitted.assign(lo=low, hi=high)
    data = rows.rename(columns={"loss": "observed"}).merge(fitted.rename(columns={"loss": "fitted"}), on=inputs)
    along = "tokens" if "tokens" in inputs else inputs[0]
    down, across = _facets(data, "replay", "n_params"), _facets(data, "n_params", "replay")
    colour, levels = _facet_levels(data, "ptpp", MOST_LINES)
    titles = []
    drawing = blank_drawing()
    for share in down:
        for size in across:
            titles.append(", ".join(_facet_title(name, value) for name, value in (*size.items(), *share.items())))
            panel = _at(_at(data, share), size)
            for place, level in enumerate(levels or [np.nan]):
                part = panel if colour is None else panel[panel[colour] == level]
                if len(part):
                    label = fit.on if colour is None else level_text(colour, level)
                    _add(drawing, part.sort_values(along), along, place, label, len(titles) - 1)
    columns = max(len(across), 1)
    panels = Panels(tuple(titles), columns, narrow_columns=columns if columns <= MOST_NARROW else 2)
    y = axis("loss", f"{fit.on} loss ({unit_of(fit)})")
    panels.apply(drawing, axis(along, values=data[along].tolist()), y)
    _legend_once(drawing)
    error = format_percent(float(np.sqrt(np.mean(fit.residuals() ** 2))), 2)
    shown = sum(len(_at(_at(data, share), size)) for share in down for size in across)
    some = "" if shown == len(data) else f" {shown} of {len(data)} points are shown, at levels spread over all."
    band = f" The bands hold {format_percent(interval)} of measured losses." if bounded else ""
    return Figure(
        f"observed-fitted-{fit.on}",
        f"{fit.law.spec} misses the fitted {fit.on} losses by {error}",
        f"Points are measured losses, lines the fitted law {fit.law.spec} along {AXES.get(along, along)}, "
        f"one panel per model size and replay. The fit "
        f"misses by {error} (root mean square).{band}{some}",
        data,
        drawing,
    )


def _facet_title(name: str, value: float) -> str:
    return format_quantity(value) if name == "n_params" else level_text(name, value)


def _facet_levels(data: pd.DataFrame, name: str, most: int) -> tuple[str | None, list[float]]:
    if name not in data.columns or data[name].nunique() < 2:
        return None, []
    levels = np.sort(data[name].dropna().unique())
    # Spread over all levels, the ends among them: what a law gets wrong shows there first.
    chosen = np.unique(np.linspace(0, len(levels) - 1, min(len(levels), most)).round().astype(int))
    return name, [float(levels[i]) for i in chosen]


def _facets(data: pd.DataFrame, name: str, other: str) -> list[dict[str, float]]:
    if name not in data.columns:
        return [{}]
    if other in data.columns:  # a level with one panel would leave the others of its row empty
        panels = data.groupby(name)[other].transform("nunique")
        data = data[panels > panels.max() / 2]
    result, levels = _facet_levels(data, name, MOST_LEVELS)
    return [{name: level} for level in (levels if result else data[name].unique())]


def _at(data: pd.DataFrame, where: Mapping[str, float]) -> pd.DataFrame:
    for name, value in where.items():
        data = data[np.isclose(data[name], value)]
    return data


def _add(drawing: Drawing, part: pd.DataFrame, along: str, place: int, label: str, panel: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    ids = Panels((), 1).ids(panel)
    # Inputs that no facet shows, such as a domain, would zigzag: the line follows their mean.
    line = part.groupby(along, as_index=False)[["fitted", "lo", "hi"]].mean()
    if line["lo"].notna().all():
        fill, hidden = rgba_of(colour, 0.15), {"legendgroup": label, "showlegend": False}
        add_band(drawing, line[along], line["lo"], line["hi"], fill, **hidden, **ids)
    drawing.add_scatter(
        x=line[along],
        y=line["fitted"],
        mode="lines",
        line={"color": colour, "width": 2, "dash": DASHES[place % len(DASHES)]},
        name=label,
        legendgroup=label,
        showlegend=False,
        hovertemplate="fitted %{y:.4f}<extra></extra>",
        **ids,
    )
    drawing.add_scatter(
        x=part[along],
        y=part["observed"],
        mode="markers",
        marker={"color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 6},
        name=label,
        legendgroup=label,
        text=part["run"],
        hovertemplate="%{text}<br>%{x:.3s} tokens: %{y:.4f}<extra></extra>",
        **ids,
    )


def _legend_once(drawing: Drawing) -> None:
    seen: set[str] = set()
    for trace in drawing.data:
        if trace.mode == "markers":
            # All panels draw the same levels, and the legend names each once.
            trace.showlegend = trace.name not in seen
            seen.add(trace.name)
