"""The app in a real browser."""

from pathlib import Path

import pytest
from browsing import DESK, MARKS, PATIENCE, PHONE, answered, check_accessible, fits_the_width, served, shot

import cptlaw as cl

pytestmark = MARKS


@pytest.fixture(scope="module")
def address():
    """Serve the app with the example runs."""
    from cptlaw_app.server import build

    with served(build()) as found:
        yield found


def no_runs(page):
    """Choose the door without runs, for what costs no fit."""
    page.check("input[value='none']")
    for name, value in (("n_params", "8B"), ("ptpp", "1875"), ("target_tokens", "20B"), ("tokens", "")):
        page.fill(f"#{name}", value)


@pytest.mark.dear("a browser, and the answer to the question that the app begins with")
def test_the_first_screen_has_the_question_and_then_the_answer(browser, open_page, address):
    page = open_page(address)
    assert page.input_value("#max_forgetting") == "25%"
    assert page.is_visible("button[type=submit]")
    answered(page)
    assert page.inner_text("#sentence").startswith("Train on ")
    box = page.locator("#sentence").bounding_box()
    assert box["y"] + box["height"] <= DESK["height"]
    assert page.locator("figure .main-svg").count() >= 1
    assert "n_params=124672" in page.url  # the address opens the same answer
    assert fits_the_width(page)
    check_accessible(page)
    shot(page, "app-1440")


def test_a_door_opens_with_its_own_question_and_keeps_what_was_typed(browser, open_page, address):
    page = open_page(address)
    page.check("input[value='none']")
    values = {name: page.input_value(f"#{name}") for name in ("n_params", "target_tokens", "tokens", "shift")}
    assert values == {"n_params": "8B", "target_tokens": "20B", "tokens": "", "shift": "language"}
    assert page.is_visible("#shift")
    answered(page)
    page.fill("#ptpp", "300")
    page.check("input[value='example']")
    assert page.input_value("#n_params") == "8B"


def test_without_runs_and_on_a_phone(browser, open_page, address):
    page = open_page(address, PHONE)
    no_runs(page)
    page.fill("#max_forgetting", "30%")
    page.click("button[type=submit]")
    answered(page)
    assert "% replay" in page.inner_text("#sentence")
    assert fits_the_width(page)
    check_accessible(page)
    shot(page, "app-390")


def test_a_bad_field_says_why_where_it_stands(browser, address):
    page = browser.new_page(viewport=DESK)  # a refused question is told of in the console, as any 400 is
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    no_runs(page)
    page.fill("#n_params", "8Q")
    page.keyboard.press("Enter")
    page.wait_for_selector("#n_params[aria-invalid=true]")
    assert "'8Q'" in page.inner_text("#n_params-problem")
    assert page.evaluate("document.activeElement.id") == "n_params"
    check_accessible(page)
    page.fill("#n_params", "8B")
    page.keyboard.press("Enter")
    page.wait_for_selector("#n_params:not([aria-invalid])")
    page.close()


def test_a_table_from_this_machine_is_taken(browser, open_page, address):
    page = open_page(address)
    no_runs(page)
    page.fill("#max_forgetting", "3%")
    with page.expect_navigation():
        page.set_input_files("#file", cl.examples.path("en-fr-pilot"))
    assert page.is_checked("input[name=table][value]:not([value=none]):not([value=example])")
    assert "en_fr_pilot.csv" in page.inner_text("fieldset")
    assert page.input_value("#n_params") == "8B"  # a question of the visitor's own stays


@pytest.mark.dear("a browser, and an answer from a table of its own")
def test_how_a_table_was_read_is_the_first_screen(open_page, address):
    page = open_page(address, PHONE)
    with page.expect_navigation():
        page.set_input_files("#file", Path(__file__).parents[1] / "runs" / "messy" / "which_corpus.csv")
    assert page.inner_text("#state") == "Say first what is open above."
    assert page.inner_text("#answer") == ""
    assert page.get_attribute("#read", "open") is not None
    assert fits_the_width(page)
    check_accessible(page)
    shot(page, "app-reading-390")
    page.click("text=replay=mix_ratio >> nth=0")
    page.locator("#read:not([data-unread])").wait_for(state="attached")
    assert page.input_value("#columns") == "replay=mix_ratio"
    page.click("button[type=submit]")
    answered(page)
    assert "--columns replay=mix_ratio" in page.inner_text("#command")
    assert "which_corpus.csv" in page.inner_text("#python")
