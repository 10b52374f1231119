"""The app without a browser: what moves show, what uploads may do, and who is answered."""

import threading

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.errors import CptlawError, UsageError
from cptlaw.findings import Finding
from cptlaw_app import controls, sentences
from cptlaw_app.fitted import Fitted
from cptlaw_app.layout import planning_laws
from cptlaw_app.moves import COVERAGE, move
from cptlaw_app.scenario import Scenario, read_address
from cptlaw_app.session import Loaded, Session, Shelf
from cptlaw_app.tabled import Tabled

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")

ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)
MODEL = {"n_params": 124_672.0, "ptpp": 279.0}
FEWEST = Scenario(**MODEL, max_forgetting=0.25, max_target_loss=1.7)
AT_TOKENS = Scenario(**MODEL, tokens=1e6, max_forgetting=0.25)
GIVEN = Scenario(**MODEL, tokens=1e6, replay=0.25, max_forgetting=0.25)


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def fitted(runs):
    return Fitted.build(*(cl.fit("ptpp-floor", runs, on=on, where=ROWS, starts=24) for on in ("target", "source")))


@pytest.fixture(scope="module")
def average(runs):
    return Fitted.build(*(cl.fit("auto", runs, on=on, where=ROWS) for on in ("target", "source")))


def changed(scenario, **values):
    return Scenario(**{**vars(scenario), **values})


@pytest.mark.parametrize(
    ("scenario", "plan", "more"),
    [(FEWEST, cl.plan.min_tokens, {"max_target_loss": 1.7}), (AT_TOKENS, cl.plan.trade_off, {"tokens": 1e6})],
)
def test_a_move_shows_what_the_library_plans(fitted, scenario, plan, more):
    found = move(fitted, scenario)
    known = plan(fitted.target, fitted.source, **MODEL, max_forgetting=0.25, interval=None, **more)
    assert (found.plan.replay, found.plan.tokens) == pytest.approx((known.replay, known.tokens), rel=1e-6)
    assert found.plan.target_loss == pytest.approx(known.target_loss, rel=1e-6)
    assert f"a target loss of {known.target_loss:.4g} and forgetting of 25%." in found.sentence
    assert any(trace.name == "plan" for trace in found.chart.drawing.data)
    assert found.chances == ()


def test_the_doubt_comes_after_the_answer(fitted):
    quick, later = move(fitted, GIVEN), move(fitted, GIVEN, doubt=True)
    frame = pd.DataFrame([{**MODEL, "tokens": 1e6, "replay": 0.25}])
    full = fitted.target.forecast(frame, COVERAGE).iloc[0]
    assert quick.plan.target_loss == pytest.approx(full["loss"])
    assert quick.plan.target_loss_lo is None
    ends = (later.plan.target_loss_lo, later.plan.target_loss_hi)
    assert ends == pytest.approx((full["lo"], full["hi"]), rel=1e-3)
    assert f"({ends[0]:.4g} to {ends[1]:.4g})" in later.sentence
    assert "lo" not in quick.curves.data
    assert (later.curves.data["lo"] < later.curves.data["hi"]).all()
    assert any(trace.name == "your mix" for trace in later.chart.drawing.data)


def test_a_risk_costs_tokens_and_says_how_likely_the_limits_hold(fitted):
    scenario = changed(FEWEST, max_forgetting=0.3, max_target_loss=1.75, risk=0.9)
    quick, sure = (move(fitted, scenario, doubt, draws=False) for doubt in (False, True))
    limits = {"max_forgetting": 0.3, "max_target_loss": 1.75}
    full = cl.plan.min_tokens(fitted.target, fitted.source, **MODEL, **limits, risk=0.9, interval=None)
    assert sure.plan.tokens == pytest.approx(full.tokens, rel=1e-3)
    assert sure.plan.tokens > quick.plan.tokens
    assert any("the certainty costs" in text for text in sure.asides)
    assert min(sure.probabilities.values()) == pytest.approx(0.9, abs=0.01)
    assert any(text.startswith("Target loss at most 1.75: likely (90%)") for text in sure.chances)


def test_a_mix_that_keeps_a_limit_too_seldom_says_so(fitted):
    tight = changed(GIVEN, max_forgetting=move(fitted, GIVEN).plan.forgetting)
    assert (
        move(fitted, tight, doubt=True, draws=False)
        .chances[0]
        .endswith("a coin toss (50%), less than the 80% asked for")
    )


def test_an_infeasible_question_is_an_answer(fitted):
    quick = move(fitted, changed(FEWEST, max_target_loss=0.9))
    assert quick.plan.feasible is False
    assert quick.sentence == "No mix keeps forgetting at most 25% and target loss at most 0.9."
    found = move(fitted, changed(FEWEST, max_target_loss=0.9), doubt=True, draws=False)  # what would do comes with it
    assert found.sentence.startswith("No mix keeps forgetting at most 25% and target loss at most 0.9")
    assert "the lowest target loss in reach is" in found.sentence
    assert (
        "with 95% probability"
        in move(fitted, changed(FEWEST, max_target_loss=0.9, risk=0.95), True, draws=False).sentence
    )
    with pytest.raises(UsageError, match="Tick the limit on the target loss"):
        move(fitted, changed(FEWEST, max_target_loss=None))


