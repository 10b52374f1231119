"""Forecasts from few runs: what is drawn, how it is scored, and that a table has no part in what is chosen for it."""

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting import study_prior
from cptlaw.fitting.base_models import KEYS
from cptlaw.fitting.learned import forgetting_and_gain


@pytest.fixture(scope="module")
def few_runs():
    from studies.forecasts import few_runs

    return few_runs


@pytest.mark.dear("a study in small")
def test_a_small_version_asks_other_base_models_under_other_numbers(few_runs):
    judge = few_runs.Judge.of(1, None, ("docs-to-manuals",))
    (draw,) = judge.all_draws["docs-to-manuals"]
    fitted = draw.fits["source"].data
    assert 1 <= fitted["run"].nunique() == draw.n_runs <= 6
    assert len(fitted[list(KEYS)].drop_duplicates()) == 1
    assert draw.asked[list(KEYS)].merge(fitted[list(KEYS)]).empty
    before = forgetting_and_gain.SIMILARITY_EFOLDS
    now, endless = judge.forecasts(), judge.forecasts((forgetting_and_gain, "SIMILARITY_EFOLDS", np.inf))
    assert before == forgetting_and_gain.SIMILARITY_EFOLDS
    assert list(now["what"].unique()) == ["target", "source", "forgetting"]
    assert len(now) == 3 * len(draw.asked)
    # Where what is peculiar to a study never fades, a run says more of other base models.
    width = (now["hi_0.8"] - now["lo_0.8"])[now["what"] == "target"]
    narrower = (endless["hi_0.8"] - endless["lo_0.8"])[now["what"] == "target"]
    assert (narrower < width).all()


@pytest.mark.nightly
def test_more_runs_are_of_a_third_of_the_base_models_and_others_are_asked(few_runs):
    judge = few_runs.Judge.of(1, None, ("docs-to-manuals",), few_runs.BETWEEN)
    (draw,) = judge.all_draws["docs-to-manuals"]
    fitted = draw.fits["source"].data
    least, most = few_runs.BETWEEN
    assert least <= fitted["run"].nunique() == draw.n_runs <= most
    models = fitted[list(KEYS)].drop_duplicates()
    every = cl.examples.load("docs-to-manuals").frame[list(KEYS)].drop_duplicates()
    assert 2 <= len(models) <= len(every) / 3
    assert draw.asked[list(KEYS)].merge(models).empty
    # Laws of more than ten runs count as ten: were they believed by their number, they would be surer.
    now, by_number = judge.forecasts(), judge.forecasts((study_prior, "MOST", 30.0))
    assert study_prior.MOST == 8.0
    assert ((by_number["hi_0.8"] - by_number["lo_0.8"]) < (now["hi_0.8"] - now["lo_0.8"]))[
        now["what"] == "source"
    ].all()


def forecasts(score):
    """Rows of two tables whose 80 % intervals are so wide, per cent, and hold."""
    rows = [
        {"table": table, "bases": "own", "what": "target", "measured": 0.0, "forecast": 0.0}
        | {f"{end}_{c}": sign * wide / 200 for c in (0.8, 0.9) for end, sign in (("lo", -1), ("hi", 1))}
        for table, wide in score.items()
    ]
    return pd.DataFrame(rows)


def test_the_interval_score_is_the_width_and_ten_times_what_lies_beyond(few_runs):
    rows = forecasts({"a": 20.0}).assign(measured=0.13)
    scored = few_runs.scored(rows).iloc[0]
    assert scored["score"] == pytest.approx(20.0 + 10 * 3.0)
    assert not scored["in_0.8"]
    assert scored["error"] == pytest.approx(13.0)
    unbounded = few_runs.scored(rows.assign(**{"hi_0.8": np.nan})).iloc[0]
    assert unbounded["in_0.8"]
    assert unbounded["score"] == pytest.approx(10.0 + 100 * np.log(2.0))


def test_what_is_chosen_for_a_table_is_chosen_by_the_others(few_runs):
    found = {
        "4": few_runs.scored(forecasts({"a": 1.0, "b": 9.0})),
        "10": few_runs.scored(forecasts({"a": 8.0, "b": 2.0})),
    }
    table = few_runs.left_out(found).set_index("table")
    assert table.loc["a", "others choose"] == "10"
    assert table.loc["a", "its score"] == "8.0"
    assert table.loc["b", "its score"] == "9.0"
    assert table.loc["all", "others choose"] == "4"
