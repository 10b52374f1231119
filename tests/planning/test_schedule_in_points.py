"""Plans of schedules under limits in points: scores read off the losses at the end of a schedule."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from facts import refused
from schedule_truths import FOUR_RUNS, RUN, SOURCE, TARGET

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.schedules import Phase, Schedule
from cptlaw_scores import fit_all_scores

ITEMS = 5000


def gsm8k(target):
    return 0.9 / (1 + np.exp(8 * (target - 2.6)))


def mmlu(source):
    return 0.25 + 0.7 / (1 + np.exp(12 * (source - 3.4)))


@pytest.fixture(scope="module")
def runs():
    """Curves of both losses of four runs, and both scores every thousand steps."""
    law, rng, parts = cl.law("cpt-dynamics"), np.random.default_rng(0), []
    for run in FOUR_RUNS:
        steps = np.array([*range(2000, 20_001, 2000), *range(500, 5001, 500)])
        rows = pd.DataFrame({"run": run, "step": steps, "phase": ["pretrain"] * 10 + ["cpt"] * 10})
        rows_with_areas = law.attach(rows, FOUR_RUNS)
        exact = {on: law.predict(p, rows_with_areas, on) for on, p in (("source", SOURCE), ("target", TARGET))}
        for on, loss in exact.items():
            noise = 0.001 * rng.standard_normal() + 0.001 * rng.standard_normal(len(rows))
            parts.append(rows.assign(eval=on, loss=loss * np.exp(noise)))
        for on, share, chance in (("gsm8k", gsm8k(exact["target"]), 0.0), ("mmlu", mmlu(exact["source"]), 0.25)):
            scored = rows.assign(eval=on, loss=rng.binomial(ITEMS, share) / ITEMS, metric="accuracy", n_items=ITEMS)
            parts.append(scored.assign(chance=chance)[(rows["phase"] == "cpt") & (steps % 1000 == 0)])
    return cl.read_runs(pd.concat(parts, ignore_index=True)), FOUR_RUNS


@pytest.fixture(scope="module")
def fits(runs):
    table, known = runs
    return tuple(
        cl.fit("cpt-dynamics", table, on=on, schedules=known, starts=6, restraint="none") for on in ("target", "source")
    )


@pytest.fixture(scope="module")
def scores(runs, fits):
    losses = {fit.on: fit for fit in fits}
    return fit_all_scores(runs[0], ["gsm8k", "mmlu"], losses=losses)


def ending(plan):
    """Return the losses at the end of a plan, by the truth."""
    law = cl.law("cpt-dynamics")
    run = {"x": Schedule(Phase(**phase) for phase in plan.phases)}
    row = law.attach(pd.DataFrame({"run": ["x"], "step": [plan.steps], "phase": ["cpt"]}), run)
    return [float(law.predict(truth, row, on)[0]) for on, truth in (("target", TARGET), ("source", SOURCE))]


def test_a_least_score_is_a_limit_like_the_loss_that_carries_it(fits, runs):
    table, _ = runs
    score = fit_all_scores(table, ["mmlu"], law_name="score-sigmoid:through=source", losses={"source": fits[1]})["mmlu"]
    asked = {"vary": "peak", "schedules": RUN, "interval": None, "minimise": "target"}
    free = cl.plan.schedule(*fits, **asked)
    least = float(score.members[0].score(pd.DataFrame(index=range(1)), np.array([free.source_loss]))[0]) + 0.02
    kept = cl.plan.schedule(*fits, scores=score, min_score={"mmlu": least}, **asked)
    assert kept.scores["mmlu"]["score"] == pytest.approx(least, abs=1e-4)
    assert "min mmlu" in kept.binding
    assert kept.peak < 0.9 * free.peak
    same = cl.plan.schedule(*fits, max_source_loss=kept.source_loss, **asked)
    assert same.peak == pytest.approx(kept.peak, rel=0.01)
    assert dict(kept.lines)["mmlu"].endswith("%")


def test_the_loss_that_carries_a_score_has_its_weight_where_runs_differ_in_their_schedules_alone(scores):
    # Without sizes and tokens the models are cut along their losses; else every way would count alike.
    for name, carrier in (("gsm8k", "target"), ("mmlu", "source")):
        assert all(" loss below " in one for one in scores[name].rollouts)
        assert sum(member.weight for member in scores[name].members if member.carrier == carrier) > 0.8


@pytest.mark.dear("the doubt of curves is looked at along a search")
def test_limits_in_points_are_kept_with_their_risk_and_scores_are_near_the_truth(fits, scores):
    asked = {"vary": "peak", "schedules": RUN, "minimise": "target", "scores": scores}
    limit = {"max_drop": "mmlu=8pt", "base_score": "mmlu=70%"}
    certain, sure = (cl.plan.schedule(*fits, **asked, **limit, risk=risk) for risk in (None, 0.9))
    assert sure.feasible
    assert sure.peak < certain.peak
    assert sure.scores["mmlu"]["base"] == pytest.approx(0.7)
    assert sure.scores["mmlu"]["drop"] == pytest.approx(0.7 - sure.scores["mmlu"]["score"])
    target, source = ending(sure)
    for name, real in (("gsm8k", gsm8k(target)), ("mmlu", mmlu(source))):
        assert sure.scores[name]["score_lo"] < real < sure.scores[name]["score_hi"]
    assert json.loads(json.dumps(sure.to_dict()))["scores"]["mmlu"]["base"] == pytest.approx(0.7)


def test_a_drop_counts_from_the_base_score_that_came_with_the_fit(fits, scores):
    measured = replace(scores["mmlu"], base=pd.DataFrame({"loss": [0.7]}))
    asked = {"vary": "peak", "schedules": RUN, "minimise": "target", "max_drop": "mmlu=8pt"}
    given = cl.plan.schedule(*fits, scores=scores, base_score="mmlu=70%", **asked)
    assert cl.plan.schedule(*fits, scores=measured, **asked).peak == given.peak


def test_a_score_out_of_reach_blocks(fits, scores):
    plan = cl.plan.schedule(*fits, vary="peak", schedules=RUN, scores=scores, min_score="gsm8k=89%")
    assert not plan.feasible
    assert plan.blocking == "min gsm8k"
    assert 0.1 < plan.best_reachable["score gsm8k"] < 0.89


def test_what_sees_no_schedule_is_refused_or_said(fits, scores, runs):
    asked = {"vary": "peak", "schedules": RUN, "interval": None}
    only = fit_all_scores(runs[0], ["mmlu"], law_name="score-sigmoid:through=source", losses={"source": fits[1]})
    with refused(UsageError, "scores (--score)", "mmlu", "(target)"):
        cl.plan.schedule(fits[0], scores=only, min_score="mmlu=30%", **asked)
    with refused(UsageError, "scores (--score)", "--on BENCHMARK"):
        cl.plan.schedule(*fits, scores=fits[0], min_score="target=30%", **asked)
    with pytest.raises(UsageError, match="Give base_score="):
        cl.plan.schedule(*fits, scores=scores, max_drop="mmlu=1pt", **asked)
    flat = cl.fit("score-flat", runs[0], on="gsm8k")
    with pytest.raises(UsageError, match="see no schedule"):
        cl.plan.schedule(*fits, scores=flat, min_score="gsm8k=1%", **asked)


def test_the_command_line_takes_limits_in_points(fits, scores, runs, tmp_path, call):
    for name, fit in {"t": fits[0], "s": fits[1], "mmlu": scores["mmlu"]}.items():
        fit.save(tmp_path / f"{name}.json")
    words = ["--target", f"{tmp_path}/t.json", "--source", f"{tmp_path}/s.json", "--vary", "peak"]
    known = tmp_path / "schedules.json"
    known.write_text(json.dumps({"run": RUN.to_list()}))
    limits = ["--schedules", str(known), "--score", f"{tmp_path}/mmlu.json", "--min", "mmlu=55%", "--json"]
    code, out, _ = call("plan", "schedule", *words, *limits)
    assert code == 0
    assert json.loads(out)["scores"]["mmlu"]["score"] >= 0.55 - 1e-6
