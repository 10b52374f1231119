"""The app in a real browser."""

import re

import pytest
from browsing import DESK, MARKS, PATIENCE, PHONE, answered, check_accessible, fits_the_width, served, shot

import cptlaw as cl
from cptlaw.reporting import make_report

pytestmark = MARKS
ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)


@pytest.fixture(scope="module")
def address():
    """Serve the app with the example runs."""
    from cptlaw_app.server import build

    with served(build(cl.examples.load("en-fr-pilot"), ROWS)) as found:
        yield found


@pytest.fixture(scope="module")
def fitted_page(browser, address):
    """One page with its answer, for the tests that only move it."""
    page = browser.new_page(viewport=DESK)
    page.set_default_timeout(PATIENCE)
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    answered(page)
    yield page
    page.close()
    assert said == []


def move(page, name, value):
    """Move a slider as a hand does: the browser's own input event."""
    page.evaluate(
        """([name, value]) => {
            const slider = document.getElementById(name);
            const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
            set.call(slider, value);
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            slider.dispatchEvent(new Event("change", {bubbles: true}));
        }""",
        [name, str(value)],
    )


def changed(page, selector, before):
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).innerText !== before", arg=[selector, before]
    )
    return page.inner_text(selector)


def sentence_after(page, act):
    """Act, and return the sentence with its intervals once it has changed."""
    before = page.inner_text("#sentence")
    act()
    changed(page, "#sentence", before)
    answered(page)
    return page.inner_text("#sentence")


def test_the_first_screen_is_the_answer_without_choosing_anything(fitted_page):
    page = fitted_page
    assert page.inner_text("#sentence").startswith("Train on ")
    assert "to" in page.inner_text("#sentence").partition("target loss of")[2]
    assert "likely (80%)" in page.inner_text("#chances")
    heights = [page.locator(name).bounding_box() for name in ("#sentence", "#map", "#curves")]
    assert all(box["y"] + box["height"] <= DESK["height"] for box in heights)
    names = page.evaluate("document.querySelector('#map .js-plotly-plot').data.map(trace => trace.name)")
    assert {"plan", "limits hold with 80%"} <= set(names)
    curves = page.evaluate("document.querySelector('#curves .js-plotly-plot').data.map(trace => trace.name)")
    assert {"target loss", "source loss", "90% interval"} <= set(curves)
    shot(page, "app-1440")


def test_moves_change_sentence_map_and_curves_and_the_address(fitted_page):
    page = fitted_page
    text = sentence_after(page, lambda: move(page, "replay", 0.4))
    assert "40% of them replay" in text
    assert not page.is_checked("#auto-replay input")
    assert "replay=0.4" in page.url
    assert "40% replay" in page.inner_text("#curves-title")
    page.fill("#exact-tokens", "300K")
    text = sentence_after(page, lambda: page.keyboard.press("Enter"))
    assert text.startswith("With 300K tokens")
    assert page.input_value("#exact-flops") == "2.24e+11"
    star = page.evaluate("document.querySelector('#curves .js-plotly-plot').data.find(t => t.name === 'the mix').x[0]")
    assert star == pytest.approx(300_000, rel=1e-4)
    text = sentence_after(page, lambda: page.click("#auto-replay label"))
    assert "40% of them" not in text


def test_what_is_left_to_the_app_stands_where_the_answer_is(fitted_page):
    """The slider and the field of a replay that the app chooses show what it chose, and stay so when it is untied."""
    page = fitted_page
    said = re.search(r"([\d.]+)% of them replay", page.inner_text("#sentence"))[1]
    page.wait_for_function(f"Math.abs(document.getElementById('replay').value - {float(said) / 100}) < 6e-3")
    assert float(page.input_value("#exact-replay").rstrip("%")) == pytest.approx(float(said), abs=0.6)
    assert page.is_checked("#auto-replay input")
    answered(page)


def test_the_cursor_on_the_map_says_what_a_mix_does_and_a_press_takes_it(fitted_page):
    page = fitted_page
    page.hover("#map .nsewdrag")
    page.wait_for_function("document.querySelector('#cursor').innerText.startsWith('Under the cursor')")
    assert page.evaluate("document.querySelector('#curves .js-plotly-plot').layout.shapes[0].visible")
    text = sentence_after(page, lambda: page.locator("#map .nsewdrag").click())
    assert "% of them replay" in text
    sentence_after(page, lambda: page.click("#auto-replay label"))


