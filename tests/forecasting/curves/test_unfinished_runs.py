"""Forecasts of unfinished runs find a known end, say how sure they are, and never look at it."""

import json

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import DataError, UsageError
from cptlaw.schedules import Phase, Schedule

NAMES = ("L0", "A", "alpha", "B", "E", "beta", "C1", "C2")
# Fig. 3 of arXiv:2505.07796 (specification 6.4).
TRUTH = {
    "source": dict(zip(NAMES, (3.057, 0.490, 0.497, 0.366, 28, 0.189, 0.299, 0.298), strict=True)),
    "target": dict(zip(NAMES, (3.024, 0.412, 0.677, -0.666, 5662, 0.146, 0.278, 0.324), strict=True)),
}
PLAN = Schedule(
    [
        Phase("pretrain", 20_000, "wsd", peak=2e-4, warmup=500, decay=4000),
        Phase("cpt", 10_000, "cosine", peak=2e-4, warmup=200),
    ]
)


def curve(run, plan, on, step, noise=0.001, seed=0, phase="cpt"):
    """Return measured losses of a run under the published law."""
    law = cl.law("cpt-dynamics")
    columns = law.read(plan, np.asarray(step) + (plan.n_pretrain if phase == "cpt" else 0))
    loss = law.predict(TRUTH[on], pd.DataFrame(columns), on)
    rng = np.random.default_rng([seed, on == "source"])
    return pd.DataFrame(
        {
            "run": run,
            "eval": on,
            "step": step,
            "phase": phase,
            "loss": loss * np.exp(noise * rng.normal(size=len(loss))),
        }
    )


def end(plan, on):
    return float(curve("x", plan, on, [plan.n_cpt], noise=0.0)["loss"].iloc[0])


@pytest.fixture(scope="module")
def log():
    """The first 40 % of a run, both losses."""
    step = np.arange(200, 4001, 200)
    return pd.concat([curve("a", PLAN, on, step) for on in ("source", "target")], ignore_index=True)


@pytest.fixture(scope="module")
def found(log):
    return cl.forecast_run(log, {"a": PLAN})


def test_the_interval_holds_the_known_end(found):
    assert list(found.points["eval"]) == ["source", "target"]
    for row in found.points.to_dict("records"):
        truth = end(PLAN, row["eval"])
        assert row["lo"] < truth < row["hi"]
        assert abs(row["loss"] / truth - 1) < 0.02
        assert (row["step"], row["last_step"], row["progress"]) == (10_000, 4000, 0.4)
        # The last value, which people read off a dashboard, is farther away.
        assert abs(row["loss"] - truth) < abs(row["last_loss"] - truth)


def test_more_rows_narrow_the_interval(log, found):
    step = np.arange(200, 9001, 200)
    more = pd.concat([curve("a", PLAN, on, step) for on in ("source", "target")], ignore_index=True)
    later = cl.forecast_run(more, {"a": PLAN})
    before, after = (one.points["hi"] - one.points["lo"] for one in (found, later))
    assert np.all(after < 0.5 * before)


def test_finished_runs_under_another_schedule_help(log, found):
    base = PLAN.phases[0]
    other = Schedule([base, Phase("cpt", 8000, "wsd", peak=2e-4, decay=2000)])
    step = np.arange(200, 8001, 200)
    both = pd.concat([log, *(curve("b", other, on, step, seed=1) for on in ("source", "target"))], ignore_index=True)
    helped = cl.forecast_run(both, {"a": PLAN, "b": other})
    assert list(helped.points["run"]) == ["a", "a"]
    assert list(helped.points["others"]) == [1, 1]
    assert np.all(helped.points["hi"] - helped.points["lo"] < found.points["hi"] - found.points["lo"])
    for row in helped.points.to_dict("records"):
        assert row["lo"] < end(PLAN, row["eval"]) < row["hi"]


def test_other_runs_that_mislead_are_outweighed_by_the_own_rows(log):
    other = Schedule([PLAN.phases[0], Phase("cpt", 8000, "constant", peak=2e-4)])
    strange = pd.concat([curve("b", other, on, np.arange(200, 8001, 200), seed=1) for on in TRUTH], ignore_index=True)
    strange["loss"] *= 1.15 * (1e-4 * (strange["step"] + 500)) ** -0.05
    misled = cl.forecast_run(pd.concat([log, strange], ignore_index=True), {"a": PLAN, "b": other}, "a")
    for row in misled.points.to_dict("records"):
        assert row["others"] == 1
        assert row["lo"] < end(PLAN, row["eval"]) < row["hi"]
        assert abs(row["loss"] / end(PLAN, row["eval"]) - 1) < 0.05  # the other run ends 15 % higher


