"""Plans and answers in points: limits on scores, kept with a probability, and drops from the base model's score."""

import importlib

import numpy as np
import pytest
from facts import refused
from scored_runs import gsm8k, losses, mmlu, runs_with_two_scores

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.planning.limits import AboveBase
from cptlaw.planning.options import points
from cptlaw.planning.points import score_reference
from cptlaw_scores.error_rate import ErrorRate


@pytest.fixture(scope="module")
def runs():
    return runs_with_two_scores()


@pytest.fixture(scope="module")
def answer(runs):
    asked = {"n_params": 1e9, "ptpp": 100, "tokens": "3B", "min_score": "gsm8k=20%", "max_drop": {"mmlu": "11pt"}}
    with pytest.MonkeyPatch.context() as patched:  # the losses of the plan carry the scores: none is fitted once more
        patched.delattr(importlib.import_module("cptlaw_scores.fit_scores"), "fit_auto")
        return cl.answer(runs, **asked)


def test_points_are_read_as_people_write_them():
    assert points(("gsm8k=60%", "mmlu=0.5"), "min_score") == {"gsm8k": 0.6, "mmlu": 0.5}
    assert points({"mmlu": "1pt"}, "max_drop") == {"mmlu": 0.01}
    assert points("a=1.5 points,b=2pp", "max_drop") == pytest.approx({"a": 0.015, "b": 0.02})
    assert points("mean:a,b=60%,c=0.5", "min_score") == {"mean:a,b": 0.6, "c": 0.5}
    assert points("c=50%,mean:a, b,d=1pt", "max_drop") == {"c": 0.5, "mean:a,b,d": 0.01}
    with pytest.raises(cl.UsageError, match="60%"):
        points("gsm8k=60", "min_score")
    with pytest.raises(cl.UsageError, match="BENCHMARK=SCORE"):
        points("gsm8k", "min_score")
    for lower in ("mmlu=-1pt", {"mmlu": -0.01}, "mmlu=-1%"):
        with pytest.raises(cl.UsageError, match="less than 0"):
            points(lower, "max_drop")
    with refused(cl.UsageError, "mmlu", "150%", "100%"):
        points("mmlu=150pt", "max_drop")


def test_a_drop_counts_from_the_base_score():
    drop = AboveBase(score_reference(0.55, 1000), "absolute")
    assert drop.of(0.60) == pytest.approx(0.05)
    assert drop.loss_at(0.05) == pytest.approx(0.60)
    assert drop.reference.half_width(0.6827) == pytest.approx(np.sqrt(0.55 * 0.45 / 1000) / 0.55, rel=1e-3)
    assert score_reference(0.55).half_width(0.9) == 0.0


def test_an_answer_is_a_plan_in_points_with_its_probability(answer, runs):
    assert answer.feasible
    assert answer.kind == "trade-off"
    assert set(answer.scores) == {"gsm8k", "mmlu"}
    assert set(answer.probabilities) == {"min gsm8k", "max-drop mmlu"}
    assert all(0.78 <= chance <= 1 for chance in answer.probabilities.values())
    source, target = losses(1e9, 3e9, answer.replay)
    for name, real in (("mmlu", mmlu(source)), ("gsm8k", gsm8k(target))):
        found = answer.scores[name]
        assert found["score_lo"] < real < found["score_hi"]
    assert answer.scores["mmlu"]["drop"] == pytest.approx(
        answer.scores["mmlu"]["base"] - answer.scores["mmlu"]["score"]
    )
    shown = dict(answer.lines)
    assert "points" in shown["mmlu"]
    assert "gsm8k within its limit" in shown
    assert any("--min gsm8k=0.2" in step and "--score gsm8k.json" in step for step in answer.commands)
    assert answer.to_dict()["scores"]["gsm8k"]["score"] == answer.scores["gsm8k"]["score"]


@pytest.mark.dear("an answer under another limit on a score")
def test_the_limit_in_points_moves_the_plan(runs):
    from cptlaw_scores import fit_all_scores

    fits = {role: cl.fit("ptpp-blind", runs, on=role, restraint="none") for role in ("target", "source")}
    scores = fit_all_scores(runs, ["mmlu"])
    asked = {"n_params": 1e9, "ptpp": 100, "tokens": "3B", "scores": scores, "interval": None}
    loose, tight = (
        cl.plan.trade_off(fits["target"], fits["source"], max_drop=f"mmlu={most}pt", **asked) for most in (12, 8)
    )
    assert loose.feasible
    assert tight.feasible
    assert tight.replay > loose.replay + 0.01
    assert tight.scores["mmlu"]["drop"] == pytest.approx(0.08, abs=1e-3)
    sure = cl.plan.trade_off(fits["target"], fits["source"], max_drop="mmlu=10pt", risk=0.8, **asked)
    assert sure.replay > loose.replay
    never = cl.plan.trade_off(fits["target"], fits["source"], min_score="mmlu=94%", **asked)
    assert not never.feasible
    assert never.blocking == "min mmlu"
    assert 0.3 < never.best_reachable["score mmlu"] < 0.9
    assert never.feasible_from["min mmlu"] == pytest.approx(never.best_reachable["score mmlu"])
    with pytest.raises(cl.UsageError, match="--score gsm8k"):
        cl.plan.trade_off(fits["target"], fits["source"], min_score="gsm8k=10%", **asked)
    with refused(cl.UsageError, "scores (--score)", "--on BENCHMARK"):
        cl.plan.trade_off(fits["target"], fits["source"], min_score="target=10%", **asked | {"scores": fits["target"]})


