"""Equations of laws on the site: as MathML that says what the law states."""

import re
import sys
from pathlib import Path

import pytest
from cases import BUILT_IN

from cptlaw.laws import describe, law

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
from curves import card_curve
from equations import NoEquationError, mathml

WORDS = ["cmr"]  # two equations with words between, which stay as they are written


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_law_is_drawn_and_no_letter_of_it_is_lost(name):
    equation = describe(law(name))["equation"]
    if name in WORDS:
        with pytest.raises(NoEquationError):
            mathml(equation)
        return
    drawn = mathml(equation)
    assert drawn.count("<mrow>") == drawn.count("</mrow>")
    letters = re.findall(r"<m[in]>(.*?)</m[in]>", drawn)
    first = re.split(r",  ", equation)[0]
    for number in re.findall(r"(?<![\w.-])\d+(?![\w.])", first):
        assert number in letters
    assert len(re.findall(r"<mfrac>", drawn)) >= first.count("/") - first.count("+/-") > -1


def test_what_stands_below_a_bar_is_one_factor_and_what_follows_stands_beside():
    drawn = mathml("L = B r^nu/D^beta e^(-P) + C/(r+eps)^gamma")
    assert drawn.count("<mfrac>") == 2
    assert "</mfrac><mo>&#x2062;</mo>" in drawn
    assert "<mi>&nu;</mi>" in drawn
    with pytest.raises(NoEquationError):
        mathml("L = A whatever is trained")


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_law_has_a_curve(name):
    """Of finite points, none flat."""
    drawn = card_curve(law(name))
    lines = re.findall(r'<path d="M([-\d. L]+)" fill="none" stroke="#', drawn)
    assert 1 <= len(lines) <= 2
    for line in lines:
        heights = [float(point.split(" ")[1]) for point in line.split("L")]
        assert len(heights) >= 80
        assert max(heights) - min(heights) > 10  # of 176 pixels
