"""The next experiments on the map of those that were run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.planning import Suggestion
from cptlaw.reporting.figures.figure import COLOURS, INK, QUIET, SYMBOLS, Figure, axis, blank_drawing, level_text
from cptlaw.units import format_percent, format_quantity


def suggested_cells(suggestion: Suggestion, fitted: pd.DataFrame | None = None) -> Figure:
    """Draw suggested runs by size and tokens, larger where they narrow the forecast more.

    Parameters
    ----------
    suggestion
        Answer of `cptlaw.suggest`.
    fitted
        The rows that were fitted, for comparison.

    Returns
    -------
    Figure
        Data: one row per cell.
    """
    data = suggestion.table()
    drawing = blank_drawing()
    ends = data.head(0)
    if fitted is not None and {"n_params", "tokens"} <= set(fitted.columns):
        ends = fitted.groupby(["run"], observed=True)[["n_params", "tokens"]].max()
        drawing.add_scatter(
            x=ends["n_params"],
            y=ends["tokens"],
            mode="markers",
            marker={"symbol": "x-thin", "size": 8, "line": {"color": QUIET, "width": 1.5}},
            name="fitted runs",
            hoverinfo="skip",
        )
    marks = _cells_by_place(data)
    top = float(marks["gain"].max()) if len(marks) else 1.0
    for place, (_, part) in enumerate(marks.groupby("ptpp", dropna=False)):
        budget = float(part["ptpp"].iloc[0])
        drawing.add_scatter(
            x=part["n_params"],
            y=part["tokens"],
            mode="markers+text",
            marker={
                "color": COLOURS[place % len(COLOURS)],
                "symbol": SYMBOLS[place % len(SYMBOLS)],
                "size": 8 + 16 * np.sqrt(np.maximum(part["gain"], 0) / max(top, 1e-12)),
                "opacity": 0.75,
                "line": {"color": INK, "width": 1},
            },
            name="suggested" if np.isnan(budget) else f"suggested, {level_text('ptpp', budget)}",
            text=part["label"],
            textposition="middle left",
            cliponaxis=False,
            customdata=part["gain"],
            hovertemplate="%{x:.3s} parameters, %{y:.3s} tokens<br>%{text}<br>gain %{customdata:.4f} "
            f"{suggestion.unit.split()[0]}"
            "<extra></extra>",
        )
    star = suggestion.at
    if {"n_params", "tokens"} <= set(star):
        drawing.add_scatter(
            x=[star["n_params"]],
            y=[star["tokens"]],
            mode="markers",
            marker={"symbol": "star-open", "size": 16, "color": INK, "line": {"width": 2}},
            name="the forecast that matters",
            hoverinfo="skip",
        )
    for name, side, room in (("n_params", "xaxis", 0.2), ("tokens", "yaxis", 0.08)):
        values = [float(x) for x in (*data[name], *ends[name], *([star[name]] if name in star else []))]
        drawing.update_layout({side: axis(name, values=values)})
        if values:
            low, high = np.log10([min(values), max(values)])
            edge = room * max(high - low, 0.1)
            drawing.update_layout({side: {"range": [low - edge, high + edge]}})
    shares = " Shares of replay stand beside the marks." if data["replay"].notna().any() else ""
    before, after = (
        " to ".join("open" if end is None else f"{end:.4g}" for end in ends)
        for ends in (suggestion.interval_before, suggestion.interval_after)
    )
    caption = (
        f"{len(data)} runs for {format_quantity(suggestion.flops)} FLOP, larger marks for larger gain.{shares} They "
        f"are expected to narrow the interval of the {suggestion.on} loss from {before} to {after} {suggestion.unit}."
    )
    nats = suggestion.unit.split()[0]
    title = f"{len(data)} runs for {format_quantity(suggestion.flops)} FLOP narrow the interval to {after} {nats}"
    return Figure("suggested-cells", title, caption, data, drawing)


def _cells_by_place(data: pd.DataFrame) -> pd.DataFrame:
    """Return one row per place on the map, its gains added, and in words how many runs it stands for."""
    rows = []
    data = data.astype(dict.fromkeys(("n_params", "tokens", "ptpp", "replay", "gain"), float))
    for (size, tokens, budget), part in data.groupby(["n_params", "tokens", "ptpp"], dropna=False):
        shares, counts = np.unique(part["replay"].to_numpy(dtype=float), return_counts=True)
        label = "<br>".join(
            ("" if count == 1 else f"{count} times ") + ("" if np.isnan(share) else format_percent(share))
            for share, count in zip(shares.tolist(), counts.tolist(), strict=True)
        )
        rows.append((size, tokens, budget, part["gain"].sum(), label))
    return pd.DataFrame(rows, columns=["n_params", "tokens", "ptpp", "gain", "label"])
