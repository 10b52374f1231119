"""The app and the report in a real browser: Debian's Chromium, driven by Playwright, no network but this machine."""

import os
import shutil
import threading
from pathlib import Path

import pytest

import cptlaw as cl
from cptlaw.reporting import make_report
from cptlaw.units import format_quantity

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
pytest.importorskip("dash", reason="the app needs Dash: pip install 'cptlaw[app]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the accessibility check needs axe-core")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium"),
    # Playwright and Waitress leave sockets to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
PATIENCE = 120_000  # milliseconds; a busy machine is slow
SHOTS = os.environ.get("CPTLAW_SCREENSHOTS")  # a folder to keep what the tests saw
PHONE, DESK = {"width": 360, "height": 780}, {"width": 1200, "height": 900}
ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)


@pytest.fixture(scope="module")
def address():
    """Serve the app with the example runs, on any free port."""
    from waitress import create_server

    from cptlaw.reporting.app import build

    app = build(cl.examples.load("en-fr-pilot"), ROWS)
    server = create_server(app.server, host="127.0.0.1", port=0, threads=6)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}/"
    server.close()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


# Plotly brings a style sheet for maps, which no figure here is: the report's policy blocks it, as it should.
BLOCKED = "Applying inline style violates the following Content Security Policy directive 'style-src"


@pytest.fixture
def open_page(browser):
    """Open pages; at the end none may have said an error or asked another machine for anything."""
    said, pages = [], []

    def open_at(url, size=DESK):
        page = browser.new_page(viewport=size)
        page.set_default_timeout(PATIENCE)
        known = BLOCKED if url.startswith("file:") else ()  # of the report alone; the app may say nothing at all
        page.on(
            "console",
            lambda message: (
                said.append(message.text) if message.type == "error" and not message.text.startswith(known) else None
            ),
        )
        page.on("pageerror", lambda error: said.append(str(error)))
        here = ("file:", "data:", "blob:", "http://127.0.0.1:")
        page.on("request", lambda request: None if request.url.startswith(here) else said.append(request.url))
        page.goto(url)
        pages.append(page)
        return page

    yield open_at
    for page in pages:
        page.close()
    assert said == []


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def check_accessible(page):
    found = axe.Axe().run(page, options=RULES).response["violations"]
    assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in found] == []


