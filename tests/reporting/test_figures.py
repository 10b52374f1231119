"""Figures show the numbers of the library: each test recomputes what a drawing holds."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.reporting.figures.figure import AXES, Panels, ticks_between

pytest.importorskip("plotly", reason="figures need Plotly: pip install 'cptlaw[report]'")

ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)
MODEL = {"n_params": 124_672.0, "ptpp": 279.0}
LIMITS = {"max_target_loss": 1.70, "max_forgetting": 0.25}


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def fits(runs):
    found = {
        on: cl.fit("ptpp-gate", runs, on=on, where=ROWS, starts=24, restraint="none") for on in ("target", "source")
    }
    return found


@pytest.fixture(scope="module")
def unseen(runs):
    rows = "ptpp == 279 and replay == 0.25 and n_params == 124672 and lr_schedule == 'constant' and atpp >= 1.9"
    return runs.on("target").where(rows).frame


@pytest.fixture(scope="module")
def drawn(runs, fits, unseen):
    target, source = fits["target"], fits["source"]
    plan = cl.plan.min_tokens(target, source, **MODEL, **LIMITS, interval=None)
    front = cl.plan.pareto(target, source, **MODEL, budget=7.5e11, points=6, interval=None)
    cells = cl.suggest(
        "ptpp-gate",
        runs,
        "target",
        ROWS,
        at="n_params=124672,tokens=1M,replay=25%,ptpp=279",
        budget=1e12,
        n=3,
        starts=8,
    )
    at = {**MODEL, "replay": 0.25}
    return {
        "observed": cl.figures.observed_fitted(target),
        "calibration": cl.figures.calibration(target, unseen),
        "fan": cl.figures.interval_fan(target, at, unseen),
        "map": cl.figures.forgetting_map(target, source, plan=plan, **MODEL, **LIMITS),
        "pareto": cl.figures.pareto_front(front),
        "curves": cl.figures.loss_curves(runs, "target", fit=target),
        "cells": cl.figures.suggested_cells(cells, target.data),
        "plan": plan,
        "suggestion": cells,
    }


FIGURES = ("observed", "calibration", "fan", "map", "pareto", "curves", "cells")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_words_data_and_a_title_with_its_unit_on_every_axis(drawn, name):
    figure = drawn[name]
    layout = json.loads(figure.to_json())["layout"]
    assert figure.caption.endswith(".")
    assert len(figure.data)
    notes = [note["text"] for note in layout.get("annotations", ())]
    titled = [axis for key, axis in layout.items() if key.startswith(("xaxis", "yaxis"))]
    titles = [(axis.get("title") or {}).get("text") for axis in titled]
    # Panels share a title per side; parameters, which name their own values, need none.
    assert all(titles) or notes
    said = " ".join([*filter(None, titles), *notes])
    assert "(" in said
    assert any(unit in said for unit in ("nats per byte", "factor", "adaptation tokens"))


def test_one_run_is_drawn_with_the_intervals_of_its_forecast(runs):
    # The forecast had them, from what studies say, and its picture called the runs too few for any.
    frame = runs.frame
    adapted = frame.loc[(frame["tokens"] > 0) & (frame["lr_schedule"] == "constant"), "run"]
    fit = cl.fit(runs.where(f"tokens == 0 or run == {str(adapted.iloc[0])!r}"), on="source")
    assert fit.n_runs == 1
    drawn = cl.figures.interval_fan(fit, {**MODEL, "replay": 0.25})
    said = fit.forecast(drawn.data.assign(**MODEL, replay=0.25)[["tokens", *MODEL, "replay"]], 0.9)
    assert drawn.data[["lo_0.9", "hi_0.9"]].to_numpy() == pytest.approx(said[["lo", "hi"]].to_numpy())


def test_runs_at_one_share_of_replay_make_a_report_without_a_map(runs, tmp_path):
    # A map over one share has no height: the report ended in a traceback, as that of one run did.
    alone = runs.where("tokens == 0 or replay == 0.25 and lr_schedule == 'constant' and n_params == 124672")
    target, source = (cl.fit(alone, on=on) for on in ("target", "source"))
    report = cl.report(alone, target, source, **MODEL, max_forgetting="30%")
    path = report.save(tmp_path / "report.html")
    assert {figure.name.rpartition("-")[0] for figure in report.figures} == {"interval-fan", "observed-fitted"}
    assert path.exists()
    with pytest.raises(UsageError, match="25%"):
        cl.figures.forgetting_map(target, source, **MODEL, max_forgetting="30%")
    plan = cl.plan.min_tokens(target, source, **MODEL, max_forgetting="30%", max_target_loss=1.9)
    assert cl.plot(plan).name == "losses-by-replay"


def test_a_level_that_one_size_alone_has_makes_no_row_of_empty_panels():
    runs = cl.examples.load("en-fr-pilot")  # 0 and 100 % replay at the smallest size alone
    fit = cl.fit("ptpp-floor", runs, on="target", where="ptpp in (31, 62) and tokens > 0", starts=8, restraint="none")
    assert set(fit.data["replay"]) > {0.1, 0.25, 0.5}
    layout = json.loads(cl.figures.observed_fitted(fit).to_json())["layout"]
    assert {note["text"].rpartition(", ")[2] for note in layout["annotations"] if "replay" in note["text"]} == {
        "10% replay",
        "25% replay",
        "50% replay",
    }


@pytest.mark.parametrize("name", ["observed"])
def test_panels_restack_on_narrow_screens_without_overlap(drawn, name):
    meta = json.loads(drawn[name].to_json())["layout"]["meta"]
    assert meta["narrow"]["height"] >= meta["wide"]["height"]
    for arrangement in meta.values():
        boxes = [
            (*arrangement[key], *arrangement[key.replace("xaxis", "yaxis")])
            for key in arrangement
            if key.startswith("xaxis") and key.endswith("domain")
        ]
        for i, (left, right, low, high) in enumerate(boxes):
            assert 0 <= left < right <= 1
            assert 0 <= low < high <= 1
            for other in boxes[:i]:
                apart = left >= other[1] or right <= other[0] or low >= other[3] or high <= other[2]
                assert apart, (name, boxes[i], other)
    widths = [meta["narrow"][key] for key in meta["narrow"] if key == "xaxis.domain"]
    assert all(right - left > 0.4 for left, right in widths)


def test_observed_and_fitted_are_the_rows_of_the_fit(drawn, fits):
    data, fit = drawn["observed"].data, fits["target"]
    assert len(data) == fit.n_points
    assert np.allclose(np.sort(data["observed"]), np.sort(fit.data["loss"]))
    assert np.allclose(data["fitted"], fit.predict(data))
    assert ((data["lo"] < data["fitted"]) & (data["fitted"] < data["hi"])).all()


def test_calibration_counts_what_lies_inside(drawn, unseen):
    data = drawn["calibration"].data
    inside = int(((data["measured"] >= data["lo"]) & (data["measured"] <= data["hi"])).sum())
    assert len(data) == len(unseen)
    assert f"{inside} of {len(data)} lie within" in drawn["calibration"].caption


def test_fan_widens_with_coverage_and_ends_at_the_forecast(drawn, fits):
    data = drawn["fan"].data
    assert (data["lo_0.9"] < data["lo_0.5"]).all()
    assert (data["hi_0.9"] > data["hi_0.5"]).all()
    last = fits["target"].forecast(data[["n_params", "tokens", "replay", "ptpp"]].tail(1), 0.9).iloc[0]
    assert data["loss"].iloc[-1] == pytest.approx(last["loss"])
    # Traced alone, a point may find a little more of the profile than among others.
    assert data["hi_0.9"].iloc[-1] == pytest.approx(last["hi"], rel=5e-3)


def test_map_shades_what_the_planner_calls_infeasible(drawn, fits):
    data, plan = drawn["map"].data, drawn["plan"]
    base = plan.base_source_loss
    loss = fits["source"].predict(data.assign(**MODEL))
    assert np.allclose(data["forgetting"], loss / base - 1)
    keeps = (data["forgetting"] <= LIMITS["max_forgetting"]) & (data["target_loss"] <= LIMITS["max_target_loss"])
    assert (keeps == data["feasible"]).mean() > 0.999
    # The plan is the leftmost mix of the region.
    assert data.loc[data["feasible"], "tokens"].min() >= plan.tokens * (1 - 1e-9)
    star = next(trace for trace in drawn["map"].drawing.data if trace.name == "plan")
    assert (star.x[0], star.y[0]) == (plan.tokens, plan.replay)


def first_tokens(trace):
    """Return the fewest tokens within a contour at zero, interpolated along its rows."""
    logs = np.log(np.asarray(trace.x, dtype=float))
    found = []
    for row in np.asarray(trace.z, dtype=float):
        for k in np.flatnonzero((row[:-1] > 0) & (row[1:] <= 0)):
            found.append(logs[k] + (logs[k + 1] - logs[k]) * row[k] / (row[k] - row[k + 1]))
    return np.exp(min(found))


def test_risk_contours_are_the_planners_own(drawn, fits):
    """A contour's leftmost point is the plan at that risk, up to the surface through a few looks at the doubt."""
    trace = next(trace for trace in drawn["map"].drawing.data if trace.name == "limits hold with 80%")
    plan = cl.plan.min_tokens(fits["target"], fits["source"], **MODEL, **LIMITS, risk=0.8, interval=None)
    assert first_tokens(trace) == pytest.approx(plan.tokens, rel=0.05)


