"""Mix-ups in the rows, patterns in the residuals, runs that decide alone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import design
from facts import lacks

import cptlaw as cl
from cptlaw.laws import law
from cptlaw.runs import read_runs


def codes(found):
    return [finding.code for finding in found.findings]


@pytest.fixture(scope="module")
def frame():
    return design("ptpp-floor", noise=0.003)


def test_clean_runs_raise_no_suspicion(frame):
    found = cl.fit("ptpp-floor", frame, on="target", starts=8, restraint="none")
    assert not {"suspected-mix-up", "suspected-units", "residual-pattern"} & set(codes(found))


@pytest.mark.parametrize(("factor", "words"), [(1 / np.log(2), "in bits instead of nats"), (1.8, "lie 80% above")])
def test_a_run_in_another_unit_or_tokenizer_is_named(frame, factor, words):
    run = frame["run"].iloc[40]
    mixed = frame.assign(loss=frame["loss"].where(frame["run"] != run, frame["loss"] * factor))
    found = [finding for finding in cl.check("ptpp-floor", mixed, on="target").findings if "mix-up" in finding.code]
    assert len(found) == 1
    assert run in found[0].message
    assert found[0].remedy.value == f'run != "{run}"'
    if words.startswith("in"):
        assert words in found[0].message


def test_tokens_in_thousands_are_named(frame):
    run = frame["run"].iloc[0]
    mixed = frame.assign(tokens=frame["tokens"].where(frame["run"] != run, frame["tokens"] / 1e3))
    found = [
        finding for finding in cl.check("ptpp-floor", mixed, on="target").findings if finding.code == "suspected-units"
    ]
    assert len(found) == 1
    assert repr(run) in found[0].message
    assert "1e+03" in found[0].message


def test_perplexities_are_named(frame):
    found = cl.check("ptpp-floor", frame.assign(loss=np.exp(4 * frame["loss"])), on="target")
    assert "suspected-units" in codes(found)


def test_few_runs_at_small_replay(frame):
    assert "few-at-small-replay" in codes(cl.check("ptpp-floor", frame[frame["replay"] > 0.1], on="target"))
    more = frame.assign(replay=frame["replay"].replace({frame["replay"].min(): 0.05}))
    assert "few-at-small-replay" not in codes(cl.check("ptpp-floor", more, on="target"))


def test_a_law_that_is_blind_to_a_factor_shows_a_pattern_there(frame):
    found = cl.fit("ptpp-blind", frame, on="target", starts=8, restraint="none")
    pattern = [finding for finding in found.findings if finding.code == "residual-pattern"]
    assert any("at ptpp" in finding.message for finding in pattern)


def test_a_run_that_decides_alone_is_named():
    rng = np.random.default_rng(0)
    rows = [(f"r{i}", n, n * 20.0) for i, n in enumerate(np.geomspace(1e8, 1e9, 14))] + [
        ("far", 1e11, 1e12),
        ("lonely", 1e11, 1e13),
    ]
    frame = pd.DataFrame(rows, columns=["run", "n_params", "tokens"])
    params = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37}
    frame["loss"] = cl.law("chinchilla").predict(params, frame) * np.exp(0.002 * rng.standard_normal(len(frame)))
    frame["eval"] = "target"
    frame.loc[frame["run"] == "lonely", "loss"] *= 1.03
    found = cl.fit("chinchilla", frame, on="target", starts=8, tie=["alpha,beta"], delta=0.02, restraint="none")
    named = [finding for finding in found.findings if finding.code == "influential-run"]
    assert any("'lonely'" in finding.message for finding in named)


def test_how_far_the_forecast_lies_outside_the_runs(frame):
    low = frame[frame["ptpp"] < 279]
    far = cl.check("ptpp-floor", low, on="target", at="n_params=81B,ptpp=279").findings
    said = [item.message for item in far if item.code == "extrapolation"]
    assert len(said) == 2
    assert any("ptpp 279" in message for message in said)


@pytest.mark.parametrize(
    ("column", "factor", "code"), [("tokens", 1e-3, "suspected-units"), ("loss", 1.25, "suspected-mix-up")]
)
def test_law_auto_says_what_is_odd_about_a_run(column, factor, code):
    sizes = [(size, size * ratio) for size in (2e7, 5e7, 1.2e8, 3e8) for ratio in (5, 10, 20, 40)]
    frame = pd.DataFrame(sizes, columns=["n_params", "tokens"]).assign(eval="target")
    truth = law("chinchilla").predict({"E": 1.69, "A": 406.0, "alpha": 0.34, "B": 411.0, "beta": 0.28}, frame)
    noise = 0.003 * np.random.default_rng(0).standard_normal(len(frame))
    frame = frame.assign(run=[f"run-{i}" for i in range(len(frame))], loss=truth * np.exp(noise))
    assert not {"suspected-units", "suspected-mix-up"} & set(codes(cl.fit(frame, on="target")))
    mixed = frame.assign(**{column: frame[column].where(frame["run"] != "run-7", frame[column] * factor)})
    found = [one for one in cl.fit(mixed, on="target").findings if one.code == code]
    assert len(found) == 1
    assert "run 'run-7'" in found[0].message


@pytest.mark.parametrize("name", ["en-fr-ladder", "domains"])
def test_base_models_and_runs_on_one_corpus_alone_are_no_mix_ups(name):
    """Zero tokens have no logarithm, and mixes do not foretell what one corpus alone does; both were named as slips."""
    runs = cl.examples.load(name)
    for on in ("source", "target"):
        assert "suspected-mix-up" not in codes(cl.check("shared-tokens", runs, on))


@pytest.mark.parametrize("whole_runs", [True, False])
def test_a_third_of_the_rows_in_bits_is_found(whole_runs):
    frame = read_runs(Path(__file__).parents[2] / "runs" / "messy" / "truth.csv").frame.astype(
        {"eval": str, "run": str}
    )
    frame = frame[frame["eval"] == "target"].reset_index(drop=True)
    rng = np.random.default_rng(3)
    picked = rng.permutation(len(frame))[: int(0.3 * len(frame))]
    if not whole_runs:  # several rows a run, of which some are in bits
        frame["run"] = [f"r{place // 4}" for place in range(len(frame))]
        frame["step"] = 1.0 + frame.index
    mixed = frame.assign(loss=frame["loss"].where(~frame.index.isin(picked), frame["loss"] / np.log(2)))
    found = [one for one in cl.fit("dcpt-l3", mixed, on="target", starts=4).findings if one.code == "suspected-mix-up"]
    assert [one.message.split(" rows")[0] for one in found] == [f"{len(picked)} of {len(frame)}"]
    assert lacks(found[0].message, "bits", "nats") == []
    sound = cl.fit("dcpt-l3", frame, on="target", starts=4)
    assert all(one.code != "suspected-mix-up" for one in sound.findings)
