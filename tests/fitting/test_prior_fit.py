"""A fit without rows: what studies of others say, by every method of a fit, and the same numbers as the answer's."""

import json

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl

MODEL = {"shift": "language", "n_params": "8B", "ptpp": 1875}
POINTS = pd.DataFrame({"replay": [0.0, 0.05, 0.25, 0.5], "tokens": 2e10})


@pytest.fixture(scope="module")
def source():
    return cl.fit(None, on="source", **MODEL)


@pytest.fixture(scope="module")
def target():
    return cl.fit(None, on="target", **MODEL)


@pytest.fixture(params=["source", "target"])
def prior(request):
    return request.getfixturevalue(request.param)


def forgetting(answer):
    return {row["replay"]: row for row in answer.options}


def test_the_answer_without_runs_is_its_forecast(source, target):
    answer = cl.answer(tokens="20B", **MODEL)
    base = pd.DataFrame({"replay": [0.0], "tokens": [0.0]})
    for row in answer.options:
        point = pd.DataFrame([{"replay": row["replay"], "tokens": row["tokens"]}])
        rise = source.predict(point) / source.predict(base) - 1.0
        fall = 1.0 - target.predict(point) / target.predict(base)
        assert (row["forgetting"], row["target_gain"]) == pytest.approx((rise[0], fall[0]), rel=1e-12)


def test_with_a_base_loss_its_quantiles_are_the_answers_intervals():
    given = {"base_source_loss": 2.1, "base_target_loss": 2.9}
    answer = cl.answer(tokens="20B", max_forgetting="5%", **MODEL, **given)
    for role in ("source", "target"):
        fit = cl.fit(None, on=role, **MODEL, **given)
        low, middle, high = np.exp(fit.log_quantiles({"replay": answer.replay, "tokens": answer.tokens},
                                                     [0.05, 0.5, 0.95]))[:, 0]  # fmt: skip
        said = [getattr(answer, f"{role}_loss{end}") for end in ("_lo", "", "_hi")]
        assert said == pytest.approx([low, middle, high], rel=1e-12)


def test_a_plan_with_it_is_the_answer(source, target):
    answer = cl.answer(tokens="20B", max_forgetting="5%", risk=0.8, **MODEL)
    model = {"n_params": "8B", "ptpp": 1875}
    plan = cl.plan.trade_off(target, source, tokens="20B", max_forgetting="5%", risk=0.8, **model)
    for name in ("replay", "tokens", "forgetting", "forgetting_lo", "forgetting_hi"):
        assert getattr(plan, name) == pytest.approx(getattr(answer, name), rel=1e-5)


def test_a_posterior_has_a_mean_and_a_covariance(prior):
    mean, covariance = prior.posterior(POINTS)
    assert (mean.shape, covariance.shape) == ((4,), (4, 4))
    assert np.log(prior.predict(POINTS)) == pytest.approx(mean, rel=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    parts = prior.doubt(POINTS)
    assert list(parts) == ["parameters", "form", "base", "noise"]
    assert (parts**2).sum(axis=1).to_numpy() == pytest.approx(np.diag(covariance), rel=1e-12)


def test_a_difference_is_surer_than_a_loss_whose_base_is_estimated(source):
    both = pd.DataFrame({"replay": [0.25, 0.0], "tokens": [2e10, 0.0]})
    _, covariance = source.posterior(both)
    of_change = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert of_change < 0.1 * covariance[0, 0]


def test_a_given_base_loss_takes_its_doubt_away(source):
    known = cl.fit(None, on="source", base_source_loss=2.1, **MODEL)
    assert known.doubt(POINTS)["base"].tolist() == [0.0] * 4
    assert (source.doubt(POINTS)["base"] > 0.1).all()
    assert known.predict({"replay": 0.0, "tokens": 0.0}) == pytest.approx([2.1])
    assert (known.posterior(POINTS)[1].diagonal() < source.posterior(POINTS)[1].diagonal()).all()


def test_one_standard_deviation_is_that_of_the_quantiles(prior):
    quantiles = prior.log_quantiles(POINTS, [0.158655, 0.841345])
    spread = np.sqrt(np.diag(prior.posterior(POINTS)[1]))
    assert 0.5 * (quantiles[1] - quantiles[0]) == pytest.approx(spread, rel=0.02)


def test_a_forecast_is_bounded_and_prints(prior):
    table = prior.forecast(POINTS, interval="90%")
    assert (table["lo"] < table["loss"]).all()
    assert (table["loss"] < table["hi"]).all()
    assert np.isfinite(table["hi"]).all()
    assert len(cl.forecast([prior, prior], "tokens=20B,replay=10%")) == 2
    assert "language" in str(prior)
    assert "<table" in prior._repr_html_()
    assert [member.weight for member in prior.members] == [1.0]


def test_its_file_says_the_same(prior, tmp_path):
    path = prior.save(tmp_path / "prior.json")
    again = cl.load_fit(path)
    assert np.array_equal(again.posterior(POINTS)[1], prior.posterior(POINTS)[1])
    assert json.loads(path.read_text())["law"] == "prior"
    path.write_text(path.read_text().replace('"study"', '"studies"'))
    with pytest.raises(cl.DataError, match="damaged"):
        cl.load_fit(path)


def test_points_say_another_model(target):
    small = cl.fit(None, on="target", shift="language")
    point = {"n_params": 8e9, "ptpp": 1875, "tokens": 2e10, "replay": 0.1}
    assert small.predict(point) == pytest.approx(target.predict(point), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"shift": "langage"}, "shift"),
        ({"n_params": "-8B"}, "n_params"),
        ({"on": "wiki"}, "source and target"),
        ({"starts": 8}, "starts"),
        ({"where": "ptpp > 3"}, "where"),
        ({"replay_of": "mine"}, "replay_of"),
        ({"n_param": "8B"}, "n_params"),
    ],
)
def test_what_cannot_be_is_refused(options, named):
    with pytest.raises(cl.UsageError, match=named):
        cl.fit(None, **options)


def test_with_runs_the_rows_say_what_the_model_is():
    with pytest.raises(cl.UsageError, match="n_params"):
        cl.fit("auto", cl.examples.load("en-fr-pilot"), on="target", n_params="8B")


def test_a_point_without_tokens_or_replay_is_refused(target):
    with pytest.raises(cl.UsageError, match="tokens"):
        target.predict({"replay": 0.1})


def test_given_parameters_have_a_mean_and_no_bound():
    params = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}
    given = cl.given_fit("chinchilla", params, "target")
    point = {"n_params": [70e9, 7e9], "tokens": [1.4e12, 1.4e12]}
    mean, covariance = given.posterior(point)
    assert np.exp(mean) == pytest.approx(given.predict(point))
    assert np.isinf(np.diag(covariance)).all()
    assert np.isinf(given.doubt(point)["parameters"]).all()
