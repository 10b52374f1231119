"""A second question to the same rows fits nothing, and says what a first one would: whatever was changed is fitted."""

import threading

import numpy as np
import pandas as pd
import pytest
from cases import design
from counting import counted
from thinned import thinned

import cptlaw as cl
from cptlaw import examples
from cptlaw.answering.question import Asked
from cptlaw.answering.scores import fitted_scores
from cptlaw.fitting.fit_cache import FITS, FitCache
from cptlaw.fitting.learned import leaving_out
from cptlaw.laws import EXPONENT, Law

pytestmark = pytest.mark.dear("nothing that was fitted before may be known: each test fits anew")
QUESTION = {"n_params": 124672, "ptpp": 279, "tokens": "1M", "max_forgetting": "25%"}
ROWS = "ptpp in (0, 31, 62) and tokens >= 200K and replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant'"
POINT = "n_params=124672,tokens=1M,replay=25%,ptpp=279,lr_peak=3e-3"


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch):
    monkeypatch.forget_fits()


@pytest.fixture
def table():
    return examples.load("en-fr-pilot").where(ROWS).frame.copy()


def test_a_second_question_fits_nothing_and_says_the_same(table):
    first = cl.answer(table, **QUESTION)
    with counted() as other_limit:
        cl.answer(table, **QUESTION | {"max_forgetting": "30%"})
    with counted() as again:
        second = cl.answer(cl.read_runs(table), **QUESTION)
    assert other_limit == again == {"fits": 0, "evaluations": 0, "rows": 0}
    assert second.to_dict() == first.to_dict()


@pytest.mark.parametrize("law", ["auto", "ptpp-floor", "shared-tokens"])
def test_a_second_fit_is_the_first_to_the_last_bit(table, law):
    first = cl.fit(law, table, on="target")
    forecast = first.forecast(POINT)
    with counted() as counts:
        second = cl.fit(law, table.copy(), "target", seed=0)
    assert counts["fits"] == counts["evaluations"] == 0
    FITS.clear()
    anew = cl.fit(law, table, on="target")
    assert first.text() == second.text() == anew.text()
    for fit in (second, anew):
        pd.testing.assert_frame_equal(fit.forecast(POINT), forecast, check_exact=True)
        assert np.array_equal(np.stack(fit.posterior(POINT)[:1]), np.stack(first.posterior(POINT)[:1]))


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({}, {"fix": (), "tie": (), "bound": (), "prior": ()}),  # as the command line gives what nobody gave
        ({"fix": {"alpha": 0.3, "beta": 0.4}}, {"fix": ("beta=0.4", "alpha=.3")}),
        ({"tie": [("alpha", "beta")]}, {"tie": ("alpha,beta",)}),
        (
            {"bound": {"alpha": (0.1, 0.6)}, "prior": {"E": (1.3, 0.1)}},
            {"bound": ("alpha=0.1:0.6",), "prior": ("E=1.3:.1",)},
        ),
    ],
)
def test_one_question_is_fitted_once_however_it_is_spelt(table, given, same):
    first = cl.fit("chinchilla", table, on="target", starts=2, **given)
    with counted() as counts:
        second = cl.fit("chinchilla", table, on="target", starts=2, **same)
    assert counts["fits"] == 0
    assert second.text() == first.text()


def test_scores_are_fitted_once(table):
    scores = table[table["eval"] == "target"].assign(eval="cloze", metric="accuracy", n_items=1000.0)
    scores["loss"] = 1.0 / (1.0 + np.exp(2.0 * (scores["loss"] - 1.9)))
    both = thinned(pd.concat([table, scores], ignore_index=True))
    question = Asked.read({"n_params": 124672, "ptpp": 279, "tokens": "1M", "min_score": {"cloze": "40%"}})
    first, _ = fitted_scores(cl.read_runs(both), question, None, 0, None)
    with counted() as counts:
        second, _ = fitted_scores(cl.read_runs(both), question, None, 0, None)
    assert counts["fits"] == 0
    assert second["cloze"].text() == first["cloze"].text()


def test_a_frame_that_was_changed_in_place_is_another_table(table):
    runs = cl.read_runs(table)
    cl.fit("ptpp-floor", table, on="target"), cl.fit("ptpp-floor", runs, on="target")
    table.loc[table.index[3], "loss"] *= 1.01
    runs.frame.loc[runs.frame.index[3], "loss"] *= 1.02
    for changed in (table, runs):
        with counted() as counts:
            cl.fit("ptpp-floor", changed, on="target")
        assert counts["fits"] > 0
    with counted() as counts:  # a column that no law reads may be asked for by a filter
        cl.fit("ptpp-floor", table.assign(note="x"), on="target")
    assert counts["fits"] > 0