def fits_the_width(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def fit(page):
    page.wait_for_function("document.querySelector('#check').children.length > 0")
    page.click("#fit")
    page.wait_for_selector("#explore:not([hidden])")
    page.wait_for_selector("#map .heatmaplayer, #map .hm")
    page.wait_for_function("document.querySelector('#working').hidden")


@pytest.fixture(scope="module")
def fitted_page(browser, address):
    """One page with a fit, for the tests that only move it."""
    page = browser.new_page(viewport=DESK)
    page.set_default_timeout(PATIENCE)
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#summary table")
    fit(page)
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


def test_sliders_move_forecast_plan_and_map_at_once(fitted_page):
    page = fitted_page
    shot(page, "app-1200")
    forecast, plan = page.inner_text("#forecast"), page.inner_text("#plan")
    assert "nats per token" in forecast
    assert "binding" in plan
    move(page, "tokens", 5.4)
    forecast = changed(page, "#forecast", forecast)
    assert page.inner_text("#said-tokens") == "251K"
    move(page, "max_target_loss", 1.75)
    plan = changed(page, "#plan", plan)
    star = page.evaluate("document.querySelector('#map .js-plotly-plot').data.find(t => t.name === 'plan').x[0]")
    assert f"tokens\t{format_quantity(star, 4)} (" in plan
    page.check("#risk input[value='0.9']")
    plan = changed(page, "#plan", plan)
    assert "each limit holds with probability 90%" in plan
    assert "limits hold with 90%" in page.inner_text("#map")
    page.check("#risk input[value='none']")
    changed(page, "#plan", plan)


def test_an_infeasible_plan_is_shown_as_an_answer(fitted_page):
    page = fitted_page
    before = page.inner_text("#plan")
    move(page, "max_target_loss", 1.02)
    plan = changed(page, "#plan", before)
    assert "blocking" in plan
    assert "No mix keeps all limits" in page.inner_text("#map-caption")
    shot(page, "app-infeasible")
    move(page, "max_target_loss", 1.75)
    changed(page, "#plan", plan)


def test_full_plan_next_experiments_and_downloads(fitted_page, tmp_path):
    page = fitted_page
    page.click("#exact")
    page.wait_for_selector("#exact-result table")
    assert "(" in page.inner_text("#exact-result")
    page.wait_for_function("document.querySelector('#working').hidden")
    page.fill("#budget", "1e11")
    page.click("#suggest")
    page.wait_for_selector("#cells table")
    page.wait_for_function("document.querySelector('#working').hidden")
    for name in ("target.json", "source.json", "cells.csv"):
        with page.expect_download() as waiting:
            page.click(f"#download-{name.split('.')[0]}")
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
    assert cl.load_fit(tmp_path / "target.json").role == "target"
    assert (tmp_path / "cells.csv").read_text().startswith("run,n_params")


def test_the_report_comes_as_a_file(fitted_page, tmp_path, monkeypatch):
    monkeypatch.setattr(make_report, "draw", lambda *_: [])  # what is drawn is tested elsewhere
    page = fitted_page
    with page.expect_download() as waiting:
        page.click("#download-report")
    waiting.value.save_as(tmp_path / "report.html")
    assert "fewest tokens" in (tmp_path / "report.html").read_text(encoding="utf-8")
    page.wait_for_function("document.querySelector('#working').hidden")


def test_the_fitted_page_is_accessible_at_both_widths(fitted_page):
    page = fitted_page
    check_accessible(page)
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(600)
    assert fits_the_width(page)
    check_accessible(page)
    shot(page, "app-360")
    page.set_viewport_size(DESK)


def test_bad_files_give_their_message_in_the_page_and_columns_can_be_mapped(open_page, address, tmp_path):
    page = open_page(address)
    page.wait_for_selector("#summary table")
    bad = tmp_path / "bad.csv"
    bad.write_text("run,eval,loss,n_params,tokens,replay\na,target,many,1e6,1e6,0.1\n")
    page.set_input_files("#upload input[type=file]", bad)
    page.wait_for_function("document.querySelector('#problem').innerText.includes('bad.csv, row 2')")
    shot(page, "app-bad-file")
    check_accessible(page)
    named = tmp_path / "named.csv"
    named.write_text(
        "job,eval,bits,n_params,tokens,replay\n"
        + "".join(f"r{i},target,{2 + 1 / (i + 1)},1e6,{(i + 1) * 1e6},0.1\n" for i in range(4))
    )
    page.set_input_files("#upload input[type=file]", named)
    page.wait_for_function("document.querySelector('#problem').innerText.includes('named.csv')")
    page.wait_for_selector("#mapping:not([hidden])")
    page.locator("#columns .field", has_text="loss:").locator("button").click()
    page.get_by_role("option", name="bits").click()
    page.click("#apply-columns")
    page.wait_for_function("document.querySelector('#summary').innerText.includes('named.csv')")
    assert page.inner_text("#problem") == ""
    # A design that cannot determine the law says so before the fit, and the fit ends with the same message.
    page.wait_for_function("document.querySelector('#check').innerText.length > 0")
    page.click("#fit")
    page.wait_for_function("document.querySelector('#problem').innerText.length > 0")
    shot(page, "app-mapped")


def test_uploaded_runs_replace_the_example(open_page, address, tmp_path):
    page = open_page(address)
    page.wait_for_selector("#summary table")
    copy = tmp_path / "mine.csv"
    copy.write_bytes(cl.examples.path("en-fr-pilot").read_bytes())
    page.set_input_files("#upload input[type=file]", copy)
    page.wait_for_function("document.querySelector('#summary').innerText.includes('mine.csv')")
    assert page.input_value("#where") == ""


def test_everything_can_be_reached_by_keyboard_alone(open_page, address):
    page = open_page(address)
    page.wait_for_selector("#summary table")
    page.wait_for_function("document.querySelector('#check').children.length > 0")
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        if reached[-1] == "fit":
            break
    assert reached == ["runs table", "eval-target", "eval-source", "where", "law-target", "law-source", "fit"]
    visible = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert visible != "none"
    page.keyboard.press("Enter")
    page.wait_for_selector("#explore:not([hidden])")
    page.wait_for_selector("#map .heatmaplayer, #map .hm")
    page.focus("#replay")
    before = page.inner_text("#forecast")
    page.keyboard.press("ArrowRight")
    changed(page, "#forecast", before)


def test_the_report_draws_all_figures_offline_at_both_widths_and_prints(open_page, tmp_path):
    runs = cl.examples.load("en-fr-pilot")
    target = cl.fit("ptpp-floor", runs, on="target", where=ROWS, starts=16)
    plain = {"doubts": (), "plan": None, "suggestion": None, "commands": ("cptlaw report",)}
    figures = (cl.figures.residuals(target), cl.figures.loss_curves(runs, "target", fit=target))
    forecasts = target.forecast(target.data.head(1)).assign(on="target", law="ptpp-floor")
    made = cl.Report(
        heading="Test", question="?", answer="!", cost="", chances=(), interval=0.9,
        forecasts=forecasts, figures=figures, fits=(target,), runs=runs, **plain,
    )  # fmt: skip
    path = made.save(tmp_path / "report.html")
    page = open_page(path.as_uri())
    for size in (DESK, PHONE):
        page.set_viewport_size(size)
        page.wait_for_timeout(600)
        assert page.locator(".drawing .main-svg").count() >= len(figures)
        assert fits_the_width(page)
        heights = page.evaluate(
            "[...document.querySelectorAll('.drawing')].map(e => [e.clientHeight, e.querySelector('svg').clientHeight])"
        )
        assert all(box >= drawing - 1 for box, drawing in heights)
        check_accessible(page)
        shot(page, f"report-{size['width']}")
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
