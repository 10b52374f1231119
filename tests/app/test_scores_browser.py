"""Scores in the app in a real browser."""

import pytest
from browsing import MARKS, PHONE, answered, check_accessible, fits_the_width, served, shot
from scored_runs import runs_with_two_scores

pytestmark = MARKS


@pytest.fixture(scope="module")
def address():
    """Serve the app with runs that have two scores."""
    from cptlaw_app.server import build

    with served(build(runs_with_two_scores())) as found:
        yield found


def test_scores_stand_under_the_answer_with_their_limits_as_fields(open_page, address):
    page = open_page(address)
    answered(page)
    page.wait_for_selector("#scores-table table")
    page.wait_for_selector("#score-curve .scatterlayer .trace")
    page.get_by_label("at least, gsm8k").fill("20")
    page.get_by_label("may fall by, mmlu").fill("11")
    page.get_by_label("may fall by, mmlu").press("Enter")
    page.wait_for_function("document.querySelector('#chances').innerText.includes('mmlu down at most 11 points: ')")
    page.wait_for_function("document.querySelector('#scores-table').innerText.includes('at least 20%')")
    assert "gsm8k of" in page.inner_text("#sentence")
    assert page.get_attribute("#scores-table", "class") in ("", None)
    check_accessible(page)
    shot(page, "scores-desk")
    page.click("#pin")
    page.wait_for_selector("#compared table")
    assert "gsm8k at least 20%" in page.inner_text("#compared")
    page.get_by_label("at least, gsm8k").fill("much")
    page.get_by_label("at least, gsm8k").press("Enter")
    page.wait_for_function("document.querySelector('#problem-move').innerText.includes('Expected a score')")
    linked = open_page(page.url, PHONE)  # the address is that of the last answer
    answered(linked)
    linked.wait_for_function("document.querySelector('#chances').innerText.includes('mmlu down at most 11 points: ')")
    assert linked.get_by_label("at least, gsm8k").input_value() == "20.0%"
    linked.wait_for_selector("#scores-table table")
    assert fits_the_width(linked)
    shot(linked, "scores-phone")
