"""Schedules from what a table says of its runs, without a schedules file."""

import numpy as np
import pandas as pd
import pytest
from facts import lacks

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.fitting.auto.rows import choose_rows
from cptlaw.laws import law
from cptlaw.laws.curve_rows import curve_rows
from cptlaw.schedules import Phase, Schedule

JOINT = law("cpt-dynamics-joint")
GIVEN = {
    name: Schedule(
        [
            Phase("pretrain", 3000, "wsd", peak=6e-3, decay=600, warmup=100),
            Phase("cpt", 500, shape, peak=3e-3, warmup=50, tokens_per_step=2048, **more),
        ]
    )
    for name, shape, more in (("a", "cosine", {"end": 3e-4}), ("b", "wsd", {"decay": 100}))
}


def table():
    """Two runs from one base model, as a sweep that logs no rates writes them."""
    base = {"run": "base", "tokens": 0.0, "lr_schedule": "wsd", "lr_peak": 6e-3, "warmup": 100, "step": 0}
    rows = [
        {"run": run, "tokens": 2048.0 * step, "step": step, "lr_schedule": shape, "lr_peak": 3e-3, "lr_end": end}
        | {"warmup": 50, "replay": 0.25}
        for run, shape, end in (("a", "cosine", 3e-4), ("b", "wsd", 0.0))
        for step in (100, 300, 500)
    ]
    same = {"eval": "target", "n_params": 2048e3, "ptpp": 3.0, "loss": 2.0}
    return pd.DataFrame([base, *rows]).assign(**same)


def test_columns_give_what_a_schedules_file_gives():
    """Nobody writes schedules by hand whose shape, peak and tokens stand in the table."""
    told, schedules, findings = curve_rows(JOINT, table(), None, "runs")
    given, _, _ = curve_rows(JOINT, table(), GIVEN, "runs")
    assert [schedules[run].n_pretrain for run in "ab"] == [3000, 3000]
    assert np.array_equal(schedules["a"].lr[3001:], GIVEN["a"].lr[3001:])
    for name in ("s1_cpt", "s2_cpt", "s1_pretrain"):
        # The warm-up of pre-training is not told: it counts as run at its peak, as the law reads warm-ups anyway.
        assert told[name].to_numpy() == pytest.approx(given[name].to_numpy(), rel=1e-9), name
    (said,) = (one for one in findings if one.code == "schedule-from-columns")
    assert lacks(said.message, "2 runs", "batches", "20%") == []


def test_steps_follow_from_tokens_and_batch():
    found, schedules, _ = curve_rows(JOINT, table().drop(columns="step").assign(batch_tokens=2048.0), None, "runs")
    assert found["step"].tolist() == [100, 300, 500] * 2
    assert schedules["b"].n_cpt == 500


def test_what_columns_do_not_tell_is_asked_for():
    with pytest.raises(DataError, match="no learning-rate schedule"):
        curve_rows(JOINT, table().assign(lr_schedule="by hand"), None, "runs")


def test_a_point_without_a_run_is_trained_like_the_nearest_one():
    """At the end of a fitted run it is that run; and a longer one goes on under the same shape."""
    rows = "n_params < 40K and replay == 0.25 and ptpp in (31, 62) and seed == 0 and tokens > 0"
    fit = cl.fit("cpt-dynamics", cl.examples.load("docs-to-code"), "target", rows, starts=1, restraint="none")
    end = fit.data.loc[fit.data["tokens"].idxmax()]
    inputs = {name: float(end[name]) for name in ("n_params", "ptpp", "tokens")}
    named = cl.forecast(fit, {"run": [end["run"]], "step": [end["step"]]}, interval=None)
    asked = cl.forecast(fit, inputs, interval=None)
    assert asked["loss"].iloc[0] == pytest.approx(named["loss"].iloc[0], rel=1e-12)
    assert "schedule-of-nearest" in [finding.code for finding in asked["findings"].iloc[0]]
    longer = cl.forecast(fit, inputs | {"tokens": 2 * inputs["tokens"]}, interval=None)["loss"].iloc[0]
    assert longer < asked["loss"].iloc[0]
    slower = cl.forecast(fit, inputs | {"lr_peak": 1e-3}, interval=None)["loss"].iloc[0]
    assert slower != asked["loss"].iloc[0]
    with pytest.raises(DataError, match="run and step"):
        cl.forecast(fit, inputs | {"tokens": 0.0})


