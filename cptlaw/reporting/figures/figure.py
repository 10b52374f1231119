"""What a figure is, and what all figures share: palette, units of axes, panels that restack on a narrow screen.

A figure knows its data as a table, so that a paper can draw it again with Matplotlib, and its caption says in words
what the drawing shows, so that nobody depends on seeing it.
"""

from __future__ import annotations

import base64
import html
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, needed_for
from cptlaw.laws.calculus import Array
from cptlaw.reporting.images import write_images
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import csv_kind, csv_text, write_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

Drawing: TypeAlias = "go.Figure"  # Plotly is imported when a figure is drawn

# Okabe and Ito's colours, the ones that stand out from white first. Colour is never the only difference: symbols and
# dashes go along with it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#A4407F", "#7A5C00", "#000000", "#2A8FBD", "#B8860B")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
INK, QUIET, GRID = "#1f2328", "#59636e", "#e3e6ea"
STAR = {"symbol": "star", "color": "#ffffff", "line": {"color": "#000000", "width": 1.5}}  # marks what a plan chose
SCALE_COLOURS = "Cividis"  # made for colour-blind readers, and monotone in lightness, so that it prints in grey
MAP_COLOURS = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0")  # the same, and light under dark lines

IN_NOTEBOOK = """(function () {
  var figure = FIGURE;
  function draw() { Plotly.newPlot("PLACE", figure.data, figure.layout, {displaylogo: false, responsive: true}); }
  if (window.Plotly) { draw(); return; }
  var script = document.createElement("script");
  script.src = "https://cdn.plot.ly/plotly-cartesian-4.1.1.min.js";
  script.onload = draw;
  document.head.appendChild(script);
})();"""
_BROUGHT: list[str] = []  # figures that this session has shown

AXES = {
    "n_params": "model size (parameters)",
    "tokens": "adaptation tokens",
    "replay": "replay (share of the source corpus)",
    "ptpp": "pre-training tokens per parameter",
    "flops": "compute (FLOP)",
    "loss": "loss",
    "step": "optimiser step",
    "lr": "learning rate",
}
ROW, LEGEND, BELOW = 190, 62, 56  # pixels of panels: a row, the room for the legend above and for the axis below
LOGARITHMIC = frozenset({"n_params", "tokens", "ptpp", "flops"})
LEVELS = frozenset({"n_params", "ptpp"})  # chosen once per run: ticks stand at them where they are few


