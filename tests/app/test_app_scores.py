"""Scores in the app without a browser: plans in points, what to expect of each score, fields, addresses and files."""

import re

import pytest
from scored_runs import gsm8k, losses, mmlu, runs_with_two_scores

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw_app import jobs, scored
from cptlaw_app.fitted import Fitted
from cptlaw_app.moves import COVERAGE, move, row_of
from cptlaw_app.scenario import Scenario, read_address
from cptlaw_app.session import Loaded, Session, Shelf
from cptlaw_app.tabled import Remembering

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")

MODEL = {"n_params": 1e9, "ptpp": 100.0}
LIMITED = Scenario(**MODEL, tokens=3e9, min_score={"gsm8k": 0.2}, max_drop={"mmlu": 0.1})


def silent(stage, share):
    """Take what a job tells of its progress."""


@pytest.fixture(scope="module")
def runs():
    return runs_with_two_scores()


@pytest.fixture(scope="module")
def session(runs):
    session = Session()
    jobs.fit_both(session, Shelf(), Loaded(runs), silent)
    return session


@pytest.fixture(scope="module")
def fitted(session):
    return session.fitted


def test_a_table_with_scores_comes_with_their_fits(fitted):
    assert set(fitted.scores) == {"gsm8k", "mmlu"}
    assert fitted.scores["gsm8k"].carrier == "target"
    # Both scores read one table of each loss, the one that plans search too.
    carriers = {id(loss) for score in fitted.planned_scores.values() for loss in score.losses.values()}
    assert len(carriers) == 2
    point = row_of(LIMITED, move(fitted, LIMITED, draws=False).plan)
    for name, score in fitted.scores.items():
        assert fitted.planned_scores[name].predict(point) == pytest.approx(score.predict(point), abs=1e-5)


def test_a_limit_in_points_moves_the_answer_as_the_library_does(fitted):
    found = move(fitted, LIMITED)
    asked = {"tokens": 3e9, "scores": fitted.scores, "interval": None}
    known = cl.plan.trade_off(
        fitted.target, fitted.source, **MODEL, **asked, min_score={"gsm8k": 0.2}, max_drop={"mmlu": 0.1}
    )
    assert found.plan.replay == pytest.approx(known.replay, abs=1e-4)
    assert found.plan.scores["mmlu"]["drop"] == pytest.approx(0.1, abs=1e-4)
    score = found.plan.scores["gsm8k"]["score"]
    assert f"gsm8k of {100 * score:.1f}%" in found.sentence
    assert found.plan.replay > move(fitted, Scenario(**MODEL, tokens=3e9)).plan.replay + 0.02
    assert found.chances == ()
    veiled = next(trace for trace in found.chart.drawing.data if trace.name == "veil: breaks a limit")
    assert (veiled.z > 0).any()


def test_limits_in_points_hold_with_the_certainty_that_was_asked_for(fitted):
    sure = move(fitted, LIMITED, doubt=True)
    assert sure.probabilities["max-drop mmlu"] == pytest.approx(0.8, abs=0.02)
    assert any(text.startswith("mmlu down at most 10 points: likely (8") for text in sure.chances)
    assert any(text.startswith("gsm8k at least 20%:") for text in sure.chances)
    source, target = losses(1e9, 3e9, sure.plan.replay)
    rows = {row[0]: row for row in scored.table_of(fitted, LIMITED, sure.plan).rows}
    for name, real in (("mmlu", mmlu(source)), ("gsm8k", gsm8k(target))):
        low, high = (float(end) / 100 for end in re.findall(r"([\d.]+)%", rows[name][1])[1:])
        assert low < real < high
    assert rows["mmlu"][2].startswith("down at most 10 points from the base model's")
    assert rows["gsm8k"][2:] == ("at least 20%", "above 99%")
    free = {row[0]: row for row in scored.table_of(fitted, Scenario(**MODEL, tokens=3e9), sure.plan).rows}
    assert free["mmlu"][2] == "above the 25% of guessing"
    assert free["gsm8k"][2:] == ("none", "-")


def test_the_curve_has_both_doubts(fitted):
    sure = move(fitted, LIMITED, doubt=True, draws=False)
    curve = scored.curve_of(fitted, "gsm8k", LIMITED, sure.plan)
    assert curve.title == "gsm8k follows the target loss"
    forecast = curve.data[curve.data["kind"] == "forecast"].iloc[0]
    assert forecast["loss_lo"] < forecast["loss"] < forecast["loss_hi"]
    assert forecast["lo"] < forecast["score"] < forecast["hi"]
    assert scored.curve_of(fitted, "nothing", LIMITED, sure.plan) is None


def test_a_score_out_of_reach_says_what_is_in_reach(fitted):
    far = Scenario(**MODEL, tokens=3e9, min_score={"gsm8k": 0.9})
    found = move(fitted, far, doubt=True, draws=False)
    assert not found.plan.feasible
    assert found.sentence.startswith("No mix keeps gsm8k at least 90% with 80% probability; the highest gsm8k in reach")
    assert re.fullmatch(r"There is a mix if you allow gsm8k of [\d.]+%\.", found.asides[0])


