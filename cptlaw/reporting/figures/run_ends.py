"""Where unfinished runs stand, and where they are forecast to end."""

from __future__ import annotations

import pandas as pd

from cptlaw.curves.run_forecast import RunForecast
from cptlaw.reporting.figures.figure import COLOURS, DASHES, SYMBOLS, Figure, axis, blank
from cptlaw.units import format_percent


def run_ends(forecast: RunForecast) -> Figure:
    """Draw the last measured loss of each unfinished run, and the loss at its end with its interval.

    Parameters
    ----------
    forecast
        As `cptlaw.forecast_run` gives it.

    Returns
    -------
    Figure
        Data: run, eval, step, loss, lo, hi; two rows for each run and eval, the measured one without lo and hi.
    """
    rows = forecast.points.to_dict("records")
    parts = []
    for row in rows:
        name = {"run": row["run"], "eval": row["eval"]}
        parts += [
            {**name, "step": row["last_step"], "loss": row["last_loss"]},
            {**name, "step": row["step"], "loss": row["loss"], "lo": row["lo"], "hi": row["hi"]},
        ]
    data = pd.DataFrame(parts)
    drawing = blank()
    for place, ((run, on), part) in enumerate(data.groupby(["run", "eval"], sort=False)):
        above, below = (part["hi"] - part["loss"]).fillna(0.0), (part["loss"] - part["lo"]).fillna(0.0)
        bars = {"type": "data", "symmetric": False, "array": above.tolist(), "arrayminus": below.tolist(), "width": 5}
        colour = COLOURS[place % len(COLOURS)]
        drawing.add_scatter(
            x=part["step"],
            y=part["loss"],
            error_y=bars,
            mode="lines+markers",
            marker={"color": colour, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
            line={"color": colour, "width": 1.5, "dash": DASHES[(place + 2) % len(DASHES)]},
            name=f"{run}, {on}",
            hovertemplate=f"{run}, {on}<br>step %{{x}}: %{{y:.4f}}<extra></extra>",
        )
    drawing.update_layout(xaxis=axis("step"), yaxis=axis("loss", f"loss ({forecast.unit})"), showlegend=True)
    caption = (
        f"The last measured loss of {len(rows)} unfinished curves, joined to the forecast of its end; bars hold a loss "
        f"measured there with a probability of {format_percent(forecast.interval)}."
    )
    return Figure("run-ends", forecast.title, caption, data, drawing)
