"""Studies of the measured runs: their small versions run, and what they compute follows from the rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from studies.harness import spread


@pytest.mark.nightly
def test_table_four_holds_out_every_pair_of_ratios(named_study):
    script = named_study("dcpt_real_runs")
    runs = cl.examples.load("domains").where('domain == "french" and n_params < 31000')
    cell = runs.frame[(runs.frame["tokens"] > 0) & (runs.frame["eval"] == "target")]
    pairs = {tuple(sorted(cell.loc[scored, "replay"].unique())) for _, scored in script.splits(cell, "ratios")}
    assert len(pairs) == 36
    held_out = script.scores(runs, ("dcpt-l3",), 1, "ratios").loc["dcpt-l3"]
    inside = script.scores(runs, ("dcpt-l3",), 1, "all").loc["dcpt-l3"]
    assert held_out["rmse D"] > 2 * inside["rmse D"]  # nothing bounds L3 at a corpus of which no run saw anything
    assert held_out["rmse G"] < 2 * inside["rmse G"]


def test_the_best_measured_mix_is_found(named_study):
    script = named_study("plan_backtest")
    replay, tokens = np.array([0.1, 0.5]), np.array([1e5, 4e5])
    target = np.array([[2.0, 1.6], [2.4, 2.0]])  # more replay costs the target ..
    source = np.array([[2.2, 2.2], [2.0, 2.0]])  # .. and keeps the source
    measured = script.Measured(replay, tokens, {"target": target, "source": source}, 1.9)
    assert measured.at("target", 0.3, 2e5) == pytest.approx(2.0)
    assert measured.best(4e5, 2.1) == pytest.approx(measured.at("target", 0.3, 4e5), rel=0.01)
    assert np.isnan(measured.best(4e5, 1.9))
    given = script.outcome(measured, 2.1, 4e5, 0.4)
    assert given["limit held"]
    assert given["tokens"] > 1.05  # replay 0.3 had been allowed: fewer tokens would have done
    broken = script.outcome(measured, 2.1, 4e5, 0.2)
    assert not broken["limit held"]
    assert broken["above limit"] > 0


def test_totals_count_what_was_held(named_study):
    script = named_study("plan_backtest")
    rows = pd.DataFrame(
        {
            "planner": ["a"] * 3,
            "feasible": [True, True, False],
            "limit held": [True, False, None],
            "above limit": [-0.01, 0.02, None],
            "target above best": [0.0, -0.01, None],
            "tokens": [1.5, None, None],
        }
    )
    total = script.totals(rows).iloc[0]
    assert (total["questions"], total["plans"], total["limit held"]) == (3, 2, 0.5)
    assert (total["worst miss"], total["tokens, median"]) == (0.02, 1.5)


def test_usages_were_planned_from_the_rows_and_trained(named_study):
    """The plans in `studies/measured` are those that the rows give, and each has been trained."""
    script = named_study("dcpt_usages")
    runs = cl.examples.load("domains")
    plans = pd.read_csv(script.PLANS / "usages.csv")
    again = script.planned(runs)
    assert again["replay"].to_numpy() == pytest.approx(plans["replay"].to_numpy(), abs=0.005)
    rows = script.scored(plans, pd.read_csv(script.PLANS / "domains.csv"), runs)
    assert rows["domain loss"].notna().all()
    first = rows[rows["usage"] == 1]
    assert first["planned forgetting"].to_numpy() == pytest.approx(script.LIMIT, abs=0.001)
    # Between measured ratios losses lie between theirs: trained mixes are within 2 % of straight lines.
    assert rows["loss above best"].abs().max() < 0.02


def test_some_english_pays_for_python_on_a_second_seed_too(named_study, monkeypatch):
    script = named_study("dcpt_usages")
    named = {30352.0: 0.302, 45936.0: 0.192, 75072.0: 0.05, 124672.0: 0.0}  # trained for themselves
    monkeypatch.setattr(script, "named_by_the_first_seed", lambda target: named)
    again = pd.read_csv(script.PLANS / "domains_again.csv").assign(domain="python")
    found = script.two_seeds(cl.examples.load("domains").frame, again).set_index(["seed", "parameters"]).astype(float)
    assert (found.loc["0", "best ratio"] > 0).all()
    assert (found.loc["1", "best ratio"][["30K", "46K"]] > 0).all()
    assert (found.loc["1", "named below none, %"][["30K", "46K"]] > 0.1).all()
    assert (found.loc["1", "named above the best, %"][["30K", "46K"]] < 0.3).all()


def test_the_general_loss_rises_without_re_warm_up_too(named_study):
    script = named_study("dcpt_domains")
    found = script.stable(pd.read_csv(script.MEASURED / "domains_stable.csv"))
    shares = found.drop(columns=["domain", "parameters"]).astype(float)
    assert sorted(found["domain"].unique()) == ["french", "german", "python"]
    assert (shares.drop(columns="share 1.00") < 0).all(axis=None)
    assert (shares["share 1.00"] > 0).all()


def test_the_cost_of_cells_counts_a_trunk_once(named_study):
    script = named_study("measured_anchors")
    cells = pd.DataFrame({"n_params": [1e4, 1e4, 2e4], "ptpp": [31.0, 279.0, 31.0], "tokens": [1e5, 1e5, 2e5]})
    paid = {(2e4, 31.0)}
    runs = 6 * (1e4 * 1e5 + 1e4 * 1e5 + 2e4 * 2e5)
    assert script.cost(cells, paid) == pytest.approx(6 * 1e4**2 * 279 + runs)
    assert script.cost(cells, paid | {(1e4, 31.0), (1e4, 279.0)}) == pytest.approx(runs)


def test_the_ends_of_curves_are_ordered_as_the_statements_say(named_study):
    script = named_study("dynamics_measured")
    frame, schedules = script.load()
    assert set(frame["run"]) <= set(schedules)
    ends = script.ends(frame)
    said = script.statements(ends)
    assert said["fig. 12: more replay, lower source loss"] == "9 of 9 pairs"
    falls = ends.assign(target=-ends["target"])  # turned round, what held is broken
    assert script.statements(falls)["fig. 12: more replay, higher target loss"] == "0 of 9 pairs"


def test_the_inflection_lies_where_the_loss_is_flat(named_study):
    script = named_study("dcpt_real_details")
    rows = [
        ("code", 1e4, "source", share, tokens, 2.0 * tokens ** (0.02 * (0.3 - share)))
        for share in (0.0, 0.2, 0.4, 1.0)
        for tokens in np.geomspace(2e4, 16e4, 7)
    ]
    frame = pd.DataFrame(rows, columns=["domain", "n_params", "eval", "replay", "tokens", "loss"])
    found = script.inflection(frame).iloc[0]
    assert found["inflection"] == pytest.approx(0.3)
    assert found["rise at 0"] > 0 > found["rise at 1"]


def test_a_turning_length_is_where_a_loss_is_back(named_study):
    turning = named_study("dynamics_details").turning
    steps = np.arange(1.0, 9.0)
    assert turning(steps, 2.0 - 0.1 * steps, 2.0) == 0.0
    assert turning(steps, 2.0 + 0.1 * steps, 2.0) == np.inf
    assert turning(steps, 2.0 + 0.1 * (4.5 - steps), 2.0) == pytest.approx(4.5)
    assert turning(steps, np.array([1.9, 2.1, 2.3, 2.2, 2.1, 1.9, 1.8, 1.7]), 2.0) == pytest.approx(5.5)


def test_runs_in_rows_of_another_length_have_first_losses_of_their_own(named_study):
    def job(name, context, **rest):
        return SimpleNamespace(id=name, name=name, definition={"context": context}, columns={}, **rest)

    runs = [job(name, context, kind="adapt", needs=("base-m",)) for name, context in (("alike", 128), ("short", 64))]
    jobs = [job("base-m", 128, kind="base", needs=()), *runs]
    measured = [{"eval": "source", "step": 0, "loss": 2.5}, {"eval": "source", "step": 9, "loss": 3.0}]
    store = SimpleNamespace(get_result=lambda name: measured)
    rows = [("base-m:french", 0, 0, 2.4), ("alike", 9, 9216, 3.1), ("short", 9, 9216, 3.0)]
    table = pd.DataFrame(rows, columns=["run", "step", "tokens", "loss"]).assign(eval="source")
    found = named_study("collect_runs").with_rows(table, SimpleNamespace(jobs=jobs, runs=jobs), store)
    assert found["context"].tolist() == [128, 128, 64, 64]
    assert found.iloc[3][["run", "step", "tokens", "loss"]].tolist() == ["short", 0, 0, 2.5]


def test_a_mean_over_seeds_has_its_range():
    assert spread(pd.Series([1.0, 2.0, 1.2])) == "1.40 (1.00 to 2.00)"
    assert spread(pd.Series([1.0]), 1) == "1.0"
