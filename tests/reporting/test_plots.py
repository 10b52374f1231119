"""`cl.plot` of results, tab completion, and tables of polars: what a notebook asks for."""

import subprocess
import sys

import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw import plugins
from cptlaw.errors import install_command
from cptlaw.laws import describe, law
from cptlaw_curves.forecasting.shift import ShiftFit

go = pytest.importorskip("plotly.graph_objects")

ROWS = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124)"
MODEL = {"n_params": 124_672, "ptpp": 279}
POINT = {**MODEL, "tokens": 1e6, "replay": 0.25}


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def target(runs):
    return cl.fit("ptpp-floor", runs, on="target", where=ROWS, restraint="none")


@pytest.fixture(scope="module")
def source(runs):
    return cl.fit("ptpp-floor", runs, on="source", where=ROWS, restraint="none")


def drawn(result):
    """Plotly's own figure of a result, whose words stand beside it."""
    figure = cl.plot(result)
    assert figure.title
    assert figure.caption
    assert isinstance(figure.drawing, go.Figure)
    assert len(figure.drawing.data) > 0
    return figure.drawing


def test_a_fit_draws_itself(target):
    assert "misses the fitted target losses" in cl.plot(target).title
    points = sum(len(trace.x) for trace in drawn(target).data if trace.mode == "markers")
    assert 0 < points <= target.n_points


def test_a_forecast_draws_itself(target, source):
    frame = target.forecast({**POINT, "replay": [0.1, 0.25, 0.5]})
    figure = drawn(frame)
    assert list(drawn(frame.answer).data[0].y) == list(figure.data[0].y)
    assert list(figure.data[0].x) == [0.1, 0.25, 0.5]
    assert list(figure.data[0].y) == pytest.approx(frame["loss"].tolist())
    assert figure.data[0].error_y.array[0] == pytest.approx(frame["hi"][0] - frame["loss"][0])
    both = cl.forecast([target, source], pd.DataFrame([POINT]))
    assert {trace.name for trace in drawn(both).data} == {"ptpp-floor, target", "ptpp-floor, source"}


def test_one_point_and_no_interval(target):
    assert drawn(target.forecast(POINT))
    assert drawn(target.forecast(POINT, interval=None)).data[0].error_y.array is None


def test_a_comparison_draws_itself(runs):
    scores = cl.compare(
        "ptpp-floor,ptpp-nearest",
        runs,
        on="target",
        fit_where=ROWS,
        test_where=ROWS.replace("in (31, 62, 124)", "== 279"),
    )
    assert "forecasts best" in cl.plot(scores).title
    figure = drawn(scores)
    bars = dict(zip(figure.data[0].y, figure.data[0].x, strict=True))
    assert bars["ptpp-floor"] == pytest.approx(scores.set_index("law").loc["ptpp-floor", "mae_rel"])


def test_plans_draw_themselves(target, source):
    fewest = cl.plan.min_tokens(target, source, **MODEL, max_forgetting="18%", max_target_loss=1.75, interval=None)
    figure = drawn(fewest)
    stars = [trace for trace in figure.data if trace.name == "plan"]
    assert stars[0].x[0] == pytest.approx(fewest.tokens)
    traded = cl.plan.trade_off(target, source, **MODEL, tokens="1M", max_forgetting="25%", interval=None)
    losses = {trace.name: trace for trace in drawn(traded).data}
    assert {"target loss", "source loss"} <= set(losses)
    assert losses["plan"].x[0] == pytest.approx(traded.replay)
    front = cl.plan.pareto(target, source, **MODEL, budget="7.5e11", points=5)
    assert drawn(front)
    limited = cl.plan.limited_data(target, **MODEL, target_tokens="0.7M", interval=None)
    assert drawn(limited)


def test_a_plan_says_and_writes_no_more_than_before(target, source):
    plan = cl.plan.trade_off(target, source, **MODEL, tokens="1M", max_forgetting="25%", interval=None)
    assert plan.mix is not None
    assert not [name for name in plan.to_dict() if name.startswith("_")]
    assert "_mix" not in plan.to_json()


def test_what_has_no_figure_says_so(runs, target):
    with refused(cl.UsageError, "ShiftFit"):
        cl.plot(object.__new__(ShiftFit))
    with refused(cl.UsageError, " Runs."):
        cl.plot(runs)


