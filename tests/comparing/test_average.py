"""Weights, averaged forecasts, and the split of their doubt."""

import json

import numpy as np
import pandas as pd
import pytest
from cases import design
from hypothesis import given, settings
from hypothesis import strategies as st

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.comparing.average import DOUBT, forecast_average, rollout_weights
from cptlaw.comparing.stacking import mean_and_error, stacking_weights

POINT = "n_params=8.1B,tokens=64B,replay=25%,ptpp=1000"
LAWS = ("ptpp-floor", "ptpp-gate", "ptpp-nearest")


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_weights_are_shares(seed, laws):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(12, laws)) * rng.uniform(0.001, 0.1, laws)
    found = stacking_weights(errors, np.arange(12) // 3)
    assert np.all(found >= 0)
    assert found.sum() == pytest.approx(1.0)


def test_weights_of_laws_that_err_alike_are_shared_and_a_better_one_takes_all():
    rng = np.random.default_rng(0)
    common = rng.normal(size=60)
    alike = np.column_stack([common, common * (1 + 1e-3 * rng.normal(size=60)), 20 + common])
    found = stacking_weights(0.01 * alike, np.arange(60) // 4)
    assert found[2] == pytest.approx(0.0, abs=0.01)
    assert 0.2 < found[0] < 0.8


def test_errors_that_cancel_are_averaged():
    errors = np.column_stack([np.full(20, 0.03), np.full(20, -0.01)])
    assert stacking_weights(errors, np.arange(20)) == pytest.approx([0.25, 0.75], abs=1e-3)


def test_standard_error_by_groups():
    values = np.repeat([1.0, 2.0, 3.0, 6.0], 5)
    groups = np.repeat(np.arange(4), 5)
    mean, error = mean_and_error(values, groups)
    assert mean == 3.0
    # Points of a group are one observation: the ordinary standard error of four numbers.
    assert error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert error > mean_and_error(values, np.arange(20))[1]
    assert mean_and_error(values, np.arange(20), groups)[1] == error
    assert np.isnan(mean_and_error(values, np.zeros(20))[1])


@pytest.fixture(scope="module")
def fits():
    frame = design("ptpp-floor", noise=0.003)
    return [cl.fit(name, frame, on="target", starts=16) for name in LAWS]


@pytest.fixture(scope="module")
def rows():
    return pd.DataFrame({"n_params": [8.1e9, 517e6], "tokens": [64e9, 4e9], "replay": 0.25, "ptpp": [1000.0, 279.0]})


def test_all_weight_on_one_law_gives_its_own_forecast(fits, rows):
    own = fits[0].forecast(rows, 0.9)
    found = forecast_average(fits[:2], rows, 0.9, {"ptpp-floor": 1})
    for name in ("loss", "lo", "hi"):
        assert found[name].to_numpy() == pytest.approx(own[name].to_numpy(), rel=1e-9)
    assert found["doubt_form"].iloc[1] == pytest.approx(0.0, abs=1e-12)  # within the data one law has no other form
    assert found[list(DOUBT)].sum(axis=1).to_numpy() == pytest.approx(1.0)


def test_laws_far_apart_widen_the_average_and_are_called_its_form(fits, rows):
    found = cl.forecast(fits, rows, weights="equal")
    own, average = found[found["law"] != "average"], found[found["law"] == "average"].iloc[0]
    far = own[own["ptpp"] == 1000.0]
    assert average["loss"] == pytest.approx(np.exp(np.log(far["loss"]).mean()))
    assert average["lo"] <= far["loss"].min()
    assert average["hi"] >= far["loss"].max()
    assert average["doubt_form"] > 0.2  # the law of the highest budget alone does not follow the budget
    assert average[list(DOUBT)].sum() == pytest.approx(1.0)


def test_interval_of_the_average_is_a_quantile_of_the_mixture(fits, rows):
    from cptlaw.uncertainty.intervals import law_and_noise

    share = {"ptpp-floor": 0.7, "ptpp-nearest": 0.3}
    pair = [fits[0], fits[2]]
    found = forecast_average(pair, rows.head(1), 0.8, share)
    rng = np.random.default_rng(0)
    draws = []
    for fit, weight in zip(pair, share.values(), strict=True):
        below, above, noise = (
            float(np.ravel(part)[0]) / 1.2815515655 for part in law_and_noise(fit, rows.head(1), 0.8)
        )
        z = rng.standard_normal(int(400_000 * weight))
        spread = np.where(z < 0, np.hypot(below, noise), np.hypot(above, noise))
        draws.append(np.log(fit.predict(rows.head(1))[0]) + z * spread)
    low, high = np.exp(np.quantile(np.concatenate(draws), [0.1, 0.9]))
    assert found[["lo", "hi"]].iloc[0].to_numpy(dtype=float) == pytest.approx([low, high], rel=3e-4)


def test_rollouts_prefer_the_true_law(fits):
    found = rollout_weights(fits)
    assert found.sum() == pytest.approx(1.0)
    assert found[2] < 0.2
    assert np.array_equal(found, rollout_weights(fits))


def test_other_rows_are_told_and_weighted_equally(fits, rows):
    frame = design("ptpp-floor", noise=0.003)
    other = cl.fit("dcpt-l3", frame.assign(run="other-" + frame["run"]), on="target", starts=4)
    found = forecast_average([fits[0], other], rows, None)
    codes = {finding.code for finding in found["findings"].iloc[0]}
    assert {"weights-equal", "average"} <= codes
    with pytest.raises(cl.UsageError, match="not fitted on the same rows"):
        forecast_average([fits[0], other], rows, None, "stack")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("ptpp-flor=1", "Did you mean 'ptpp-floor'"),
        ("ptpp-floor", "Expected stack, equal, or LAW=W"),
        ({"ptpp-floor": -1}, "must not be negative"),
        ({"ptpp-floor": 0}, "one must be positive"),
    ],
)
def test_bad_weights(fits, rows, weights, words):
    with pytest.raises(cl.UsageError, match=words):
        forecast_average(fits, rows, None, weights)


