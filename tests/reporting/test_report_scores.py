"""A report shows the scores of its plan: a table with interval and probability, and each score against its loss."""

import pytest
from facts import lacks
from scored_runs import scored_runs, share, target_loss

import cptlaw as cl
from cptlaw.fitting.uncertainty.chances import likelihood
from cptlaw.reporting import make_report
from cptlaw.reporting.make_report import report
from cptlaw_scores import fit_all_scores

pytest.importorskip("plotly", reason="reports need Plotly: pip install 'cptlaw[report]'")

AT = "n_params=1e9,tokens=3e9,replay=0.25,ptpp=100"


@pytest.fixture(scope="module")
def runs():
    return scored_runs()


@pytest.fixture(scope="module")
def target(runs):
    return cl.fit("ptpp-blind", runs, on="target", starts=8, restraint="none")


@pytest.fixture(scope="module")
def score(runs):
    return fit_all_scores(runs, ["gsm8k"], law_name="score-sigmoid:through=target")["gsm8k"]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(make_report, "draw", lambda *_: [])


@pytest.mark.dear("a score is fitted by all ways that carry it")
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
    assert dict(found.lines)["gsm8k at least 25%"] == likelihood(row["probability"])  # in words, as of losses
    assert lacks(found.commands[-1], "--score", "--min", "gsm8k=0.25") == []
    assert "at least 25%" in found.to_html()


def test_a_table_without_scores_has_no_section_of_them(runs, target):
    losses = cl.read_runs(runs.frame[runs.frame["eval"] == "target"].drop(columns=["metric", "n_items"]))
    assert "<h2>Scores</h2>" not in report(losses, target, at=AT).to_html()
