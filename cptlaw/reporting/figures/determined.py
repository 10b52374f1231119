"""How many parameters of each law the rows at hand can determine, before any fit."""

from __future__ import annotations

import pandas as pd

from cptlaw.auto.check_auto import AutoCheck
from cptlaw.reporting.figures.figure import COLOURS, GRID, Figure, axis, blank
from cptlaw.verbs.check_runs import Check


def determined(check: Check | AutoCheck) -> Figure:
    """Draw the free parameters of laws, and how many of them these rows can determine at best.

    Parameters
    ----------
    check
        As `cptlaw.check` gives it, of one law or of law auto.

    Returns
    -------
    Figure
        Data: law, parameters, determined.
    """
    if isinstance(check, AutoCheck):
        rows = [(one.law, one.n_free, one.rank) for one in check.laws]
    else:
        rows = [(check.law.spec, check.n_free, check.rank)]
    data = pd.DataFrame(rows, columns=["law", "parameters", "determined"])
    drawing = blank(height=150 + 28 * len(data))
    for name, colour, label in (("parameters", GRID, "free parameters"), ("determined", COLOURS[0], "determined")):
        drawing.add_bar(
            x=data[name],
            y=data["law"],
            orientation="h",
            marker={"color": colour},
            name=label,
            hovertemplate=f"%{{y}}: %{{x}} {label}<extra></extra>",
        )
    drawing.update_layout(
        barmode="overlay", xaxis=axis("count", "parameters"), yaxis=axis("law", "") | {"autorange": "reversed"}
    )
    weak = int((data["determined"] < data["parameters"]).sum())
    caption = (
        f"Free parameters of {len(data)} law{'' if len(data) == 1 else 's'}, and how many of them {check.n_points} "
        f"points of {check.n_runs} runs can determine at best; {weak} have more than that."
    )
    return Figure("determined", check.title, caption, data, drawing)