def test_an_average_needs_one_eval(fits, rows):
    with pytest.raises(cl.UsageError, match="two or more fits of one eval"):
        forecast_average(fits[:1], rows)


def test_command_line(fits, tmp_path, capsys):
    files = [str(fit.save(tmp_path / f"{fit.law.name}.json")) for fit in fits[:2]]
    with pytest.raises(SystemExit) as ended:
        main(["forecast", *files, "--at", POINT, "--json"])
    assert not ended.value.code
    points = json.loads(capsys.readouterr().out)["points"]
    assert [row["law"] for row in points] == ["ptpp-floor", "ptpp-gate", "average"]
    assert sum(points[-1][name] for name in DOUBT) == pytest.approx(1.0)
    with pytest.raises(SystemExit):
        main(["forecast", *files, "--at", POINT, "--weights", "equal"])
    assert "average of target" in capsys.readouterr().out


def test_averages_of_curve_laws_are_weighted_by_rollouts():
    """Each law reads the areas of its own options; the true one gets the weight."""
    from cptlaw.laws import law
    from cptlaw.schedules import Phase, Schedule

    shapes = {"cosine": {}, "wsd": {"decay": 1500}, "constant": {}}
    runs = {
        name: Schedule([Phase("pretrain", 6000, name, peak=2e-4, warmup=200, **rest)]) for name, rest in shapes.items()
    }
    built = law("lr-annealing")
    steps = [(run, step) for run in runs for step in range(300, 6001, 100)]
    rows = built.attach(pd.DataFrame(steps, columns=["run", "step"]), runs)
    loss = built.predict({"L0": 2.6, "A": 0.5, "C": 0.4, "alpha": 0.5}, rows)
    noise = 0.001 * np.random.default_rng(0).standard_normal(len(rows))
    table = rows[["run", "step"]].assign(eval="val", loss=loss * np.exp(noise))
    names = ("lr-annealing", "lr-annealing:decay=0.99")  # the same columns, with other values
    fits = [cl.fit(name, table, on="val", schedules=runs, starts=2) for name in names]
    share = rollout_weights(fits)
    assert share[0] > 2 / 3  # the weights shared out over resampled rollouts
    assert share.sum() == pytest.approx(1.0)
    note = cl.forecast(fits, table.iloc[:2], interval=None)["findings"].iloc[-1]
    assert "by rollouts" in next(item.message for item in note if item.code == "average")


def test_doubt_without_end_has_no_shares(fits, rows, monkeypatch):
    endless = [np.zeros(2), np.array([0.01, np.inf]), np.zeros(2), 0.003]
    monkeypatch.setattr("cptlaw.comparing.average.doubt_parts", lambda fit, frame, interval: endless)
    found = forecast_average(fits[:2], rows, 0.9, "equal")
    assert not np.isfinite(found["hi"].iloc[1])
    assert found[list(DOUBT)].iloc[0].sum() == pytest.approx(1.0)
    assert found[list(DOUBT)].iloc[1].isna().all()