def test_other_runs_whose_schedule_cannot_be_read_are_left_out_and_said(log, found):
    late = curve("b", PLAN, "source", np.arange(2000, 8001, 500)).assign(lr=1e-4)
    said = cl.forecast_run(pd.concat([log, late], ignore_index=True), {"a": PLAN})
    assert said.points["loss"].tolist() == found.points["loss"].tolist()
    assert "others-unread" in {finding.code for finding in said.findings}


def test_the_loss_of_an_open_base_model_is_no_row_of_the_curve(log):
    plan = Schedule([PLAN.phases[1]])
    base = pd.DataFrame({"run": "a", "eval": ["source", "target"], "step": 0, "loss": [2.0, 4.0]})
    own = log.drop(columns="phase")
    with_base = cl.forecast_run(pd.concat([base, own], ignore_index=True), {"a": plan})
    assert with_base.points["loss"].tolist() == cl.forecast_run(own, {"a": plan}).points["loss"].tolist()


def test_runs_that_differ_are_not_pooled(log):
    other = curve("b", PLAN, "source", np.arange(200, 10_001, 200)).assign(replay=0.5)
    both = pd.concat([log.assign(replay=0.1), other], ignore_index=True)
    assert list(cl.forecast_run(both, {"a": PLAN, "b": PLAN}).points["others"]) == [0, 0]


def test_nothing_of_the_end_is_read(log, found):
    """The rows of another, finished eval or of a later step of another run with no plan change nothing."""
    stray = curve("c", PLAN, "source", [10_000]).assign(loss=9.0)
    again = cl.forecast_run(pd.concat([log, stray], ignore_index=True), {"a": PLAN})
    assert again.points["loss"].tolist() == found.points["loss"].tolist()


def test_an_open_base_model(log):
    plan = Schedule([PLAN.phases[1]])
    row = cl.forecast_run(log.drop(columns="phase"), {"a": plan}).points.iloc[0]
    assert row["law"] == "cpt-dynamics:open_base=true"
    assert row["lo"] < end(PLAN, "source") < row["hi"]


def test_a_training_from_scratch():
    law = cl.law("lr-annealing")
    plan = Schedule([Phase("pretrain", 20_000, "wsd", peak=2e-4, warmup=500, decay=4000)])
    step = np.arange(500, 20_001, 250)
    loss = law.predict({"L0": 2.628, "A": 0.43, "alpha": 0.55, "C": 0.41}, pd.DataFrame(law.read(plan, step)))
    log = pd.DataFrame({"run": "a", "eval": "val", "step": step, "loss": loss})
    row = cl.forecast_run(log[log["step"] <= 12_000], {"a": plan}).points.iloc[0]
    assert row["law"] == "lr-annealing"
    assert [finding.code for finding in row["findings"]] == ["annealing-ahead"]
    assert row["lo"] < loss[-1] < row["hi"]


def test_another_rate_than_planned_is_said(log):
    planned = PLAN.lr[PLAN.n_pretrain + log["step"]]
    said = cl.forecast_run(log.assign(lr=planned), {"a": PLAN})
    assert "other-rate" not in {finding.code for finding in said.findings}
    said = cl.forecast_run(log.assign(lr=0.5 * planned), {"a": PLAN})
    assert "other-rate" in {finding.code for finding in said.findings}


def test_one_loss_alone_is_said(log, found):
    alone = cl.forecast_run(log[log["eval"] == "target"], {"a": PLAN})
    assert alone.points["loss"].tolist() == found.points["loss"].tolist()[1:]
    assert [finding.code for finding in alone.of_table] == ["one-loss"]
    assert not found.of_table


def test_of_several_runs_those_with_a_longer_plan_are_forecast(log, found):
    finished = curve("b", PLAN, "source", np.arange(1000, 10_001, 1000)).assign(replay=0.5)
    unplanned = log.assign(run="c")
    several = pd.concat([log.assign(replay=0.1), finished, unplanned], ignore_index=True)
    said = cl.forecast_run(several, {"a": PLAN, "b": PLAN})
    assert list(said.points["run"]) == ["a", "a"]
    assert said.points["loss"].tolist() == found.points["loss"].tolist()
    assert [finding.code for finding in said.of_table] == ["no-schedule"]


def test_losses_of_base_models_without_a_step_are_no_rows_of_a_curve(log, found):
    base = pd.DataFrame({"run": ["a", "a"], "eval": ["source", "target"], "loss": [2.5, 3.0], "tokens": 0})
    said = cl.forecast_run(pd.concat([log.assign(tokens=1e6 * log["step"]), base], ignore_index=True), {"a": PLAN})
    assert said.points["loss"].tolist() == found.points["loss"].tolist()