def test_the_map_has_four_kinds_of_line_and_none_lies_under_a_limit(drawn):
    lines = [trace for trace in drawn["map"].drawing.data if trace.type == "contour"]
    assert len({trace.name for trace in lines}) == len(lines) <= 4
    contours = lines[0].contours
    assert lines[0].name.startswith("target loss")
    levels = np.arange(contours.start, contours.end, contours.size)
    assert 3 <= len(levels) <= 9
    assert np.abs(levels - LIMITS["max_target_loss"]).min() > 0.2 * contours.size


def test_the_star_lies_on_the_edge_that_binds_it_where_more_tokens_forget_more(fits):
    """At given tokens the best replay is that at which the limit on forgetting holds with the risk, and no other."""
    asked = {**MODEL, "max_forgetting": 0.25, "base_source_loss": 1.7293}
    plan = cl.plan.trade_off(fits["target"], fits["source"], **asked, tokens="1M", risk=0.8, interval=None)
    figure = cl.figures.forgetting_map(fits["target"], fits["source"], plan=plan, risks=(0.8,), **asked)
    trace = next(trace for trace in figure.drawing.data if trace.name == "limits hold with 80%")
    logs, replay = np.log(np.asarray(trace.x, dtype=float)), np.asarray(trace.y, dtype=float)
    column = np.array([np.interp(np.log(plan.tokens), logs, row) for row in np.asarray(trace.z, dtype=float)])
    assert np.interp(plan.replay, replay, column) == pytest.approx(0.0, abs=2e-3)
    assert column[replay < plan.replay - 0.05].min() > 0 > column[replay > plan.replay + 0.05].max()


