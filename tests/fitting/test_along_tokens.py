"""A prior on the slope of the target loss along tokens: what other studies say where a table has one level of them."""

from dataclasses import replace

import numpy as np
import pytest

import cptlaw as cl
from cptlaw.fitting.auto.candidates import ALONG_TOKENS
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.solving.loss_at import LossAt
from cptlaw.fitting.solving.priors import AlongTokens
from cptlaw.fitting.solving.restraint import Prior
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.runs import read_runs


@pytest.fixture(scope="module")
def one_level(named_study):
    """Rows of docs-to-code at one level of tokens, and those at four times as many."""
    _, (_, fitted, asked) = named_study("tokens_ahead").cuts("docs-to-code")
    return fitted, asked[4.0]


@pytest.fixture(scope="module")
def fit(one_level):
    return cl.fit("auto", one_level[0], "target")


def slope(fit, rows):
    """Change of log loss by e-fold of tokens, on average over rows."""
    rows = rows[rows["tokens"] > 0]
    ends = [np.log(fit.predict(rows.assign(tokens=rows["tokens"] * times))) for times in (0.98, 1.02)]
    return float((ends[1] - ends[0]).mean() / np.log(1.02 / 0.98))


def test_one_level_of_tokens_forecasts_four_times_as_many(fit, one_level):
    """Sizes and mixes alone had the loss fall by a quarter, where 5 % was measured."""
    rows = one_level[1][one_level[1]["eval"] == "target"]
    low, middle, high = fit.log_quantiles(rows, [0.05, 0.5, 0.95])
    loss = np.log(rows["loss"].to_numpy(dtype=float))
    assert np.abs(middle - loss).mean() < 0.1
    assert np.mean((low <= loss) & (loss <= high)) > 0.9
    assert np.median(high - low) < 0.5


def test_the_slope_along_tokens_follows_its_prior_where_nothing_else_tells_it(fit, one_level):
    one = fit.fits[0]
    assert one.options.restraint.along_tokens == ALONG_TOKENS
    training = replace(training_rows(one.law, read_runs(one_level[0]), "target"), law=one.law)
    for mean in (-0.02, -0.1):
        held = replace(one.options.restraint, along_tokens=Prior(mean, 0.001))
        found = fit_rows(training, replace(one.options, restraint=held))
        assert slope(found, found.data) == pytest.approx(mean, abs=0.005)


def test_its_derivatives_are_those_of_its_value(fit):
    one = fit.fits[0]
    problem = one.problem()
    prior, at = AlongTokens.of(problem), one.optima[:1]

    def evaluated(v):
        scales = problem.scales_of(problem.columns(v[:, problem.k :], 2))
        return prior.squares(LossAt.of(prior.rows, v, 2, scales), 2)

    _, gradient, _, hessian = evaluated(at)
    for i in range(at.shape[1]):
        step = np.zeros_like(at)
        step[0, i] = 1e-5 * max(1.0, abs(at[0, i]))
        (up, up_slope, _, _), (down, down_slope, _, _) = evaluated(at + step), evaluated(at - step)
        assert (up - down)[0] / (2 * step[0, i]) == pytest.approx(gradient[0, i], rel=1e-5, abs=1e-6)
        assert (up_slope - down_slope)[0] / (2 * step[0, i]) == pytest.approx(hessian[0, i], rel=1e-4, abs=1e-5)


def test_it_is_read_back_and_only_for_the_target(fit, one_level, tmp_path):
    fit.save(tmp_path / "fit.json")
    again = cl.load_fit(tmp_path / "fit.json")
    assert [one.options.restraint.along_tokens for one in again.fits] == [ALONG_TOKENS]
    asked = one_level[1]
    np.testing.assert_allclose(
        again.log_quantiles(asked, [0.05, 0.95]), fit.log_quantiles(asked, [0.05, 0.95]), rtol=1e-9
    )
    assert cl.fit("shared-tokens", one_level[0], "source").options.restraint.along_tokens is None
    plain = cl.fit("shared-tokens", one_level[0], "target", restraint="none")
    assert plain.options.restraint.along_tokens is None
