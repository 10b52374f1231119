"""A drawing as plain SVG: what a page shows where no script runs, on paper, and before Plotly has drawn.

It draws what the figures here use: lines, markers, bars of error, bands, maps in colour, and contours, on linear and
logarithmic axes in one or several panels. Colours are attributes, never styles, which the page's policy forbids.
"""

from __future__ import annotations

import base64
import html
import math
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array
from cptlaw.reporting.figures.figure import GRID, INK, QUIET, Drawing
from cptlaw.units import format_percent, format_quantity

WIDTH, LETTER = 640, 6.4  # pixels: of the picture, and of a letter of a legend
MARGIN = 0.04  # of the range of what is drawn, beside it
DASHES = {"dash": "6 4", "dot": "2 3", "dashdot": "6 3 2 3", "longdash": "10 5", "longdashdot": "10 4 2 4"}
TICKS = 5
CONTOURS = 7  # of a map whose levels are not named


def drawing_to_svg(drawing: Drawing, label: str) -> str:
    """Return a Plotly figure as an SVG element.

    Parameters
    ----------
    drawing
        The figure; of traces only scatter, heatmap and contour are drawn.
    label
        What it shows, for those who do not see it.
    """
    layout = drawing.layout.to_plotly_json()
    height = int(layout.get("height") or 420)
    # One by one: as a whole Plotly packs their arrays as text.
    traces = [trace.to_plotly_json() for trace in drawing.data if trace.visible is not False]
    legend, below = _legend_marks(traces)
    frame = Frame(62, max(layout["margin"]["t"], below), WIDTH - 14, height - layout["margin"]["b"])
    parts = [f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *legend]
    places: dict[tuple[str, str], tuple[Scale, Scale]] = {}
    for trace in traces:
        pair = (trace.get("xaxis") or "x", trace.get("yaxis") or "y")
        if pair not in places:
            places[pair] = (_axis_scale(pair[0], layout, traces, frame), _axis_scale(pair[1], layout, traces, frame))
            parts += _grid_and_ticks(*places[pair])
        parts += DRAWN.get(trace["type"], _nothing)(trace, *places[pair])
    parts += [_annotation_text(note, frame) for note in layout.get("annotations") or () if note.get("xref") == "paper"]
    body = "".join(parts)
    return (
        f'<svg class="still" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">{body}</svg>'
    )


