"""The built site: its search finds the page that answers, nothing is cut off on a phone, axe finds nothing."""

import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import yaml

import cptlaw as cl

pytest.importorskip("material", reason="the site needs mkdocs: pip install 'cptlaw[docs]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the accessibility check needs axe-core")

ROOT = Path(__file__).parents[1]
SEARCHES = yaml.safe_load((ROOT / "docs" / "searches.yaml").read_text(encoding="utf-8"))
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
# The worker of the site's own search, asked from here: it listens on the window, and its replies are kept.
ASK = """async ({index, searches}) => {
    const tell = data => new Promise(done => {
        window.postMessage = message => done(message.data);
        window.dispatchEvent(new MessageEvent("message", {data}));
    });
    await tell({type: 0, data: {...index, options: {suggest: true}}});
    const found = {};
    for (const words of searches)
        found[words] = (await tell({type: 2, data: words})).items.map(page => page.at(-1).location.split("#")[0]);
    return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does, or take the one that it has built."""
    if built := os.environ.get("CPTLAW_SITE"):
        return Path(built)
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def page(site):
    if BROWSER is None:
        pytest.skip("no Chromium on the path: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_every_public_name_stands_in_the_reference(site):
    """Those of `cptlaw`, of its modules of plans, figures and examples, and what other packages join."""
    kept = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    listed = {line.split()[0].rpartition(".")[2] for line in zlib.decompress(kept).decode().splitlines()}
    modules = {"plan", "figures", "examples"}
    joined = set(dir(cl)) - set(cl.__all__)
    assert {"app", "export", "merge", "sweep"} <= joined
    names = {*cl.__all__, *joined, *cl.plan.__all__, *cl.figures.__all__, "load", "path", "schedules"} - modules
    assert names - listed == set()


def test_search_finds_the_page_that_answers(site, page):
    """Among the first three, and nine in ten times as the first."""
    asked = [(words, name.replace(".md", ".html")) for name, listed in SEARCHES.items() for words in listed.split(", ")]
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    page.goto("about:blank")
    page.add_script_tag(content=worker.read_text(encoding="utf-8"))
    found = page.evaluate(ASK, {"index": index, "searches": [words for words, _ in asked]})
    assert {words: found[words][:3] for words, name in asked if name not in found[words][:3]} == {}
    assert sum(found[words][0] == name for words, name in asked) >= 0.9 * len(asked)


@pytest.mark.parametrize(
    "name", ["index", "how_to/index", "how_to/no_runs", "gallery", "laws/shared-tokens", "reference/verbs"]
)
def test_a_page_is_whole_on_a_phone_and_accessible(site, page, name):
    for width, scheme in ((1440, "light"), (400, "light"), (1440, "dark")):
        page.set_viewport_size({"width": width, "height": 850})
        page.emulate_media(color_scheme=scheme)
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = axe.Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
        assert [(each["id"], each["nodes"][0]["html"][:160]) for each in found.response["violations"]] == []
