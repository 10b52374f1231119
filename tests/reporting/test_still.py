"""Drawings as plain SVG: what stands in a page where no script runs."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("plotly", reason="figures need Plotly: pip install 'cptlaw[report]'")
from cptlaw.reporting.figures.figure import axis, blank_drawing
from cptlaw.reporting.still import drawing_to_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(drawing):
    text = drawing_to_svg(drawing, 'A "label" & more')
    return ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def test_points_lie_where_their_axes_say():
    drawing = blank_drawing()
    drawing.add_scatter(x=[1e6, 1e7, 1e8], y=[1.0, 2.0, 3.0], mode="markers", name="runs")
    drawing.update_layout(xaxis=axis("tokens", values=[1e6, 1e8]), yaxis=axis("loss"))
    marks = drawn(drawing).findall(f"{SVG}circle")[-3:]
    x, y = (np.array([float(mark.get(name)) for mark in marks]) for name in ("cx", "cy"))
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)  # tokens are logarithmic
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.2)
    assert y[0] > y[2]  # upwards is more


def test_a_contour_is_where_the_values_cross_it():
    x, y = np.linspace(0, 10, 21), np.linspace(0, 1, 11)
    drawing = blank_drawing()
    drawing.add_contour(
        x=x, y=y, z=np.tile(x, (11, 1)) - 5.2, contours={"type": "constraint", "operation": "<", "value": 0.0}
    )
    drawing.update_layout(xaxis={"range": [0, 10]}, yaxis={"range": [0, 1]})
    path = next(one.get("d") for one in drawn(drawing).findall(f"{SVG}path") if one.get("d").count("M") > 10)
    across = {piece.split()[0].lstrip("M") for piece in path.replace("L", " L").split("M") if piece}
    left, right = 62, 626
    assert sorted(map(float, across)) == pytest.approx([left + 0.52 * (right - left)] * len(across), abs=0.1)


def test_nothing_of_a_name_is_markup_and_no_style_stands_in_it():
    drawing = blank_drawing()
    drawing.add_scatter(x=[0, 1], y=[0, 1], name='<script>alert("x")</script>')
    text = drawing_to_svg(drawing, '"><script>')
    assert "<script" not in text
    assert "style=" not in text


def test_panels_that_match_share_their_range():
    drawing = blank_drawing()
    drawing.add_scatter(x=[0, 1], y=[0, 10], mode="markers")
    drawing.add_scatter(x=[0, 1], y=[0, 1], mode="markers", xaxis="x2", yaxis="y2")
    drawing.update_layout(
        xaxis={"domain": [0, 0.45]}, xaxis2={"domain": [0.55, 1], "matches": "x"}, yaxis2={"matches": "y"}
    )
    marks = drawn(drawing).findall(f"{SVG}circle")
    heights = [float(mark.get("cy")) for mark in marks]
    assert heights[0] == heights[2]  # 0 in both
    assert (heights[2] - heights[3]) == pytest.approx((heights[0] - heights[1]) / 10, abs=0.2)
