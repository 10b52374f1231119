"""The calculator of the site says what the library says."""

import importlib.util
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.fitting.learned import forgetting_and_gain as studies
from docs.calculator_numbers import numbers_js

ROOT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
Z90 = (0.05, 0.5, 0.95)
ENDS = ("_lo", "", "_hi")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="browser tests need Playwright"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Open the calculator from a folder, as a reader of the built site does; nothing may go wrong in it."""
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("site") / "calculator"
    shutil.copytree(ROOT / "docs" / "calculator", folder)
    shutil.copy(ROOT / "docs" / "logo.svg", folder.parent)
    (folder / "numbers.js").write_text(numbers_js(), encoding="utf-8")
    said = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_default_timeout(60_000)
        yield page, (folder / "index.html").as_uri()
        browser.close()
    assert said == []


@pytest.fixture
def page(opened):
    """Return the page as it opens."""
    found, address = opened
    found.set_viewport_size({"width": 1440, "height": 900})
    found.goto("about:blank")
    found.goto(address)
    return found


def questions(count=200, seed=0):
    random = np.random.default_rng(seed)
    for _ in range(count):
        n = 10 ** random.uniform(5, 11.5)
        pretrain = 10 ** random.uniform(-4.5, -2.3)
        yield {
            "n": n,
            "ptpp": 10 ** random.uniform(1, 4),
            "tokens": n * 10 ** random.uniform(-2, 2.5),
            "replay": random.choice([0.0, random.uniform(0, 0.9)]),
            "shift": str(random.choice(studies.SHIFTS)),
            "pretrain": random.choice([0.0, pretrain]),
            "peak": pretrain * 10 ** random.uniform(-2, 0.3),
            "novelty": random.choice([None, random.uniform(-0.5, 0.8)]),
            "unread": bool(random.random() < 0.3),
        }


def test_two_hundred_questions_have_the_same_forecast(page):
    asked = list(questions())
    answers = page.evaluate("asked => asked.map(forecast)", asked)
    for question, found in zip(asked, answers, strict=True):
        frame = studies.rows_of(
            question["shift"],
            question["n"],
            question["ptpp"],
            [(question["replay"], question["tokens"])],
            question["peak"],
            question["pretrain"] or None,
            novelty=question["novelty"],
            unread=question["unread"],
        )
        lost, won = studies.expected("forgetting", frame), studies.expected("gain", frame)
        assert found["forgetting"] == pytest.approx([lost.quantile(p)[0] for p in Z90], abs=1e-6, rel=1e-6)
        assert found["gain"] == pytest.approx([won.fall(p)[0] for p in Z90], abs=1e-6, rel=1e-6)


ASKED = [
    {"shift": "language", "target_tokens": 20e9, "max_forgetting": 0.03},
    {"shift": "language", "target_tokens": 20e9, "max_forgetting": 0.03, "risk": 0.5},
    {"shift": "code", "tokens": 50e9, "max_forgetting": 0.1, "replay_of": "other"},
    {"shift": "domain", "budget": 1e21, "max_forgetting": 0.02, "lr_pretrain": 3e-4, "lr_peak": 3e-5},
    {
        "shift": "language",
        "target_tokens": 2e9,
        "max_forgetting": 0.05,
        "base_source_loss": 2.0,
        "base_target_loss": 2.9,
    },
    {"shift": "code", "tokens": 1e11, "max_forgetting": 0.2, "base_target_loss": 2.4, "max_target_loss": 2.1},
    {"shift": "code", "tokens": 1e11, "base_target_loss": 2.4, "max_target_loss": 2.0},
    {"shift": "near", "target_tokens": 1e12, "max_forgetting": -0.3},
    {"shift": "near", "target_tokens": 1e12},
]
SPENT = {"target_tokens": "target", "tokens": "tokens", "budget": "flops"}


def in_the_browser(question):
    """Return a question of the library as the calculator takes it."""
    n, base = 8e9, question.get("base_target_loss")
    pretrain = question.get("lr_pretrain", 0.0)
    losses = (base, question.get("base_source_loss"))
    model = {
        "n": n,
        "active": n,
        "ptpp": 1875.0,
        "shift": question["shift"],
        "unread": question.get("replay_of") == "other",
        "pretrain": pretrain,
        "peak": question.get("lr_peak", studies.TYPICAL_RATE * (pretrain or float(studies.typical_peak(n)))),
        "novelty": None if None in losses else math.log(losses[0] / losses[1]),
    }
    (spent,) = [name for name in SPENT if name in question]
    limits = {
        "forgetting": question.get("max_forgetting"),
        "targetLoss": question.get("max_target_loss"),
        "baseTargetLoss": base,
        "risk": question.get("risk", 0.8),
    }
    return {"model": model, "spend": {"kind": SPENT[spent], "amount": question[spent]}, "limits": limits}


@pytest.mark.parametrize("question", ASKED, ids=lambda one: ",".join(map(str, one.values())))
def test_a_question_has_the_same_plan(page, question):
    found = page.evaluate("answerOf", in_the_browser(question))
    answer = cl.answer(n_params=8e9, ptpp=1875, **question).to_dict()
    close = {"abs": 1e-6, "rel": 1e-6}
    assert found["feasible"] == answer["feasible"]
    for one, option in zip(found["options"], answer["options"], strict=True):
        assert one["tokens"] == pytest.approx(option["tokens"])
        assert one["forgetting"] == pytest.approx([option[f"forgetting{end}"] for end in ENDS], **close)
        assert one["gain"] == pytest.approx([option[f"target_gain{end}"] for end in ENDS], **close)
    assert found["batch"] == pytest.approx(answer["batch_tokens"], rel=1e-6)
    assert found["peak"] == pytest.approx(answer["lr_peak"])
    if not answer["feasible"]:
        assert found["at"]["replay"] == found["knee"]["replay"]
        return
    plan = found["plan"]
    for name in ("replay", "tokens", "flops"):
        assert plan[name] == pytest.approx(answer[name], **close), name
    assert plan["forgetting"] == pytest.approx([answer[f"forgetting{end}"] for end in ENDS], **close)
    kept = {"max-forgetting": plan["probability"], "max-target-loss": plan["targetProbability"]}
    for name, probability in answer["probabilities"].items():
        assert kept[name] == pytest.approx(probability, abs=1e-6)
    beside = {one["name"]: one for one in found["alternatives"]}
    if "risk" not in question:
        assert beside["even odds"]["replay"] == pytest.approx(answer["without_risk"]["replay"], **close)
        assert beside["even odds"]["tokens"] == pytest.approx(answer["without_risk"]["tokens"], **close)


def test_what_nothing_keeps_is_said_with_what_is_in_reach(page):
    found = page.evaluate("answerOf", in_the_browser(ASKED[-2]))
    answer = cl.answer(n_params=8e9, ptpp=1875, **ASKED[-2]).to_dict()
    assert (found["blocking"], answer["blocking"]) == ("forgetting", "max-forgetting")
    reachable = answer["best_reachable"]
    assert found["least"] == pytest.approx(reachable.get("limit", reachable["forgetting"]), abs=1e-6)
    page.fill("#limit", "-30")
    assert not re.search(r"\d", page.inner_text("#sentence"))  # no mix is named


def test_a_run_that_is_too_short_has_no_probability(page):
    page.fill("#limit", "2")
    assert "probability" in page.inner_text("#reason")
    page.fill("#spend", "20K")
    assert "Train on" not in page.inner_text("#sentence")
    assert "probability" not in page.inner_text("#reason")


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("8B", 8e9),
        ("1,875", 1875),
        ("50B", 5e10),
        ("8_030_000_000", 8.03e9),
        ("1e21", 1e21),
        (".5", 0.5),
        ("2 T", 2e12),
    ],
)
def test_numbers_are_read_as_they_are_typed(page, typed, number):
    assert page.evaluate("readQuantity", typed) == pytest.approx(number)


def test_a_bad_number_says_what_was_expected_and_the_answer_stays(page):
    before = page.inner_text("#sentence")
    for text in ("8Q", "", "1e99", "-3", "<b>"):
        page.fill("#size", text)
        assert page.get_attribute("#size", "aria-invalid") == "true"
        assert "8B" in page.inner_text("#size-problem")
        assert page.inner_text("#sentence") == before
    page.fill("#size", "70B")
    assert page.get_attribute("#size", "aria-invalid") is None
    assert page.inner_text("#sentence") != before


def test_an_address_and_a_command_hold_the_whole_question(page):
    page.select_option("#base", "llama-3.1-8b")
    assert page.input_value("#size") == "8.03B"
    page.fill("#source-loss", "2.0")
    page.fill("#target-loss", "2.9")
    page.fill("#spend", "50B")
    page.fill("#limit", "10")
    sentence, address, command = page.inner_text("#sentence"), page.url, page.inner_text("#command")
    page.goto("about:blank")
    page.goto(address)
    assert page.inner_text("#sentence") == sentence
    assert page.inner_text("#command") == command
    words = command.split()
    assert words[:4] == ["cptlaw", "answer", "--base", "llama-3.1-8b"]
    asked = dict(zip(words[2::2], words[3::2], strict=True))
    asked.pop("--pilots")
    answer = cl.answer(**{name[2:].replace("-", "_"): value for name, value in asked.items()})
    assert sentence == f"Train on {answer.tokens / 1e9:.3g}B tokens, {100 * answer.replay:.3g}% of them replay"


def test_sliders_and_typed_numbers_are_one(page):
    page.fill("#size", "50B")
    assert float(page.input_value("#size-slider")) == pytest.approx(math.log10(5e10), abs=0.01)
    page.fill("#size-slider", "9")
    assert page.input_value("#size") == "1B"
    plan = page.inner_text("#forgetting")
    page.fill("#replay", "0")
    assert page.inner_text("#forgetting") != plan
    page.click("#back")
    assert page.inner_text("#forgetting") == plan


@pytest.mark.dear("a browser that checks a page's accessibility at two widths")
def test_it_is_whole_on_a_phone_and_accessible(page):
    from axe_playwright_python.sync_playwright import Axe

    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 850})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#forgetting-curve .tick").count() >= 6
        found = Axe().run(page, options={"resultTypes": ["violations"], "preload": False})
        assert [each["id"] for each in found.response["violations"]] == []
