"""A report shows the scores of its plan: a table with interval and probability, and each score against its loss."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.reporting import make_report
from cptlaw.reporting.make_report import report
from cptlaw.scores import fit_all_scores

pytest.importorskip("plotly", reason="reports need Plotly: pip install 'cptlaw[report]'")

ITEMS = 3000
AT = "n_params=1e9,tokens=3e9,replay=0.25,ptpp=100"


def target_loss(n, tokens, replay):
    return 2.6 + 300 / n**0.34 - 0.22 * np.log1p(tokens / 1e8) * (1 - 0.6 * replay**2)


def share(loss):
    return 0.9 / (1 + np.exp(5.0 * (loss - 2.0)))


@pytest.fixture(scope="module")
def runs():
    random = np.random.default_rng(5)
    rows = []
    for n in (1e8, 3e8, 1e9):
        for replay in (0.05, 0.25, 0.5):
            for tokens in (2e8, 1e9, 5e9):
                known = {"run": f"{n:g}-{replay}", "n_params": n, "tokens": tokens, "replay": replay, "ptpp": 100.0}
                loss = target_loss(n, tokens, replay)
                rows.append({**known, "eval": "target", "loss": loss * np.exp(0.001 * random.standard_normal())})
                score = random.binomial(ITEMS, share(loss)) / ITEMS
                rows.append({**known, "eval": "gsm8k", "loss": score, "metric": "exact_match", "n_items": ITEMS})
    return cl.read_runs(pd.DataFrame(rows))


@pytest.fixture(scope="module")
def target(runs):
    return cl.fit("ptpp-blind", runs, on="target", starts=8)


@pytest.fixture(scope="module")
def score(runs):
    return fit_all_scores(runs, ["gsm8k"], law_name="score-sigmoid:through=target")["gsm8k"]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(make_report, "draw", lambda *_: [])


def test_a_forecast_has_its_scores_without_being_asked(runs, target):
    found = report(runs, target, at=AT)
    row = found.scores.iloc[0]
    assert row["lo"] < share(target_loss(1e9, 3e9, 0.25)) < row["hi"]
    assert (row["limit"], row["limited"]) == ("above chance", False)
    assert [figure.name for figure in found.figures] == ["score-gsm8k"]
    page = found.to_html()
    assert "<h2>Scores</h2>" in page
    assert "gsm8k (exact_match)" in page
    assert found.to_dict()["scores"][0]["on"] == "gsm8k"
    assert any("--on gsm8k" in command for command in found.commands)


def test_a_plan_in_points_says_how_likely_its_limits_hold(runs, target, score):
    asked = {"scores": [score], "min_score": "gsm8k=25%", "n_params": 1e9, "ptpp": 100, "risk": 0.8}
    found = report(runs, target, **asked)
    assert found.plan is not None
    assert found.plan.feasible
    row = found.scores.iloc[0]
    assert row["limit"] == "at least 25%"
    assert 0.78 <= row["probability"] <= 1.0
    assert "gsm8k at least 25%" in found.question
    assert "gsm8k at least 25%" in dict(found.lines)
    assert "--score gsm8k.json --min gsm8k=0.25" in found.commands[-1]
    assert "at least 25%" in found.to_html()


def test_a_table_without_scores_has_no_section_of_them(runs, target):
    losses = cl.read_runs(runs.frame[runs.frame["eval"] == "target"].drop(columns=["metric", "n_items"]))
    assert "<h2>Scores</h2>" not in report(losses, target, at=AT).to_html()
