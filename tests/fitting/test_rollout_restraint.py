"""Restraint chosen by rollout: it respects the user, looks at no hold-out, and prefers what is true."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from benchmarks import backtests
from cptlaw.cli import main
from cptlaw.errors import UsageError
from cptlaw.fitting.choose_restraint import candidates, rollouts
from cptlaw.laws import law
from cptlaw.solving.restraint import Prior, Restraint

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "data"
DEFAULT = "tied exponents, weak priors"


def ladder(alpha, beta, noise=0.003, seed=0, sizes=7, levels=7):
    """Return runs of Chinchilla's law and whether each is small enough to be fitted."""
    n, each = (
        a.ravel() for a in np.meshgrid(np.geomspace(2e7, 1e10, sizes), np.geomspace(5, 640, levels), indexing="ij")
    )
    truth = 1.8 + 0.4 * (1e9 / n) ** alpha + 0.5 * (2e10 / (n * each)) ** beta
    loss = truth * np.exp(noise * np.random.default_rng(seed).normal(size=len(n)))
    frame = pd.DataFrame({"run": [f"r{i}" for i in range(len(n))], "eval": "target", "loss": loss})
    frame["n_params"], frame["tokens"] = n, n * each
    return frame, truth, (n <= 1e9) & (each <= 80)


def auto(frame, **options):
    return cl.fit("chinchilla", frame, on="target", restraint="auto", **options)


def miss(fit, frame, truth):
    return float(np.mean(np.abs(fit.predict(frame) / truth - 1)))


def test_a_tied_truth_prefers_the_tie():
    frame, truth, small = ladder(0.35, 0.35)
    fit = auto(frame[small])
    assert fit.options.rollout["chosen"] == DEFAULT
    assert fit.params["alpha"] == fit.params["beta"]
    free = cl.fit("chinchilla", frame[small], on="target")
    assert miss(fit, frame[~small], truth[~small]) <= miss(free, frame[~small], truth[~small])


def test_an_untied_truth_is_left_untied():
    frame, truth, small = ladder(0.6, 0.2, noise=0.001)
    fit = auto(frame[small])
    assert "tied" not in fit.options.rollout["chosen"]
    free = cl.fit("chinchilla", frame[small], on="target")
    assert miss(fit, frame[~small], truth[~small]) <= miss(free, frame[~small], truth[~small]) + 1e-3


@pytest.mark.parametrize("name", ["chinchilla", "kaplan", "dcpt-l3", "ptpp-gated-floor", "ptpp-base", "dcpt-cross-k3"])
def test_candidates_keep_the_restraint_of_the_user(name):
    chosen = law(name)
    exponent = next(iter(chosen.shapes))
    prior = {} if exponent == chosen.parameters[0] else {chosen.parameters[0]: (1.7, 0.1)}
    own = Restraint.build(chosen, fix={exponent: 0.3}, prior=prior)
    for candidate in candidates(chosen, own, 2.0):
        candidate.restraint._check(chosen)
        assert candidate.restraint.fixed[exponent] == 0.3
        assert all(candidate.restraint.priors[key] == Prior(1.7, 0.1) for key in prior)
        assert not any(exponent in group for group in candidate.restraint.tied)
    for candidate in candidates(chosen, Restraint(), 2.0):
        candidate.restraint._check(chosen)


def test_the_fit_keeps_the_restraint_of_the_user():
    frame, _, small = ladder(0.5, 0.25)
    fit = auto(frame[small], fix={"E": 1.7})
    assert fit.params["E"] == 1.7
    assert all(item["restraint"]["fix"] == {"E": 1.7} for item in fit.options.rollout["candidates"])


def test_nothing_but_the_fitted_rows_is_read():
    frame, _, small = ladder(0.35, 0.35)
    spoiled = frame.assign(loss=np.where(small, frame["loss"], 9.0))
    where = "n_params <= 1e9 and tokens_per_param <= 80"
    frames = [table.assign(tokens_per_param=table["tokens"] / table["n_params"]) for table in (frame, spoiled)]
    first, second = (auto(table, where=where) for table in frames)
    assert first.n_points == small.sum()
    assert first.options.rollout == second.options.rollout
    assert first.params == second.params


def test_rollouts_fit_lower_levels_of_whole_runs():
    pilot = cl.examples.load("en-fr-pilot").frame
    rows = pilot[(pilot["eval"] == "target") & (pilot["tokens"] > 0)].reset_index(drop=True)
    found = rollouts(rows, 10)
    assert {"ptpp", "flops"} <= {fold.direction for fold in found}
    for fold in found:
        assert not set(rows["run"][fold.fit]) & set(rows["run"][fold.test])
        if fold.direction == "ptpp":
            assert rows["ptpp"][fold.fit].max() < rows["ptpp"][fold.test].min()


def test_same_seed_same_choice_and_a_round_trip(tmp_path):
    frame, _, small = ladder(0.35, 0.35)
    first, second = auto(frame[small]), auto(frame[small])
    assert first.params == second.params
    assert first.options == second.options
    kept = cl.load_fit(first.save(tmp_path / "fit.json"))
    assert kept.options == first.options
    pd.testing.assert_frame_equal(
        kept.forecast(frame[~small].head(2)), first.forecast(frame[~small].head(2)), rtol=1e-9
    )
    settings = json.loads((tmp_path / "fit.json").read_text())["settings"]
    assert settings["rollout"]["chosen"] == DEFAULT
    assert [finding.code for finding in kept.findings].count("restraint") == 1


def test_without_levels_the_preferred_restraint_is_taken():
    frame, _, _ = ladder(0.35, 0.35, sizes=2, levels=3)
    fit = auto(frame)
    assert fit.options.rollout is None
    assert fit.options.restraint.tied
    assert "alpha" in fit.options.restraint.priors
    assert "no rollout" in next(finding.message for finding in fit.findings if finding.code == "restraint")


def test_unknown_restraint():
    frame, _, _ = ladder(0.35, 0.35)
    with pytest.raises(UsageError, match="expected auto or none"):
        cl.fit("chinchilla", frame, on="target", restraint="some")


def test_command_line(tmp_path, capsys):
    frame, _, small = ladder(0.35, 0.35)
    frame[small].to_csv(tmp_path / "runs.csv", index=False)
    command = ["fit", "-v", str(tmp_path / "runs.csv"), "--law", "chinchilla", "--on", "target", "--draws", "0"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--restraint", "auto", "-o", str(tmp_path / "fit.json")])
    assert not ended.value.code
    assert "chosen by" in capsys.readouterr().out
    assert cl.load_fit(tmp_path / "fit.json").options.rollout is not None


def test_a_real_back_test():
    if not PUBLIC.is_dir():
        pytest.skip(f"the public measurements are not shipped: {PUBLIC} is not here")
    case = next(backtests.cases(str(PUBLIC), "gadre"))
    found = {name: backtests.run(case, restraint) for name, restraint in backtests.RESTRAINTS.items()}
    assert found["auto"].error <= min(found["free"].error, found["tied"].error) + 5e-5
    assert found["auto"].held.mean() >= 0.85
