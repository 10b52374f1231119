"""What studies say of few runs: many points at once cost and say what each does alone."""

from unittest import mock

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting import study_prior
from cptlaw.fitting.learned import forgetting_and_gain
from cptlaw.fitting.point_covariance import covariance_parts, moments
from cptlaw.fitting.study_prior import StudyPrior

RUNS = ("46k-p15-r0.1-const-s0", "46k-p62-r0.1-const-s0", "75k-p279-r0.5-const-s1")
MODEL = {"n_params": 124_672.0, "ptpp": 279.0, "lr_peak": 3e-3}


@pytest.fixture(scope="module")
def fit():
    return cl.fit(cl.examples.load("en-fr-pilot").where(f"run in {RUNS}"), on="source")


def points(n):
    at = np.random.default_rng(0)
    mixes = {"replay": at.uniform(0, 0.5, n), "tokens": np.exp(at.uniform(10, 15, n))}
    return pd.DataFrame(mixes).assign(**MODEL)


def test_points_of_one_model_are_computed_together_whatever_their_number(fit):
    """A plan asks for a thousand at each step of its search."""
    counts = {}
    for n in (10, 1000):
        with mock.patch.object(study_prior, "moments", wraps=moments) as asked:
            fit.predict(points(n))
        counts[n] = asked.call_count
    assert counts == {10: 1, 1000: 1}


def test_a_point_is_forecast_alike_alone_and_among_others(fit):
    many = points(300).assign(n_params=[45_888.0, 75_072.0, 124_672.0] * 100)
    many.loc[::7, "tokens"] = 0.0
    together = fit.log_quantiles(many, [0.05, 0.5])
    alone = np.hstack([fit.log_quantiles(many.iloc[[i]], [0.05, 0.5]) for i in range(40)])
    assert together[:, :40] == pytest.approx(alone, rel=1e-9)


def test_moments_are_those_of_the_posterior(fit):
    rows = fit.prepare_points(points(12))
    mean, covariance = fit.posterior(rows, measured=False)
    middle, variance, last = moments(fit, rows, 5)
    assert middle == pytest.approx(mean)
    assert variance == pytest.approx(np.diag(covariance))
    assert last == pytest.approx(covariance[:, -5:])
    for name, part in covariance_parts(fit, rows, 5).items():
        assert part == pytest.approx(covariance_parts(fit, rows)[name][:, -5:]), name


def test_doubt_of_changes_is_shared_and_own(fit):
    rows = points(6)
    doubt = StudyPrior("language").changes("source", rows)[1]
    assert np.linalg.eigvalsh(doubt.matrix).min() > 0
    apart = np.exp(-np.abs(doubt.places[0] - doubt.places[1]).sum() / forgetting_and_gain.SIMILARITY_EFOLDS)
    everywhere, peculiar = doubt.everywhere[0] @ doubt.everywhere[1], doubt.peculiar[0] @ doubt.peculiar[1]
    assert doubt.matrix[0, 1] == pytest.approx(everywhere + apart * peculiar)
    assert np.diag(doubt.matrix) == pytest.approx(doubt.variance)
    assert np.all(doubt.own > 0)


def test_what_nobody_told_of_a_study_is_the_same_at_any_distance():
    """The kind of shift of runs at 405M is that of a model of 10B; how this study differs from others is not."""
    far = pd.DataFrame({"n_params": [405e6, 10e9], "ptpp": 740.0, "tokens": [5e10, 5e10], "replay": 0.1})
    told, untold = (StudyPrior(shift, lr_pretrain=3e-4).changes("target", far)[1].matrix for shift in ("near", None))
    doubt = StudyPrior("near", lr_pretrain=3e-4).changes("target", far.assign(lr_peak=1e-4))[1]
    of_study = (doubt.peculiar @ doubt.peculiar.T)[0, 1]
    kept = doubt.shared_with(slice(None))[0, 1] - (doubt.everywhere @ doubt.everywhere.T)[0, 1]
    assert 0 < kept < 0.5 * of_study
    assert untold[0, 1] > told[0, 1]


def test_from_fewer_than_five_runs_laws_are_as_unsure_as_from_five():
    count = np.arange(1, 31)
    wide = study_prior.widening(count)
    assert (wide[:5] == wide[4]).all()
    assert (np.diff(wide[4:]) < 0).all()
