"""Forecasts of unfinished runs are stacked with what is done by hand: the last value and a straight line."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.schedules import Phase, Schedule
from cptlaw_curves.forecasting.baselines import SHARES, Stack, line_and_last

PLAN = Schedule([Phase("cpt", 4000, "constant", peak=1e-3, warmup=50)])


def curve(loss, seen=0.4):
    step = np.arange(200, 4001, 200)
    frame = pd.DataFrame({"run": "a", "eval": "source", "step": step, "loss": loss(step)})
    return frame[frame["step"] <= seen * 4000], float(frame["loss"].iloc[-1])


def test_the_line_is_exact_on_a_power_law_and_the_last_value_on_a_constant():
    step = np.array([100.0, 200.0, 400.0, 800.0])
    line, last = line_and_last(step, np.log(3.0) - 0.1 * np.log(step), 3200.0)
    assert line == pytest.approx(np.log(3.0) - 0.1 * np.log(3200.0))
    assert last == pytest.approx(np.log(3.0) - 0.1 * np.log(800.0))
    assert line_and_last(step, np.full(4, 1.2), 3200.0) == pytest.approx([1.2, 1.2])


def test_who_forecasts_the_runs_own_rows_counts_most():
    misses = [np.array([0.03, 0.001, 0.02]), np.array([0.05, 0.001, 0.03])]
    shares = SHARES["other", False]
    near = Stack(shares, misses, reach=np.log(2), rows=40).weights(2.0)
    assert near[1] > 0.8
    assert near.sum() == pytest.approx(1.0)
    far = Stack(shares, misses, reach=np.log(2), rows=40).weights(16.0)
    few = Stack(shares, misses, reach=np.log(2), rows=4).weights(2.0)
    assert shares[1] < far[1] < near[1]
    assert shares[1] < few[1] < near[1]
    assert Stack(shares, misses, reach=np.log(2), rows=2).weights(2.0) == pytest.approx(shares)
    assert Stack(shares).weights(3.0) == pytest.approx(shares)
    centre, apart = Stack((0.5, 0.5, 1e-12)).pooled(1.0, np.array([2.0, 9.0]), 2.0)
    assert (centre, apart) == (pytest.approx(1.5), pytest.approx(0.5))


@pytest.mark.parametrize(
    "loss",
    [
        lambda step: 2.6 * (step / 200.0) ** -0.06,
        lambda step: np.full(len(step), 2.2),
    ],
)
def test_a_forecast_is_not_behind_the_better_of_the_two(loss):
    rows, end = curve(lambda step: loss(step) * (1 + 0.001 * np.sin(step)))
    found = cl.forecast_run(rows, {"a": PLAN}).points.iloc[0]
    baselines = line_and_last(rows["step"].to_numpy(dtype=float), np.log(rows["loss"].to_numpy()), 4000.0)
    best = np.abs(np.exp(baselines) / end - 1).min()
    assert abs(found["loss"] / end - 1) <= 1.1 * best + 0.004
    assert found["lo"] < end < found["hi"]
