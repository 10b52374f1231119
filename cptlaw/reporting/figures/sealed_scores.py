"""Sealed forecasts beside what was measured since: the error of each, with the interval that had been promised."""

from __future__ import annotations

import pandas as pd

from cptlaw.forecasting.sealing.scoring import Scores
from cptlaw.reporting.figures.figure import (
    COLOURS,
    QUIET,
    SYMBOLS,
    Drawing,
    Figure,
    axis,
    bars,
    blank_drawing,
    level_text,
)

INPUTS = ("n_params", "ptpp", "tokens", "replay", "lr_peak")
ROW, MOST_NAMES = 24, 60  # pixels of one forecast; forecasts that are named: of more only their place is written


def sealed_scores(scores: Scores) -> Figure:
    """Draw the relative error of every sealed forecast and its interval; an interval that holds crosses zero.

    Parameters
    ----------
    scores
        Answer of `cptlaw.score`.

    Returns
    -------
    Figure
        Data: the rows of ``scores.frame``, with ``point``, the place from the top, one for each set of inputs.
    """
    data = scores.frame.reset_index(drop=True)
    known = [name for name in INPUTS if name in data]
    # Small models first, then small budgets: what was furthest from the fitted runs stands at the bottom. Seals need
    # not name the same inputs; one that is missing is a level like the others.
    data = data.assign(point=data.groupby(known or ["run"], dropna=False).ngroup() + 1)
    count = data["point"].nunique()
    lines = [name for name in ("law", "on") if name in data]
    groups = list(data.groupby(lines, sort=False, dropna=False))
    drawing = blank_drawing(height=130 + ROW * count * (1 + len(groups) // 3))
    drawing.add_vline(x=0, line={"color": QUIET, "width": 1})
    for place, (level, part) in enumerate(groups):
        # One below the other, so that the bars of several laws at one point can be told apart.
        shift = 0.6 * ((place + 0.5) / len(groups) - 0.5)
        _add(drawing, part, ", ".join(map(str, level)), shift, place)
    named = _separating_inputs(data, known)
    names = {
        row["point"]: ", ".join(level_text(name, row[name]) for name in named if pd.notna(row[name]))
        for row in data.to_dict("records")
    }
    ticks = {"tickvals": list(names), "ticktext": list(names.values())} if named and len(names) <= MOST_NAMES else {}
    drawing.update_layout(
        yaxis=axis("point", "" if ticks else "forecast") | {"range": [count + 0.6, 0.4]} | ticks,
        xaxis=axis("error", "forecast against measurement") | {"tickformat": "+.0%"},
        showlegend=len(groups) > 1,
    )
    asked, held = scores.totals["asked"].dropna().unique(), data["inside"].dropna().astype(bool)
    title = f"Sealed forecasts missed by {data['error'].abs().mean():.1%} on average"
    if len(held):
        title += f"; {int(held.sum())} of {len(held)} intervals held"
    shown = f" Bars are the {asked[0]:.0%} intervals as sealed: one that holds crosses zero." if len(asked) == 1 else ""
    caption = f"{len(data)} measured losses of {data['run'].nunique()} runs, each against its sealed forecast.{shown}"
    return Figure("sealed-scores", title, caption, data, drawing)


def _separating_inputs(data: pd.DataFrame, known: list[str]) -> list[str]:
    """Return the inputs that tell the points apart: not those that are constant or follow from the ones before."""
    telling: list[str] = []
    most = 1
    for name in known:
        apart = len(data[[*telling, name]].drop_duplicates())
        if apart > most:
            telling, most = [*telling, name], apart
    return telling


def _add(drawing: Drawing, part: pd.DataFrame, label: str, shift: float, place: int) -> None:
    loss, low, high = (part[name].astype(float) / part["measured"] for name in ("loss", "lo", "hi"))
    drawing.add_scatter(
        x=part["error"],
        y=part["point"] + shift,
        error_x=bars(loss, low, high, thickness=1.5, width=4),
        mode="markers",
        marker={"color": COLOURS[place % len(COLOURS)], "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
        text=part["run"].astype(str),
        name=label,
        hovertemplate=f"{label}<br>%{{text}}: %{{x:+.2%}}<extra></extra>",
    )
