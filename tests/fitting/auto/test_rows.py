"""Which rows law auto is fitted on: the transient by the rates of the points, or by their place in the run."""

import numpy as np
import pandas as pd
import pytest
from facts import lacks

import cptlaw as cl
from cptlaw.fitting.auto.rows import choose_rows, without_lone_base_models

STEPS = np.array([0, 20, 40, 80, 120, 400, 1000])


def curve(run: str, steps=STEPS, warm_up: int = 50, batch: int = 1000, peak: float = 1e-3) -> pd.DataFrame:
    """A run of CPT with the rate of each point: linear warm-up, then constant."""
    steps = np.asarray(steps)
    return pd.DataFrame(
        {
            "run": np.where(steps > 0, run, f"base {run}"),
            "eval": "target",
            "loss": 3.0 - 0.1 * np.log1p(steps),
            "n_params": 1e6,
            "tokens": steps * float(batch),
            "replay": 0.1,
            "ptpp": 20.0,
            "lr": peak * np.minimum(steps / warm_up, 1.0),
        }
    )


def kept(frame: pd.DataFrame) -> dict[str, list[float]]:
    rows = choose_rows(cl.read_runs(frame), "target", None)
    return {str(run): part.tolist() for run, part in rows.frame.groupby("run", observed=True)["tokens"]}


@pytest.mark.parametrize(("warm_up", "first"), [(50, 120e3), (30, 80e3), (100, 400e3)])
def test_points_up_to_twice_the_warm_up_are_left_out(warm_up, first):
    found = kept(curve("a", warm_up=warm_up))
    assert found["a"][0] == first
    assert found["base a"] == [0.0]


def test_a_run_without_a_point_in_its_warm_up_has_that_of_the_others():
    both = pd.concat([curve("a"), curve("b", [60, 80, 120, 400])])
    assert kept(both)["b"] == [120e3, 400e3]


def test_rates_that_never_rise_leave_nothing_out():
    falling = curve("a", [100, 200, 1000, 2000]).assign(lr=[1e-3, 0.9e-3, 0.5e-3, 0.1e-3])
    assert kept(falling)["a"] == [100e3, 200e3, 1000e3, 2000e3]


def test_without_rates_it_is_the_first_tenth():
    assert kept(curve("a").drop(columns="lr"))["a"] == [120e3, 400e3, 1000e3]
    mixed = pd.concat([curve("a"), curve("b", [20, 60, 125, 1000]).assign(lr=np.nan)])
    assert kept(mixed) == {"base a": [0.0], "a": [120e3, 400e3, 1000e3], "b": [125e3, 1000e3]}


def test_it_is_said_which_rule_left_points_out():
    mixed = pd.concat([curve("a"), curve("b", [20, 60, 125, 1000]).assign(lr=np.nan)])
    said = [one.message for one in choose_rows(cl.read_runs(mixed), "target", None).findings]
    assert len(said) == 2
    assert lacks(said[0], "3 points", "warm-up") == []
    assert lacks(said[1], "2 points", "tenth") == []


def test_base_models_of_sizes_without_cpt_are_fitted_to_the_source_loss_alone():
    runs, fitted = cl.examples.load("code-to-prose"), "ptpp == 31 and (n_params < 50K or tokens == 0)"
    for role, sizes, codes in (("target", 2, ["base-rows"]), ("source", 4, [])):
        rows = choose_rows(runs, role, fitted)
        found = without_lone_base_models(rows, role)
        assert found.frame["n_params"].nunique() == sizes
        assert [one.code for one in found.findings if one.code == "base-rows"] == codes
        assert (found.frame["tokens"] == 0).any()


def test_rows_of_pretraining_are_left_out_and_said():
    runs = cl.examples.load("en-fr-pilot").where("n_params == 75072 and ptpp == 62 and lr_schedule == 'constant'")
    frame = runs.frame.assign(phase="cpt", lr_schedule="constant")
    early = frame.head(2).assign(phase="pretrain", tokens=float("nan"), replay=float("nan"), run="trunk")
    both = cl.read_runs(pd.concat([early, frame], ignore_index=True), n_params_kind="total")
    chosen = choose_rows(both, "target", None)
    assert "pretraining-rows" in {finding.code for finding in chosen.findings}
    assert len(chosen.frame) == len(choose_rows(cl.read_runs(frame, n_params_kind="total"), "target", None).frame)


def at_rates(losses, rates=(1e-4, 3e-4, 1e-3, 3e-3)):
    rows = [
        {"run": f"{rate:g}", "eval": name, "loss": loss, "lr_peak": rate, "n_params": 2e7, "tokens": 1e7, "ptpp": 200.0}
        for name, several in losses.items()
        for rate, loss in zip(rates, several, strict=True)
    ]
    return cl.read_runs(pd.DataFrame(rows))


