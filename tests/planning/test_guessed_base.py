"""A base model's loss that was not measured carries its doubt into every interval and probability of forgetting."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.planning.next_runs.cells import Bases, CandidateRun, Offer
from cptlaw.planning.next_runs.doubt import Doubt
from cptlaw.planning.next_runs.open_forecast import OpenForecast, open_forecast
from cptlaw.runs.points import point

ASKED = {"n_params": 124_672, "ptpp": 124, "tokens": "1M", "max_forgetting": "25%"}


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot").where("ptpp in (31, 62, 124)")


@pytest.fixture(scope="module")
def guessed(runs):
    """The answer from runs without their base models."""
    return cl.answer(runs.where("tokens > 0"), **ASKED)


def width(answer):
    return answer.forgetting_hi - answer.forgetting_lo


def test_the_doubt_about_a_guess_is_in_the_interval(runs, guessed):
    loss = guessed.base_source_loss
    known = cl.answer(runs.where("tokens > 0"), **ASKED, base_source_loss=loss)
    at = {"tokens": 1e6, "replay": guessed.replay}
    assert guessed.forgetting_lo < guessed.source_loss_lo / loss - 1
    assert guessed.forgetting_hi > guessed.source_loss_hi / loss - 1
    assert known.forgetting_hi == pytest.approx(known.source_loss_hi / loss - 1)
    assert at["replay"] > known.replay  # the same probability takes more replay


def test_it_is_in_the_probability(guessed):
    assert guessed.probabilities["max-forgetting"] == pytest.approx(0.8, abs=0.01)


def test_the_warning_says_how_much(guessed):
    note = next(one for one in guessed.findings if one.code == "reference-law")
    assert note.severity == "warning"
    assert "3.5 points" in note.message


@pytest.mark.dear("averages with base models")
def test_a_measured_base_model_has_none(runs):
    measured = cl.answer(runs, **ASKED)
    assert measured.forgetting_hi == pytest.approx(measured.source_loss_hi / measured.base_source_loss - 1)


def test_the_covariance_of_a_forecast_is_its_interval(runs):
    fit = cl.fit(runs, on="source")
    points = pd.DataFrame(
        {"n_params": 124_672.0, "tokens": [0.0, 1e6, 2e6], "replay": 0.1, "ptpp": 279.0, "lr_peak": 3e-3}
    )
    mean, covariance = fit.posterior(points)
    middle, upper = fit.log_quantiles(points, [0.5, 0.841344746])
    assert mean == pytest.approx(middle)
    assert covariance.diagonal() ** 0.5 == pytest.approx(upper - middle, rel=1e-3)
    assert covariance == pytest.approx(covariance.T)
    parts = fit.doubt(points)
    assert list(parts.columns) == ["parameters", "form", "base", "noise"]
    assert (parts**2).sum(axis=1).to_numpy() == pytest.approx(covariance.diagonal())
    # Runs of one base model err together more than a run and its base model do.
    assert covariance[1, 2] > covariance[0, 1] > 0


@pytest.mark.dear("averages with and without base models")
def test_what_is_said_of_a_guess_is_what_a_measured_base_model_takes_away():
    """It was: "uncertain by 0 points"; studies know the change of a model whose own loss no run of it tells."""
    of = "run in ('30k-p62-s0-french-r0.25-constant-lr0.003', '204k-p31-s0-french-r0.1-constant-lr0.0011', {})"
    runs = cl.examples.load("en-fr-ladder").where(
        of.format("'75k-p15-s1-french-r0-constant-lr0.0021', 'base-30k-p62-s0', 'base-204k-p31-s0'")
    )
    asked = {"n_params": 203_952, "ptpp": 62, "tokens": 3.26e6}
    found = cl.answer(runs, **asked)
    (note,) = (one for one in found.findings if one.code == "reference-law")
    assert found.reference["kind"] == "estimated"
    assert " 0 points" not in note.message + note.advice
    measured = cl.answer(runs, **asked, base_source_loss=found.reference["loss"])
    assert (note.severity == "warning") == (width(measured) < 0.98 * width(found))


def test_next_runs_narrow_forgetting_and_the_first_is_an_evaluation_of_the_base_model(runs):
    """The laws' path: the doubt of the guess is its own, and who measures the base model takes it away."""
    asked = {**ASKED, "ptpp": 279, "max_forgetting": "10%"}
    runs = runs.where("tokens > 0 and ptpp in (31, 62)")
    answer = cl.answer(runs, **asked)
    first, *more = answer.next_runs
    assert (first["tokens"], first["flops"], first["narrows"]["of"]) == (0.0, 0.0, "forgetting")
    assert more
    assert all(one["tokens"] > 0 for one in more)
    fit = cl.fit(runs, on="source")
    at = point(f"n_params=124672,ptpp=279,tokens=1M,replay={answer.replay},lr_peak={answer.lr_peak}")
    ends = answer.plan.mix.source.forecast({"replay": answer.replay, "tokens": 1e6}, 0.9).losses
    alone = float(np.log(ends["_hi"][0] / ends[""][0]))
    both = float(np.log((1 + answer.forgetting_hi) / (1 + answer.forgetting)))
    assert first["narrows"]["by"] == pytest.approx(1 - alone / both, abs=0.01)
    cells = [CandidateRun(124_672.0, 279.0, 0.25, 1e6, (1e6,)), CandidateRun(124_672.0, 62.0, 0.25, 1e6, (1e6,))]
    opened = open_forecast(fit.members[0].fit, at, 0.9, Offer(cells, Bases([])), fit, answer.plan.mix.forgetting)
    assert opened.doubt.half_width**2 + opened.doubt.scatter**2 == pytest.approx(both**2, rel=1e-3)
    # Whoever trains a run measures its base model.
    of_loss = opened.sample.loss.variance
    assert opened.sample.measured(0).variance < of_loss < opened.sample.measured(1).variance


def test_what_is_open_above_a_guess_is_never_less_than_nothing():
    """Forgetting may be less in doubt than the loss, as what both share cancels: the guess then adds nothing."""
    of_loss, of_change = (Doubt(0.0, (side, side), (True, True), 0.0) for side in (0.2, 0.1))
    cells = SimpleNamespace(cells=[SimpleNamespace(n_params=1e8, ptpp=20.0)])
    asked = pd.DataFrame([{"n_params": 1e8, "ptpp": 20.0}])
    ahead = OpenForecast(None, asked, 0.9, None, of_loss, cells, None, above=object())
    vars(ahead)["doubt"] = of_change
    assert ahead._above_guess(SimpleNamespace(variance=1.0)).guess == 0.0
