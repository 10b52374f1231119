"""The page in Chromium: nothing that a name carries is run, and the policy lets the page draw."""

import shutil

import pytest

import cptlaw as cl

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the accessibility check needs axe-core")
pytest.importorskip("plotly", reason="the page needs Plotly: pip install 'cptlaw[report]'")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium"),
    # Playwright leaves sockets to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("browser"),
]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
KEPT = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and tokens >= 80K and lr_schedule == 'constant'"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
HOSTILE = 'fr"><img src=x onerror="document.title=1"><script>document.title=2</script>'
RUN = "</script><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def page_of_hostile_names(tmp_path_factory):
    frame = cl.examples.load("en-fr-pilot").frame.copy()
    frame = frame[frame["eval"].astype(str) == "target"]
    frame["eval"] = HOSTILE
    frame["run"] = frame["run"].astype(str) + RUN
    frame["loss_of<b onmouseover=alert(1)>"] = 1.0
    runs = cl.read_runs(frame, target_eval=HOSTILE, n_params_kind="total")
    fit = cl.fit("ptpp-floor", runs, on=HOSTILE, where=KEPT, starts=8, restraint="none")
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
    # What the page's own policy forbids is an error on the console.
    page.on("console", lambda said: failed.append(said.text) if said.type == "error" else None)
    page.goto(path.as_uri())
    page.locator(".drawing .main-svg").nth(1).wait_for(state="attached")  # no text that the page's policy would forbid
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


@pytest.mark.dear("a browser, and a report with all its figures")
def test_the_report_draws_all_figures_offline_at_both_widths_and_prints(browser, tmp_path):
    runs = cl.examples.load("en-fr-pilot")
    target = cl.fit("ptpp-floor", runs, on="target", where=KEPT, starts=16, restraint="none")
    plain = {"findings": (), "plan": None, "suggestion": None, "commands": ("cptlaw report",)}
    figures = (cl.figures.observed_fitted(target), cl.figures.loss_curves(runs, "target", fit=target))
    forecasts = target.forecast(target.data.head(1)).assign(on="target", law="ptpp-floor")
    made = cl.Report(
        heading="Test", question="?", answer="!", cost="", chances=(), interval=0.9,
        forecasts=forecasts, figures=figures, fits=(target,), runs=runs, **plain,
    )  # fmt: skip
    path = made.save(tmp_path / "report.html")
    page, failed = opened(browser, path)
    assert path.stat().st_size < 2e6
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")  # figures are drawn as they come into view
        page.wait_for_timeout(600)
        assert page.locator(".drawing .main-svg").count() >= len(figures)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        heights = page.evaluate(
            "[...document.querySelectorAll('.drawing')].map(e => [e.clientHeight, e.querySelector('svg').clientHeight])"
        )
        assert all(box >= drawing - 1 for box, drawing in heights)
        found = axe.Axe().run(page, options=RULES).response["violations"]
        assert [(each["id"], [node["html"][:160] for node in each["nodes"]]) for each in found] == []
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    assert not failed
