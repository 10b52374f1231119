"""Which rows law auto is fitted on: the transient by the rates of the points, or by their place in the run."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.auto.rows import choose_rows, without_lone_base_models

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
    assert said[0].startswith("3 points within twice the warm-up")
    assert said[1].startswith("2 points in the first tenth")


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