def test_fewest_tokens_ask_for_a_target_loss_and_an_infeasible_plan_is_an_answer(fitted_page):
    page = fitted_page
    text = sentence_after(page, lambda: page.click("#auto-tokens label"))
    assert page.is_checked("#use-max_target_loss input")
    assert "of them replay" in text
    text = sentence_after(page, lambda: move(page, "max_target_loss", 1.02))
    assert text.startswith("No mix keeps ")
    assert "There is a mix if you allow" in page.inner_text("#asides")
    shot(page, "app-infeasible")
    page.click("#use-max_target_loss label")
    page.wait_for_function("document.querySelector('#problem-move').innerText.includes('Tick the limit')")
    page.click("#auto-tokens label")
    answered(page)
    assert page.inner_text("#problem-move") == ""


def test_scenarios_are_pinned_compared_and_sent_as_a_link(fitted_page, open_page):
    page = fitted_page
    # The doubt may still be on its way from the move of the test before.
    page.wait_for_function("/target loss of [^%]* to /.test(document.querySelector('#sentence').innerText)")
    first = page.inner_text("#sentence")
    page.click("#pin")
    page.wait_for_selector("#compared table")
    # The map is drawn anew with the mark of the pin, first without the doubt and then with it.
    page.wait_for_function("document.querySelector('#map .js-plotly-plot').data.some(one => one.name === 'pinned')")
    page.wait_for_function("first => document.querySelector('#sentence').innerText === first", arg=first)
    page.fill("#exact-tokens", "1M")
    second = sentence_after(page, lambda: page.keyboard.press("Enter"))
    page.click("#pin")
    page.wait_for_function("document.querySelectorAll('#compared thead th').length === 2")
    shot(page, "app-pinned")
    check_accessible(page)
    page.wait_for_function("location.search.split('pin=').length === 3")
    other = open_page(page.url)
    answered(other)
    other.wait_for_selector("#compared table")
    assert other.inner_text("#sentence") == second
    assert other.inner_text("#compared tbody") == page.inner_text("#compared tbody")
    assert sentence_after(page, lambda: page.locator("#compared button", has_text="Show").first.click()) == first
    for left in (1, 0):
        page.locator("#compared button", has_text="Let go").first.click()
        page.wait_for_function(f"document.querySelectorAll('#compared thead th').length === {left}")
    page.wait_for_function("!location.search.includes('pin=')")


def test_drawers_open_on_demand_and_tell_of_their_own_jobs(fitted_page, tmp_path):
    page = fitted_page
    assert page.locator("details[open]").count() == 0
    for name in ("data", "laws", "findings", "next", "take"):
        page.click(f"#drawer-{name} summary")
    assert "average of" in page.inner_text("#fit-result")
    assert "Runs: " in page.inner_text("#summary")
    page.click("#download-cells")
    page.wait_for_function("document.querySelector('#problem-suggest').innerText.includes('press Suggest runs first')")
    page.fill("#budget", "1e11")
    page.click("#suggest")
    page.wait_for_selector("#cells table")
    page.wait_for_function("document.querySelector('#working-suggest').hidden")
    assert page.inner_text("#problem-suggest") == ""
    for button, name in (("target", "target.json"), ("source", "source.json"), ("cells", "cells.csv")):
        with page.expect_download() as waiting:
            page.click(f"#download-{button}")
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
    assert cl.load_fit(tmp_path / "target.json").role == "target"
    assert (tmp_path / "cells.csv").read_text().startswith("run,n_params")
    shot(page, "app-drawers")
    check_accessible(page)
    assert "--" not in page.inner_text("#drawers")
    page.fill("#where", "ptpp << 3")
    shown = page.inner_text("#sentence")
    page.click("#fit")
    page.wait_for_function("document.querySelector('#problem-laws').innerText.length > 0")
    assert page.inner_text("#sentence") == shown


def test_the_report_comes_as_a_file(fitted_page, tmp_path, monkeypatch):
    monkeypatch.setattr(make_report, "draw", lambda *_: [])  # what is drawn is tested elsewhere
    page = fitted_page
    with page.expect_download() as waiting:
        page.click("#make-report")
    waiting.value.save_as(tmp_path / "report.html")
    assert "What losses will" in (tmp_path / "report.html").read_text(encoding="utf-8")
    page.wait_for_function("document.querySelector('#working-report').hidden")


