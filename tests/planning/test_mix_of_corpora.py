"""Plans of k corpora: the best mix in closed form, limits on every eval, pools, doubt, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.laws import law
from cptlaw.planning.descent import Domain
from cptlaw.planning.solve import Axis, Space, solve

NAMES = ("code", "math", "web")
SHARES = [f"mix_{name}" for name in NAMES]
LAW = "mix-additive:corpora=code+math+web"
SCALE = {"E": 1.2, "A": 0.4, "B": 0.6, "alpha": 0.3, "beta": 0.35}
GAMMA = {f"gamma_{name}": 0.5 for name in NAMES}
# With one exponent 1/2 for all, sum C h^(1/2) is largest where h is proportional to C^2.
OF_MATH = SCALE | GAMMA | {"C_code": 1.0, "C_math": 2.0, "C_web": 1.0}
OF_CODE = SCALE | GAMMA | {"C_code": 2.0, "C_math": 0.5, "C_web": 1.0}


def runs(noise=0.0, seed=0):
    """Runs of thirty mixes at three sizes and two numbers of tokens, both evals, and the base models."""
    rng = np.random.default_rng(seed)
    rows = []
    mixes = [*rng.dirichlet(np.ones(3), 27), *(np.eye(3) * 0.94 + 0.02)]
    for i, mix in enumerate(mixes):
        for size in (1e8, 3e8, 9e8):
            for tokens in (2e9, 1e10):
                point = {"n_params": size, "tokens": tokens} | dict(zip(SHARES, mix, strict=True))
                for on, truth in (("math", OF_MATH), ("code", OF_CODE)):
                    loss = law(LAW).predict(truth, pd.DataFrame([point]))[0] * np.exp(noise * rng.normal())
                    rows.append({"run": f"{i}-{size:g}", "eval": on, "loss": loss, **point})
    for size in (1e8, 3e8, 9e8):
        rows += [{"run": f"base-{size:g}", "eval": on, "loss": 2.4, "n_params": size, "tokens": 0.0}
                 for on in ("math", "code")]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def fits():
    table = runs()
    return {on: cl.fit("mix-additive", table, on=on, restraint="none") for on in ("math", "code")}


@pytest.fixture(scope="module")
def noisy():
    table = runs(noise=0.004)
    return {on: cl.fit("mix-additive", table, on=on, restraint="none") for on in ("math", "code")}


ASKED = {"tokens": "10B", "n_params": "300M"}


def loss_at(truth, mix, tokens=1e10, size=3e8):
    point = {"n_params": size, "tokens": tokens} | dict(zip(SHARES, mix, strict=True))
    return float(law(LAW).predict(truth, pd.DataFrame([point]))[0])


def test_the_best_mix_of_one_eval_is_the_one_in_closed_form(fits):
    plan = cl.plan.mix(fits, minimise={"math": 1}, **ASKED)
    assert [plan.mix[name] for name in NAMES] == pytest.approx([1 / 6, 4 / 6, 1 / 6], abs=1e-4)
    assert plan.losses["math"]["loss"] == pytest.approx(loss_at(OF_MATH, (1 / 6, 4 / 6, 1 / 6)), rel=1e-6)
    assert plan.value == pytest.approx(plan.losses["math"]["loss"], rel=1e-12)
    assert plan.gain_on_measured > 0
    assert plan.corpus_tokens["math"] == pytest.approx(plan.mix["math"] * 1e10)
    assert plan.binding == ()


def test_weights_of_evals_are_taken_by_name_and_need_no_sum(fits):
    plan = cl.plan.mix(fits, minimise="math=3,code=1", **ASKED)

    def goal(mix):
        return 0.75 * loss_at(OF_MATH, mix) + 0.25 * loss_at(OF_CODE, mix)

    best = [plan.mix[name] for name in NAMES]
    assert plan.value == pytest.approx(goal(best), rel=1e-6)
    nearby = np.random.default_rng(0).dirichlet(50 * np.array(best), 300)
    assert min(goal(mix) for mix in nearby) >= plan.value - 1e-7


def test_a_limit_on_another_eval_binds_where_it_must(fits):
    free = cl.plan.mix(fits, minimise={"math": 1}, **ASKED)
    at_least = free.losses["code"]["loss"] - 0.02
    plan = cl.plan.mix(fits, minimise={"math": 1}, max_loss={"code": at_least}, **ASKED)
    assert plan.losses["code"]["loss"] == pytest.approx(at_least, abs=1e-6)
    assert plan.binding == ("max-loss code",)
    assert plan.value > free.value
    near = cl.plan.mix(fits, minimise={"code": 1}, max_loss={"code": free.losses["code"]["loss"]}, **ASKED)
    shown = {row[0]: row[2] for row in near.tables[1].rows}
    decimals = len(shown["code"].split()[0].partition(".")[2])
    gap = abs(near.losses["code"]["loss"] - free.losses["code"]["loss"])
    assert 10.0**-decimals <= gap  # as many as tell the loss from its limit


def test_a_limit_leaves_what_is_minimised_as_it_is(fits, monkeypatch):
    monkeypatch.setattr("cptlaw.forecasting.verbs.fit", lambda law, runs, on, where: fits[on])
    plans = [cl.plan.mix(given, max_loss={"code": 9}, interval=None, **ASKED) for given in (fits, runs())]
    assert [plan.minimise for plan in plans] == [{"math": 0.5, "code": 0.5}] * 2
    assert plans[0].mix == pytest.approx(plans[1].mix)


def test_forgetting_counts_from_the_base_models_of_the_table(fits):
    free = cl.plan.mix(fits, minimise={"math": 1}, **ASKED)
    most = free.losses["code"]["loss"] / 2.4 - 1 - 0.005
    plan = cl.plan.mix(fits, minimise={"math": 1}, max_forgetting={"code": most}, **ASKED)
    assert plan.losses["code"]["forgetting"] == pytest.approx(most, abs=1e-7)
    assert plan.losses["code"]["base_loss"] == pytest.approx(2.4)
    in_nats = cl.plan.mix(
        fits, minimise={"math": 1}, max_forgetting={"code": 2.4 * most}, forgetting="absolute", **ASKED
    )
    assert in_nats.mix == pytest.approx(plan.mix, abs=1e-5)
    with refused(UsageError, "n_params", "400M", "--base-loss", "code=L0"):
        cl.plan.mix(fits, minimise={"math": 1}, max_forgetting={"code": 0.1}, tokens="10B", n_params="400M")


def test_pools_are_read_once_or_count_for_less(fits):
    once = cl.plan.mix(fits, minimise={"math": 1}, unique_tokens={"math": "3B"}, **ASKED)
    assert once.mix["math"] == pytest.approx(0.3, abs=1e-9)
    assert once.epochs == {"math": pytest.approx(1.0)}
    assert "unique math" in once.binding
    again = cl.plan.mix(fits, minimise={"math": 1}, unique_tokens={"math": "3B"}, repetition="discount", **ASKED)
    assert once.value > again.value
    free = cl.plan.mix(fits, minimise={"math": 1}, **ASKED)
    assert again.value > free.value
    scarce = cl.plan.mix(fits, minimise={"math": 1}, unique_tokens={"math": "500M"}, repetition="discount", **ASKED)
    assert scarce.epochs["math"] > 4
    assert "repeated-pool" in [finding.code for finding in scarce.findings]


def test_a_risk_costs_and_holds(noisy):
    # The noise of a measured loss is half a percent: the plan keeps a distance of about that from the limit.
    limit = loss_at(OF_CODE, (0.4, 0.4, 0.2))
    sure = cl.plan.mix(noisy, minimise={"math": 1}, max_loss={"code": limit}, risk=0.9, **ASKED)
    even = cl.plan.mix(noisy, minimise={"math": 1}, max_loss={"code": limit}, **ASKED)
    assert even.losses["code"]["loss"] == pytest.approx(limit, abs=1e-6)
    assert 0.002 < 1 - sure.losses["code"]["loss"] / limit < 0.02
    assert sure.price_of_doubt == pytest.approx(sure.value - even.value, abs=1e-6)
    assert sure.losses["math"]["loss_lo"] < sure.losses["math"]["loss"] < sure.losses["math"]["loss_hi"]


@pytest.mark.dear("mixes of corpora at risk")
def test_where_nothing_keeps_the_limits_the_plan_says_what_blocks(fits):
    best = cl.plan.mix(fits, minimise={"math": 1}, **ASKED)
    plan = cl.plan.mix(fits, minimise={"code": 1}, max_loss={"math": best.value - 0.01}, **ASKED)
    assert not plan.feasible
    assert plan.blocking == "max-loss math"
    assert plan.feasible_from["max-loss math"] == pytest.approx(best.value, abs=1e-5)
    assert plan.mix == {}
    both = cl.plan.mix(fits, max_loss={"math": 1.0, "code": 1.0}, **ASKED)
    assert both.blocking == "max-loss math and max-loss code"
    pooled = cl.plan.mix(fits, unique_tokens=dict.fromkeys(NAMES, "2B"), **ASKED)
    assert not pooled.feasible
    assert pooled.blocking.startswith("unique")
    assert "feasible" in repr(pooled)


def test_ranges_hold_and_their_ends_are_said(fits):
    plan = cl.plan.mix(fits, minimise={"math": 1}, max_share={"math": "40%"}, **ASKED)
    assert plan.mix["math"] == pytest.approx(0.4, abs=1e-6)
    table = runs()
    narrow = cl.plan.mix(table, law="mix-additive", where="mix_math < 0.5", minimise={"math": 1}, **ASKED)
    assert "share-at-edge" in [finding.code for finding in narrow.findings]


def test_a_table_is_fitted_first_by_law_auto_too():
    table = runs(noise=0.002)
    plan = cl.plan.mix(table, minimise={"math": 1}, **ASKED)
    assert plan.laws["math"] == "auto"
    assert [plan.mix[name] for name in NAMES] == pytest.approx([1 / 6, 4 / 6, 1 / 6], abs=0.08)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"minimise": {"maths": 1}}, r"'maths' is no eval.*Did you mean 'math'"),
        ({"unique_tokens": {"books": "1B"}}, "'books' is no corpus"),
        ({"max_loss": "2.1"}, "NAME=VALUE"),
        ({"min_share": {"code": 0.7, "web": 0.6}}, "leave no mix"),
        ({"risk": 0.9}, "no limit was given"),
        ({"tokens": None}, "needs tokens"),
        ({"n_params": None}, r"reads n_params.*--n-params"),
        ({"max_replay": 0.5}, "max_replay"),
        ({"law": "bimix"}, "fits were given"),
    ],
)
def test_what_is_refused(fits, more, words):
    with pytest.raises(UsageError, match=words):
        cl.plan.mix(fits, **(ASKED | more))


def test_fits_of_other_corpora_or_of_none_are_refused(fits):
    renamed = {name.replace("web", "law"): one for name, one in OF_CODE.items()}
    other = cl.given_fit(LAW.replace("web", "law"), renamed, "target")
    with refused(UsageError, "law", "web"):
        cl.plan.mix({"math": fits["math"], "code": other}, **ASKED)
    plain = cl.given_fit("chinchilla", {"E": 1.0, "A": 400, "B": 400, "alpha": 0.3, "beta": 0.3}, "target")
    with refused(UsageError, "chinchilla", "mix-additive"):
        cl.plan.mix([plain], **ASKED)


def test_mixes_longer_than_forecasts_were_held_to_say_so(fits):
    # The smallest model had 100 tokens per parameter, so that one of 300M is forecast up to four times 30B.
    near, far = (cl.plan.mix(fits, **{**ASKED, "tokens": tokens}) for tokens in ("119B", "121B"))
    assert "out-of-reach" not in {one.code for one in near.findings}
    (said,) = (one for one in far.findings if one.code == "out-of-reach")
    assert (said.severity, said.data["most"]) == ("error", pytest.approx(3e10))


def test_the_command_line_says_the_same(fits, tmp_path, call):
    for name, fit in fits.items():
        fit.save(tmp_path / f"{name}.json")
    asked = ["--tokens", "10B", "--n-params", "300M", "--minimise", "math=1"]
    command = ["plan", "mix", "--fit", str(tmp_path / "math.json"), "--fit", str(tmp_path / "code.json"), *asked]
    code, out, _ = call(*command, "--max-share", "web=10%", "--json")
    plan = cl.plan.mix(fits, minimise={"math": 1}, max_share={"web": 0.1}, **ASKED)
    assert (code, json.loads(out)["feasible"]) == (0, True)
    assert json.loads(out)["mix"] == pytest.approx(plan.mix)
    assert call(*command, "--max-loss", "code=1.0")[0] == 3
    runs().to_csv(tmp_path / "runs.csv", index=False)
    code, out, _ = call("plan", "mix", str(tmp_path / "runs.csv"), "--law", "mix-additive", *asked, "-q")
    assert code == 0
    assert "math 66.7%" in out
    code, _, said = call("plan", "mix", "--tokens", "10B")
    assert code == 2
    assert lacks(said, "plan mix", "--fit") == []


def test_the_minimum_on_the_simplex_of_a_function_that_is_known():
    """A bowl with its bottom outside the range: the nearest mix in it, by the projection on the simplex."""
    bottom = dict(zip("abcd", (0.9, 0.4, -0.1, -0.2), strict=True))
    space = Space(tuple(Axis(name, 0.0, 0.7) for name in bottom), reach=Domain(1e-5, total=1.0))
    found = solve(space, lambda points: sum((points[name] - at) ** 2 for name, at in bottom.items()))
    assert [found.point[name] for name in "abcd"] == pytest.approx([0.7, 0.3, 0.0, 0.0], abs=1e-6)
    assert found.value == pytest.approx(0.04 + 0.01 + 0.01 + 0.04, abs=1e-9)
    assert sum(found.point.values()) == pytest.approx(1.0, abs=1e-12)
