"""The next experiments on the map of those that were run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.planning import Suggestion
from cptlaw.reporting.figures.figure import COLOURS, INK, QUIET, SYMBOLS, Figure, axis, blank, level_text
from cptlaw.units import format_quantity


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
    drawing = blank()
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
    budgets = sorted(data["ptpp"].dropna().unique()) if "ptpp" in data and len(data) else []
    top = float(data["gain"].max()) if len(data) else 1.0
    for place, budget in enumerate(budgets or [None]):
        part = data if budget is None else data[data["ptpp"] == budget]
        if not len(part):
            continue
        drawing.add_scatter(
            x=part["n_params"],
            y=part["tokens"],
            mode="markers",
            marker={
                "color": COLOURS[place % len(COLOURS)],
                "symbol": SYMBOLS[place % len(SYMBOLS)],
                "size": 8 + 16 * np.sqrt(np.maximum(part["gain"], 0) / max(top, 1e-12)),
                "opacity": 0.75,
                "line": {"color": INK, "width": 1},
            },
            name="suggested" if budget is None else f"suggested, {level_text('ptpp', float(budget))}",
            text=[f"{run}, gain {gain:.4f} nats" for run, gain in zip(part["run"], part["gain"], strict=True)],
            hovertemplate="%{text}<br>%{x:.3s} parameters, %{y:.3s} tokens<extra></extra>",
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
    sizes, tokens = ([*data[name], *([star[name]] if name in star else [])] for name in ("n_params", "tokens"))
    drawing.update_layout(
        xaxis=axis("n_params", values=[float(size) for size in sizes]),
        yaxis=axis("tokens", values=[float(count) for count in tokens]),
    )
    before, after = (
        " to ".join("open" if end is None else f"{end:.4g}" for end in ends)
        for ends in (suggestion.interval_before, suggestion.interval_after)
    )
    caption = (
        f"{len(data)} runs for {format_quantity(suggestion.flops)} FLOP, larger marks for larger gain. They are "
        f"expected to narrow the interval of the {suggestion.on} loss from {before} to {after} nats per token."
    )
    return Figure("suggested-cells", "The next experiments", caption, data, drawing)
