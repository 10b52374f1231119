"""One base model and six runs of it: four shares of replay, two peak rates, both losses, the base model's own.

No public table has all of these; the runs are our own measured ones, of docs-to-code.
"""

from types import SimpleNamespace

import pytest

import cptlaw as cl
from cptlaw.answering.question import Asked
from cptlaw.answering.with_runs import with_known_doubt

nightly = pytest.mark.nightly  # rates of plans: tests/planning/test_rates.py
MODEL = {"n_params": 124_672, "ptpp": 279}
TOKENS = 1_994_752


@pytest.fixture(scope="module")
def runs():
    whole = cl.examples.load("docs-to-code").where("n_params == 124672 and ptpp == 279")
    found = whole.where("tokens == 0 or lr_schedule == 'constant' and replay in (0.05, 0.1, 0.25, 0.5)")
    adapted = found.frame[found.frame["tokens"] > 0]
    assert (adapted["run"].nunique(), adapted["lr_peak"].nunique(), adapted["replay"].nunique()) == (6, 2, 4)
    return found


@pytest.fixture(scope="module")
def ends(runs):
    """Losses at the end of each run, by eval, peak rate and replay."""
    last = runs.frame[runs.frame["tokens"] == TOKENS]
    return last.set_index(["eval", "lr_peak", "replay"])["loss"].sort_index()


@nightly
def test_six_runs_plan_replay_and_rate_under_a_limit(runs, ends):
    found = cl.answer(runs, **MODEL, tokens=TOKENS, max_forgetting="20%")
    assert found.feasible
    base = float(runs.frame.query("tokens == 0 and eval == 'source'")["loss"].mean())
    assert found.base_source_loss == pytest.approx(base)
    # At the higher rate no share of replay but a half keeps the limit, at the lower one a tenth does and learns more.
    assert found.lr_peak == 0.0015
    assert 0.05 <= found.replay <= 0.25
    assert found.probabilities["max-forgetting"] >= 0.79
    measured = [ends["source", 0.0015, replay] / base - 1 for replay in (0.25, 0.1)]
    assert found.forgetting_lo < measured[1]
    assert found.forgetting_hi > measured[0]
    # Its own runs say more of this base model than its own loss does.
    assert "base-error-carried" not in {finding.code for finding in found.findings}


@nightly
def test_the_sixth_run_lies_within_what_five_say(runs, ends):
    replay = 0.25
    five = runs.where(f"tokens == 0 or not (lr_peak == 0.0015 and replay == {replay})")
    point = {**MODEL, "tokens": TOKENS, "replay": replay, "lr_peak": 0.0015}
    for role in ("source", "target"):
        said = cl.fit(five, on=role).forecast(point, interval=0.9).iloc[0]
        assert said["lo"] < ends[role, 0.0015, replay] < said["hi"]
        assert said["hi"] / said["lo"] < 1.3


@nightly
def test_a_limit_that_six_runs_cannot_keep_is_an_answer(runs):
    found = cl.answer(runs, **MODEL, tokens=TOKENS, max_forgetting="2%")
    assert not found.feasible
    assert 0.02 < found.best_reachable["limit"] < 0.25
    assert found.best_reachable["forgetting"] < found.best_reachable["limit"]


def test_few_runs_are_asked_for_no_probability():
    """Nobody asked for one, and two runs cannot say how runs differ: the forecasts themselves keep the limits."""
    asked = Asked.read({**MODEL, "tokens": TOKENS, "max_forgetting": "30%"})
    two, many = (SimpleNamespace(n_runs=count, uses_studies=False) for count in (2, 6))
    plain, said = with_known_doubt(asked, (many, two))
    assert plain.risk is None
    assert [finding.code for finding in said] == ["few-runs"]
    assert with_known_doubt(asked, (many, many)) == (asked, [])
