"""Plans of schedules hold against brute force and against what follows from the equations."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from facts import refused
from schedule_truths import BASE, FOUR_RUNS, NAMES, RUN, SOURCE, TARGET, losses

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import UsageError
from cptlaw.planning.descent import Domain
from cptlaw.planning.solve import Axis, Limit, Space, solve
from cptlaw.schedules import Phase, Schedule, read_schedules
from cptlaw_curves.planning.curve_loss import CurveLoss
from cptlaw_curves.planning.whole_schedule import loss_and_slopes

# Fig. 20, e = 0.1.
WEIGHTED_SOURCE = dict(zip(NAMES, (3.037, 0.510, 0.464, 4.542, 100, 0.008, 0.779, 0.728), strict=True))
WEIGHTED_TARGET = dict(zip(NAMES, (2.982, 0.451, 0.563, -0.528, 100, 0.511, 0.773, 0.798), strict=True))
MULTI_POWER = {
    "L0": 3.04045406, "A": 0.52468604, "alpha": 0.50786857, "B": 363.78751622, "C": 2.06560812, "beta": 0.58279013,
    "gamma": 0.64142257,
}  # fmt: skip


SHORT = Schedule(
    [Phase("pretrain", 2000, "wsd", peak=2e-4, warmup=50, decay=400), Phase("cpt", 500, "cosine", peak=2e-4)]
)


def box(*names):
    """Ranges from 0 to 1 in which each point is dear."""
    return Space(tuple(Axis(name, 0.0, 1.0) for name in names), reach=Domain(2e-3))


@pytest.fixture(scope="module")
def source():
    return cl.given_fit("cpt-dynamics", SOURCE, "source")


@pytest.fixture(scope="module")
def target():
    return cl.given_fit("cpt-dynamics", TARGET, "target")


@pytest.fixture(scope="module")
def measured():
    """Fits of both losses to noisy curves of four runs, target first."""
    law, rng, parts = cl.law("cpt-dynamics"), np.random.default_rng(0), []
    for run in FOUR_RUNS:
        steps = [*np.arange(1000, 20_001, 500), *np.arange(100, 5001, 100)]
        rows = pd.DataFrame({"run": run, "step": steps, "phase": ["pretrain"] * 39 + ["cpt"] * 50})
        for on, truth in (("source", SOURCE), ("target", TARGET)):
            exact = law.predict(truth, law.attach(rows, FOUR_RUNS), on)
            noise = 0.002 * rng.standard_normal() + 0.002 * rng.standard_normal(len(rows))
            parts.append(rows.assign(eval=on, loss=exact * np.exp(noise)))
    rows = pd.concat(parts, ignore_index=True)
    return tuple(
        cl.fit("cpt-dynamics", rows, on=on, schedules=FOUR_RUNS, starts=8, restraint="none")
        for on in ("target", "source")
    )


class TestSchedule:
    def test_best_peak_is_that_of_a_fine_grid(self, source, target):
        plan = cl.plan.schedule(target, source, weight_source=0.5, vary="peak", schedules=RUN)
        peaks = np.geomspace(2e-6, 2e-4, 400)
        value = [np.mean(losses(Schedule([BASE, Phase("cpt", 5000, "cosine", peak=p)]))) for p in peaks]
        assert plan.weighted_loss <= min(value) + 1e-9
        assert plan.peak == pytest.approx(peaks[int(np.argmin(value))], rel=0.02)
        near = peaks[np.array(value) <= min(value) + 1e-3]
        low, high = plan.near_best["peak"]
        assert low == pytest.approx(near[0], rel=0.15)
        assert high == pytest.approx(near[-1], rel=0.15)

    def test_the_two_changes_are_signed(self, source, target):
        plan = cl.plan.schedule(target, source, weight_source=0.3, vary="peak", schedules=RUN)
        change = 0.3 * (plan.source_loss - plan.base_source_loss) + 0.7 * (plan.target_loss - plan.base_target_loss)
        assert plan.weighted_change == pytest.approx(change)
        assert plan.source_loss > plan.base_source_loss
        assert plan.target_loss < plan.base_target_loss

    def test_losses_are_those_of_the_equation(self, source, target):
        plan = cl.plan.schedule(target, source, weight_source=0.5, vary="peak,decay", schedules=RUN)
        run = Schedule(Phase(**phase) for phase in plan.phases)
        assert [plan.source_loss, plan.target_loss] == pytest.approx(losses(run))

    def test_more_weight_on_the_source_asks_for_a_smaller_peak(self, source, target):
        peaks = [
            cl.plan.schedule(target, source, weight_source=w, vary="peak", schedules=RUN).peak for w in (0.5, 0.7, 0.8)
        ]
        assert peaks[0] > peaks[1] > peaks[2]

    def test_the_highest_peak_comes_with_a_warning(self, source, target):
        at_edge = cl.plan.schedule(target, source, weight_source=0.0, vary="peak", schedules=RUN)
        assert at_edge.peak == pytest.approx(2e-4, rel=1e-3)  # that of pre-training
        assert [(one.severity, one.remedy.option) for one in at_edge.findings if one.code == "peak-at-edge"] == [
            ("warning", "ranges")
        ]
        inside = cl.plan.schedule(target, source, weight_source=0.7, vary="peak", schedules=RUN)
        assert "peak-at-edge" not in {one.code for one in inside.findings}

    @pytest.mark.parametrize(("high", "top"), [(0, 1e-4), (1, 1e-4), (2, 2e-4)])
    def test_no_peak_is_planned_unasked_that_fewer_than_a_tenth_of_the_runs_had(self, measured, high, top):
        peaks = [2e-4] * high + [1e-4] * (12 - high)
        runs = {f"{i}": Schedule([BASE, Phase("cpt", 5000, "cosine", peak=peak)]) for i, peak in enumerate(peaks)}
        rows = pd.concat([measured[0].data.assign(run=run) for run in runs], ignore_index=True)
        fit = replace(measured[0], data=rows, schedules=runs, _cache={})
        question = {"minimise": "target", "vary": "peak", "schedules": {"0": RUN}, "interval": None}
        assert cl.plan.schedule(fit, **question).peak == pytest.approx(top, rel=1e-3)
        assert cl.plan.schedule(fit, **question, ranges={"peak": (1e-5, 2e-4)}).peak == pytest.approx(2e-4, rel=1e-3)

    def test_a_limit_on_forgetting_is_kept_and_binds(self, source, target):
        plan = cl.plan.schedule(target, source, max_forgetting="2.2%", vary="peak,steps", schedules=RUN)
        assert plan.goal == "target"
        assert plan.forgetting == pytest.approx(0.022, abs=2e-6)
        assert "max-forgetting" in plan.binding
        # Brute force over both choices.
        best = math.inf
        for peak in np.geomspace(2e-6, 2e-4, 41):
            for steps in np.geomspace(500, 20_000, 21):
                run = Schedule([BASE, Phase("cpt", round(steps), "cosine", peak=peak)])
                src, tgt = losses(run)
                if src <= plan.base_source_loss * 1.022:
                    best = min(best, tgt)
        assert plan.target_loss <= best + 1e-6

    @pytest.mark.dear("each number of steps is a schedule of its own")
    def test_fewest_steps_to_a_target_loss(self, target):
        asked = {"minimise": "steps", "vary": "steps", "schedules": SHORT, "ranges": {"steps": (480, 520)}}
        plan = cl.plan.schedule(target, **asked, max_target_loss=losses(SHORT)[1])
        assert (plan.goal, plan.feasible) == ("steps", True)
        assert plan.steps == pytest.approx(SHORT.phases[-1].steps, rel=0.01)

    @pytest.mark.nightly
    def test_fewest_steps_under_both_limits(self, source, target):
        kept = {"max_forgetting": "4%", "max_target_loss": 2.68}
        plan = cl.plan.schedule(target, source, vary="steps,peak", schedules=RUN, **kept)
        assert plan.goal == "steps"
        assert plan.feasible
        assert plan.target_loss <= 2.68 + 1e-9
        assert plan.forgetting <= 0.04 + 1e-9
        fewer = cl.plan.schedule(
            target, source, vary="peak", schedules=RUN, steps=int(plan.steps * 0.97), **kept, minimise="target"
        )
        assert not fewer.feasible

    def test_what_cannot_be_kept_is_named(self, source, target):
        plan = cl.plan.schedule(target, source, max_target_loss=2.0, vary="peak", schedules=RUN)
        assert not plan.feasible
        assert plan.blocking == "max-target-loss"
        peaks = np.geomspace(2e-6, 2e-4, 200)
        best = min(losses(Schedule([BASE, Phase("cpt", 5000, "cosine", peak=p)]))[1] for p in peaks)
        assert plan.best_reachable["target_loss"] == pytest.approx(best, abs=1e-4)
        assert "best target loss" in plan.summary()
        both = cl.plan.schedule(target, source, max_target_loss=2.0, max_forgetting="1%", vary="peak", schedules=RUN)
        assert not both.feasible
        assert both.best_reachable["target_loss"] > 2.0

    def test_the_price_of_doubt(self, measured):
        question = {"vary": "peak", "schedules": RUN, "max_forgetting": "4%"}
        point = cl.plan.schedule(*measured, **question)
        sure = cl.plan.schedule(*measured, **question, risk=0.9)
        assert point.price_of_doubt is None
        assert point.feasible
        assert sure.feasible
        assert sure.forgetting < point.forgetting
        assert sure.price_of_doubt == pytest.approx(sure.target_loss - point.target_loss, abs=1e-9)
        assert sure.price_of_doubt > 0
        assert f"{sure.price_of_doubt:.2g} nats" in str(sure)
        assert sure.to_dict()["price_of_doubt"] == sure.price_of_doubt

    def test_replay_where_the_law_reads_it(self):
        laws = {}
        for on, a1, a2, b in (("source", 0.055, 3.238, 0.276), ("target", 0.037, 5.696, 0.526)):
            params = (SOURCE if on == "source" else TARGET) | {"E": 100.0, "a1": a1, "a2": a2, "B": b, "beta": 0.1}
            laws[on] = cl.given_fit("cpt-dynamics-replay", params, on)
        plans = [
            cl.plan.schedule(laws["target"], laws["source"], weight_source=w, vary="replay", schedules=RUN)
            for w in (0.1, 0.5)
        ]
        assert plans[0].replay < plans[1].replay
        fixed = cl.plan.schedule(laws["target"], laws["source"], weight_source=0.3, schedules=RUN, replay="20%")
        assert fixed.replay == 0.2
        with pytest.raises(UsageError, match="read replay"):
            cl.plan.schedule(laws["target"], laws["source"], weight_source=0.3, schedules=RUN)

    def test_loss_potential_without_re_warm_up(self, source, target):
        """A base model that stopped at a higher rate can go on learning; with re-warm-up it matters far less."""
        without = cl.plan.schedule(
            target, source, weight_source=0, vary="loss-potential", schedules=RUN, shape="linear", peak="base"
        )
        assert without.loss_potential > 0.9
        assert without.peak == pytest.approx(without.loss_potential * 2e-4)

    def test_options_replace_the_known_phase(self, source, target):
        plan = cl.plan.schedule(
            target, source, weight_source=0.5, vary=(), schedules=RUN,
            shape="wsd", steps="8K", peak=1e-4, decay="25%", warmup="1%", end="10%", tokens_per_step="4M",
        )  # fmt: skip
        assert (plan.steps, plan.decay, plan.warmup, plan.tokens) == (8000, 2000, 80, 3.2e10)
        assert plan.end == pytest.approx(1e-5)

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"vary": "peek"}, "Did you mean 'peak'"),
            ({"vary": "replay"}, "no law of this plan reads replay"),
            ({"ranges": ["steps=1:2"]}, "is not varied"),
            ({"ranges": ["peak=2e-4:1e-4"]}, "is not below"),
            ({"weight_source": 2}, "2%"),
            ({"risk": 0.9}, "no limit was given"),
            ({"risk": 0.9, "max_forgetting": "1%"}, "cannot say how runs differ"),
            ({"schedules": None}, "is not known"),
            ({"run": "b"}, "has no schedule"),
            ({"minimise": "steps"}, "--vary steps"),
            ({"max_steps": 100}, "Vary steps"),
        ],
    )
    def test_questions_that_make_no_sense(self, source, target, wrong, says):
        with pytest.raises(UsageError, match=says):
            cl.plan.schedule(target, source, **{"weight_source": 0.5, "vary": "peak", "schedules": RUN} | wrong)

    def test_several_base_models_are_named_by_a_run_of_each(self, source, target):
        longer = Schedule([Phase("pretrain", 9000, "constant", peak=2e-4), RUN.phases[-1]])
        both = {"a": RUN, "again": RUN, "longer": longer}
        with refused(UsageError, "2 ", "run= (--run)", "a, longer"):
            cl.plan.schedule(target, source, weight_source=0.5, schedules=both)

    def test_other_fits_are_refused(self, source):
        static = cl.given_fit("chinchilla", {"E": 1.8, "A": 400, "B": 400, "alpha": 0.3, "beta": 0.3}, "target")
        with refused(UsageError, "target: ", "chinchilla"):
            cl.plan.schedule(static, source, weight_source=0.5, schedules=RUN)
        with pytest.raises(UsageError, match="exchanged"):
            cl.plan.schedule(source, source, weight_source=0.5, schedules=RUN)

    def test_same_seed_same_bits(self, source, target):
        plans = [
            cl.plan.schedule(target, source, weight_source=0.5, vary="peak,rewarmup", schedules=SHORT) for _ in range(2)
        ]
        assert plans[0].to_dict() == plans[1].to_dict()


class TestSearch:
    def test_limits_hold_and_bind(self):
        def bowl(points):
            return (points["x"] - 0.8) ** 2 + (points["y"] - 0.8) ** 2

        best = solve(box("x", "y"), bowl, [Limit("sum", 1.0, lambda points: points["x"] + points["y"])])
        assert list(best.point.values()) == pytest.approx([0.5, 0.5], abs=1e-3)
        assert best.kept

    def test_least_excess_where_nothing_is_kept(self):
        best = solve(box("x"), lambda points: points["x"], [Limit("x", -2.0, lambda points: -points["x"])])
        assert not best.kept
        assert best.point["x"] == 1.0

    def test_two_valleys(self):
        best = solve(box("x"), lambda points: np.cos(12 * points["x"]) + 0.1 * points["x"])
        assert best.point["x"] == pytest.approx(np.pi / 12, abs=0.01)


class TestWholeSchedule:
    @pytest.mark.parametrize(
        ("law", "params", "on"),
        [
            ("cpt-dynamics", SOURCE, "source"),
            ("cpt-dynamics:boundary=reset", TARGET, "target"),
            ("cpt-dynamics:boundary=carry", TARGET, "target"),
            ("cpt-dynamics-weighted", WEIGHTED_SOURCE, "source"),
            ("multi-power", MULTI_POWER, "target"),
        ],
    )
    def test_slopes_are_those_of_differences(self, law, params, on):
        side = CurveLoss.build(cl.given_fit(law, params, on), on, None)
        lr = np.sort(np.random.default_rng(0).uniform(2e-5, 2e-4, 40))[::-1].copy()
        _, slopes = loss_and_slopes(side, (BASE,), lr, None)
        for j in (0, 1, 20, 39):
            up, down = lr.copy(), lr.copy()
            up[j] += 1e-9
            down[j] -= 1e-9
            differences = [loss_and_slopes(side, (BASE,), part, None)[0] for part in (up, down)]
            assert slopes[j] == pytest.approx((differences[0] - differences[1]) / 2e-9, rel=1e-4, abs=1e-4)

    def test_a_linear_annealing_area_asks_for_a_sudden_drop(self, source, target):
        """Boxes that last until one step are the corners of the set, and S1, S2 are linear: one corner is best."""
        plan = cl.plan.whole_schedule(target, source, weight_source=0.5, schedules=RUN, steps=2000)
        best = math.inf
        for last in range(0, 2001, 10):
            rates = np.where(np.arange(1, 2001) <= last, 2e-4, 1e-10)
            run = Schedule([BASE, Phase("cpt", 2000, "file", points=(np.arange(1, 2001), rates))])
            best = min(best, float(np.mean(losses(run))))
        assert plan.loss == pytest.approx(best, abs=2e-5)
        assert np.all(np.diff(plan.lr) <= 0)
        assert [finding.code for finding in plan.findings] == ["sudden-drop"]
        assert plan.gap > 0

    def test_weighting_by_the_rate_asks_for_a_smooth_one(self):
        source = cl.given_fit("cpt-dynamics-weighted", WEIGHTED_SOURCE, "source")
        target = cl.given_fit("cpt-dynamics-weighted", WEIGHTED_TARGET, "target")
        plan = cl.plan.whole_schedule(target, source, weight_source=0.5, schedules=RUN, steps=1000)
        assert plan.findings == ()
        assert 0 <= plan.gap < 2e-3
        assert np.all(np.diff(plan.lr) <= 0)
        assert max(plan.lr) <= 2e-4 + 1e-12
        assert plan.loss == pytest.approx(0.5 * (plan.source_loss + plan.target_loss))

    def test_rates_for_a_schedules_file(self, source, target, tmp_path):
        plan = cl.plan.whole_schedule(target, source, weight_source=0.5, schedules=RUN, steps=300)
        plan.save(tmp_path / "lr.csv")
        (tmp_path / "s.yaml").write_text("a:\n  - {phase: cpt, file: lr.csv}\n")
        assert read_schedules(tmp_path / "s.yaml")["a"].lr[1:] == pytest.approx(plan.lr)


class TestGiven:
    def test_kept_in_a_file(self, source, tmp_path):
        source.save(tmp_path / "s.json")
        again = cl.load_fit(tmp_path / "s.json")
        assert again.params == source.params
        assert again.summary() == source.summary()
        assert "given, not fitted" in again.summary()

    def test_golden_loss(self, source):
        row = pd.DataFrame({"s1_pretrain": [8.0], "s2_pretrain": [0.05], "s1_cpt": [2.0], "s2_cpt": [0.15]})
        assert source.predict(row)[0] == pytest.approx(3.34891636404)

    def test_forecasts_have_no_interval_and_say_so(self, source):
        row = pd.DataFrame({"s1_pretrain": [8.0], "s2_pretrain": [0.05], "s1_cpt": [2.0], "s2_cpt": [0.15]})
        found = source.forecast(row)
        assert found[["lo", "hi"]].isna().all(axis=None)
        assert [finding.code for finding in found["findings"].iloc[0]] == ["no-interval"]

    def test_bad_parameters(self):
        with pytest.raises(UsageError, match="lacks a value"):
            cl.given_fit("cpt-dynamics", {"L0": 3}, "source")
        with pytest.raises(UsageError, match="no role"):
            cl.given_fit("cpt-dynamics", SOURCE, "other")


class TestCommandLine:
    @pytest.fixture
    def files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for on, params in (("source", SOURCE), ("target", TARGET)):
            text = ",".join(f"{name}={value}" for name, value in params.items())
            with pytest.raises(SystemExit):
                main(["given", "cpt-dynamics", "--on", on, "--params", text, "-o", f"{on}.json"])
        (tmp_path / "s.json").write_text(json.dumps({"a": RUN.to_list()}))
        return ["--target", "target.json", "--source", "source.json", "--schedules", "s.json"]

    def run(self, capsys, *words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return ended.value.code, capsys.readouterr().out

    def test_the_verb_is_the_function(self, files, capsys):
        code, out = self.run(capsys, "plan", "schedule", *files, "--weight-source", "0.5", "--json")
        assert not code
        assert (
            json.loads(out)
            == cl.plan.schedule("target.json", "source.json", weight_source="0.5", schedules="s.json").to_dict()
        )

    def test_infeasible_is_an_answer(self, files, capsys):
        code, out = self.run(capsys, "plan", "schedule", *files, "--max-target-loss", "2")
        assert code == 3
        assert "max-target-loss" in out

    def test_turning_length_critical_point_and_whole_schedule(self, files, capsys):
        _, out = self.run(capsys, "plan", "turning-length", *files, "--weight-source", "1", "--json")
        assert json.loads(out)["kind"] == "infinite"
        _, out = self.run(capsys, "plan", "critical-point", *files[2:])
        assert "8.994K steps" in out
        code, out = self.run(capsys, "plan", "whole-schedule", *files, "--steps", "200", "-o", "lr.csv")
        assert not code
        assert len(pd.read_csv("lr.csv")) == 200
        _, out = self.run(capsys, "plan", "whole-schedule", *files, "--steps", "100", "-o", "lr.csv")
        assert (len(pd.read_csv("lr.csv")), len(pd.read_csv("lr-2.csv"))) == (200, 100)  # those of before are kept