def test_the_page_is_accessible_at_both_widths(fitted_page):
    page = fitted_page
    check_accessible(page)
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(600)
    assert fits_the_width(page)
    check_accessible(page)
    shot(page, "app-390")
    page.set_viewport_size(DESK)


def test_a_bad_file_says_so_and_leaves_the_answer_as_it_is(open_page, address, tmp_path):
    page = open_page(address)
    answered(page)
    before = page.inner_text("#sentence")
    bad = tmp_path / "bad.csv"
    bad.write_text("run,eval,loss,n_params,tokens,replay\na,target,many,1e6,1e6,0.1\n")
    page.set_input_files("#upload input[type=file]", bad)
    page.wait_for_function("document.querySelector('#problem-upload').innerText.includes('bad.csv, row 2')")
    shot(page, "app-bad-file")
    check_accessible(page)
    named = tmp_path / "named.csv"
    rows = [f"r{i},target,{2 + 1 / (i + 1)},1e6,{(i + 1) * 1e6},0.1\n" for i in range(4)]
    named.write_text("job,eval,bits,n_params,tokens,replay\n" + "".join(rows))
    page.set_input_files("#upload input[type=file]", named)
    page.wait_for_function("document.querySelector('#problem-upload').innerText.includes('named.csv')")
    page.wait_for_selector("#mapping:not([hidden])")
    page.locator("#columns .field", has_text="loss:").locator("button").click()
    page.get_by_role("option", name="bits").click()
    shot(page, "app-mapping")
    page.click("#apply-columns")
    # Four rows of one size and one replay may determine no law; the message says so and nothing changes, or they do.
    page.wait_for_function(
        "document.querySelector('#runs-title').innerText.includes('named.csv') || "
        "(document.querySelector('#problem-upload').innerText && document.querySelector('#working-upload').hidden)"
    )
    if "named.csv" not in page.inner_text("#runs-title"):
        assert page.inner_text("#sentence") == before


def test_a_dropped_table_is_answered_without_choosing_anything(open_page, address, tmp_path):
    page = open_page(address)
    answered(page)
    copy = tmp_path / "mine.csv"
    frame = cl.examples.load("en-fr-pilot").where(ROWS + " or tokens == 0").frame
    frame.to_csv(copy, index=False)
    page.set_input_files("#upload input[type=file]", copy)
    page.wait_for_function("document.querySelector('#runs-title').innerText.includes('mine.csv')")
    answered(page)
    assert page.inner_text("#sentence").startswith("Train on ")
    page.wait_for_function("document.querySelector('#working-upload').hidden")
    assert page.input_value("#where") == ""


def test_hostile_names_stay_text(open_page, address, tmp_path):
    page = open_page(address)
    answered(page)
    frame = cl.examples.load("en-fr-pilot").where(ROWS + " or tokens == 0").frame
    evil = "\"><img src=x onerror=document.title='{}'><script>document.title='{}'</script>"
    frame["run"] = frame["run"].astype(str) + evil.format("run", "run")
    frame["eval"] = frame["eval"].astype(str) + evil.format("eval", "eval")
    frame["lr_schedule"] = evil.format("schedule", "schedule")
    frame[evil.format("column", "column")] = 1.0
    hostile = tmp_path / "<img src=x onerror=document.title='file'>.csv"
    frame.to_csv(hostile, index=False)
    page.set_input_files("#upload input[type=file]", hostile)
    page.wait_for_selector("#mapping:not([hidden])")
    for role in ("target", "source"):
        page.click(f"#incoming-{role}")
        page.get_by_role("option", name=role).first.click()
    page.click("#apply-columns")
    page.wait_for_function("document.querySelector('#runs-title').innerText.includes('onerror')")
    answered(page)
    for summary in page.locator("summary, [role=tab]").all():
        if summary.is_visible():
            summary.click()
    assert page.locator("img[src=x]").count() == 0
    assert "onerror" in page.inner_text("body")
    assert "=" not in page.title()
    assert page.title() not in ("run", "eval", "schedule", "column", "file")


def test_everything_can_be_reached_by_keyboard_alone(open_page, address):
    page = open_page(address)
    answered(page)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        if reached[-1] == "base_source_loss":
            break
    wanted = ["runs table", "pin", "copy-link", "n_params", "ptpp", "tokens", "replay", "max_forgetting", "risk"]
    assert set(wanted) <= set(reached)
    page.focus("#replay")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    before = page.inner_text("#sentence")
    page.keyboard.press("ArrowRight")
    changed(page, "#sentence", before)
