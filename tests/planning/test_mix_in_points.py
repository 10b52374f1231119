"""Plans of k corpora under limits in points: scores that see the mix through a loss, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.laws import law
from cptlaw_scores import fit_all_scores

NAMES = ("code", "math", "web")
SHARES = [f"mix_{name}" for name in NAMES]
LAW = "mix-additive:corpora=code+math+web"
COMMON = {"E": 1.2, "A": 0.4, "B": 0.6, "alpha": 0.3, "beta": 0.35} | {f"gamma_{name}": 0.5 for name in NAMES}
TRUTH = {
    "math": COMMON | {"C_code": 1.0, "C_math": 2.0, "C_web": 1.0},
    "code": COMMON | {"C_code": 2.0, "C_math": 0.5, "C_web": 1.0},
}
ITEMS = 4000
ASKED = {"tokens": "10B", "n_params": "300M", "minimise": {"code": 1}, "interval": None}


def share(loss):
    return 0.9 / (1 + np.exp(6 * (loss - 2.6)))


@pytest.fixture(scope="module")
def runs():
    """Runs of twenty mixes at one size, with losses on mathematics and code, and gsm8k, which follows mathematics."""
    random, rows = np.random.default_rng(0), []
    for i, mix in enumerate([*random.dirichlet(np.ones(3), 17), *(np.eye(3) * 0.94 + 0.02)]):
        point = {"run": f"r{i}", "n_params": 3e8, "tokens": 1e10} | dict(zip(SHARES, mix, strict=True))
        losses = {on: float(law(LAW).predict(truth, pd.DataFrame([point]))[0]) for on, truth in TRUTH.items()}
        rows += [{**point, "eval": on, "loss": loss * np.exp(0.003 * random.normal())} for on, loss in losses.items()]
        score = random.binomial(ITEMS, share(losses["math"])) / ITEMS
        rows.append({**point, "eval": "gsm8k", "loss": score, "metric": "exact_match", "n_items": ITEMS})
    base = {"run": "base", "n_params": 3e8, "tokens": 0.0}
    rows += [{**base, "eval": on, "loss": 2.6} for on in TRUTH]
    rows.append({**base, "eval": "gsm8k", "loss": share(2.6), "metric": "exact_match", "n_items": ITEMS})
    return cl.read_runs(pd.DataFrame(rows))


@pytest.fixture(scope="module")
def fits(runs):
    return {on: cl.fit("mix-additive", runs, on=on, restraint="none") for on in TRUTH}


@pytest.fixture(scope="module")
def gsm8k(runs, fits):
    """The score through the loss on mathematics, whose law is the one of the plan."""
    return fit_all_scores(runs, ["gsm8k"], law_name="score-sigmoid:through=math", losses={"math": fits["math"]})


def test_rollouts_over_shares_give_the_weight_to_the_loss_that_carries_the_score(runs, fits):
    found = fit_all_scores(runs, ["gsm8k"], losses=fits)["gsm8k"]
    # Ways that do not see the mix once took all the weight: the models had lost their shares, so that no rollout could
    # forecast a loss.
    assert not {"score-size", "score-compute"} & {member.law.name for member in found.members}
    assert len(found.rollouts) == 3
    assert sum(member.weight for member in found.members if member.carrier == "math") > 0.9
    assert set(SHARES) <= set(found.law.inputs) & set(found.data.columns)


def test_a_least_score_through_a_loss_is_a_highest_loss(fits, gsm8k):
    free = cl.plan.mix(fits, scores=gsm8k, **ASKED)
    reached = free.scores["gsm8k"]["score"]
    assert "gsm8k" in dict(free.lines)
    least = reached + 0.08
    plan = cl.plan.mix(fits, scores=gsm8k, min_score={"gsm8k": least}, **ASKED)
    assert plan.scores["gsm8k"]["score"] == pytest.approx(least, abs=1e-5)
    assert plan.binding == ("min gsm8k",)
    assert plan.mix["math"] > free.mix["math"] + 0.02
    same = cl.plan.mix(fits, max_loss={"math": plan.losses["math"]["loss"]}, **ASKED)
    assert [plan.mix[name] for name in NAMES] == pytest.approx([same.mix[name] for name in NAMES], abs=1e-3)
    sure = cl.plan.mix(fits, scores=gsm8k, min_score={"gsm8k": least}, risk=0.9, **ASKED)
    assert sure.mix["math"] > plan.mix["math"] + 0.005
    point = {"n_params": [3e8], "tokens": [1e10]} | {f"mix_{name}": [value] for name, value in sure.mix.items()}
    assert gsm8k["gsm8k"].quantiles(pd.DataFrame(point), [0.1])[0, 0] == pytest.approx(least, abs=1e-3)


def test_a_drop_counts_from_the_measured_base_score_or_the_given_one(fits, gsm8k):
    plan = cl.plan.mix(fits, scores=gsm8k, max_drop="gsm8k=6pt", **ASKED)
    assert plan.scores["gsm8k"]["base"] == pytest.approx(0.45)
    assert plan.scores["gsm8k"]["drop"] <= 0.06 + 1e-6
    other = cl.plan.mix(fits, scores=gsm8k, max_drop="gsm8k=1pt", base_score="gsm8k=45%", **ASKED)
    assert other.scores["gsm8k"]["score"] >= 0.44 - 1e-6


def test_a_score_out_of_reach_blocks_and_says_what_is_in_reach(fits, gsm8k):
    plan = cl.plan.mix(fits, scores=gsm8k, min_score="gsm8k=95%", **ASKED)
    assert not plan.feasible
    assert plan.blocking == "min gsm8k"
    best = plan.best_reachable["score gsm8k"]
    assert 0.3 < best < 0.9
    assert plan.feasible_from["min gsm8k"] == pytest.approx(best)
    shown = dict(plan.lines)
    assert shown["best score gsm8k"].endswith("%")
    assert shown["feasible with min gsm8k"].startswith("below")
    assert cl.plan.mix(fits, scores=gsm8k, min_score={"gsm8k": best - 0.01}, **ASKED).feasible


def test_scores_that_do_not_see_the_mix_are_refused(runs, fits):
    blind = cl.fit("score-compute", runs, on="gsm8k")
    with refused(UsageError, "(score-compute)", "--on gsm8k"):
        cl.plan.mix(fits, scores=blind, min_score="gsm8k=50%", **ASKED)
    with refused(UsageError, "scores (--score)", "--on BENCHMARK"):
        cl.plan.mix(fits, scores=fits["math"], min_score="math=50%", **ASKED)
    with refused(UsageError, "'gsm8k'"):
        cl.plan.mix(fits, min_score="gsm8k=50%", **ASKED)


def test_the_command_line_fits_the_score_that_a_limit_names(runs, tmp_path, call):
    path = tmp_path / "runs.csv"
    runs.frame.to_csv(path, index=False)
    options = ["--tokens", "10B", "--n-params", "300M", "--minimise", "code=1", "--law", "mix-additive"]
    code, shown, _ = call("plan", "mix", str(path), *options, "--min", "gsm8k=40%", "--max-drop", "gsm8k=30pt")
    assert code == 0
    assert "gsm8k" in shown
    assert "points" in shown