@dataclass(frozen=True, eq=False, repr=False)
class Figure:
    """One figure.

    Parameters
    ----------
    name
        Stem of its file, such as ``"forgetting-map"``.
    title
        What it is.
    caption
        What it shows, in words; also what a screen reader says.
    data
        What is drawn, one row per mark: enough to draw it again.
    drawing
        The Plotly figure.
    """

    name: str
    title: str
    caption: str
    data: pd.DataFrame
    drawing: Drawing = field(repr=False)

    @property
    def height(self) -> int:
        """Height in pixels at full width."""
        return int(self.drawing.layout.height or 420)

    def to_json(self) -> str:
        """Return the drawing as Plotly's JSON."""
        return json.dumps(_single(json.loads(self.drawing.to_json())), separators=(",", ":"))

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the figure to a file: PNG, PDF or SVG by its ending, or its data as CSV.

        Only `force` overwrites a file of another kind.

        Raises
        ------
        UsageError
            If the ending is another one, or what images need is not installed.
        """
        path = Path(path)
        ending = path.suffix.lower().removeprefix(".")
        if ending == "csv":
            kind = csv_kind(f"the data of the figure {self.name}", map(str, self.data.columns))
            return write_text(path, csv_text(self.data), kind, force=force)
        if ending not in ("png", "pdf", "svg"):
            raise UsageError(f"{path}: figures are saved as .png, .pdf or .svg, and their data as .csv.")
        return write_images({path.name: self.drawing}, path.parent, ending, force=force)[0]

    def _repr_html_(self) -> str:
        # The first figure of a session brings what draws them all, so that notebooks need no network: 1.5 MB, too much
        # for every figure. It is fetched where it is gone, as below a cell that was run again before it was saved.
        first, place = not _BROUGHT, f"cptlaw-{uuid.uuid4().hex}"
        bundle = asset("plotly-cartesian.min.js") if first else ""
        _BROUGHT.append(place)
        drawn = self.to_json().replace("</", "<\\/")
        script = IN_NOTEBOOK.replace("PLACE", place).replace("FIGURE", drawn)
        text = f"<script>{bundle}</script>" if first else ""
        text += f'<div id="{place}" style="height:{self.height}px"></div><script>{script}</script>'
        return f"<p><b>{html.escape(self.title)}</b></p>{text}<p>{html.escape(self.caption)}</p>"

    def __repr__(self) -> str:
        return f"{self.title}: {len(self.data)} rows of data\n  {self.caption}"


def asset(name: str) -> str:
    """Return a file that comes with this package."""
    return (resources.files("cptlaw.reporting") / "assets" / name).read_text(encoding="utf-8")


def _single(value: object) -> object:
    """Return JSON of Plotly with its arrays in single precision, which is more than a screen shows."""
    if isinstance(value, list):
        return [_single(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("dtype") == "f8":
        numbers = np.frombuffer(base64.b64decode(value["bdata"]), dtype="<f8").astype("<f4")
        return {**value, "dtype": "f4", "bdata": base64.b64encode(numbers.tobytes()).decode()}
    return {name: _single(item) for name, item in value.items()}


def graph_objects() -> ModuleType:
    """Return Plotly's graph objects.

    Raises
    ------
    UsageError
        If Plotly is not installed.
    """
    with needed_for("a figure", "cptlaw[report]"):
        import plotly.graph_objects as go
    module: ModuleType = go
    return module


def blank_drawing(height: int = 420) -> Drawing:
    """Return an empty drawing in the common style.

    The height is fixed and the width follows the page.
    """
    settings: dict[str, object] = {
        # Plotly's own template is kilobytes in every figure, and its grey background does not print.
        "template": "none",
        "height": height,
        "margin": {"l": 62, "r": 14, "t": 14, "b": 52},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "colorway": list(COLOURS),
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "hoverlabel": {"bgcolor": "#ffffff"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
    }
    return graph_objects().Figure(layout=settings)


def axis(name: str, title: str | None = None, values: Sequence[float] = ()) -> dict[str, object]:
    """Return the settings of an axis: its title with the unit, its scale, and readable ticks.

    Parameters
    ----------
    name
        The column that it shows; sizes, tokens and budgets are logarithmic.
    title
        Replaces the usual title.
    values
        What is drawn along it, for readable ticks: at the levels of sizes and budgets where they are few.
    """
    result: dict[str, object] = {
        "title": {"text": AXES.get(name, name) if title is None else title, "standoff": 6},
        "gridcolor": GRID,
        "linecolor": QUIET,
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": QUIET,
        "automargin": True,
    }
    if name in LOGARITHMIC:
        result["type"] = "log"
        positive = [value for value in values if value > 0]
        if positive:
            levels = sorted(set(positive))
            # Round numbers would stand beside the sizes that were run and not at them.
            few = name in LEVELS and len(levels) in range(2, 6)
            ticks = levels if few else ticks_between(levels[0], levels[-1])
            result |= {"tickvals": ticks, "ticktext": [format_quantity(tick) for tick in ticks]}
    elif name in ("replay", "forgetting"):
        result["tickformat"] = ".0%"
    return result


def ticks_between(low: float, high: float, most: int = 5) -> list[float]:
    """Return about `most` round numbers from below `low` to above `high` for a logarithmic axis.

    Examples
    --------
    >>> ticks_between(30_000, 2_000_000)
    [30000.0, 100000.0, 300000.0, 1000000.0, 3000000.0]
    """
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            digit * 10.0**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for digit in steps
        ]
        within = [tick for tick in ticks if low / 1.1 <= tick <= high * 1.6]
        if len(within) <= most:
            return within if len(within) > 1 else [low, high]
    thin = math.ceil(len(within) / most)
    return within[::thin]


def level_text(name: str, value: object) -> str:
    """Return a level as people say it: ``125K``, ``25%``, ``ptpp 279``."""
    if not isinstance(value, int | float):
        return str(value)
    if name == "replay":
        return f"{format_percent(value)} replay"
    text = format_quantity(float(value))
    return f"ptpp {text}" if name == "ptpp" else f"{text} params" if name == "n_params" else text


def rgba_of(colour: str, opacity: float) -> str:
    """Return a colour such as ``#0072B2`` as ``rgba(0,114,178,0.2)``."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def bars(value: object, low: object, high: object, **style: object) -> dict[str, object] | None:
    """Return error bars from `low` to `high` around what is drawn, one or many; None where no end is known."""
    value, low, high = (np.atleast_1d(np.asarray(one, dtype=float)) for one in (value, low, high))
    if not np.isfinite(high - low).any():
        return None
    return {"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, **style}


def add_band(
    drawing: Drawing, x: Array | pd.Series, low: Array | pd.Series, high: Array | pd.Series, fill: str, **rest: object
) -> None:
    """Fill the room between two curves along `x`; `rest` goes to the trace."""
    drawing.add_scatter(
        x=[*x, *x[::-1]],
        y=[*high, *low[::-1]],
        fill="toself",
        fillcolor=fill,
        mode="lines",
        line={"width": 0},
        hoverinfo="skip",
        **rest,
    )


def add_limit(drawing: Drawing, value: float, ends: tuple[float, float], name: str) -> None:
    """Draw a limit across a figure, named in its legend."""
    line = {"color": INK, "width": 1, "dash": "dot"}
    drawing.add_scatter(x=[*ends], y=[value, value], mode="lines", line=line, name=name, hoverinfo="skip")


@dataclass(frozen=True)
class Panels:
    """Small multiples in rows and columns, which restack into fewer columns on a narrow screen.

    Parameters
    ----------
    titles
        One per panel, row by row.
    columns
        Panels beside each other on a wide screen.
    narrow_columns
        And on a narrow one.
    """

    titles: tuple[str, ...]
    columns: int
    narrow_columns: int = 2

    def ids(self, panel: int) -> dict[str, str]:
        """Return which axes a trace of this panel belongs to."""
        number = "" if panel == 0 else str(panel + 1)
        return {"xaxis": f"x{number}", "yaxis": f"y{number}"}

    def apply(self, drawing: Drawing, x: Mapping[str, object], y: Mapping[str, object]) -> None:
        """Give a drawing its panels: axes, their titles, and the panels' own titles.

        The arrangement for narrow screens is kept in the layout's ``meta`` for the page to switch to.

        Parameters
        ----------
        drawing
            The Plotly figure, whose traces lie on the axes of `ids`.
        x, y
            The axes that all panels share.
        """
        wide, narrow = (self._layout(narrow, x, y) for narrow in (False, True))
        drawing.update_layout(wide)
        # Plotly cannot restack panels by itself: the page switches between the two arrangements, by paths into the
        # layout.
        drawing.update_layout(meta={"wide": _dotted_paths(wide), "narrow": _dotted_paths(narrow)})

    def _layout(self, narrow: bool, x: Mapping[str, Any], y: Mapping[str, Any]) -> dict[str, object]:
        columns = min(self.narrow_columns if narrow else self.columns, len(self.titles))
        tight = narrow and columns > 1
        titles = [title.replace(", ", "<br>") if tight else title for title in self.titles]
        rows = math.ceil(len(self.titles) / columns)
        inner = rows * ROW
        above = (12 + 14 * (1 + max(title.count("<br>") for title in titles))) / inner
        gap = 0.0 if columns == 1 else 0.03 if columns > 2 else 0.05
        width, tall = (1 - gap * (columns - 1)) / columns, 1 / rows - above
        layout: dict[str, object] = {
            "height": LEGEND + BELOW + inner,
            "margin": {"l": 66, "r": 12, "t": LEGEND, "b": BELOW},
        }
        notes = []
        for i, title in enumerate(titles):
            row, column = divmod(i, columns)
            ids = self.ids(i)
            left, ceiling = column * (width + gap), 1 - above - row * (tall + above)
            shared = {"title": None, "automargin": False}
            across = _fewer_ticks(x, tight) | shared
            layout[ids["xaxis"].replace("x", "xaxis")] = across | {
                "showticklabels": i + columns >= len(self.titles),
                "matches": "x" if i else None,
                "domain": [round(left, 5), round(min(left + width, 1), 5)],
                "anchor": ids["yaxis"],
            }
            layout[ids["yaxis"].replace("y", "yaxis")] = {**y, **shared} | {
                "showticklabels": column == 0,
                "matches": "y" if i else None,
                "domain": [round(max(ceiling - tall, 0), 5), round(ceiling, 5)],
                "anchor": ids["xaxis"],
            }
            notes.append(_note(title, left, ceiling, xanchor="left", yanchor="bottom", font={"size": 12}))
        notes.append(_note(x["title"]["text"], 0.5, 0, yshift=-BELOW + 2, xanchor="center", yanchor="bottom"))
        notes.append(_note(y["title"]["text"], 0, 0.5, xshift=-64, textangle=-90, xanchor="left", yanchor="middle"))
        return {**layout, "annotations": notes}


def _fewer_ticks(axis: Mapping[str, Any], tight: bool) -> dict[str, object]:
    """Return an axis with upright ticks, at most three where panels stand beside each other on a phone."""
    own = dict(axis)
    if "tickvals" in own:
        step = math.ceil(len(own["tickvals"]) / 3) if tight else 1
        own |= {"tickangle": 0, **{part: own[part][::step] for part in ("tickvals", "ticktext")}}
    return own


def _note(text: str, x: float, y: float, **rest: object) -> dict[str, object]:
    return {"text": text, "x": x, "y": y, "xref": "paper", "yref": "paper", "showarrow": False, **rest}


def _dotted_paths(layout: Mapping[str, Any]) -> dict[str, object]:
    """Return what a page must relayout, as Plotly.relayout takes it."""
    result: dict[str, object] = {"height": layout["height"], "annotations": layout["annotations"]}
    for name, value in layout.items():
        if name.startswith(("xaxis", "yaxis")):
            result[f"{name}.domain"] = value["domain"]
            result[f"{name}.showticklabels"] = value.get("showticklabels", True)
            result |= {f"{name}.{part}": value[part] for part in ("tickvals", "ticktext") if part in value}
    plain: dict[str, object] = json.loads(json.dumps(result))
    return plain