def test_without_plotly_the_message_says_what_to_install(target, tmp_path):
    path = target.save(tmp_path / "target.json")
    program = (
        "import sys; sys.modules['plotly'] = None\nimport cptlaw as cl\n"
        f"fit = cl.load_fit({str(path)!r})\n"
        "try:\n    cl.plot(fit)\nexcept cl.UsageError as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert install_command("cptlaw[report]") in ended.stdout


def test_answers_show_themselves_in_a_notebook(runs, target):
    for shown in (runs, target, target.forecast(POINT), cl.check("ptpp-floor", runs, "target"), cl.law("ptpp-floor")):
        assert "<" in shown._repr_html_()
    assert describe(law("ptpp-floor"))["wrong"].split()[0] in cl.law("ptpp-floor")._repr_html_()


@pytest.mark.parametrize("place", ["", "plan", "figures", "examples"])
def test_tab_completion_shows_public_names_only(place):
    module = getattr(cl, place) if place else cl
    names = dir(module)
    beside = {"": plugins.FUNCTIONS, "plan": plugins.PLANS}  # of the packages beside the core
    joined = plugins.plugin_entries(beside[place]) if place in beside else {}
    assert names == sorted([*module.__all__, *joined])
    assert not [name for name in names if name.startswith("_")]
    for name in names:
        assert getattr(module, name) is not None


def test_tables_of_polars_in_and_out(runs, target):
    polars = pytest.importorskip("polars")
    table = runs.to_polars()
    assert isinstance(table, polars.DataFrame)
    assert table.height == len(runs.frame)
    again = cl.read_runs(table, n_params_kind="total")
    assert again.fingerprint == runs.fingerprint
    points = polars.DataFrame({"n_params": [124_672], "ptpp": [279], "tokens": [1e6], "replay": [0.25]})
    forecast = target.forecast(points).to_polars()
    assert forecast["loss"].to_list() == pytest.approx(target.forecast(POINT)["loss"].tolist())
    assert "extrapolation" in forecast["findings"].to_list()[0]


def test_a_split_of_a_budget_draws_itself(target):
    plan = cl.plan.allocate(target, replay="25%", ptpp=124, budget="1e13")
    curve, star = drawn(plan).data
    sizes, losses = list(curve.x), list(curve.y)
    best = min(range(len(losses)), key=losses.__getitem__)
    assert sizes[best] == pytest.approx(plan.n_params)
    assert losses[best] == pytest.approx(plan.target_loss)
    assert (star.x[0], star.y[0]) == (plan.n_params, plan.target_loss)
    data = cl.figures.budget_split(plan).data
    assert (6 * data["n_params"] * data["tokens"]).tolist() == pytest.approx([1e13] * len(data))
    assert not {"_loss", "loss"} & set(plan.to_dict())


def test_scores_of_sealed_forecasts_draw_themselves(runs, target, source):
    measured = runs.where("ptpp == 279 and replay in (0.1, 0.25) and lr_schedule == 'constant' and n_params > 1e5")
    ends = measured.frame.sort_values("tokens").drop_duplicates("run", keep="last")
    rows = ends[["n_params", "ptpp", "replay", "tokens"]].drop_duplicates()
    assert len(rows) == 2
    both = cl.forecast([target, source], rows)
    scores = cl.score(cl.register(both.answer.to_dict()), measured)
    figure = drawn(scores)
    assert {trace.name for trace in figure.data} == {"ptpp-floor, target", "ptpp-floor, source"}
    assert sum(len(trace.x) for trace in figure.data) == len(scores.frame)
    first = figure.data[0]
    chosen = scores.frame[scores.frame["on"] == first.name.split(", ")[1]]
    assert list(first.x) == pytest.approx(chosen["error"].tolist())
    held = [
        x - low <= 0 <= x + up
        for x, low, up in zip(first.x, first.error_x.arrayminus, first.error_x.array, strict=True)
    ]
    assert held == chosen["inside"].tolist()  # an interval that holds crosses zero
    assert sorted(figure.layout.yaxis.ticktext) == ["10% replay", "25% replay"]


def test_seals_that_name_other_inputs_are_drawn_together(runs, target):
    measured = runs.where("ptpp == 279 and replay in (0.1, 0.25) and lr_schedule == 'constant' and n_params > 1e5")
    ends = measured.frame.sort_values("tokens").drop_duplicates("run", keep="last")
    rows = ends[["n_params", "ptpp", "replay", "tokens"]].drop_duplicates()
    forecasts = [cl.forecast([target], rows[rows["replay"] == share]).answer.to_dict() for share in (0.1, 0.25)]
    for point in forecasts[1]["points"]:
        del point["ptpp"]  # its run is found by the inputs that are left
    scores = cl.score([cl.register(forecast) for forecast in forecasts], measured)
    assert scores.frame["ptpp"].isna().any()
    figure = cl.figures.sealed_scores(scores)
    assert figure.data["point"].nunique() == 2
    assert sum(len(trace.x) for trace in figure.drawing.data) == len(scores.frame)
    assert not any("nan" in text for text in figure.drawing.layout.yaxis.ticktext)