def test_infeasible_map_says_what_blocks(fits):
    limits = {"max_target_loss": 1.4, "max_forgetting": 0.05, "max_tokens": 1e7}
    plan = cl.plan.min_tokens(fits["target"], fits["source"], **MODEL, **limits, interval=None)
    figure = cl.figures.forgetting_map(
        fits["target"], fits["source"], plan=plan, **MODEL, max_target_loss=1.4, max_forgetting=0.05
    )
    assert not figure.data["feasible"].any()
    assert figure.caption


def test_map_needs_a_reference(fits):
    with pytest.raises(UsageError, match="base_source_loss"):
        cl.figures.forgetting_map(fits["target"], None, **MODEL, max_target_loss=1.7)


@pytest.mark.parametrize("away", [{}, {"replay": 0.8}, {"replay": 0.01}, {"tokens": 1e3}, {"tokens": 1e15}])
def test_the_star_of_a_plan_lies_on_its_map(fits, away):
    plan = cl.plan.min_tokens(fits["target"], fits["source"], **MODEL, **LIMITS, interval=None)
    figure = cl.figures.forgetting_map(
        fits["target"], fits["source"], plan=dataclasses.replace(plan, **away), **MODEL, **LIMITS, risks=()
    )
    (star,) = [trace for trace in figure.drawing.data if trace.name == "plan"]
    for value, axis in ((np.log10(star.x[0]), figure.drawing.layout.xaxis), (star.y[0], figure.drawing.layout.yaxis)):
        assert min(axis.range) <= value <= max(axis.range)


def test_loss_curves_draw_the_schedule_on_the_same_steps(runs, fits):
    from cptlaw.schedules import Phase, Schedule

    name = "46k-p31-r0.1-const-s0"
    schedule = Schedule([Phase("cpt", 700, "linear", peak=3e-3, warmup=50)])
    figure = cl.figures.loss_curves(runs, "target", schedules={name: schedule}, names=[name], fit=fits["target"])
    assert np.allclose(figure.data["lr"], np.interp(figure.data["step"], np.arange(701), schedule.lr))
    assert any(trace.yaxis == "y2" for trace in figure.drawing.data)
    with pytest.raises(UsageError, match="no run 'nothing'"):
        cl.figures.loss_curves(runs, "target", names=["nothing"])


