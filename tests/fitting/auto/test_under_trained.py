"""Rows of models trained too briefly are left out by law auto where the others show them to be, and only there."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from counting import counted
from facts import lacks

import cptlaw as cl
from cptlaw.fitting.auto import under_trained
from cptlaw.fitting.auto.candidates import middle_of_pre_training
from cptlaw.fitting.auto.fit_auto import with_source_rows
from cptlaw.fitting.auto.rows import choose_rows
from cptlaw.fitting.auto.under_trained import without_under_trained

SIZES, LEVELS = (1e7, 8e7, 1.6e8, 4e8, 1.4e9), (5.0, 10.0, 20.0, 40.0, 80.0)
EXCESS = (0.05, 0.13, 0.06, 0.04, 0.03)  # log loss at the fewest tokens, by size: uneven, as measured ones are


def ladder(excess=(0.0,) * 5, seed=0, noise=0.005):
    rng = np.random.default_rng(seed)
    rows = []
    for size, more in zip(SIZES, excess, strict=True):
        for level in LEVELS:
            loss = 1.7 + 400 * size**-0.33 + 900 * (level * size) ** -0.33
            loss *= np.exp(noise * rng.standard_normal() + (more if level == LEVELS[0] else 0.0))
            rows.append({"run": f"r{len(rows)}", "n_params": size, "tokens": level * size, "eval": "c4", "loss": loss})
    return pd.DataFrame(rows)


def kept(frame):
    rows = choose_rows(cl.read_runs(frame), "c4", None)
    return without_under_trained(rows, "other")


def test_rows_of_the_fewest_tokens_per_parameter_far_above_the_rest_are_left_out_and_named():
    found = kept(ladder(EXCESS))
    ratio = found.frame["tokens"] / found.frame["n_params"]
    assert len(found.frame) == 20
    assert ratio.min() == pytest.approx(10)
    (finding,) = found.findings
    assert finding.code == "under-trained"
    assert lacks(finding.message, "5 rows", "10") == []


@pytest.mark.parametrize("seed", range(6))
def test_a_ladder_that_a_law_describes_keeps_all_its_rows(seed):
    found = kept(ladder(seed=seed))
    assert len(found.frame) == 25
    assert not found.findings


def test_the_rows_are_looked_at_once_whatever_law_is_fitted_to_them(monkeypatch):
    frame = ladder()
    monkeypatch.forget_fits()
    with counted() as first:
        cl.fit("chinchilla", frame, on="c4")
    with counted() as second:
        cl.fit("kaplan", frame, on="c4")
    assert (first["fits"], second["fits"]) == (2, 1)


def test_what_some_steps_promise_is_near_what_a_fit_comes_to():
    """It spares fits and decides nothing, where rows lie off and where they do not."""
    for excess in (EXCESS, (0.0,) * 5):
        rows = choose_rows(cl.read_runs(ladder(excess)), "c4", None)
        middle, everything = middle_of_pre_training(), np.ones(25, dtype=bool)
        left = (rows.frame["tokens"] / rows.frame["n_params"]).to_numpy() > 7.0
        spread, _, fit = under_trained._spread(rows, rows.frame, everything, middle)
        without, _, _ = under_trained._spread(rows, rows.frame, left, middle, fit)
        promised = under_trained._promised(fit, rows.frame, left)
        assert promised == pytest.approx(without, rel=0.15)
        assert (promised <= under_trained.PROMISED * spread) == (excess is EXCESS)


def test_rows_far_below_the_rest_are_no_sign_of_short_training():
    assert len(kept(ladder(tuple(-one for one in EXCESS))).frame) == 25


def test_never_more_than_a_third_is_left_out():
    frame = ladder(EXCESS)
    frame = frame[frame["tokens"] / frame["n_params"] <= 11]  # two levels: either is half of the rows
    assert len(kept(frame).frame) == 10


def test_tables_of_cpt_without_budgets_keep_their_rows():
    frame = ladder(EXCESS).assign(replay=0.25, eval="target")
    rows = choose_rows(cl.read_runs(frame), "target", None)
    assert without_under_trained(rows, "target") is rows


@pytest.mark.parametrize(("study", "left"), [("docs-to-code", True), ("en-fr-pilot", False)])
def test_base_models_that_have_only_begun_are_left_out_where_the_others_show_them(study, left):
    runs = cl.examples.load(study)
    rows = choose_rows(runs, "source", "ptpp in (15, 31)")
    found = without_under_trained(rows, "source")
    gone = rows.frame.drop(found.frame.index)
    assert {(row.n_params, row.ptpp) for row in gone.itertuples()} == ({(30352.0, 15.0)} if left else set())
    assert found.pretraining == pytest.approx(45936 * 15 if left else 0.0)
    told = [one.message for one in found.findings if one.code == "under-trained"]
    assert len(told) == left
    assert all("689K tokens" in one for one in told)
    # The target loss takes over what the source rows of the same base models say.
    of_target = without_under_trained(choose_rows(runs, "target", "ptpp in (15, 31)"), "target")
    paired = with_source_rows(runs, of_target, "ptpp in (15, 31)").frame
    assert paired["n_params"].mul(paired["ptpp"]).min() == pytest.approx(45936 * 15)


def test_base_models_that_are_left_out_still_say_what_their_own_runs_come_to(tmp_path):
    runs = cl.examples.load("en-fr-pilot")
    fit = cl.fit("auto", runs, "target", "replay <= 0.25 or tokens == 0")
    assert {(one.n_params, one.ptpp) for one in fit.undertrained} == {(45936.0, 15.0), (75072.0, 15.0)}
    asked = (
        runs.on("target").where("replay == 0.5 and lr_schedule == 'constant' and lr_peak == 0.003 and atpp > 2").frame
    )
    own = ((asked["ptpp"] == 15) & (asked["n_params"] < 100e3)).to_numpy()
    assert own.any()
    found, without = (one.predict(asked) for one in (fit, replace(fit, undertrained=(), _cache={})))
    error, plain = (float(np.mean(np.abs(one / asked["loss"] - 1)[own])) for one in (found, without))
    assert error < 0.5 * plain
    assert without[~own] == pytest.approx(found[~own])
    assert cl.load_fit(fit.save(tmp_path / "fit.json")).predict(asked) == pytest.approx(found)


def test_law_auto_forecasts_better_without_them_and_says_so():
    told, clean = ladder(EXCESS, seed=3), ladder(seed=3)
    few = told[told["tokens"] / told["n_params"] < 50]
    asked = clean[clean["tokens"] / clean["n_params"] > 50]
    fit = cl.fit("auto", few, on="c4")
    assert [one.code for one in fit.findings].count("under-trained") == 1
    assert fit.n_points == 15
    assert np.mean(np.abs(fit.predict(asked) / asked["loss"] - 1)) < 0.015
