"""What a base model's own loss adds to the forecasts of its runs: everywhere the same, and without a step."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.base_models import (
    ANNEALED,
    MEASURED,
    OF_TARGET,
    SHARE,
    BaseErrors,
    coordinates,
    interpolate_residuals,
)

ROWS = "ptpp in (62, 124) and lr_schedule == 'constant' and replay > 0"
MODEL = {"n_params": 75_072.0, "ptpp": 279.0}
RATES = {"lr_peak": 0.0021, "lr_pretrain": 6e-3}
POINT = {**MODEL, **RATES, "replay": 0.25, "tokens": 1e6}
PLAIN = {"starts": 4, "restraint": "none"}


@pytest.fixture(scope="module")
def source():
    return cl.fit(
        "shared-tokens", cl.examples.load("code-to-prose"), on="source", where=ROWS, starts=4, restraint="none"
    )


@pytest.fixture(scope="module")
def errors(source):
    return BaseErrors(source, source.predict)


def at(errors, **changed):
    return float(errors.at(pd.DataFrame([{**POINT, **changed}]))[0])


def annealed(budget):
    """By how much lower a base model lies than the law says because its rate was annealed; 62 and 124 are fitted."""
    return ANNEALED * np.log(budget / np.sqrt(62.0 * 124.0))


def test_what_annealing_gains_a_base_model_of_longer_pre_training_its_runs_do_not_have(source, errors):
    rates = source.data.loc[source.data["tokens"] > 0, list(RATES)].median()
    for budget in (279.0, 800.0, 3200.0):
        said = float(source.predict(pd.DataFrame([{**POINT, **rates, "tokens": 0.0, "ptpp": budget}]))[0])
        usual = said * np.exp(errors.usual)
        assert at(errors, ptpp=budget, base_loss=usual * np.exp(annealed(budget))) == pytest.approx(0, abs=1e-9)
        assert at(errors, ptpp=budget, base_loss=usual) == pytest.approx(-SHARE * annealed(budget), rel=1e-6)


def test_what_the_law_misses_every_base_model_by_is_not_carried(source, errors):
    rows = source.base.merge(source.data.loc[source.data["tokens"] > 0, ["n_params", "ptpp"]].drop_duplicates())
    rates = source.data.loc[source.data["tokens"] > 0, list(RATES)].median()
    missed = np.log(rows["loss"] / source.predict(rows.assign(tokens=0.0, replay=0.25, **rates)))
    assert len(rows) == 8
    assert errors.usual == pytest.approx(np.median(missed - annealed(rows["ptpp"])))


@pytest.mark.parametrize("away", [0.02, -0.03])
def test_a_share_of_what_the_base_model_is_missed_by_holds_for_its_runs(source, errors, away):
    rates = source.data.loc[source.data["tokens"] > 0, list(RATES)].median()
    alone = float(source.predict(pd.DataFrame([{**POINT, **rates, "tokens": 0.0}]))[0]) * np.exp(
        errors.usual + annealed(279.0)
    )
    assert at(errors, base_loss=alone * (1 + away)) == pytest.approx(SHARE * np.log(1 + away), rel=1e-6)
    assert at(errors, base_loss=alone) == pytest.approx(0, abs=1e-9)
    assert at(errors, tokens=0.0, base_loss=alone * 1.05) == 0  # the base model itself is not moved


def test_runs_of_the_base_model_say_more_than_its_loss(errors):
    assert at(errors, ptpp=124.0, base_loss=2.5) == 0


@pytest.fixture(scope="module")
def averages():
    return [cl.fit(cl.examples.load("code-to-prose"), on=on, where=ROWS) for on in ("target", "source")]


def test_target_losses_of_runs_follow_the_source_loss_of_their_base_model(averages, tmp_path):
    points = pd.DataFrame([{**POINT, "base_loss": loss} for loss in (1.9, 2.0)])
    found = averages[0].predict(points)
    assert np.log(found[1] / found[0]) == pytest.approx(OF_TARGET * np.log(2.0 / 1.9), rel=1e-9)
    averages[0].save(tmp_path / "target.json")
    assert cl.load_fit(tmp_path / "target.json").predict(points) == pytest.approx(found, rel=1e-12)


def test_a_plan_hears_of_a_base_model_what_a_forecast_does(averages):
    question = {**MODEL, "tokens": "1M", "max_forgetting": "40%", "interval": None}
    plan = cl.plan.trade_off(*averages, **question, base_source_loss=2.0)
    point = {**MODEL, "tokens": 1e6, "replay": plan.replay, "lr_peak": plan.lr_peak, "base_loss": 2.0}
    assert averages[0].forecast(pd.DataFrame([point]))["loss"].iloc[0] == pytest.approx(plan.target_loss, rel=1e-9)


def test_a_target_loss_that_is_fitted_alone_is_left_alone():
    target = cl.fit(
        "shared-tokens", cl.examples.load("code-to-prose"), on="target", where=ROWS, starts=4, restraint="none"
    )
    assert at(BaseErrors(target, target.predict), base_loss=2.5) == 0


def test_measured_ones_are_carried_in_full_and_fade_without_a_step():
    known = coordinates(pd.DataFrame({"n_params": [1e5, 2e5], "ptpp": [100.0, 300.0]}))
    found, left = interpolate_residuals(known, known, np.array([0.03, -0.01]))
    assert found == pytest.approx([0.03, -0.01], abs=1e-6)
    assert left == pytest.approx([0, 0], abs=1e-5)
    sizes = np.geomspace(1e5, 1e9, 2000)
    along, doubt = interpolate_residuals(
        coordinates(pd.DataFrame({"n_params": sizes, "ptpp": 100.0})), known, np.array([0.03, -0.01])
    )
    assert np.abs(np.diff(along)).max() < 0.03 * 2 * np.log(sizes[1] / sizes[0])
    assert abs(along[-1]) < 1e-4
    assert doubt[-1] > 0.99


def test_a_base_model_within_five_percent_counts_as_measured(source):
    """280 for 279 tokens per parameter once moved the planned replay by ten points."""
    fits = [
        cl.fit("shared-tokens", cl.examples.load("code-to-prose"), on="target", where=ROWS, **PLAIN),
        source,
    ]
    base = {}
    for budget in (279.0, 279.0 * 1.0001, 279.0 * 1.01, 279.0 * (1 + MEASURED * 1.5)):
        plan = cl.plan.trade_off(*fits, n_params=75_072, ptpp=budget, tokens="1M", max_forgetting="60%", interval=None)
        base[budget] = plan.base_source_loss, plan.reference
    (exact, near, percent, beyond) = base.values()
    assert near[0] == pytest.approx(exact[0], rel=1e-4)
    assert percent[0] == pytest.approx(exact[0], rel=0.005)
    assert beyond[0] == pytest.approx(exact[0], rel=0.03)
    assert [one[1] for one in (exact, near, percent, beyond)] == ["measured"] * 3 + ["base-law"]
