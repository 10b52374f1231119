"""What the laws miss of one base model is carried to its runs and, in part, to base models like it."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.shared_error import FAR, MOST, SharedError

MISSED = {30e6: 0.01, 120e6: -0.01, 1e9: 0.0}


def adapted():
    """Runs of CPT of three sizes and two budgets, and what is missed of them: as much for all runs of one size."""
    sizes, budgets, tokens = np.meshgrid(list(MISSED), [20.0, 80.0], [1e9, 2e9, 4e9], indexing="ij")
    rows = pd.DataFrame({"n_params": sizes.ravel(), "ptpp": budgets.ravel(), "tokens": tokens.ravel(), "replay": 0.1})
    return rows, rows["n_params"].map(MISSED).to_numpy()


def test_runs_of_a_base_model_take_over_what_is_missed_of_it():
    rows, missed = adapted()
    shared = SharedError.of(rows, missed)
    # Other tokens and another mix of a base model that was fitted.
    asked = rows.assign(tokens=64e9, replay=0.5)
    assert np.allclose(shared.at(asked), missed, atol=0.2 * 0.01)
    assert np.ptp(shared.at(rows[:3].assign(tokens=[1.0, 1e9, 1e12]))) == 0.0


def test_it_fades_with_the_distance():
    rows, missed = adapted()
    shared = SharedError.of(rows, missed)
    budgets = 80.0 * np.exp([0.0, 1.0, 2.0, 4.0, 8.0, 60.0])
    found = shared.at(pd.DataFrame({"n_params": 30e6, "ptpp": budgets}))
    assert np.all(np.diff(np.abs(found)) < 0)
    assert found[-1] == pytest.approx(0.0, abs=1e-9)


def test_models_from_scratch_are_told_apart_by_size_and_tokens():
    rows = pd.DataFrame({"n_params": 1e8, "tokens": [1e9, 1e11]})
    found = SharedError.of(rows, np.array([0.01, -0.01])).at(rows)
    assert found[0] > 0.005
    assert found[1] < -0.005


def test_one_row_far_off_says_no_more_than_two_spreads():
    rows = pd.DataFrame({"n_params": np.geomspace(1e7, 1e10, 8), "tokens": 1e10})
    usual = np.array([1, -1, 1, -1, 1, -1, 1, -1]) * 0.002
    off = np.where(np.arange(8) == 7, -0.3, usual)
    assert abs(SharedError.of(rows, off).at(rows[7:])[0]) < FAR * 2 * 0.002


@pytest.mark.parametrize("lacking", ["n_params", "ptpp"])
def test_points_without_a_place_are_left_as_they_are(lacking):
    rows, missed = adapted()
    shared = SharedError.of(rows, missed)
    assert np.all(shared.at(rows.drop(columns=lacking)) == 0.0)
    assert np.all(shared.at(rows.assign(**{lacking: np.nan})) == 0.0)


def test_loss_curves_have_no_base_models():
    rows = pd.DataFrame({"n_params": 1e8, "tokens": [1e9, 2e9], "s1": [1.0, 2.0]})
    assert np.all(SharedError.of(rows, np.array([0.01, 0.01])).at(rows) == 0.0)


def test_many_models_are_joined_with_their_neighbours():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"n_params": np.exp(rng.uniform(10, 25, 5000)), "tokens": np.exp(rng.uniform(20, 30, 5000))})
    assert len(SharedError.of(rows, rng.normal(0, 0.01, 5000)).pull) <= MOST


def test_a_ladder_whose_sizes_err_each_its_own_way_is_forecast_better():
    params = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37}
    sizes, ratios = np.meshgrid(np.geomspace(5e7, 8e8, 5), [5.0, 10.0, 20.0, 40.0, 80.0], indexing="ij")
    rows = pd.DataFrame({"n_params": sizes.ravel(), "tokens": (sizes * ratios).ravel()})
    offset = np.repeat([0.006, -0.006, 0.006, -0.006, 0.006], 5)
    rows["loss"] = cl.law("chinchilla").predict(params, rows, "target") * np.exp(offset)
    rows = rows.assign(run=[f"r{i}" for i in range(len(rows))], eval="target")
    ahead = rows["tokens"] > 45 * rows["n_params"]
    fit = cl.fit("auto", rows[~ahead].reset_index(drop=True), on="target")
    missed = np.log(fit.predict(rows[ahead])) - np.log(rows["loss"][ahead])
    alone = missed + SharedError.of(fit.data, fit.residuals()).at(rows[ahead])
    assert np.abs(missed).mean() < 0.7 * np.abs(alone).mean()
    # The residuals are those of the laws: what is carried to the fitted rows themselves is no success of theirs.
    assert np.abs(fit.residuals()).mean() > 0.004
    assert np.abs(np.log(fit.predict(fit.data)) - np.log(fit.data["loss"])).mean() < 0.003