def test_limits_in_points_cut_the_front_and_judge_the_split(runs):
    fits = {role: cl.fit("ptpp-blind", runs, on=role, restraint="none") for role in ("target", "source")}
    scores = [cl.fit("score-sigmoid:through=source", runs, on="mmlu")]
    asked = {"n_params": 1e9, "ptpp": 100, "budget": 1.8e19, "interval": None, "points": 9, "scores": scores}
    whole = cl.plan.pareto(*fits.values(), **asked)
    points = np.array([point.scores["mmlu"]["score"] for point in whole.points])
    assert np.all(np.diff(points) > 0)  # more replay, better source loss
    least = float(points[4])
    cut = cl.plan.pareto(*fits.values(), min_score={"mmlu": least}, **asked)
    assert cut.points[0].replay == pytest.approx(whole.points[4].replay, abs=1e-3)
    assert min(point.scores["mmlu"]["score"] for point in cut.points) >= least - 1e-9
    sure = cl.plan.pareto(*fits.values(), min_score={"mmlu": float(points[2])}, risk=0.8, **asked)
    assert sure.points[0].replay > whole.points[2].replay
    assert set(sure.to_frame()) >= {"target_loss", "mmlu_score"}
    never = cl.plan.pareto(*fits.values(), min_score="mmlu=94%", **asked)
    assert not never.feasible
    assert never.blocking == ("min mmlu",)
    assert "keeps the limits" in never.title
    split = {"budget": 1e20, "ptpp": 100, "replay": 0.25, "scores": scores}
    kept = cl.plan.allocate(fits["target"], min_score="mmlu=30%", **split)
    assert kept.feasible
    assert kept.scores["mmlu"]["score_lo"] < kept.scores["mmlu"]["score"] < kept.scores["mmlu"]["score_hi"]
    broken = cl.plan.allocate(fits["target"], min_score="mmlu=94%", risk=0.9, **split)
    assert broken.blocking == ("min mmlu",)
    assert broken.n_params == kept.n_params
    with refused(cl.UsageError, "risk (--risk)", "limit"):
        cl.plan.allocate(fits["target"], risk=0.9, **split)


@pytest.mark.dear("a mean over tasks is fitted by all ways that carry it")
def test_a_mean_over_tasks_is_limited_like_a_score(runs):
    name = "mean:mmlu,gsm8k"
    asked = {"n_params": 1e9, "ptpp": 100, "tokens": "3B", "min_score": f"{name}=30%", "max_drop": f"{name}=2pt"}
    found = cl.answer(runs, **asked)
    assert found.feasible
    assert set(found.probabilities) == {f"min {name}", f"max-drop {name}"}
    source, target = losses(1e9, 3e9, found.replay)
    real = 0.5 * (mmlu(source) + gsm8k(target))
    assert found.scores[name]["score_lo"] < real < found.scores[name]["score_hi"]
    base = 0.5 * sum(score(loss) for score, loss in zip((mmlu, gsm8k), losses(1e9, 0.0, 0.0), strict=True))
    assert found.scores[name]["base"] == pytest.approx(base, abs=0.02)
    assert any("--score mean-mmlu-gsm8k.json" in step for step in found.commands)


def test_an_error_rate_is_what_a_score_lacks(runs):
    score = cl.fit("score-sigmoid:through=source", runs, on="mmlu")
    wrong = ErrorRate(score)
    point = {"n_params": [1e9], "tokens": [3e9], "replay": [0.25], "ptpp": [100.0]}
    assert wrong.predict(point) == pytest.approx(1 - score.predict(point))
    high = np.exp(wrong.log_quantiles(point, [0.9]))[0, 0]
    assert high == pytest.approx(1 - score.quantiles(point, [0.1])[0, 0])


def test_limits_in_points_need_scores(runs):
    with pytest.raises(cl.DataError, match="no score 'gsm9k'"):
        cl.answer(runs, n_params=1e9, ptpp=100, tokens="3B", min_score={"gsm9k": 0.5})
    with pytest.raises(cl.UsageError, match="need RUNS"):
        cl.answer(n_params=1e9, ptpp=100, tokens="3B", shift="language", min_score={"gsm8k": 0.5})


def test_a_limit_that_cannot_be_read_names_the_option_of_the_command_line():
    with refused(UsageError, "min_score", "--min", "gsm8k", "160%", "100%"):
        points("gsm8k=160%", "min_score")
    with refused(UsageError, "150", "100%"):
        points("gsm8k=150", "min_score")
    with refused(UsageError, "gsm8k", "'60'", "60%"):
        points("gsm8k=60", "min_score")
