"""The page in Chromium: nothing that a name carries is run, and the policy lets the page draw."""

import shutil

import pytest

import cptlaw as cl

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
pytest.importorskip("plotly", reason="the page needs Plotly: pip install 'cptlaw[report]'")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium"),
    # Playwright leaves sockets to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
HOSTILE = 'fr"><img src=x onerror="document.title=1"><script>document.title=2</script>'
RUN = "</script><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def page_of_hostile_names(tmp_path_factory):
    frame = cl.examples.load("en-fr-pilot").frame.copy()
    frame = frame[frame["eval"].astype(str) == "target"]
    kept = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
    frame["eval"] = HOSTILE
    frame["run"] = frame["run"].astype(str) + RUN
    frame["loss_of<b onmouseover=alert(1)>"] = 1.0
    runs = cl.read_runs(frame, target_eval=HOSTILE, n_params_kind="total")
    fit = cl.fit("ptpp-floor", runs, on=HOSTILE, where=kept, starts=8)
    found = cl.report(
        runs, fit, at="n_params=125K,tokens=1M,replay=25%,ptpp=279", title="<script>document.title='x'</script>"
    )
    return found.save(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


def opened(browser, path, width=1440):
    page = browser.new_page(viewport={"width": width, "height": 900})
    failed = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("dialog", lambda dialog: failed.append(dialog.message))
    page.on("request", lambda request: failed.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.drawing .main-svg').length >= 2")
    return page, failed


def test_hostile_names_stay_text(browser, page_of_hostile_names):
    page, failed = opened(browser, page_of_hostile_names)
    assert page.title() == "<script>document.title='x'</script>"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator("main").inner_text()
    for script in page.locator("script:not([type])").all():
        assert "document.title=" not in script.inner_text()
    page.locator(".drawing").first.hover()
    assert not failed


def test_policy_names_scripts_by_hash_and_stops_others(browser, page_of_hostile_names):
    content = page_of_hostile_names.read_text(encoding="utf-8")
    assert "unsafe-inline" not in content.split("</head>")[0]
    page, _ = opened(browser, page_of_hostile_names)
    ran = page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.slipped = true';"
        " document.body.append(s); return window.slipped === true; }"
    )
    assert not ran
    bare = browser.new_page()
    bare.goto("about:blank")
    assert bare.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.slipped = true';"
        " document.body.append(s); return window.slipped === true; }"
    )  # without the policy it runs: the test can fail


def test_phone_and_paper(browser, page_of_hostile_names, tmp_path):
    page, failed = opened(browser, page_of_hostile_names, 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type/Page\n") <= 6
    assert not failed