@dataclass(frozen=True)
class Frame:
    """The room for panels, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Scale:
    """An axis: its range in the numbers that it shows (logs of them where it is logarithmic), and its pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    axis: Mapping[str, Any]

    def at(self, values: object) -> Array:
        """Return the pixels of values; NaN where they cannot be shown."""
        numbers = np.atleast_1d(np.asarray(values, dtype=float))
        with np.errstate(all="ignore"):
            numbers = np.log10(numbers) if self.log else numbers
        share = (numbers - self.low) / (self.high - self.low)
        return np.asarray(self.start + np.clip(share, -0.5, 1.5) * (self.end - self.start))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The pixels of ticks, and what stands there."""
        values, texts = self.axis.get("tickvals"), self.axis.get("ticktext")
        if values is None:
            step = tick_step((self.high - self.low) / TICKS)
            numbers = np.arange(math.ceil(self.low / step), math.floor(self.high / step) + 1) * step
            values = 10.0**numbers if self.log else numbers
        texts = [self._text(value) for value in values] if texts is None else texts
        pairs = zip(self.at(values), texts, strict=False)
        low, high = sorted((self.start, self.end))
        return [(float(place), str(text)) for place, text in pairs if low - 1 <= place <= high + 1]

    def _text(self, value: float) -> str:
        if "%" in str(self.axis.get("tickformat") or ""):
            return format_percent(value)
        return format_quantity(value) if self.log else f"{value:.4g}"


def tick_step(rough: float) -> float:
    """Return the round number nearest to a distance of ticks."""
    power = 10.0 ** math.floor(math.log10(rough))
    return power * min((1, 2, 5, 10), key=lambda digit: abs(digit - rough / power))


def _axis_scale(name: str, layout: Mapping[str, Any], traces: Iterable[Mapping[str, Any]], frame: Frame) -> Scale:
    letter = name[0]
    axis = layout.get(f"{letter}axis{name[1:]}") or {}
    log = axis.get("type") == "log"
    given = axis.get("range")
    if given is None:
        shared = [trace for trace in traces if _range_of(trace, letter, layout) == (axis.get("matches") or name)]
        values = np.concatenate([_trace_extent(trace, letter) for trace in shared] or [np.array([0.0, 1.0])])
        values = np.log10(values[values > 0]) if log else values
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        room = MARGIN * (high - low) or max(abs(high), 1.0) * MARGIN
        given = (low - room, high + room)
    start, end = axis.get("domain") or (0.0, 1.0)
    first, last = (frame.left, frame.right) if letter == "x" else (frame.bottom, frame.top)
    near, far = (first + share * (last - first) for share in (start, end))
    return Scale(float(given[0]), float(given[1]), near, far, log, axis)


def _range_of(trace: Mapping[str, Any], letter: str, layout: Mapping[str, Any]) -> str:
    """Return the axis whose range a trace belongs to: panels that match have one range."""
    name = trace.get(f"{letter}axis") or letter
    matched: str = (layout.get(f"{letter}axis{name[1:]}") or {}).get("matches") or name
    return matched


def _trace_extent(trace: Mapping[str, Any], letter: str) -> Array:
    values = np.asarray(trace.get(letter), dtype=float).ravel()
    bars = trace.get(f"error_{letter}") or {}
    if bars.get("array") is None:
        return values
    above = np.asarray(bars["array"], dtype=float)
    below = above if bars.get("arrayminus") is None else np.asarray(bars["arrayminus"], dtype=float)
    return np.concatenate([values, values + above, values - below])


def _grid_and_ticks(x: Scale, y: Scale) -> list[str]:
    """Return the grid, the lines, the ticks and the titles of a panel."""
    parts = []
    for place, text in x.ticks if x.axis.get("showticklabels", True) is not False else ():
        parts.append(_line(place, y.start, place, y.start + 5, QUIET))
        parts.append(_text(place, y.start + 18, text, "middle"))
    for place, text in y.ticks:
        if y.axis.get("showgrid") is not False:
            parts.append(_line(x.start, place, x.end, place, GRID))
        if y.axis.get("showticklabels", True) is not False:
            parts.append(_text(x.start - 8, place + 4, text, "end"))
    parts += [_line(x.start, y.start, x.end, y.start, QUIET), _line(x.start, y.start, x.start, y.end, QUIET)]
    across, up = (((scale.axis.get("title") or {}).get("text") or "") for scale in (x, y))
    parts += [_text((x.start + x.end) / 2, y.start + 40, across, "middle")] if across else []
    middle = (y.start + y.end) / 2
    turned = f' transform="rotate(-90 14 {middle:.1f})"'
    parts += [_text(14, middle, up, "middle", turned)] if up else []
    return parts


def _scatter_marks(trace: Mapping[str, Any], x: Scale, y: Scale) -> list[str]:
    px, py = x.at(trace["x"]), y.at(trace["y"])
    mode = trace.get("mode") or "lines+markers"
    line, marker = trace.get("line") or {}, trace.get("marker") or {}
    colour = _colour_or(line.get("color") or marker.get("color"))
    parts = []
    if trace.get("fill"):
        parts.append(f'<path d="{_line_path(px, py)}Z" fill="{html.escape(trace.get("fillcolor") or GRID)}"/>')
    if "lines" in mode and line.get("width", 2):
        dash = DASHES.get(line.get("dash") or "", "")
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        width = line.get("width", 2)
        parts.append(f'<path d="{_line_path(px, py)}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>')
    parts += _error_bars(trace, px, y, colour)
    if "markers" in mode:
        edge = _colour_or((marker.get("line") or {}).get("color"), "none")
        fill = _colour_or(marker.get("color"), colour)
        size = marker.get("size", 6)
        radius = (float(size) if isinstance(size, int | float) else 6.0) / 2
        mark = _star_mark if marker.get("symbol") == "star" else _circle_mark
        parts += [mark(at, to, radius, fill, edge) for at, to in zip(px, py, strict=True) if _shown(at, to)]
    return parts


def _error_bars(trace: Mapping[str, Any], px: Array, y: Scale, colour: str) -> list[str]:
    bars = trace.get("error_y") or {}
    if bars.get("array") is None:
        return []
    value, above = (np.asarray(each, dtype=float) for each in (trace["y"], bars["array"]))
    below = above if bars.get("arrayminus") is None else np.asarray(bars["arrayminus"], dtype=float)
    ends = zip(px, y.at(value - below), y.at(value + above), strict=True)
    of_bars = _colour_or(bars.get("color"), colour)
    return [_line(at, low, at, high, of_bars) for at, low, high in ends if np.isfinite([low, high]).all()]


def _circle_mark(x: float, y: float, radius: float, fill: str, edge: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{edge}"/>'


def _star_mark(x: float, y: float, radius: float, fill: str, edge: str) -> str:
    turns = np.arange(10) * np.pi / 5 - np.pi / 2
    reach = np.where(np.arange(10) % 2, 0.45, 1.0) * radius
    corners = _line_path(x + reach * np.cos(turns), y + reach * np.sin(turns))
    return f'<path d="{corners}Z" fill="{fill}" stroke="{edge}" stroke-width="1.5"/>'


def _heatmap_image(trace: Mapping[str, Any], x: Scale, y: Scale) -> list[str]:
    """Return a map in colour as one small image, stretched over its range."""
    z = np.asarray(trace["z"], dtype=float)[::-1]
    low, high = np.nanmin(z), np.nanmax(z)
    scale = trace["colorscale"]
    colours = np.array([_rgb_numbers(item if isinstance(item, str) else item[1]) for item in scale], dtype=float)
    share = np.nan_to_num((z - low) / max(high - low, 1e-300)) * (len(colours) - 1)
    pixels = np.stack([np.interp(share, np.arange(len(colours)), colours[:, k]) for k in range(3)], axis=-1)
    (left, right), (bottom, top) = x.at(np.asarray(trace["x"])[[0, -1]]), y.at(np.asarray(trace["y"])[[0, -1]])
    image = base64.b64encode(_png_bytes(pixels.astype(np.uint8))).decode()
    return [
        f'<image x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{image}"/>'
    ]


def _contour_path(trace: Mapping[str, Any], x: Scale, y: Scale) -> list[str]:
    z, line = np.asarray(trace["z"], dtype=float), trace.get("line") or {}
    contours = trace.get("contours") or {}
    low, high = float(np.nanmin(z)), float(np.nanmax(z))
    if "value" in contours or "start" in contours:
        levels = [float(contours.get("value", contours.get("start", 0.0)))]
    else:
        levels = np.linspace(low, high, CONTOURS + 2)[1:-1].tolist()
    px, py = x.at(trace["x"]), y.at(trace["y"])
    path = "".join(_zero_lines(z - level, px, py) for level in levels)
    dash = DASHES.get(line.get("dash") or "", "")
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    colour, width = _colour_or(line.get("color")), line.get("width", 1)
    return [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'] if path else []


def _zero_lines(z: Array, px: Array, py: Array) -> str:
    """Return the line along which a table of numbers is zero, as pieces that each cross one triangle of its grid."""
    pieces = []
    for i in range(len(py) - 1):
        for j in range(len(px) - 1):
            corners = [(px[j + b], py[i + a], z[i + a, j + b]) for a, b in ((0, 0), (0, 1), (1, 1), (1, 0))]
            for triangle in (corners[:3], [corners[0], *corners[2:]]):
                ends = [
                    (xa + (xb - xa) * za / (za - zb), ya + (yb - ya) * za / (za - zb))
                    for (xa, ya, za), (xb, yb, zb) in zip(triangle, [*triangle[1:], triangle[0]], strict=True)
                    if (za < 0) != (zb < 0)
                ]
                if len(ends) == 2:
                    (xa, ya), (xb, yb) = ends
                    pieces.append(f"M{xa:.1f} {ya:.1f}L{xb:.1f} {yb:.1f}")
    return "".join(pieces)


def _nothing(trace: Mapping[str, object], x: Scale, y: Scale) -> list[str]:
    return []


DRAWN = {"scatter": _scatter_marks, "heatmap": _heatmap_image, "contour": _contour_path}


def _legend_marks(traces: Iterable[Mapping[str, Any]]) -> tuple[list[str], float]:
    """Return the names of traces above the panels, and where the panels may begin."""
    parts, across, down, seen = [], 62.0, 14.0, set()
    for trace in traces:
        name = trace.get("name")
        if not name or name in seen or trace.get("showlegend") is False or trace["type"] == "heatmap":
            continue
        seen.add(name)
        text = re.sub(r"<[^>]*>", " ", str(name))
        room = 40 + LETTER * len(text)
        if across > 62 and across + room > WIDTH:
            across, down = 62.0, down + 18
        line, marker = trace.get("line") or {}, trace.get("marker") or {}
        colour = _colour_or(line.get("color") or trace.get("fillcolor") or (marker.get("line") or marker).get("color"))
        dash = DASHES.get(line.get("dash") or "", "")
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        if trace.get("mode") == "markers":
            mark = _star_mark if marker.get("symbol") == "star" else _circle_mark
            parts.append(mark(across + 14, down - 4, 5, _colour_or(marker.get("color"), colour), colour))
        else:
            parts.append(f'<path d="M{across:.0f} {down - 4:.0f}h22" stroke="{colour}" stroke-width="3"{dashed}/>')
        parts.append(_text(across + 27, down, text))
        across += room
    return parts, down + 12 if parts else 14.0


def _annotation_text(note: Mapping[str, Any], frame: Frame) -> str:
    x = frame.left + note["x"] * (frame.right - frame.left) + (note.get("xshift") or 0)
    y = frame.bottom - note["y"] * (frame.bottom - frame.top) - (note.get("yshift") or 0)
    anchor = {"center": "middle", "right": "end"}.get(note.get("xanchor") or "", "start")
    turned = f' transform="rotate(-90 {x + 12:.1f} {y:.1f})"' if note.get("textangle") else ""
    text = re.sub(r"<[^>]*>", " ", str(note.get("text") or ""))
    return _text(x + 12, y, text, "middle", turned) if turned else _text(x, y - 3, text, anchor)


def _line_path(px: Array, py: Array) -> str:
    """Return a line through points; it is broken where one is missing."""
    text, pen = "", "M"
    for x, y in zip(px, py, strict=True):
        if not _shown(x, y):
            pen = "M"
            continue
        text, pen = f"{text}{pen}{x:.1f} {y:.1f}", "L"
    return text


def _shown(x: float, y: float) -> bool:
    return math.isfinite(x) and math.isfinite(y)


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{at}{more}>{html.escape(text)}</text>'


def _colour_or(value: object, other: str = INK) -> str:
    return html.escape(value) if isinstance(value, str) else other


def _rgb_numbers(text: str) -> tuple[int, int, int]:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _png_bytes(pixels: Array) -> bytes:
    """Return an image of red, green and blue bytes, (rows, columns, 3), as a PNG file."""
    rows, columns, _ = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(raw, 9))
    listed = b"".join(_png_chunk(name, data) for name, data in (*chunks, (b"IEND", b"")))
    return b"\x89PNG\r\n\x1a\n" + listed


def _png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
