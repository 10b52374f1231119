"""Simulated tables: the published designs, the noise that was asked for, and truths that hold exactly."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.laws import Context, law
from studies import simulate

TRUTH = simulate.DCPT_TRUTHS["target"]["law"]


def test_dcpt_design_is_the_published_one():
    design = simulate.dcpt_design()
    assert len(design) == 6 * 3 * 9 * 200
    assert design["run"].nunique() == 6 * 27
    assert sorted(design["n_params"].unique()) == [0.5e9, 1.8e9, 4e9]
    assert design["tokens"].min() == 131_072_000
    assert design["tokens"].max() == pytest.approx(26.2e9, rel=2e-3)
    assert (design["tokens"] == design["step"] * 131_072).all()


def test_sampling_methods_of_appendix_i():
    m1, m2, m3, m4 = (simulate.dcpt_steps(method) for method in ("M1", "M2", "M3", "M4"))
    assert (m1[0], m1[-1], len(m1)) == (1000, 200_000, 200)
    assert set(np.diff(m2)) == {5000}
    assert set(np.diff(m3[m3 <= 120_000])) == {4000}
    assert set(np.diff(m3[m3 >= 120_000])) == {8000}
    assert m3[-1] == 200_000
    assert len(np.unique(m4)) == 45
    assert np.median(m4) == pytest.approx(-50e3 * np.log(0.5 * (1 + np.exp(-4))), rel=0.05)  # of the density itself


@pytest.mark.parametrize("points", [4, 5, 12, 45, 199, 200])
def test_thinned_steps(points):
    steps = simulate.dcpt_steps(points)
    assert len(steps) == points == len(np.unique(steps))
    assert (np.diff(steps) > 0).all()
    assert {1000, 5000, 10_000, 200_000} <= set(steps.tolist())
    assert (steps % 1000 == 0).all()


def test_dcpt_runs_read_cleanly():
    runs = cl.read_runs(simulate.dcpt_runs(sampling=4))
    assert runs.notes == ()
    assert runs.evals == ("source", "target")
    assert list(runs.frame.columns[:5]) == ["run", "eval", "loss", "n_params", "tokens"]
    adapted = runs.frame[runs.frame["tokens"] > 0]
    assert len(adapted) == 2 * 6 * 27 * 4
    # One base model of each size: one general loss, and one loss of every domain.
    base = runs.frame[runs.frame["tokens"] == 0]
    assert base["eval"].value_counts().to_dict() == {"target": 18, "source": 3}
    assert base.loc[base["eval"] == "source", "domain"].isna().all()
    assert base["replay"].isna().all()


def test_the_few_published_losses_are_near():
    """Tables 5 and 6 of the D-CPT paper, 1.8B: chemistry at 10B tokens, music at 5B tokens of its own."""
    points = pd.DataFrame({"n_params": 1.8e9, "tokens": 10e9, "replay": [0.1, 0.08, 0.06, 0.0]})
    chemistry = {name: simulate.DCPT_TRUTHS[name]["chemistry"] for name in ("source", "target")}
    losses = {name: law(t.law).predict(t.params, points, name) for name, t in chemistry.items()}
    np.testing.assert_allclose(losses["source"], [2.9052, 2.9376, 2.9848, 3.4667], atol=0.02)
    np.testing.assert_allclose(losses["target"], [1.7321, 1.7311, 1.7265, 1.7220], atol=0.01)
    assert chemistry["source"].base_losses(points)[0] == pytest.approx(2.8602, abs=5e-4)
    music = simulate.DCPT_TRUTHS["target"]["music"]
    row = pd.DataFrame({"n_params": [1.8e9], "tokens": [5e9 / 0.732], "replay": [1 - 0.732]})
    assert law(music.law).predict(music.params, row)[0] == pytest.approx(0.7328, abs=0.01)


def test_ptpp_runs_are_the_published_design():
    frame = simulate.ptpp_runs(noise=0.0)
    assert cl.read_runs(frame).notes == ()
    adapted = frame[frame["tokens"] > 0]
    assert adapted["run"].nunique() == 4 * 3 * 3
    assert sorted(adapted["ptpp"].unique()) == [15, 31, 279]
    assert len(frame) - len(adapted) == 2 * 4 * 3
    base = frame[(frame["tokens"] == 0) & (frame["eval"] == "target")].set_index(["n_params", "ptpp"])["loss"]
    truth = simulate.PTPP_TRUTHS["target"].base
    assert base[(1.4e9, 31.0)] == pytest.approx(2.2 + 0.6 * 1.4**-0.25 + 0.5 * 31**-0.3)
    assert truth["E"] == 2.2
    one = adapted[adapted["eval"] == "target"].iloc[[100]]
    known = simulate.PTPP_TRUTHS["target"]
    assert one["loss"].iloc[0] == pytest.approx(law(known.law).predict(known.params, one)[0], rel=1e-12)


def test_noise_has_the_size_and_correlation_that_was_asked_for():
    design = simulate.dcpt_design(("law", "math"))
    truths = {"target": TRUTH}
    exact = simulate.measure(design, truths)["loss"]
    kwargs = {"noise": 0.01, "correlation": 0.9, "run_noise": 0.03, "seed": 3}
    noisy = simulate.measure(design, truths, **kwargs)
    error = np.log(noisy["loss"] / exact)[noisy["tokens"] > 0].to_numpy().reshape(54, 200)
    assert error.mean(axis=1).std() == pytest.approx(0.03, rel=0.25)
    within = error - error.mean(axis=1, keepdims=True)
    assert within.std() == pytest.approx(0.01, rel=0.15)
    neighbours = np.corrcoef(within[:, 1:].ravel(), within[:, :-1].ravel())[0, 1]
    assert neighbours == pytest.approx(0.9, abs=0.05)
    white = np.log(simulate.measure(design, truths, noise=0.01)["loss"] / exact)[: 54 * 200]
    assert white.std() == pytest.approx(0.01, rel=0.05)
    assert abs(np.corrcoef(white[1:], white[:-1])[0, 1]) < 0.05


def test_autoregression_follows_tokens_not_rows():
    design = simulate.dcpt_design(("law",))
    shuffled = design.sample(frac=1.0, random_state=0)
    truths = {"target": simulate.Truth(TRUTH.law, TRUTH.params)}
    loss = simulate.measure(shuffled, truths, noise=0.01, correlation=0.95).sort_values(["run", "tokens"])
    exact = simulate.measure(design, truths).sort_values(["run", "tokens"])
    error = np.log(loss["loss"].to_numpy() / exact["loss"].to_numpy()).reshape(27, 200)
    assert np.corrcoef(error[:, 1:].ravel(), error[:, :-1].ravel())[0, 1] > 0.9


def test_seeds():
    same = [simulate.dcpt_runs(("law",), 4, seed=seed) for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(same[0], same[1])
    assert not same[0]["loss"].equals(same[2]["loss"])


def test_per_eval_noise():
    table = simulate.dcpt_runs(("law",), 20, noise={"source": 0.0, "target": 0.01})
    exact = simulate.dcpt_runs(("law",), 20, noise=0.0)
    error = np.abs(np.log(table["loss"] / exact["loss"])).groupby(table["eval"]).max()
    assert error["source"] == 0
    assert error["target"] > 0.005


@pytest.mark.parametrize("name", ["dcpt-cross-k2", "dcpt-cross-k3"])
def test_cross_domain_truths_hold_exactly(name):
    params = {**TRUTH.params, "E": 0.2, "F": 1.2, "mu": 1.5, "w2": 2.0}
    params = {key: params[key] for key in law(name).parameters}
    learnability = {"law": 1.0, "music": 1.9}
    truths = simulate.cross_domain_truths(name, params, learnability)
    runs = simulate.measure(simulate.dcpt_design(("law", "music"), sampling=5), {"target": truths})
    frame = cl.read_runs(runs).frame
    prepared = law(name).inputs_of(frame, Context(rows=frame))
    adapted = prepared[prepared["tokens"] > 0]
    np.testing.assert_allclose(law(name).predict(params, adapted), adapted["loss"], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate.dcpt_steps("M5"), "expected M1, M2, M3, M4"),
        (lambda: simulate.dcpt_steps(3), "expected 4 to 200"),
        (lambda: simulate.dcpt_runs(("laws",), 4), "no truth for domain 'laws'. Did you mean 'law'"),
        (lambda: simulate.dcpt_runs(("law",), 4, noise=-1.0), "noise=-1.0"),
        (lambda: simulate.dcpt_runs(("law",), 4, noise={"target": 0.1}), "for eval 'source'"),
        (lambda: simulate.dcpt_runs(("law",), 4, correlation=1.0), "correlation=1.0"),
        (lambda: simulate.dcpt_runs((), 4), "no points"),
        (lambda: simulate.measure(simulate.ptpp_design(), {"target": {"law": TRUTH}}), "need a design with a column"),
        (lambda: simulate.Truth("dcpt-l3", {}, {"A": 1.0}).base_losses(simulate.ptpp_design()), "expected E and"),
        (lambda: simulate.cross_domain_truths("dcpt-cross-k1", {}, {"law": 1.0}), "not for dcpt-cross-k1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_cross_domain_truths_refuse_a_small_index():
    params = {**TRUTH.params, "F": 1e-3, "mu": 1.5, "w2": 2.0}
    with refused(UsageError, "'law'", "K = 0.1"):
        simulate.cross_domain_truths("dcpt-cross-k3", params, {"law": 0.1})
