"""What a lead asks first has the same numbers on the calculator, in the app and on the command line."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

import cptlaw as cl
from docs.calculator_numbers import numbers_js

pytest.importorskip("flask", reason="the app needs Flask: pip install 'cptlaw[app]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need Playwright: pip install 'cptlaw[dev]'")
ROOT = Path(cl.__file__).parents[1]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.xdist_group("browser"),
]
LIMIT = {"shift": "language", "max_forgetting": "5%", "gpus": "64xH100", "gpu_hour": "2.50"}
QUESTIONS = {
    "8B to Japanese": {"base": "llama-3.1-8b", "target_tokens": "20B", **LIMIT},
    "half of that budget": {"base": "llama-3.1-8b", "budget": "7.4e20", **LIMIT},
    "another base model": {"base": "qwen2.5-7b", "target_tokens": "20B", **LIMIT},
    "numbers as people type them": {"n_params": "8b", "ptpp": "1_875", "target_tokens": "20_000M", **LIMIT},
    "all tokens, old ones too": {"base": "llama-3.1-8b", "tokens": "30B", **LIMIT},
    "surer, at a rate of one's own": {
        "base": "llama-3.1-8b", "target_tokens": "20B", "risk": "95%", "lr_peak": "3e-5", "mfu": "35%", **LIMIT
    },
    "other old text, another domain": {
        "base": "gemma-2-9b", "target_tokens": "5B", "replay_of": "other", **LIMIT, "shift": "domain"
    },
}  # fmt: skip
# Question -> field of the calculator; the sign of a share may be left out there, as its unit stands beside the field.
FIELDS = {
    "n_params": "size",
    "ptpp": "ptpp",
    "max_forgetting": "limit",
    "risk": "risk",
    "lr_peak": "rate",
    "mfu": "mfu",
}
SPENDS = {"target_tokens": "target", "tokens": "tokens", "budget": "flops"}
CHOICES = {"base": "base", "shift": "shift", "replay_of": "replay-of"}


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    """Return what the calculator says of a question: its sentence, its plan, what comes of it, and its command."""
    folder = tmp_path_factory.mktemp("site") / "calculator"
    shutil.copytree(ROOT / "docs" / "calculator", folder)
    (folder / "numbers.js").write_text(numbers_js(), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        page = browser.new_page()

        def asked(gpus, gpu_hour, **question):
            page.goto((folder / "index.html").as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            count, device = gpus.split("x")
            page.select_option("#device", device)
            for name, text in {"count": count, "price": gpu_hour}.items():
                page.fill(f"#{name}", text)
            for name, text in sorted(question.items(), key=lambda asked: asked[0] not in CHOICES):
                if name in SPENDS:
                    page.select_option("#spend-kind", SPENDS[name])
                    page.fill("#spend", text)
                elif name in CHOICES:
                    page.select_option(f"#{CHOICES[name]}", text)
                else:
                    page.fill(f"#{FIELDS[name]}", text)
            return [page.inner_text(f"#{name}") for name in ("sentence", "plan", "outcome", "command")]

        yield asked
        browser.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_three_doors_say_the_same(calculator, call, name, tmp_path, monkeypatch):
    from cptlaw_app.server import build

    monkeypatch.chdir(tmp_path)  # the command of the calculator writes pilots

    question = QUESTIONS[name]
    words = [word for key, value in question.items() for word in (f"--{key.replace('_', '-')}", value)]
    code, printed, _ = call("answer", *words)
    assert not code
    first, printed = printed, " ".join(printed.split())
    tokens, replay, hours, cost = re.search(
        r"train on ([\d.]+B) tokens, ([\d.]+%) replay.*?([\d,]+) H100 hours.*?cost ([\d,]+)\)", printed
    ).groups()
    forgetting = re.search(r"forgetting (-?[\d.]+% \(.*?\));", printed)[1]
    gain = re.search(r"target loss ([\d.]+%) \(", printed)[1]
    sentence, plan, outcome, command = calculator(**question)
    assert sentence == f"Train on {tokens} tokens, {replay} of them replay"
    assert {hours, cost} <= set(re.findall(r"[\d,.]+\d", plan))
    assert forgetting == "{} ({})".format(*re.search(r"(-?[\d.]+%)\n?\s*(-?[\d.]+% to [\d.]+%)", outcome).groups())
    assert f"{gain} lower" in outcome
    again = call(*shlex.split(command)[1:])[1]  # it may write 1_875 as 1875
    assert again.split("run next")[0] == first.split("run next")[0]
    page = (
        build().test_client().get("/answer", query_string={"table": "none", **question}, headers={"Host": "127.0.0.1"})
    )
    told = page.get_data(as_text=True)
    for text in (f"Train on {tokens} tokens, {replay} replay", f"{hours} H100 hours", f"cost {cost}", forgetting, gain):
        assert text in told