def test_suggested_cells_are_the_suggestion(drawn):
    assert drawn["cells"].data["flops"].sum() == pytest.approx(drawn["suggestion"].flops)


def test_data_is_saved_as_csv_and_other_endings_are_refused(drawn, tmp_path):
    kept = pd.read_csv(drawn["pareto"].save(tmp_path / "front.csv"))
    assert np.allclose(kept["target_loss"], drawn["pareto"].data["target_loss"])
    with pytest.raises(UsageError, match=r"\.png, \.pdf or \.svg"):
        drawn["pareto"].save(tmp_path / "front.jpg")


def test_ticks_are_round_and_cover_the_range():
    assert ticks_between(45_936, 124_672)[0] >= 45_936 / 1.1
    assert all(len(ticks_between(10**a, 10**b)) <= 6 for a in range(3, 9) for b in range(a + 1, 14))
    assert Panels(("one",), 3).ids(0) == {"xaxis": "x", "yaxis": "y"}
    assert all(AXES.values())


def test_figures_in_a_notebook_need_no_network(monkeypatch):
    """The first one of a session brings what draws; all others draw with it, and fetch it only where it is gone."""
    from cptlaw.reporting.figures import figure as room

    monkeypatch.setattr(room, "_BROUGHT", [])
    drawing = room.blank_drawing()
    drawing.add_scatter(x=[1], y=[2], name="</script>")
    shown = room.Figure("a", "A <title>", "caption", pd.DataFrame({"x": [1]}), drawing)
    first, second = shown._repr_html_(), shown._repr_html_()
    assert "window.Plotly = Plotly" in first
    assert len(first) < 2e6
    assert len(second) < 1e4
    assert "A &lt;title&gt;" in second
    assert second.count("</script>") == 1  # what a trace is called ends no script
    assert f"v{room.IN_NOTEBOOK.split('plotly-cartesian-')[1].split('.min')[0]}\n" in first


def test_losses_along_replay_stand_beside_what_was_measured_nearest(runs):
    """Rings are the fitted losses of the runs nearest in size, budget and tokens, in this order."""
    how = {"where": "replay > 0", "starts": 4, "restraint": "none"}
    fits = [cl.fit("ptpp-floor", runs, on=on, **how) for on in ("target", "source")]
    asked = {"n_params": "1M", "ptpp": 400, "tokens": "20M", "max_forgetting": "60%", "base_source_loss": 1.3}
    figure = cl.figures.losses_by_replay(cl.plan.trade_off(*fits, **asked))
    rings = {trace.name: trace for trace in figure.drawing.data if (trace.name or "").endswith("measured")}
    for role in ("target", "source"):
        rows = runs.on(role).frame
        rows = rows[(rows["n_params"] == 124_672) & (rows["ptpp"] == 279) & (rows["lr_schedule"] == "constant")]
        last = rows[rows["tokens"] == rows["tokens"].max()]
        found = rings[f"{role} loss, measured"]
        assert sorted(found.y) == pytest.approx(sorted(last["loss"]))
        assert sorted(found.x) == pytest.approx(sorted(last["replay"]))


def test_without_runs_forgetting_and_gain_are_drawn_as_the_answer_has_them():
    question = {"n_params": "8B", "ptpp": 1875, "target_tokens": "20B", "shift": "language"}
    answer = cl.answer(**question, max_forgetting="5%")
    figure = cl.plot(answer)
    (row,) = answer.along_replay([answer.replay])
    for name in ("tokens", "forgetting", "forgetting_lo", "forgetting_hi"):
        assert row[name] == pytest.approx(getattr(answer, name))
    stars = {round(float(trace.y[0]), 9) for trace in figure.drawing.data if trace.name == "plan"}
    assert stars == {round(answer.forgetting, 9), round(answer.target_gain[1], 9)}
    assert np.all(np.diff(figure.data["forgetting"]) < 0)
    free = cl.answer(**question)
    assert cl.plot(free).data["forgetting"].iloc[0] == pytest.approx(free.options[0]["forgetting"])
    assert not [trace for trace in cl.plot(free).drawing.data if trace.name == "plan"]