def test_the_reference_is_measured_where_it_can_be_and_said_where_not(fitted):
    assert move(fitted, GIVEN).plan.reference == "measured"
    other = move(fitted, changed(GIVEN, n_params=2e5))
    assert other.plan.reference == "base-law"
    assert [note.code for note in other.notes if note.code == "reference"] == ["reference"]
    assert move(fitted, changed(GIVEN, base_source_loss=1.8)).plan.base_source_loss == 1.8


def test_without_a_source_fit_there_is_a_forecast_and_no_map(fitted):
    alone = Fitted.build(fitted.target, None)
    for scenario in (GIVEN, AT_TOKENS, changed(FEWEST, max_target_loss=1.8)):
        found = move(alone, changed(scenario, max_forgetting=None))
        assert found.chart is None
        assert found.plan.feasible
        assert "forgetting" not in found.sentence
    assert "max_forgetting" not in controls.spans(alone, controls.first(alone))


def test_an_average_is_read_off_a_table_that_is_right(average):
    quick, exact = average.planned[0], average.target
    assert isinstance(quick, Tabled)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "n_params": 124_672.0,
            "ptpp": 279.0,
            "lr_peak": 0.003,
            "tokens": np.exp(rng.uniform(np.log(1e5), np.log(1e8), 200)),
            "replay": rng.uniform(0.1, 0.5, 200),
        }
    )
    np.testing.assert_allclose(quick.predict(rows), exact.predict(rows), rtol=1e-4)
    odd = rows.assign(replay=np.where(np.arange(200) == 3, 0.9, 0.3))  # beyond the table: the average itself
    np.testing.assert_allclose(quick.predict(odd), exact.predict(odd), rtol=1e-12)
    two = rows.assign(n_params=np.where(np.arange(200) < 100, 45_936.0, 124_672.0))
    np.testing.assert_allclose(quick.predict(two), exact.predict(two), rtol=1e-12)
    found = move(average, AT_TOKENS)
    known = cl.plan.trade_off(average.target, average.source, **MODEL, tokens=1e6, max_forgetting=0.25, interval=None)
    assert found.plan.replay == pytest.approx(known.replay, abs=2e-4)


def test_controls_start_with_an_answer_and_give_back_what_they_show(fitted):
    start = controls.first(fitted)
    assert (start.n_params, start.ptpp) == (124_672.0, 124.0)
    assert move(fitted, start, doubt=True, draws=False).plan.feasible
    spans = controls.spans(fitted, start)
    sliders = {name: str(span[2]) for name, span in spans.items()}
    read = controls.read(fitted, sliders, {"replay": ["on"], "max_forgetting": ["on"]}, controls.BEST, "")
    assert read.to_query() == start.to_query()
    with pytest.raises(UsageError, match="not a number"):
        controls.read(fitted, {**sliders, "tokens": "x"}, {}, controls.BEST, "")


def test_a_scenario_stands_in_the_address_and_comes_back():
    pin = FEWEST.to_query()
    table, scenario, pins = read_address(
        f"?table=abc&{GIVEN.to_query()}&pin={pin.replace('&', '%26').replace('=', '%3D')}"
    )
    assert (table, scenario, pins) == ("abc", GIVEN, [pin])
    assert read_address("?utm=1") == (None, None, [])
    assert read_address("?" + "x" * 10_000) == (None, None, [])
    for wrong in ("?tokens=nan", "?tokens=-5", "?n_params=__import__", "?tokens=1&risk=2", "?tokens=1&replay=7"):
        with pytest.raises(CptlawError):
            read_address(wrong)


def test_advice_speaks_of_the_controls_of_the_page():
    known = Finding("warning", "extrapolation", "far", "Give --where 'tokens > 1M' (see cptlaw fit).")
    assert "sliders" in sentences.advised(known).advice
    other = Finding(
        "info", "odd", "max_forgetting (--max-forgetting) is 3.", "Measure more. Use min_replay= or --fix it."
    )
    assert sentences.advised(other).advice == "Measure more."
    assert sentences.advised(other).message == "the limit on forgetting is 3."


def test_every_finding_of_the_example_can_be_followed_in_the_page(average):
    far = changed(FEWEST, n_params=1e8, max_target_loss=1.3)
    for scenario in (far, AT_TOKENS, changed(GIVEN, tokens=1e9)):
        for note in move(average, scenario, doubt=True, draws=False).notes:
            shown = sentences.advised(note)
            assert "--" not in shown.message + shown.advice
            assert "cptlaw" not in shown.advice


def test_a_table_is_taken_whole_or_not_at_all(runs, fitted):
    session, shelf = Session(loaded=Loaded(runs).with_fits(fitted)), Shelf()
    before = session.loaded

    def fails(tell):
        raise UsageError("no law can be fitted")

    job = session.begin("upload", fails)
    for _ in range(200):
        if job.done:
            break
        threading.Event().wait(0.02)
    assert job.problem == "no law can be fitted"
    assert session.loaded is before
    shelf.keep(before)
    assert shelf.table(runs.fingerprint[:12]) is before
    assert shelf.table("") is None
    assert shelf.fits(Loaded(runs)) is fitted
    assert shelf.fits(Loaded(runs, where="ptpp <= 31")) is None
    session.suggestion = "of the old table"
    session.take(Loaded(runs).with_fits(fitted))
    assert session.suggestion is None


def test_laws_on_offer_can_be_planned_with():
    laws = planning_laws()
    assert {"ptpp-floor", "dcpt-l3", "ptpp-gated-floor"} <= set(laws)
    assert not {"ptpp-base", "ptpp-oracle", "lr-annealing", "dcpt-cross-k1"} & set(laws)
