"""Draw docs/figures/none_to_many.png: forgetting as it is forecast from no run, one, three and ten.

Run it as ``python docs/none_to_many.py`` after `python -m studies none_to_many --data ../shared/data --write`. It needs
the extra `images` and Chrome or Chromium.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from plotly.subplots import make_subplots

from cptlaw.reporting.figures.figure import COLOURS, GRID, INK, QUIET, blank_drawing
from cptlaw.reporting.images import write_images

DOCS = Path(__file__).parent
RESULT = DOCS.parent / "studies" / "results" / "none_to_many.json"


def points() -> pd.DataFrame:
    """Return the table of the result file, in per cent."""
    held = json.loads(RESULT.read_text(encoding="utf-8"))["tables"]["forgetting"]
    rows = pd.DataFrame(held["rows"], columns=held["columns"]).set_index("from")
    return rows.apply(lambda column: column.str.removesuffix("%").astype(float))


def draw() -> Any:
    """Return the drawing: a panel for each number of runs."""
    rows = points()
    steps = list(dict.fromkeys(rows.index))
    titles = [f"<b>{step}</b>" for step in steps]
    drawing = make_subplots(
        1,
        len(steps),
        shared_yaxes=True,
        subplot_titles=titles,
        horizontal_spacing=0.02,
        x_title="replay",
        figure=blank_drawing(300),
    )
    for place, step in enumerate(steps, 1):
        own = rows.loc[step]
        ends = {"x": own["replay"], "mode": "lines", "line": {"width": 0}}
        drawing.add_scatter(y=own["to"], **ends, row=1, col=place)
        drawing.add_scatter(y=own["90 % from"], **ends, fill="tonexty", fillcolor="#d6e6f3", row=1, col=place)
        line = {"color": COLOURS[0], "width": 2.5}
        drawing.add_scatter(x=own["replay"], y=own["forgetting"], mode="lines", line=line, row=1, col=place)
        rings = {"symbol": "circle", "size": 8, "color": "#ffffff", "line": {"color": INK, "width": 1.5}}
        drawing.add_scatter(x=own["replay"], y=own["measured"], mode="markers", marker=rings, row=1, col=place)
    common = {"gridcolor": GRID, "linecolor": QUIET, "showline": True, "zeroline": False, "ticksuffix": "%"}
    drawing.update_xaxes(**common, range=[-3, 53], tickvals=[0, 10, 25, 50], showticksuffix="all")
    drawing.update_yaxes(**common, range=[0, 105])
    drawing.update_yaxes(title="forgetting", col=1)
    return drawing.update_layout(showlegend=False, margin={"l": 66, "r": 10, "t": 26, "b": 52})


if __name__ == "__main__":
    print(*write_images({"none_to_many.png": draw()}, DOCS / "figures", "png"))
