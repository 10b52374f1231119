"""The identifiability card: which parameters the data determines, how well, and which directions it does not see."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.fitting import Fit
from cptlaw.reporting.figures.figure import COLOURS, INK, QUIET, Figure, Panels, axis, blank
from cptlaw.solving.identifiability import RANK_TOLERANCE
from cptlaw.uncertainty.intervals import MIN_RUNS
from cptlaw.uncertainty.parameter_profile import OPEN, parameter_intervals, weakest_directions
from cptlaw.units import format_percent

EDGE = 10.0  # factor from the fitted value at which an interval counts as open


def identifiability(fit: Fit, interval: float = 0.9) -> Figure:
    """Draw each parameter's profile interval relative to its value, and the weakest direction.

    Parameters
    ----------
    fit
        The fit.
    interval
        Coverage of the intervals.

    Returns
    -------
    Figure
        Data: parameter, value, lo, hi, lo_status, hi_status, share_of_weakest.
    """
    weakest = weakest_directions(fit, 1)
    if fit.n_runs >= MIN_RUNS:
        data = parameter_intervals(fit, interval)
    else:
        free = weakest["parameter"]
        data = pd.DataFrame({"parameter": free, "value": [fit.params[name] for name in free]})
        data = data.assign(lo=np.nan, hi=np.nan, lo_status=OPEN, hi_status=OPEN)
    data["share_of_weakest"] = data["parameter"].map(weakest.set_index("parameter")["share"])
    labels = [
        f"{row.parameter} = {row.value:.4g}{'' if row.value else f' ({_range_text(row)})'}" for row in data.itertuples()
    ]
    drawing = blank()
    panels = Panels((f"{format_percent(interval)} interval of each parameter", "weakest direction"), 2, 1)
    size = np.maximum(np.abs(data["value"].to_numpy()), 1e-300)
    ends = {}
    for name, edge in (("lo", 1 / EDGE), ("hi", EDGE)):
        shift = 1.0 + (data[name] - data["value"]).to_numpy() / size  # a factor for positive parameters
        ends[name] = np.where(np.isnan(shift), edge, np.clip(shift, 1 / EDGE, EDGE))
        # A factor of nothing is nothing: how far an amplitude at 0 may go stands in its label.
        ends[name][(data["value"] == 0).to_numpy() & ~np.isnan(shift)] = 1.0
    drawing.add_scatter(
        x=np.ones(len(data)),
        y=labels,
        mode="markers",
        error_x={
            "type": "data",
            "symmetric": False,
            "array": ends["hi"] - 1.0,
            "arrayminus": 1.0 - ends["lo"],
            "color": COLOURS[0],
            "thickness": 3,
            "width": 5,
        },
        marker={"color": COLOURS[0], "size": 9},
        text=[_range_text(row) for row in data.itertuples()],
        hovertemplate="%{y}<br>%{text}<extra></extra>",
        showlegend=False,
        **panels.ids(0),
    )
    for name, symbol in (("lo", "triangle-left"), ("hi", "triangle-right")):
        away = (data[f"{name}_status"] == OPEN).to_numpy()
        drawing.add_scatter(
            x=ends[name][away],
            y=np.array(labels)[away],
            mode="markers",
            marker={"symbol": symbol, "size": 13, "color": COLOURS[1]},
            hovertemplate="the data does not bound this end<extra></extra>",
            showlegend=False,
            **panels.ids(0),
        )
    # A direction has no sign: bars to both sides say which parameters must move against each other.
    drawing.add_bar(
        x=data["share_of_weakest"],
        y=labels,
        orientation="h",
        marker={"color": COLOURS[2], "line": {"color": INK, "width": 0.5}},
        hovertemplate="%{y}: %{x:.2f}<extra></extra>",
        showlegend=False,
        **panels.ids(1),
    )
    ratio = axis("ratio", "factor of fitted value") | {
        "type": "log",
        "range": [-1.15, 1.15],
        "tickvals": [0.1, 0.3, 1, 3, 10],
    }
    portion = axis("share", "share (unit vector)") | {
        "range": [-1.05, 1.05],
        "zeroline": True,
        "zerolinecolor": QUIET,
    }
    names = axis("parameter", "") | {"type": "category", "autorange": "reversed"}
    panels = Panels(panels.titles, 2, 1, row_height=80 + 26 * max(len(data), 3))
    panels.apply(drawing, [ratio, portion], names, top=20)
    _room_for_labels(drawing, max(len(label) for label in labels))
    strength = float(weakest["strength"].iloc[0])
    leading = weakest.reindex(weakest["share"].abs().sort_values(ascending=False).index)["parameter"].head(3)
    open_ended = [str(row.parameter) for row in data.itertuples() if OPEN in (row.lo_status, row.hi_status)]
    how = (
        "is what the data does not see"
        if strength <= RANK_TOLERANCE
        else f"is seen {strength:.1g} times as well as the best one"
    )
    caption = (
        f"Rank {fit.rank} of {fit.n_free} free parameters; values are in the units of the law. Intervals come from the "
        f"profile of the objective along each parameter; triangles mark ends that the data does not bound within a "
        f"factor of {EDGE:g}{' (' + ', '.join(open_ended) + ')' if open_ended else ''}. The weakest combination, "
        f"mostly of {', '.join(leading)}, {how}."
    )
    return Figure(
        f"identifiability-{fit.on}",
        f"The data bounds {len(data) - len(open_ended)} of {len(data)} parameters of the {fit.on} law on both sides",
        caption,
        data,
        drawing,
    )


def _range_text(row: object) -> str:
    ends = ["open" if getattr(row, f"{name}_status") == OPEN else f"{getattr(row, name):.4g}" for name in ("lo", "hi")]
    return f"{ends[0]} to {ends[1]}"


def _room_for_labels(drawing: object, longest: int) -> None:
    drawing.update_layout(margin={"l": 30 + 7 * longest})  # type: ignore[attr-defined]