def test_a_log_without_run_names_and_one_plan(log, found):
    nameless = log.drop(columns="run")
    said = cl.forecast_run(nameless, {"a": PLAN})
    assert said.points["loss"].tolist() == found.points["loss"].tolist()
    with refused(UsageError, "column run", "2 schedules"):
        cl.forecast_run(nameless, {"a": PLAN, "b": PLAN})
    with refused(DataError, "row 40"):
        cl.forecast_run(pd.concat([nameless, nameless]), {"a": PLAN})


def test_same_rows_same_bits(log, found):
    again = cl.forecast_run(log, {"a": PLAN})
    assert again.to_dict() == found.to_dict()


def test_questions_that_make_no_sense(log):
    finished = curve("a", PLAN, "source", [2000, 6000, 10_000])
    with pytest.raises(UsageError, match="finished"):
        cl.forecast_run(finished, {"a": PLAN})
    with refused(UsageError, "DataFrame", " a;", " b."):
        cl.forecast_run(log, {"b": PLAN})
    with pytest.raises(UsageError, match="Did you mean"):
        cl.forecast_run(log, {"a": PLAN}, "aa")
    with pytest.raises(DataError, match="are needed"):
        cl.forecast_run(log[log["step"] <= 400], {"a": PLAN})
    short = Schedule([PLAN.phases[0], Phase("cpt", 3000, "cosine", peak=2e-4)])
    with refused(DataError, "step 3200", "3000"):
        cl.forecast_run(log, {"a": short})
    with refused(DataError, "row 0", "step is 200.5"):
        cl.forecast_run(log.assign(step=log["step"] + 0.5), {"a": PLAN})
    with pytest.raises(DataError, match="no column step"):
        cl.forecast_run(log.iloc[[0]].drop(columns="step"), {"a": PLAN})
    with refused(DataError, "'val'", "'a'"):
        cl.forecast_run(log[log["eval"] == "source"].assign(eval="val"), {"a": PLAN})
    with pytest.raises(UsageError, match="has no priors"):
        cl.forecast_run(log, {"a": PLAN}, law_name="multi-power")


class TestCommandLine:
    @pytest.fixture
    def files(self, log, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        log.to_csv("log.csv", index=False)
        (tmp_path / "plan.json").write_text(json.dumps({"a": PLAN.to_list()}))

    def run(self, capsys, *words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return ended.value.code, capsys.readouterr()

    def test_the_verb_is_the_function(self, files, capsys):
        code, said = self.run(capsys, "forecast", "--run", "log.csv", "--schedules", "plan.json", "--json")
        assert not code
        points = json.loads(said.out)["points"]
        wanted = cl.forecast_run("log.csv", "plan.json").points
        assert [point["loss"] for point in points] == wanted["loss"].tolist()
        assert {"run", "eval", "step", "loss", "lo", "hi", "findings"} <= set(points[0])

    def test_text(self, files, capsys):
        code, said = self.run(capsys, "forecast", "--run", "log.csv", "--schedules", "plan.json", "--interval", "0.5")
        assert not code
        assert "40%" in said.out
        assert "50% interval" in said.out

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--run", "log.csv"], "needs --schedules"),
            ([], "needs FIT.json files, or --run"),
            (["--run", "log.csv", "--schedules", "plan.json", "--at", "step=3"], "no fits, points or --domain"),
            (["fit.json", "--columns", "run=id"], "goes with --run RUNS"),
            (["--run", "none.csv", "--schedules", "plan.json"], "none.csv"),
        ],
    )
    def test_misuse(self, files, capsys, words, says):
        code, said = self.run(capsys, "forecast", *words)
        assert code == 2
        assert says in said.err


def test_a_run_that_outruns_all_others_has_no_upper_bound():
    # A small decoder from scratch, measured at log-spaced steps: the law's width passed the largest number.
    at = [6, 8, 12, 16, 22, 31, 42, 59, 82, 113, 157]
    losses = [6.242, 6.204, 6.114, 6.051, 5.904, 5.199, 4.103, 2.646, 1.876, 1.672, 1.578]
    plan = Schedule([Phase("cpt", 800, "cosine", peak=1e-3, warmup=20)])
    rows = pd.DataFrame({"run": "r", "eval": "target", "step": at, "loss": losses})
    point = cl.forecast_run(rows, {"r": plan}).points.iloc[0]
    assert np.isfinite(point["loss"])
    assert point["lo"] < point["loss"] < point["hi"] == np.inf
    written = json.loads(cl.forecast_run(rows, {"r": plan}).to_json())
    assert written["points"][0]["hi"] is None
