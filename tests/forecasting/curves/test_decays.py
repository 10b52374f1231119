"""Decays of the rate: the end is known before it is there, and a loss that rises meanwhile is named."""

import json

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import UsageError
from cptlaw.fitting.learned import leaving_out
from cptlaw.schedules import Phase, Schedule
from cptlaw_curves.forecasting.decay import Decay, gain_prior
from studies.forecasts.decays import back_test, decays

STEPS, BEGINS = 10_000, 8_000
PLAN = Schedule([Phase("pretrain", STEPS, "wsd", peak=1e-3, warmup=300, decay=STEPS - BEGINS)])


def log(gain=0.04, until=STEPS, noise=2e-4):
    """Return a run from scratch whose loss falls with the logarithm of steps, and with its rate."""
    step = np.arange(500, until + 1, 100)
    fallen = 1 - PLAN.lr[step] / PLAN.lr.max()
    rng = np.random.default_rng(0)
    loss = 3.2 * np.exp(-0.04 * np.log(step / 1000) - gain * fallen + noise * rng.normal(size=len(step)))
    return pd.DataFrame({"run": "a", "eval": "other", "step": step, "loss": loss})


def test_the_end_of_a_decay_is_known_from_its_first_third():
    truth = float(log()["loss"].iloc[-1])
    for share, error in ((0.0, 0.012), (1 / 3, 0.006), (2 / 3, 0.003)):
        seen = log(until=BEGINS + int(share * (STEPS - BEGINS)))
        point = cl.forecast_run(seen, {"a": PLAN}).points.iloc[0]
        assert point["law"] == "decay"
        assert point["loss"] == pytest.approx(truth, rel=error)
        assert point["lo"] < truth < point["hi"]


def test_other_endings_are_left_to_the_laws():
    cosine = Schedule([Phase("pretrain", STEPS, "cosine", peak=1e-3, warmup=300)])
    drop = Schedule([Phase("pretrain", STEPS, "two-stage", peak=1e-3, warmup=300, decay=2000, end=1e-4)])
    constant = Schedule([Phase("pretrain", STEPS, "constant", peak=1e-3, warmup=300)])
    assert [Decay.of_plan(plan, 0) for plan in (cosine, drop, constant)] == [None] * 3
    found = Decay.of_plan(PLAN, 0)
    assert found.begins == pytest.approx(BEGINS, abs=0.02 * (STEPS - BEGINS))
    assert (found.fallen[0], round(float(found.fallen[-1]), 1)) == (0.0, 0.9)
    early = cl.forecast_run(log(until=3000), {"a": PLAN}).points.iloc[0]
    assert early["law"] == "lr-annealing"
    named = cl.forecast_run(log(until=BEGINS), {"a": PLAN}, law_name="lr-annealing").points.iloc[0]
    assert named["law"] == "lr-annealing"


def test_a_loss_that_rises_while_the_rate_falls_is_named():
    seen = log(gain=-0.05, until=9500)
    found = cl.forecast_run(seen, {"a": PLAN})
    assert [one.code for one in found.findings] == ["rising-in-decay"]
    assert found.findings[0].data["rise"] == pytest.approx(0.03, abs=0.01)
    assert found.points["loss"].iloc[0] > float(seen["loss"].min())
    for sound in (log(until=9500), log(until=BEGINS)):
        assert "rising-in-decay" not in {one.code for one in cl.forecast_run(sound, {"a": PLAN}).findings}


def test_a_curve_of_forecasts_ends_where_the_one_forecast_is(tmp_path, capsys):
    seen = log(until=8700)
    alone = cl.forecast_run(seen, {"a": PLAN}).points.iloc[0]
    curve = cl.forecast_run(seen, {"a": PLAN}, every=300).points
    assert curve["step"].tolist() == [9000, 9300, 9600, 9900, 10_000]
    assert curve[["loss", "lo", "hi"]].iloc[-1].tolist() == pytest.approx(alone[["loss", "lo", "hi"]].tolist())
    assert (np.diff(curve["loss"]) < 0).all()
    seen.to_csv(tmp_path / "log.csv", index=False)
    plan = {"a": [{"phase": "pretrain", "steps": STEPS, "schedule": "wsd", "peak": 1e-3, "warmup": 300, "decay": 2000}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    words = ["--run", str(tmp_path / "log.csv"), "--schedules", str(tmp_path / "plan.json"), "--every", "300", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["forecast", *words])
    assert ended.value.code in (0, None)
    assert len(json.loads(capsys.readouterr().out)["points"]) == 5
    with pytest.raises(UsageError, match="--every"):
        cl.forecast_run(seen, {"a": PLAN}, every=0)


def test_a_fit_gives_the_curve_of_a_schedule():
    fit = cl.fit("lr-annealing", log(), on="other", schedules={"a": PLAN}, starts=4)
    longer = Schedule([Phase("pretrain", 12_000, "wsd", peak=1e-3, warmup=300, decay=2000)])
    curve = cl.forecast(fit, "run=b", 0.9, {"b": longer}, every=5000)
    assert curve["step"].tolist() == [5000, 10_000, 12_000]
    point = cl.forecast(fit, "run=b,step=12000", 0.9, {"b": longer})
    assert curve["loss"].iloc[-1] == point["loss"].iloc[0]
    for at, message in (("run=b,step=5", "no step"), ("run=c", "has no schedule"), ("n_params=5M", "name it")):
        with pytest.raises(UsageError, match=message):
            cl.forecast(fit, at, 0.9, {"b": longer}, every=5000)


def test_a_study_that_is_left_out_says_nothing_of_the_gain():
    every, _ = gain_prior()
    with leaving_out("lr_schedules"):
        without, _ = gain_prior()
    assert 0.03 < without < every < 0.046


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["linear", "exponential"])
def test_public_decays_are_forecast_better_than_by_a_line(kind):
    cases = decays(None, kind)
    if not cases:
        pytest.skip("no curves in ../shared/data")
    for seen, most in ((0.0, 0.01), (1 / 3, 0.003), (2 / 3, 0.002)):
        found = pd.DataFrame([back_test(one, seen) for one in cases])
        for _, study in found.groupby("study"):
            assert study["ours"].mean() <= min(most, study["line"].mean())
        assert found["held"].mean() > 0.85