OTHERWISE = [
    {"seed": 1},
    {"delta": 0.02},
    {"starts": 3},
    {"restraint": "none"},
    {"fix": {"alpha": 0.3}},
    {"prior": {"E": "1:1"}},
    {"where": "replay > 0"},
    {"on": "source"},
    {"law_name": "ptpp-gate"},
    {"law_name": "ptpp-floor:unit_tokens=1e6"},
]


def test_whatever_else_is_asked_is_fitted(table):
    usual = {"law_name": "ptpp-floor", "runs": thinned(table), "on": "target", "starts": 8}
    cl.fit(**usual)
    texts = []
    for asked in OTHERWISE:
        with counted() as counts:
            texts.append(cl.fit(**usual | asked).text())
        assert counts["fits"] > 0, asked
    FITS.clear()
    assert [cl.fit(**usual | asked).text() for asked in OTHERWISE] == texts


def test_the_kind_of_shift_decides_where_runs_are_few(table):
    few = table[(table["tokens"] == 0) | table["run"].isin(table.loc[table["tokens"] > 0, "run"].unique()[:2])]
    language = cl.fit(few, on="target", shift="language").forecast(POINT)
    assert (cl.fit(few, on="target", shift="code").forecast(POINT)["loss"] != language["loss"]).all()
    assert (cl.fit(few, on="target", shift="language").forecast(POINT)["loss"] == language["loss"]).all()


def test_what_others_learned_decides_too(table):
    whole = cl.fit(table, on="target")
    with leaving_out("en-fr-pilot"):
        assert cl.fit(table, on="target").text() != whole.text()


def test_what_a_user_does_to_a_fit_stays_with_it(table):
    fit = cl.fit("ptpp-floor", table, on="target")
    text, forecast = fit.text(), fit.forecast(POINT)
    fit.data["loss"] *= 2.0
    fit.base["loss"] *= 2.0
    fit.params["E"] = 0.0
    fit.forecast(POINT)
    fit.optima[:] = 0.0
    with counted() as counts:
        again = cl.fit("ptpp-floor", table, on="target")
    assert counts["fits"] == 0
    assert again.text() == text
    pd.testing.assert_frame_equal(again.forecast(POINT), forecast, check_exact=True)
    average = cl.fit(table, on="target")
    average.members[0].fit.data["loss"] *= 2.0
    assert cl.fit(table, on="target").members[0].fit.data["loss"].max() < average.members[0].fit.data["loss"].max()


def test_a_law_of_ones_own_is_fitted_each_time():
    class Mine(Law):
        """L = E + A/N^alpha (here)."""

        name = "mine-of-the-cache"
        equation = "L = E + A/N^alpha"
        source = "here"
        right, wrong = "in this one test alone", "everywhere else but in here"
        inputs = ("n_params",)
        amplitudes = ("E", "A")
        shapes = {"alpha": EXPONENT}

        def terms(self, x, p):
            return 1.0, x.N**-p.alpha

    frame = design("chinchilla", noise=0.01)
    for _ in range(2):  # its class may have been changed between the two
        with counted() as counts:
            cl.fit(Mine(), frame, on="target", restraint="none")
        assert counts["fits"] > 0


def test_few_are_kept_and_no_large_table():
    made, kept = [], FitCache(most_fits=2, most_rows=10)
    tables = [cl.read_runs(design("chinchilla").iloc[: 4 + n].assign(eval="target")) for n in range(3)]

    def ask(runs, *asked):
        return kept.fitted(lambda: made.append(1) or {}, runs, *asked)

    for runs in (*tables, *tables):
        ask(runs)
    assert len(made) == 6  # the oldest of two is gone when the third is asked again
    ask(tables[2]), ask(tables[2], "otherwise"), ask(tables[2])
    assert len(made) == 7
    large = cl.read_runs(design("chinchilla").iloc[:11].assign(eval="target"))
    ask(large), ask(large)
    assert len(made) == 9
    for place in range(50):
        kept.fitted(lambda: made.append(1) or {}, tables[2], place)
    assert len(kept._fits) == 2
    fit, several = cl.fit("chinchilla", large, "target", restraint="none"), FitCache(in_all=50)
    for place in range(50):
        several.fitted(lambda: fit, large, place)
    assert len(several._fits) == 50 // 11  # of as many rows in all


def test_threads_that_ask_at_once_get_their_own_answers(table):
    points = [POINT.replace("25%", f"{share}%") for share in (5, 55)]
    fit = cl.fit(table, on="target")
    alone = [fit.forecast(point) for point in points]
    FITS.clear()
    together = [None] * len(points)

    def ask(place):
        for _ in range(3):
            together[place] = cl.fit(table, on="target").forecast(points[place])

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(points))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, together, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
