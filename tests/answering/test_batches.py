"""Rate and batch as a valley."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.answering.batches import valley
from cptlaw.errors import FitError
from studies.forecasts import rates_and_batches

DATA = Path(__file__).parents[3] / "shared" / "data"
QUESTION = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language"}


def test_nothing_beats_the_best_rate_and_batch():
    rate, batch = valley().best(1e9, 2e10)
    assert valley().rise(1e9, 2e10, rate, batch) == pytest.approx(0)
    beside = valley().rise(1e9, 2e10, rate * np.array([0.5, 2, 1, 1]), batch * np.array([1, 1, 0.5, 2]))
    assert np.all(beside > 1e-3)
    assert np.all(valley().rise(1e9, 2e10, 2 * rate, 2 * batch) < beside)  # along the valley it costs less


def test_more_tokens_want_a_larger_batch_and_at_one_batch_a_lower_rate():
    (one, small), (more, large) = (valley().best(1e9, tokens) for tokens in (1e10, 1e11))
    assert large > 2 * small
    assert more * (small / large) ** valley().slope < one


def test_an_answer_says_which_batch_and_what_others_cost():
    got = cl.answer(**QUESTION)
    assert got.batch_tokens_lo < got.batch_tokens < got.batch_tokens_hi
    half, same, twice = got.batch_options
    assert same["loss_rise"] == pytest.approx(0, abs=1e-12)
    assert half["batch_tokens"] * 2 == got.batch_tokens == twice["batch_tokens"] / 2
    assert all(0 < each["loss_rise_at_it"] < each["loss_rise"] < 0.01 for each in (half, twice))
    assert half["lr_factor"] < 1 < twice["lr_factor"]
    asked = cl.answer(**QUESTION, batch_tokens="32M")
    assert asked.batch_tokens == got.batch_tokens
    assert asked.batch_options[1]["batch_tokens"] == 32e6
    assert asked.batch_options[1]["loss_rise"] > twice["loss_rise"]
    assert "at 32M losses" in dict(asked.details)["batch"]


def test_a_run_has_so_many_steps_of_its_batch():
    got, asked = (cl.answer(**QUESTION, max_forgetting="20%", batch_tokens=batch) for batch in (None, "32M"))
    assert got.steps == round(got.tokens / got.batch_tokens) >= 1000
    assert asked.steps == round(asked.tokens / 32e6)
    short = cl.answer(**{**QUESTION, "target_tokens": "50M"}, max_forgetting="20%")
    assert short.steps >= 990  # a smaller batch, so that a schedule has a shape


@pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not there: the valley cannot be fitted")
def test_rate_and_batch_of_589m_from_smaller_sizes_lose_little():
    runs = rates_and_batches.load(str(DATA))
    below, at = runs[runs["n_params"] < 5e8], runs[runs["n_params"] > 5e8]
    lost = np.median(rates_and_batches.judged(at, rates_and_batches.fitted(below).best))
    assert lost <= 0.001
    assert lost < np.median(rates_and_batches.judged(at, rates_and_batches.deepseek))
    assert lost < np.median(rates_and_batches.judged(at, rates_and_batches.steplaw))
    anew = vars(rates_and_batches.fitted(runs))
    assert anew == pytest.approx(json.loads(rates_and_batches.HOME.read_text()), abs=1e-3)


def test_runs_without_tokens_say_nothing_of_the_valley_and_are_told():
    rows = [
        (n, rate, 1e9 * n / 1e7, 2e3, 3.3 - 0.05 * np.log(n / 1e7)) for n in (1e7, 4e7) for rate in (1e-4, 3e-4, 1e-3)
    ]
    frame = pd.DataFrame(rows, columns=["n_params", "lr_peak", "tokens", "steps", "target_loss"])
    frame["source_loss"] = 3.0 + 0.01 * np.log(frame["tokens"] / 1e8)
    stopped = frame.assign(
        lr_peak=2 * frame["lr_peak"], tokens=np.nan, steps=np.nan, target_loss=frame["target_loss"] + 0.1
    )
    with pytest.raises(FitError, match="'tokens', 6 rows"):
        cl.answer(pd.concat([frame, stopped], ignore_index=True), n_params=8e7)
