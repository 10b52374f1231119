"""A score has a posterior and its parts like a loss, of the logarithm of the share."""

import numpy as np
import pandas as pd
import pytest
from scored_runs import scored_runs

import cptlaw as cl

POINTS = pd.DataFrame({"n_params": [1e9, 1e9], "tokens": [5e9, 2e10], "replay": [0.25, 0.25], "ptpp": [100.0, 100.0]})


@pytest.fixture(scope="module")
def score():
    return cl.fit(scored_runs(), on="gsm8k")


def test_its_spread_is_that_of_its_quantiles(score):
    mean, covariance = score.posterior(POINTS)
    assert np.exp(mean) == pytest.approx(score.predict(POINTS))
    low, high = score.log_quantiles(POINTS, [0.158655, 0.841345])
    assert 0.5 * (high - low) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.2)


def test_its_parts_add_up_and_a_measurement_adds_noise(score):
    parts = score.doubt(POINTS)
    assert list(parts) == ["parameters", "form", "base", "noise"]
    covariance = score.posterior(POINTS)[1]
    assert (parts**2).sum(axis=1).to_numpy() == pytest.approx(np.diag(covariance))
    assert (np.diag(score.posterior(POINTS, measured=False)[1]) < np.diag(covariance)).all()
    assert covariance[0, 1] > 0