def test_the_columns_of_a_point_tell_its_schedule():
    """A run that is planned with a decay is no run at constant rate, though the fitted ones were."""
    rows = "n_params < 40K and replay == 0.25 and ptpp in (31, 62) and seed == 0 and tokens > 0"
    fit = cl.fit("cpt-dynamics", cl.examples.load("docs-to-code"), "target", rows, starts=1, restraint="none")
    end = fit.data.loc[fit.data["tokens"].idxmax()]
    known = fit.schedules[end["run"]]
    inputs = {name: float(end[name]) for name in ("n_params", "ptpp", "tokens")}
    inputs["lr_peak"] = peak = float(known.lr[known.n_pretrain + 1 :].max())
    told = inputs | {"lr_schedule": "cosine", "lr_end": 0.0, "warmup": 20, "batch_tokens": end["tokens"] / end["step"]}
    asked = cl.forecast(fit, told, interval=None)
    (said,) = (one for one in asked["findings"].iloc[0] if one.code.startswith("schedule-"))
    assert said.code == "schedule-from-columns"
    assert "assumed: nothing" in said.message
    planned = Schedule([*known.phases[:-1], Phase("cpt", int(end["step"]), "cosine", peak=peak, warmup=20, end=0.0)])
    named = cl.forecast(fit, {"run": ["x"], "step": [end["step"]]}, interval=None, schedules={"x": planned})
    assert asked["loss"].iloc[0] == pytest.approx(named["loss"].iloc[0], rel=1e-9)
    assert asked["loss"].iloc[0] < cl.forecast(fit, inputs, interval=None)["loss"].iloc[0]
    short = cl.forecast(fit, inputs | {"lr_schedule": "linear"}, interval=None)["findings"].iloc[0]
    assert "no warm-up, a last rate of 0" in next(one.message for one in short if one.code == "schedule-from-columns")


@pytest.mark.dear("laws with and without schedules are fitted")
def test_law_auto_reads_schedules_from_columns_where_that_is_asked():
    runs = cl.examples.load("en-fr-pilot").where("n_params < 50K and replay in (0.1, 0.5) and ptpp in (15, 31)")
    fit = cl.fit("auto", runs, "target", schedules="columns")
    plain = choose_rows(runs, "target", None).frame
    assert fit.data["run"].nunique() > plain.loc[plain["tokens"] > 0, "run"].nunique()
    assert any(member.fit.law.needs_schedules for member in fit.members)
    point = {"n_params": 45936, "ptpp": 31, "tokens": 4e5, "replay": 0.1, "lr_peak": 3e-3}
    decayed, constant = (
        cl.forecast(fit, point | {"lr_schedule": shape}, interval=None).iloc[0] for shape in ("wsd", "constant")
    )
    assert decayed["loss"] < constant["loss"]
    for one in (decayed, constant):
        codes = {finding.code for finding in one["findings"]}
        assert "schedule-from-columns" in codes
        assert "laws-left-out" not in codes


def test_a_phase_is_stretched():
    found = Phase("cpt", 500, "wsd", peak=3e-3, warmup=50, decay=100).stretched(0.4)
    assert (found.steps, found.warmup, found.decay) == (200, 50, 40)
    logged = Schedule.from_lr([0, 10, 20], [1.0, 1.0, 0.5]).stretched(1.0, 2.0)
    assert logged.n_cpt == 40
    assert logged.lr[[20, 30, 40]].tolist() == [1.0, 0.75, 0.5]
    assert Phase("cpt", 10, "linear", peak=2e-3, end=1e-3).stretched(1.0, 0.5).rates()[[0, 10]].tolist() == [1e-3, 5e-4]
