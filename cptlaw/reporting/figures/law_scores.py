"""How far the forecasts of laws, and of guesses without a law, were off on rows that they had not seen."""

from __future__ import annotations

import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.forecasting.backtest.baselines import BASELINES
from cptlaw.forecasting.backtest.comparison import ORACLE, ComparisonFrame
from cptlaw.reporting.figures.figure import COLOURS, QUIET, Figure, axis, blank_drawing
from cptlaw.units import format_percent

ROW = 34  # pixels of one bar


def law_scores(frame: ComparisonFrame) -> Figure:
    """Draw the mean relative error of each law, the best first; guesses without a law are grey.

    Parameters
    ----------
    frame
        As `cptlaw.compare` gives it.

    Returns
    -------
    Figure
        Data: law, mae_rel, n_fit, n_test.

    Raises
    ------
    UsageError
        If no law could be scored.
    """
    data = pd.DataFrame(frame)[["law", "mae_rel", "n_fit", "n_test"]]
    data = data[data["mae_rel"].notna()].sort_values("mae_rel", ignore_index=True)
    if data.empty:
        raise UsageError("no law could be scored, so there is nothing to draw: see the findings of the comparison.")
    guesses = data["law"].isin([*BASELINES, ORACLE])
    drawing = blank_drawing(height=80 + ROW * len(data))
    drawing.add_bar(
        x=data["mae_rel"],
        y=data["law"],
        orientation="h",
        marker={"color": [QUIET if guess else COLOURS[0] for guess in guesses]},
        text=[format_percent(float(value), 2) for value in data["mae_rel"]],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{x:.2%} off on average<extra></extra>",
    )
    drawing.update_layout(
        xaxis=axis("mae_rel", "mean relative error of forecasts") | {"tickformat": ".1%", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True, "type": "category"},
    )
    count = int(data["n_test"].max())
    caption = f"Mean relative error on {count} rows that were not fitted. Grey bars are no forecasts of a law."
    return Figure("law-scores", frame.answer.title, caption, data, drawing)
