"""Merge weight and adapter rank as choices of a plan, from tables in which they vary: studies/measured."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.folds import split
from cptlaw.fitting.solving.blocks import trainings

MEASURED = Path(cl.__file__).parents[1] / "studies" / "measured"
LAW = "shared-tokens:without=sizes+ptpp"


def merges():
    """Return merges of runs from English to French at 46K, three replays; each weight is a run of its own."""
    frame = pd.read_csv(MEASURED / "merging.csv")
    frame = frame[(frame["domain"] == "french") & (frame["ptpp"] == 124) & (frame["lr_schedule"] == "constant")]
    frame = frame[
        (frame["seed"] == 0) & (frame["tokens"] > 100_000) & frame["merge_weight"].isin([0, 0.25, 0.5, 0.7, 1])
    ]
    frame = frame.assign(run=frame["run"] + "-w" + frame["merge_weight"].astype(str))
    frame.loc[frame["merge_weight"] == 0, "tokens"] = 0
    return frame.drop_duplicates(["run", "eval", "tokens"]).drop(columns=["lr_peak", "ptpp"])


def adapters():
    """Return adapters of four ranks and the training of all weights, from one base model at 46K."""
    ranks = pd.read_csv(MEASURED / "adapters.csv")
    ranks = ranks[(ranks["domain"] == "french") & (ranks["n_params"] == 45_936) & (ranks["lr_peak"] == 0.01)]
    return pd.concat([ranks[ranks["ptpp"] == 124], merges().query("merge_weight in (0, 1) and replay == 0")])[
        ["run", "eval", "loss", "n_params", "tokens", "replay", "lora_rank"]
    ]


def fitted(frame, role):
    """Fit one loss by few starts: what is asserted does not hang on the last digit."""
    return cl.fit(LAW, cl.read_runs(frame, n_params_kind="total"), on=role, starts=1)


@pytest.fixture(scope="module")
def fits():
    return [fitted(merges().query("merge_weight != 0.7 or replay > 0"), role) for role in ("target", "source")]


def test_merges_of_another_run_are_forecast(fits):
    asked = merges().query("merge_weight == 0.7 and replay == 0")
    for fit in fits:
        rows = asked[asked["eval"] == fit.role]
        errors = fit.predict(rows) / rows["loss"].to_numpy() - 1
        assert np.abs(errors).max() < 0.025
        # Without the law of merges they are runs of their own, at the adapted end.
        adapted = fit.predict(rows.drop(columns="merge_weight")) / rows["loss"].to_numpy() - 1
        assert np.abs(adapted).max() > 0.05


def test_a_plan_chooses_the_weight_among_the_measured_ones(fits):
    asked = {"n_params": 45_936, "tokens": 735_232, "max_forgetting": "20%"}
    plan = cl.plan.trade_off(*fits, **asked, max_replay="5%")
    alone = cl.plan.trade_off(*fits, **asked, max_replay="5%", merge_weight=0.25)
    assert (plan.feasible, plan.merge_weight) == (True, 0.7)
    assert plan.target_loss < alone.target_loss
    assert dict(plan.lines)["weights"] == "merged back at 0.7"
    # Where there is replay to choose from, it is the better means at this size (docs/how_to/merge_or_replay.md).
    free = cl.plan.trade_off(*fits, **asked)
    assert free.merge_weight == 1
    assert free.target_loss < plan.target_loss
    assert dict(free.lines)["weights"] == "not merged"
    assert cl.plan.trade_off(*fits, **asked, merge_weight=1).target_loss == free.target_loss
    front = cl.plan.pareto(*fits, n_params=45_936, budget=6 * 45_936 * 735_232, points=3)
    assert dict(front.lines)["weights"] == "not merged"


def test_a_plan_chooses_the_rank_among_the_measured_ones():
    fits = [fitted(adapters(), role) for role in ("target", "source")]
    plans = [
        cl.plan.trade_off(*fits, n_params=45_936, tokens=735_232, max_forgetting=most) for most in ("35%", "45%", "60%")
    ]
    ranks = [plan.lora_rank for plan in plans]
    assert ranks[0] < ranks[1] < ranks[2] == 1e6
    assert [dict(plan.lines)["weights"] for plan in plans][1:] == [f"adapters of rank {ranks[1]:g}", "all trained"]


def test_merges_of_one_run_count_as_one_run():
    """Doubt, folds and comparisons take a run and its merges together: what its training did by chance is in all."""
    runs = cl.read_runs(merges(), n_params_kind="total")
    fit = cl.fit(LAW, runs, on="source", starts=1)
    trained = set(merges()["run"].str.replace(r"-w[\d.]+$", "", regex=True))
    assert (fit.n_runs, fit.n_blocks, len(trained)) == (15, 3, 3)
    folds, _ = split(runs.on("source").frame, "leave-one-out:run")
    for fold in folds:
        names = runs.on("source").frame["run"].astype(str).str.replace(r"-w[\d.]+$", "", regex=True)
        assert not set(names[fold.fit]) & set(names[fold.test])
    assert len(folds) == 3
    # A run that only looks like a merge is one of its own.
    other = merges().assign(merge_weight=0.9)
    assert len(set(trainings(other))) == 15
