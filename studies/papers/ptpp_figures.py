"""Figures 1 to 3 of the PTPP paper, drawn from what `reproduce_ptpp` writes into its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def draw(folder: Path) -> list[Path]:
    """Draw the three figures as pages beside their data; none where plotly is not installed (extra ``report``)."""
    try:
        import plotly.express as px
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError:
        return []
    scatter = pd.read_csv(folder / "figure1_forecast_against_measured.csv")
    scatter["anchors"] = scatter["anchored"].map({0: "without", 1: "with"})
    first = px.scatter(
        scatter, "loss", "forecast", color="law", symbol="anchors", facet_col="eval", title="Fig. 1: forecast, measured"
    )
    ends = [scatter["loss"].min(), scatter["loss"].max()]
    first.add_trace(go.Scatter(x=ends, y=ends, mode="lines", name="equal"), row="all", col="all")

    plans = pd.read_csv(folder / "figure2_planning_map.csv")
    second = make_subplots(1, 2, subplot_titles=("target loss", "forgetting"), shared_yaxes=True)
    for place, name in enumerate(("target_loss_forms", "forgetting_forms"), 1):
        table = plans.pivot_table(index="atpp", columns="replay", values=name)
        bar = {"x": 0.45 if place == 1 else 1.0}
        second.add_trace(go.Contour(x=table.columns, y=table.index, z=table.to_numpy(), colorbar=bar), 1, place)
    kept = plans[plans["feasible_forms"] == 1]
    for place in (1, 2):
        second.add_trace(go.Scatter(x=kept["replay"], y=kept["atpp"], mode="markers", name="within both"), 1, place)
    second.update_yaxes(type="log", title="tokens per parameter", col=1).update_xaxes(title="replay")
    second.update_layout(title="Fig. 2: planning map, Forms 3 and 1")

    inside = pd.read_csv(folder / "figure3_form3_in_sample.csv")
    inside["run"] = inside["n_params"].map("{:,.0f}".format) + ", " + inside["ptpp"].map("{:g}".format)
    inside["loss"] = np.asarray(inside["loss"], dtype=float)
    third = px.scatter(
        inside, "tokens", "loss", color="run", symbol="kind", facet_row="eval", facet_col="replay", log_x=True,
        title="Fig. 3: Form 3 on the rows that it was fitted to",
    )  # fmt: skip
    paths = []
    for number, figure in enumerate((first, second, third), 1):
        path = folder / f"figure{number}.html"
        figure.write_html(path, include_plotlyjs="directory")
        paths.append(path)
    return paths
