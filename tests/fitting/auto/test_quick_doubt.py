"""Intervals of law auto where rows say little: an end at both sides, and widths that few runs do not blow up."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.doubt import parameter_doubt, spread_quantile

RATES = np.array([2, 3, 3.5, 4, 5, 6, 7, 8]) * 1e-4


@pytest.fixture(scope="module")
def one_model() -> pd.DataFrame:
    """Eight peak rates of one over-trained model, whose token term the rows do not see."""
    return pd.DataFrame(
        {
            "run": [f"r{i}" for i in range(len(RATES))],
            "eval": "source",
            "loss": 3.42 + 1.1 * (RATES / 1e-3) ** 0.9,
            "n_params": 6e7,
            "tokens": 2e7,
            "replay": 0.0,
            "ptpp": 800.0,
            "lr_peak": RATES,
        }
    )


def test_an_interval_has_ends_where_rows_see_no_bent_sum(one_model):
    fit = cl.fit(one_model, on="source")
    beyond = one_model.assign(ptpp=1600.0)
    found = fit.forecast(beyond, interval=0.9)
    assert np.log(found["hi"] / found["lo"]).max() < np.log(1.5)
    for one in fit.fits:
        assert parameter_doubt(one, one.completed(beyond)).max() < 0.2


def test_two_runs_are_not_one_degree_of_freedom(one_model):
    few = cl.fit(one_model, on="source", where="lr_peak > 6.5e-4 or lr_peak < 3.2e-4").leading
    many = cl.fit(one_model, on="source").leading
    assert (few.n_blocks, many.n_blocks) == (4, 8)
    # Student's t with two degrees of freedom more than runs less one.
    assert spread_quantile(few, 0.9) == pytest.approx(2.015, abs=1e-3)
    assert spread_quantile(many, 0.9) == pytest.approx(1.833, abs=1e-3)
