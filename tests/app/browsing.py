"""What tests in a real browser share: Debian's Chromium, driven by Playwright, no network but this machine."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from serving import running

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
pytest.importorskip("flask", reason="the app needs Flask: pip install 'cptlaw[app]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the accessibility check needs axe-core")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
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
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
# Plotly brings a style sheet for maps, which no figure here is: the report's policy blocks it, as it should.
BLOCKED = "Applying inline style violates the following Content Security Policy directive 'style-src"


@contextlib.contextmanager
def served(app):
    """Serve an app on any free port, and give its address."""
    from waitress import create_server

    with running(create_server(app, host="127.0.0.1", port=0, threads=6)) as server:
        yield f"http://127.0.0.1:{server.effective_port}/"


@contextlib.contextmanager
def launched():
    """Start the browser."""
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


@contextlib.contextmanager
def opening(browser):
    """Give what opens pages; at the end none may have said an error or asked another machine for anything."""
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


def answered(page):
    """Wait until the answer stands, its figures drawn."""
    page.locator("#state", has_text="Answered.").wait_for()  # the page's policy lets no test evaluate text
