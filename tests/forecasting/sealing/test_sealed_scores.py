"""Sealed forecasts of scores: found by their inputs, scored in points, and zero is a score."""

import json

import pytest
from facts import refused
from scored_runs import runs_with_two_scores

import cptlaw as cl


@pytest.fixture(scope="module")
def runs():
    return runs_with_two_scores()


@pytest.fixture(scope="module")
def fit(runs):
    return cl.fit("score-sigmoid:through=target", runs, on="gsm8k", where="n_params < 5e8")


def test_a_forecast_of_a_score_is_sealed_and_scored_in_points(runs, fit, tmp_path, call):
    runs.frame.to_csv(tmp_path / "runs.csv", index=False)
    fit.save(tmp_path / "gsm8k.json")
    at = "n_params=1B,tokens=5B,replay=25%,ptpp=100"
    code, out, _ = call("forecast", str(tmp_path / "gsm8k.json"), "--at", at, "--json")
    assert code == 0
    (tmp_path / "forecast.json").write_text(out)
    code, out, _ = call("register", str(tmp_path / "forecast.json"), "-o", str(tmp_path / "sealed.json"))
    assert code == 0
    assert "1 forecast score on gsm8k" in out
    code, out, _ = call("score", str(tmp_path / "sealed.json"), "--runs", str(tmp_path / "runs.csv"), "--json")
    assert code == 0
    row = json.loads(out)["rows"][0]
    measured = runs.frame.query("eval == 'gsm8k' and n_params == 1e9 and tokens == 5e9 and replay == 0.25")[
        "loss"
    ].iloc[0]
    assert row["run"] == "1e+09-0.25"
    assert row["measured"] == pytest.approx(measured)
    assert row["error"] == pytest.approx(row["loss"] - measured)
    assert row["inside"] == (row["lo"] <= measured <= row["hi"])


def test_zero_is_a_score_and_no_loss(tmp_path):
    known = {"on": "gsm8k", "law": "score-auto", "n_params": 1e9, "tokens": 2e8, "replay": 0.05}
    zero = {**known, "loss": 0.0, "lo": 0.0, "hi": 0.01, "metric": "accuracy", "score": 0.0}
    seal = cl.register({"points": [zero], "interval": 0.9}, tmp_path / "zero.json")
    assert cl.load_seal(tmp_path / "zero.json") == seal
    with refused(cl.DataError, "1.2", "0 to 1"):
        cl.register({"points": [{**zero, "loss": 1.2}], "interval": 0.9}, tmp_path / "above.json")
    with refused(cl.DataError, "0.0", "nats"):
        cl.register({"points": [{**known, "loss": 0.0}], "interval": 0.9}, tmp_path / "loss.json")


def test_a_score_is_nothing_that_a_plan_minimises(fit, runs):
    with refused(cl.UsageError, "'gsm8k'", "--score"):
        cl.plan.trade_off(fit, fit, n_params=1e9, ptpp=100, tokens=3e9, min_score="gsm8k=20%")
    with refused(cl.UsageError, "'gsm8k'", "scores="):
        cl.plan.mix(fit, tokens=3e9)