def test_a_drop_needs_a_base_score_and_takes_a_typed_one(fitted):
    elsewhere = Scenario(n_params=2e9, ptpp=100.0, tokens=3e9, max_drop={"mmlu": 0.1})
    with pytest.raises(UsageError, match="Type the base model's score beside it") as error:
        move(fitted, elsewhere)
    assert "--" not in str(error.value)
    typed = Scenario(**{**vars(elsewhere), "base_score": {"mmlu": 0.65}})
    assert move(fitted, typed, draws=False).plan.scores["mmlu"]["score"] >= 0.55 - 1e-6
    with pytest.raises(UsageError, match="no such score"):
        move(fitted, Scenario(**MODEL, tokens=3e9, min_score={"humaneval": 0.1}))


def test_an_address_holds_limits_in_points():
    scenario = Scenario(
        **MODEL,
        tokens=3e9,
        min_score={"gsm8k": 0.2, "mean:a,b": 0.5},
        max_drop={"mmlu": 0.015},
        base_score={"mmlu": 0.6},
    )
    assert Scenario.from_query(scenario.to_query()) == scenario
    assert read_address("?table=abc&" + scenario.to_query())[1] == scenario
    assert scenario.limits_text == "gsm8k at least 20% and mean:a,b at least 50% and mmlu down at most 1.5 points"
    with pytest.raises(UsageError, match="not possible as a score"):
        Scenario.from_query("tokens=3e9&min.gsm8k=60")


def test_fields_are_read_as_people_type(fitted):
    typed = {"gsm8k": ["60", "", ""], "mmlu": ["", "1.5", "61.6%"], "unknown": ["1", "", ""]}
    found = scored.read(fitted, typed)
    assert found == {"min_score": {"gsm8k": 0.6}, "max_drop": {"mmlu": 0.015}, "base_score": {"mmlu": 0.616}}
    assert scored.read(fitted, {"gsm8k": ["0.6", "1pt", ""]})["min_score"] == {"gsm8k": 0.6}
    shown = scored.texts(fitted, Scenario(**MODEL, **found))
    assert shown == {"gsm8k": ["60.0%", "", ""], "mmlu": ["", "1.5pt", "61.6%"]}
    assert scored.read(fitted, shown) == found
    for text in ("abc", "160%", "-1"):
        with pytest.raises(UsageError, match=f"gsm8k, at least: '{text}' cannot be used. Expected a score from 0"):
            scored.read(fitted, {"gsm8k": [text, "", ""]})
    with pytest.raises(UsageError, match=r"gsm8k, may fall by: 'much' cannot be used\. Expected points"):
        scored.read(fitted, {"gsm8k": ["", "much", ""]})
    for nonsense in (None, [], {"gsm8k": "60%"}, {"gsm8k": ["60%"]}, {"gsm8k": [None, 3, []]}):
        assert scored.read(fitted, nonsense) == {"min_score": {}, "max_drop": {}, "base_score": {}}


def test_scores_that_cannot_be_fitted_leave_the_losses_their_answer(runs):
    few = cl.read_runs(runs.frame[runs.frame["eval"].isin(["target", "source"]) | (runs.frame["run"] == "base-1e+08")])
    session = Session()
    jobs.fit_both(session, Shelf(), Loaded(few, laws={"target": "ptpp-blind", "source": "ptpp-blind"}), silent)
    assert session.fitted.scores == {}
    found = move(session.fitted, Scenario(**MODEL, tokens=3e9), draws=False)
    assert any(note.code == "scores-not-fitted" for note in found.notes)


def test_without_a_source_limits_in_points_have_their_certainty(fitted):
    alone = Fitted.build(fitted.target, None, {"gsm8k": fitted.scores["gsm8k"]})
    scenario = Scenario(**MODEL, tokens=3e9, min_score={"gsm8k": 0.2})
    assert move(alone, scenario, doubt=True, draws=False).plan.risk == 0.8


def test_a_carrying_loss_is_asked_once(fitted):
    asked = []

    class Counting:
        def log_quantiles(self, frame, probabilities, measured=True):
            asked.append(probabilities)
            return fitted.target.log_quantiles(frame, probabilities, measured)

    loss = Remembering(Counting())
    row = row_of(LIMITED, move(fitted, LIMITED, draws=False).plan)
    first, second = (loss.log_quantiles(row, [0.05], measured=False) for _ in range(2))
    assert first == pytest.approx(second)
    assert len(asked) == 1
    assert loss.log_quantiles(row, [0.5]) > first


def test_the_report_has_the_scores_and_their_limits(session):
    scenario = Scenario(**MODEL, max_target_loss=2.3, min_score={"gsm8k": 0.15})
    page = jobs.make_page(session.loaded, scenario, silent).decode()
    assert "gsm8k" in page
    assert "at least 15%" in page
    assert f"{COVERAGE:.0%}" in page
