"""The calculator of the site says what the library says."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from cptlaw.answering import studies

ROOT = Path(__file__).parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
Z90 = (0.05, 0.5, 0.95)


def numbers():
    from cptlaw.answering.calculator import numbers_js

    return numbers_js()


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


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path: apt-get install chromium")
@pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="browser tests need Playwright")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_hundred_questions_have_the_same_answer(tmp_path):
    from playwright.sync_api import sync_playwright

    folder = tmp_path / "calculator"
    shutil.copytree(ROOT / "docs" / "calculator", folder)
    (folder / "numbers.js").write_text(numbers(), encoding="utf-8")
    asked = list(questions())
    said = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--headless", "--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((folder / "index.html").as_uri())
        assert "%" in page.inner_text("#forgetting")
        before = page.inner_text("#forgetting")
        page.fill("#replay", "50")
        assert page.inner_text("#forgetting") != before
        answers = page.evaluate("asked => asked.map(answer)", asked)
        browser.close()
    assert said == []
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
