"""pass@k at numbers of attempts that were not measured: the published relation, its noise, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from facts import refused
from scipy.special import betaln

import cptlaw as cl
from cptlaw_scores.attempts import MEANS, SHAPES, BetaAttempts, pass_at, with_attempts
from cptlaw_scores.derived import fingerprint_of, with_derived

QUESTIONS = 2000
SHAPE = 0.35


def truth(mean, k, shape=SHAPE):
    b = shape * (1 - mean) / mean
    return 1 - np.exp(betaln(shape, b + k) - betaln(shape, b))


def runs_with_attempts(measured=(1, 10, 100), questions=QUESTIONS):
    """Runs whose chance of one attempt follows a loss, with pass@k of the same questions."""
    random, rows = np.random.default_rng(4), []
    for n in (1e8, 2e8, 4e8, 8e8):
        for tokens in (2e9, 6e9, 2e10):
            loss = 1.4 + 350 / n**0.33 + 900 / tokens**0.34
            mean = 0.6 / (1 + np.exp(4.0 * (loss - 2.3)))
            chance = random.beta(SHAPE, SHAPE * (1 - mean) / mean, questions)
            known = {"run": f"{n:g}-{tokens:g}", "n_params": n, "tokens": tokens}
            rows.append({**known, "eval": "target", "metric": "loss", "loss": loss * np.exp(0.001 * random.normal())})
            for k in measured:
                solved = random.random(questions) < 1 - (1 - chance) ** k
                metric = {"metric": f"pass@{k}", "n_items": questions}
                rows.append({**known, "eval": f"humaneval:pass@{k}", "loss": solved.mean(), "truth": mean, **metric})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def frame():
    return runs_with_attempts()


@pytest.fixture(scope="module")
def runs(frame):
    return cl.read_runs(frame.drop(columns="truth"))


def test_the_relation_is_the_published_one():
    a, mean = np.exp(SHAPES[30]), 1 / (1 + np.exp(-MEANS[100]))
    assert pass_at(1.0)[100, 30] == pytest.approx(mean)
    drawn = np.random.default_rng(0).beta(a, a * (1 - mean) / mean, 400_000)
    for k in (3, 20):
        assert pass_at(float(k))[100, 30] == pytest.approx(np.mean(1 - (1 - drawn) ** k), abs=2e-3)
    # It falls short of one as k^-a.
    short = 1 - pass_at(1e6)[100, 30], 1 - pass_at(1e7)[100, 30]
    assert np.log10(short[0] / short[1]) == pytest.approx(a, rel=1e-3)


def test_attempts_that_were_not_measured_are_found_with_their_noise(frame, runs):
    means = frame.dropna(subset="truth").drop_duplicates("run").sort_values("run")["truth"].to_numpy()
    within = []
    for k in (3, 50, 300):
        name = f"humaneval:pass@{k}"
        found = with_attempts(runs, [name]).on(name).frame.sort_values("run")
        missed = np.abs(found["loss"].to_numpy() - truth(means, k))
        assert set(found["metric"].astype(str)) == {f"pass@{k}"}
        assert missed.max() < 0.06
        assert (found["n_items"] <= QUESTIONS).all()
        within.append(missed < 2 * np.sqrt(found["loss"] * (1 - found["loss"]) / found["n_items"]).to_numpy())
    assert np.mean(within) > 0.85  # 95 % but for what models have in common


def test_models_share_where_the_shape_lies(frame):
    scores = frame[frame["eval"] != "target"].pivot_table(index="run", columns="metric", values="loss")
    ks = np.array([1.0, 10.0, 100.0])
    scores = scores[[f"pass@{k:g}" for k in ks]].to_numpy()
    fitted = BetaAttempts.of(ks, scores, np.full(scores.shape, float(QUESTIONS)))
    assert np.exp(fitted.centre) == pytest.approx(SHAPE, rel=0.3)
    one, _ = fitted.at(1.0)
    assert one == pytest.approx(scores[:, 0], abs=0.02)


def test_a_fit_takes_the_name_and_the_table_stays_what_it_was(runs):
    derived = with_derived(runs, ["humaneval:pass@50", "mean:humaneval:pass@50,humaneval:pass@1"])
    assert {"humaneval:pass@50", "mean:humaneval:pass@50,humaneval:pass@1"} <= set(derived.scores)
    assert fingerprint_of(derived) == runs.fingerprint
    assert with_derived(runs, ["humaneval:pass@10", "target"]) is runs
    fit = cl.fit("score-sigmoid:through=target", runs, on="humaneval:pass@50")
    assert fit.metric == "pass@50"
    point = {"n_params": [1.6e9], "tokens": [4e10]}
    loss = 1.4 + 350 / 1.6e9**0.33 + 900 / 4e10**0.34
    real = truth(0.6 / (1 + np.exp(4.0 * (loss - 2.3))), 50)
    found = fit.forecast(pd.DataFrame(point)).iloc[0]
    assert found["lo"] < real < found["hi"]


def test_too_few_or_too_distant_attempts_are_refused(runs):
    frame = runs.frame
    one = cl.read_runs(frame[frame["metric"].astype(str).isin(["loss", "pass@1"])])
    with refused(cl.DataError, "'humaneval:pass@50'", "pass@10"):
        cl.fit("auto", one, on="humaneval:pass@50")
    with refused(cl.DataError, "10 times", "pass@1, pass@10, pass@100"):
        cl.fit("auto", runs, on="humaneval:pass@5000")
    with pytest.raises(cl.CptlawError, match="mbpp"):
        cl.fit("auto", runs, on="mbpp:pass@50")