def test_a_score_that_doubles_with_the_rate_is_no_broken_run():
    table = at_rates({"target": (1.9, 1.8, 1.8, 1.75), "acc": (0.1, 0.2, 0.3, 0.5)}).frame.astype({"eval": str})
    scored = cl.read_runs(table.assign(metric=np.where(table["eval"] == "acc", "accuracy", None), n_items=100))
    assert len(choose_rows(scored, "target", None).frame) == 4


def test_runs_that_a_high_rate_has_broken_are_left_out_of_both_losses():
    table = at_rates({"source": (3.8, 4.0, 4.9, 8.4), "target": (1.9, 1.8, 1.8, 3.5)})
    for role in ("source", "target"):
        found = choose_rows(table, role, None)
        assert found.frame["lr_peak"].max() == 1e-3
        assert [one.code for one in found.findings] == ["collapsed"]
        assert found.findings[0].data == {"runs": 1, "lr_peak": 3e-3}


def test_a_large_rise_is_no_collapse_nor_is_a_low_rate_that_learns_little():
    assert len(choose_rows(at_rates({"source": (3.8, 4.0, 4.9, 7.5)}), "source", None).frame) == 4
    assert len(choose_rows(at_rates({"target": (4.5, 3.0, 2.0, 1.8)}), "target", None).frame) == 4


def test_base_models_of_several_sizes_without_mix_or_budget_are_those_of_fine_tuning():
    rows = [
        {"run": f"{size:g}", "eval": "target", "n_params": size, "tokens": tokens, "loss": 4 - 0.1 * np.log(1 + tokens)}
        for size in (1e8, 4e8)
        for tokens in (0, 1e4, 1e5, 1e6, 1e7)
    ]
    tuned = choose_rows(cl.read_runs(pd.DataFrame(rows)), "target", None)
    assert tuned.is_tuning
    assert [one.code for one in tuned.findings] == ["fine-tuning"]
    assert not choose_rows(cl.read_runs(pd.DataFrame(rows).query("tokens > 0")), "target", None).is_tuning
    budgets = choose_rows(cl.read_runs(pd.DataFrame(rows).assign(ptpp=20.0)), "target", None)
    assert budgets.is_cpt
    assert not budgets.is_tuning
    assert {one.fit.law.name for one in cl.fit(pd.DataFrame(rows)).members} == {"transfer", "rectified"}


def without_columns(runs, *names, where="tokens > 0"):
    """Return a table as one is read that lacks some columns."""
    return cl.read_runs(runs.where(where).frame.drop(columns=list(names)).astype({"eval": str}), n_params_kind="total")


def test_cpt_is_told_by_what_its_rows_are():
    """Neither the mix nor the budget varies in many tables, and their runs are no models from scratch."""
    pilot = cl.examples.load("en-fr-pilot")
    both = choose_rows(without_columns(pilot, "replay", "ptpp"), "target", None)
    alone = pilot.where("tokens > 0 and eval == 'target' and n_params < 50K").frame
    alone = alone[alone["tokens"] < 3 * alone["n_params"]].drop(columns=["replay", "ptpp"])
    single = choose_rows(cl.read_runs(alone.astype({"eval": str}), n_params_kind="total"), "target", None)
    rates = at_rates({"target": (1.9, 1.8, 1.8, 1.75)}).frame.drop(columns="ptpp").astype({"eval": str})
    two = choose_rows(cl.read_runs(rates.assign(lr_pretrain=1e-3).head(3)), "target", None)
    for rows in (both, single, two):
        assert rows.is_cpt
        assert not rows.is_tuning
        assert "read-as-cpt" in {one.code for one in rows.findings}
    assert not choose_rows(cl.read_runs(rates.head(3)), "target", None).is_cpt
    assert "read-as-cpt" not in {one.code for one in choose_rows(pilot, "target", None).findings}


@pytest.mark.parametrize("per_param", [20.0, 4.5])
def test_ladders_stay_ladders(per_param):
    rows = pd.DataFrame({"n_params": np.repeat([1e7, 3e7, 1e8], 4), "eval": "target", "loss": 3.0, "lr_pretrain": 1e-3})
    rows = rows.assign(tokens=per_param * rows["n_params"] * np.tile([1, 2, 4, 8], 3), run=[f"{i}" for i in range(12)])
    assert not choose_rows(cl.read_runs(rows), "target", None).is_cpt
    other = rows.assign(eval="c4", tokens=rows["n_params"])
    assert not choose_rows(cl.read_runs(other), "c4", None).is_cpt
