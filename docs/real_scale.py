"""Draw docs/figures/real_scale.png and real_scale_narrow.png, for phones: what holds at real scale, in four panels.

Run it as ``python docs/real_scale.py`` after `python -m studies real_scale --write`. It needs the extra `images` and
Chrome or Chromium.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.reporting.figures.figure import COLOURS, GRID, INK, QUIET, SYMBOLS, blank_drawing
from cptlaw.reporting.images import write_images

DOCS = Path(__file__).parent
RESULT = DOCS.parent / "studies" / "results" / "real_scale.json"
NO_REPLAY = 0.004  # where no replay stands on a logarithmic axis
LEFT, RIGHT, TOP, BOTTOM = [0.0, 0.44], [0.57, 1.0], [0.55, 0.93], [0.0, 0.38]
PANELS = {"": (LEFT, TOP), "2": (RIGHT, TOP), "3": (LEFT, BOTTOM), "4": (RIGHT, BOTTOM)}
STACKED = {number: ([0.0, 1.0], [0.78 - 0.26 * i, 0.96 - 0.26 * i]) for i, number in enumerate(PANELS)}
WIDE, NARROW = {"height": 620}, {"height": 1240, "width": 520}
TITLES = {
    "": ("1. A tenth of replay takes off most of the forgetting", "forgetting that stays, by replay; dotted: ours"),
    "2": ("2. Forgetting grows with rate and budget", "exponents by size of the model; full: rate, open: budget"),
    "3": ("3. Replay costs little of the gain", "k in gain ~ (1 - replay)^k, by parameters; open: ours"),
    "4": (
        "4. One run on a new corpus sets its level",
        "factor of error on the corpus below, exponents of that on the left",
    ),
}


def table(name: str) -> pd.DataFrame:
    """Return a table of the result file."""
    held = json.loads(RESULT.read_text(encoding="utf-8"))["tables"][name]
    return pd.DataFrame(held["rows"], columns=held["columns"])


def draw(narrow: bool = False) -> Any:
    """Return the drawing, its panels below each other where it is narrow."""
    points = table("points").astype({"x": float, "y": float})
    by_panel = dict(tuple(points.groupby("panel", sort=False)))
    drawing = blank_drawing().update_layout(NARROW if narrow else WIDE)
    _replay(drawing, by_panel["replay"])
    _exponents(drawing, by_panel["exponents"])
    _gain(drawing, by_panel["gain"])
    _pairs(drawing, table("pairs").set_index("exponents from"))
    common = {"gridcolor": GRID, "linecolor": QUIET, "showline": True, "zeroline": False, "ticks": "outside"}
    for number, (across, up) in (STACKED if narrow else PANELS).items():
        drawing.update_layout(
            {
                f"xaxis{number}": common | {"domain": across, "anchor": f"y{number}"},
                f"yaxis{number}": common | {"domain": up, "anchor": f"x{number}"},
            }
        )
        title, key = TITLES[number]
        place = {"x": across[0], "y": up[1], "xref": "paper", "yref": "paper", "showarrow": False}
        place |= {"xanchor": "left", "yanchor": "bottom"}
        drawing.add_annotation(text=f"<b>{title}</b>", yshift=20, font={"size": 14}, **place)
        drawing.add_annotation(text=key, yshift=4, font={"size": 12, "color": QUIET}, **place)
    shares = [NO_REPLAY, 0.01, 0.05, 0.1, 0.25, 0.5]
    drawing.update_layout(
        showlegend=False,
        margin={"l": 96 if narrow else 70, "r": 20, "t": 10, "b": 34},
        xaxis={"type": "log", "tickvals": shares, "ticktext": ["0", *(f"{100 * share:g} %" for share in shares[1:])]},
        xaxis2={
            "type": "log",
            "tickvals": [2e7, 6e7, 1.5e8],
            "ticktext": ["20M", "60M", "150M"],
            "range": [7.15, 8.65],
        },
        xaxis3={"type": "log", "tickvals": [1e5, 1e6, 1e7, 1e8, 1e9], "ticktext": ["100K", "1M", "10M", "100M", "1B"]},
        xaxis4={"showgrid": False},
        yaxis={"tickformat": ".0%", "range": [-0.06, 1.05]},
        yaxis2={"range": [0, 1.2]},
        yaxis3={"range": [0, 0.3]},
        yaxis4={"showgrid": False, "autorange": "reversed"},
    )
    return drawing


def _words(drawing: Any, text: str, place: tuple[float, float], axes: str, **style: Any) -> None:
    """Write words at a place of a panel whose horizontal axis is logarithmic."""
    drawing.add_annotation(
        text=text, x=math.log10(place[0]), y=place[1], xref=f"x{axes}", yref=f"y{axes}", showarrow=False, **style
    )


def _replay(drawing: Any, points: pd.DataFrame) -> None:
    public = [name for name in dict.fromkeys(points["series"]) if not name.endswith("ours")]
    for name, own in points.groupby("series", sort=False):
        rank = public.index(name) if name in public else -1
        colour = QUIET if rank < 0 else COLOURS[rank]
        drawing.add_scatter(
            x=own["x"].clip(lower=NO_REPLAY),
            y=own["y"],
            mode="lines+markers",
            line={"color": colour, "width": 1 if rank < 0 else 2, "dash": "dot" if rank < 0 else "solid"},
            marker={"symbol": "circle-open" if rank < 0 else SYMBOLS[rank], "size": 8, "color": colour},
        )
    for rank, name in enumerate(public):
        font = {"color": COLOURS[rank], "size": 11}
        _words(drawing, name, (0.55, 1.0 - 0.065 * rank), "", font=font, xanchor="right")


def _exponents(drawing: Any, points: pd.DataFrame) -> None:
    names = points["series"].str.rpartition(", ")
    corpora = list(dict.fromkeys(names[0]))
    ends: dict[str, tuple[float, float]] = {}
    for (corpus, kind), own in points.groupby([names[0], names[2]], sort=False):
        rank, full = corpora.index(corpus), kind == "rate"
        drawing.add_scatter(
            x=own["x"],
            y=own["y"],
            mode="lines+markers",
            line={"color": COLOURS[rank], "width": 2 if full else 1},
            marker={"symbol": SYMBOLS[rank] + ("" if full else "-open"), "size": 9},
            xaxis="x2",
            yaxis="y2",
        )
        if full:
            ends[corpus] = (own["x"].iloc[-1], own["y"].iloc[-1])
    top = math.inf
    for corpus, (x, y) in sorted(ends.items(), key=lambda one: -one[1][1]):
        top = min(y, top - 0.06)  # words that would touch are moved apart
        font = {"color": COLOURS[corpora.index(corpus)], "size": 11}
        _words(drawing, corpus, (x, top), "2", font=font, xanchor="left", xshift=9)


def _gain(drawing: Any, points: pd.DataFrame) -> None:
    labels = {"ours": ("English to French", QUIET), "marin": ("web to mathematics (marin)", COLOURS[0])}
    for name, own in points.groupby("series", sort=False):
        words, colour = labels[name]
        marker = {"symbol": "circle-open" if name == "ours" else "circle", "size": 9, "color": colour}
        drawing.add_scatter(x=own["x"], y=own["y"], mode="markers", marker=marker, xaxis="x3", yaxis="y3")
        middle = math.sqrt(own["x"].min() * own["x"].max())
        _words(drawing, words, (middle, own["y"].max() + 0.03), "3", font={"color": colour, "size": 11})


def _pairs(drawing: Any, factors: pd.DataFrame) -> None:
    drawing.add_heatmap(
        x=[name.removeprefix("asked: ") for name in factors],
        y=list(factors.index),
        z=factors.astype(float).to_numpy(),
        text=factors.to_numpy(),
        texttemplate="%{text}",
        textfont={"color": INK},
        colorscale=[[0, "#ffffff"], [1, "#7fb2d9"]],
        zmin=1,
        zmax=1.6,
        showscale=False,
        xaxis="x4",
        yaxis="y4",
    )


if __name__ == "__main__":
    print(
        *write_images({"real_scale.png": draw(), "real_scale_narrow.png": draw(narrow=True)}, DOCS / "figures", "png")
    )
