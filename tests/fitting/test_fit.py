"""Fits: the published optimum, agreement with scipy on the full problem, restraint, doubt, files."""

import re
from pathlib import Path

import cases
import numpy as np
import pandas as pd
import pytest
from cases import design
from facts import refused
from independent import scipy_fit, summed_huber

import cptlaw as cl
from cptlaw.errors import DataError, FitError, UsageError
from cptlaw.laws import law

DATA = Path(__file__).parents[3] / "shared" / "data"
EPOCH = DATA / "chinchilla_epoch.csv"
PUBLISHED_240 = 0.0010182741  # summed Huber 1e-3 of the best known fit, laws.md 7.2


@pytest.mark.dear("scipy searches the full problem, without our reductions")
@pytest.mark.parametrize("case", cases.cases(), ids=str)
def test_scipy_on_the_full_problem_agrees(case):
    """From the truth and from our optimum, scipy finds nothing better; its own optimum forecasts the same."""
    frame = cases.design(case, noise=0.004, seed=7)
    fitted = cl.fit(case.spec, frame, on="target", delta=0.01, restraint="none")
    chosen, inputs, loss = fitted.law, cases.own_inputs(fitted.law, frame), frame["loss"].to_numpy()
    ours = summed_huber(np.log(case.formula(fitted.params, *inputs)) - np.log(loss), 0.01)
    assert fitted.objective == pytest.approx(ours, rel=1e-9)
    bounds = {name: (shape.low, shape.high) for name, shape in chosen.shapes.items()}
    bounds = dict.fromkeys(chosen.amplitudes, (0.0, np.inf)) | bounds
    bounds |= dict.fromkeys(chosen.derived, (0.0, np.inf))  # searched as something else: the shape's range is of that
    for start in (case.truth, fitted.params):
        theirs, objective = scipy_fit(
            case.formula, {n: start[n] for n in chosen.parameters}, bounds, inputs, loss, 0.01
        )
        assert fitted.objective <= objective * (1 + 1e-7)
    # Where scipy reached our optimum, it says the same of every point.
    assert objective == pytest.approx(fitted.objective, rel=1e-4)
    assert case.formula(theirs, *inputs) == pytest.approx(fitted.predict(frame), rel=2e-3)


@pytest.mark.parametrize("case", [case for case in cases.cases() if not case.flat], ids=str)
def test_noise_free_data_is_recovered(case):
    frame = cases.design(case)
    fitted = cl.fit(case.spec, frame, on="target", restraint="none")
    assert fitted.objective < 1e-14
    assert fitted.predict(frame) == pytest.approx(frame["loss"].to_numpy(), rel=1e-6)


@pytest.mark.parametrize("case", [case for case in cases.cases() if case.flat], ids=str)
def test_noise_free_data_of_the_bent_laws_is_reproduced(case):
    """Their valleys are flat (laws.md 3.7): the losses come back, the parameters need not."""
    frame = cases.design(case)
    fitted = cl.fit(case.spec, frame, on="target", restraint="none")
    assert fitted.predict(frame) == pytest.approx(frame["loss"].to_numpy(), rel=2e-4)


def epoch_240():
    if not EPOCH.exists():
        pytest.skip(f"{EPOCH.name} is not beside this checkout")
    frame = pd.read_csv(EPOCH)
    return frame.iloc[(frame["tokens"] / frame["n_params"]).argsort().to_numpy()[5:]].rename(columns={"run_id": "run"})


@pytest.mark.parametrize("seeds", [2, pytest.param(20, marks=pytest.mark.nightly)])
def test_chinchilla_reaches_the_best_known_objective_from_every_seed(seeds):
    frame = epoch_240()
    assert len(frame) == 240
    shuffled = frame.sample(frac=1, random_state=5)
    scaled = frame.assign(n_params=frame["n_params"] * 1e3, tokens=frame["tokens"] / 1e2)
    for table in (frame, shuffled, scaled):
        runs = cl.read_runs(table)
        for seed in range(seeds):
            fitted = cl.fit("chinchilla", runs, on="target", seed=seed, restraint="none")
            assert fitted.objective <= PUBLISHED_240
            assert fitted.n_agree == fitted.n_starts
    assert cl.fit("chinchilla", frame, on="target", restraint="none").params == pytest.approx(
        {"E": 1.81722, "A": 477.826, "B": 2143.417, "alpha": 0.34731, "beta": 0.36717}, rel=1e-5
    )


def test_all_245_points_too():
    if not EPOCH.exists():
        pytest.skip(f"{EPOCH.name} is not beside this checkout")
    fitted = cl.fit("chinchilla", EPOCH, on="target", restraint="none")
    assert fitted.objective == pytest.approx(0.00182601, abs=5e-9)
    assert fitted.params["beta"] == pytest.approx(0.453, abs=5e-4)


def test_starts_reach_the_best_optimum_of_the_dcpt_law():
    rng = np.random.default_rng(0)
    grid = np.meshgrid([0.5e9, 1.8e9, 4e9], [0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9], np.geomspace(0.13e9, 26e9, 20))
    frame = pd.DataFrame(
        {name: part.ravel() for name, part in zip(("n_params", "replay", "tokens"), grid, strict=True)}
    )
    frame["loss"] = law("dcpt-l3").predict(cases.of_spec("dcpt-l3").truth, frame) * np.exp(
        1e-3 * rng.standard_normal(420)
    )
    frame["run"] = frame.groupby(["n_params", "replay"]).ngroup().astype(str)
    fitted = cl.fit("dcpt-l3", frame, on="target", starts=64, restraint="none")
    assert len(frame) == 420
    assert fitted.n_agree >= 60
    assert fitted.status == "converged"


def test_same_seed_same_bits(monkeypatch):
    frame = design("ptpp-floor", noise=0.01)
    first = cl.fit("ptpp-floor", frame, on="target", seed=3, restraint="none")
    monkeypatch.forget_fits()
    second = cl.fit("ptpp-floor", frame, on="target", seed=3, restraint="none")
    assert first.params == second.params


def test_restraint_holds():
    frame = design("chinchilla", noise=0.01)
    fitted = cl.fit("chinchilla", frame, on="target", fix={"alpha": 0.3}, tie=[("alpha", "beta")][:0], restraint="none")
    assert fitted.params["alpha"] == 0.3
    assert fitted.n_free == 4
    tied = cl.fit("chinchilla", frame, on="target", tie=["alpha,beta"], restraint="none")
    assert tied.params["alpha"] == tied.params["beta"]
    assert tied.n_free == 4
    amplitudes = cl.fit("chinchilla", frame, on="target", tie=[("A", "B")], restraint="none")
    assert amplitudes.params["A"] == pytest.approx(amplitudes.params["B"], rel=1e-12)
    bounded = cl.fit("chinchilla", frame, on="target", bound={"E": (1.75, 1.9), "beta": (0.4, 0.5)}, restraint="none")
    assert 1.75 <= bounded.params["E"] <= 1.9
    assert bounded.params["beta"] == pytest.approx(0.4)
    assert any(finding.code == "at-bound" for finding in bounded.findings)
    pinned = cl.fit("chinchilla", frame, on="target", fix="E=1.7,A=400", restraint="none")
    assert (pinned.params["E"], pinned.params["A"]) == (1.7, 400.0)
    free = cl.fit("chinchilla", frame, on="target", restraint="none")
    for other in (fitted, tied, amplitudes, bounded, pinned):
        assert other.objective >= free.objective


def test_prior_pulls_as_one_observation_does():
    """A prior far tighter than the data holds the parameter; a very wide one leaves the fit alone."""
    frame = design("chinchilla", noise=0.01)
    free = cl.fit("chinchilla", frame, on="target", restraint="none")
    for name, mean in (("E", 1.5), ("alpha", 0.5), ("A", 600.0)):
        tight = cl.fit("chinchilla", frame, on="target", prior={name: (mean, 1e-5 * mean)}, restraint="none")
        wide = cl.fit("chinchilla", frame, on="target", prior={name: (mean, 1e5 * mean)}, restraint="none")
        assert tight.params[name] == pytest.approx(mean, rel=1e-3)
        assert wide.params == pytest.approx(free.params, rel=1e-3)
        assert wide.objective == pytest.approx(free.objective, rel=1e-6)


@pytest.mark.parametrize(
    ("restraint", "words"),
    [
        ({"fix": {"alhpa": 0.3}}, "Did you mean 'alpha'"),
        ({"fix": ["alpha"]}, "NAME=VALUE"),
        ({"fix": {"alpha": 9}}, "allows alpha from 0.01 to 5"),
        ({"tie": ["alpha"]}, "two or more"),
        ({"tie": ["alpha,A"]}, "amplitude"),
        ({"tie": ["alpha,beta"], "fix": {"alpha": 0.3}}, "held by --fix"),
        ({"bound": {"alpha": "0.5"}}, "LOW:HIGH"),
        ({"bound": {"alpha": (0.5, 0.4)}}, "no value is left"),
        ({"prior": {"E": (1.8, 0)}}, "must be positive"),
        ({"prior": {"E": "1.8"}}, "MEAN:SD"),
        ({"delta": -1}, "delta"),
        ({"starts": 0}, "whole number, 1 or more"),
    ],
)
def test_bad_restraint(restraint, words):
    with pytest.raises(UsageError, match=words):
        cl.fit("chinchilla", design("chinchilla"), on="target", **restraint, restraint="none")


def test_restraint_cannot_name_what_a_constraint_mode_computes():
    with refused(UsageError, "--fix C", "monotone=paper"):
        cl.fit("dcpt-l3:monotone=paper", design("dcpt-l3"), on="target", fix={"C": 0.1}, restraint="none")
    assert (
        cl.fit("dcpt-l1:monotone=paper", design("dcpt-l1"), on="target", fix={"C": 0.1}, restraint="none").params["C"]
        == 0.1
    )


@pytest.mark.parametrize(("column", "lost"), [("n_params", "A, alpha"), ("replay", "C"), ("ptpp", "F, eta")])
def test_one_level_columns_are_refused_with_what_they_cost(column, lost):
    frame = design("ptpp-floor")
    frame[column] = frame[column].iloc[0]
    with refused(FitError, f"column {column} ", lost):
        cl.fit("ptpp-floor", frame, on="target", restraint="none")


def test_one_level_is_fine_where_its_parameters_are_held():
    frame = design("ptpp-floor", budgets=(31.0,))
    assert cl.fit("ptpp-floor", frame, on="target", fix={"F": 0.9, "eta": 0.5}, restraint="none").status == "converged"


def test_too_few_points_are_refused():
    with refused(FitError, "3 points", "the 5"):
        cl.fit("chinchilla", design("chinchilla").iloc[[0, 8, 16]], on="target", restraint="none")


def test_constraint_modes_of_the_dcpt_law():
    frame = design("dcpt-l3", noise=0.002)
    free, soft, paper = (
        cl.fit(f"dcpt-l3:monotone={mode}", frame, on="target", restraint="none") for mode in ("none", "soft", "paper")
    )
    assert free.objective <= soft.objective <= paper.objective

    def rises(fitted):
        partials = fitted.law.partials(fitted.law.check_params(fitted.params), frame, ("replay",), "target")
        return float(np.max(-partials.slopes[0]))  # the own share falls as replay rises

    assert rises(free) > rises(soft) > -np.inf
    assert rises(paper) <= 1e-9
    # With an exact truth below the bound, the paper's constraint costs a visible misfit; soft costs less.
    assert paper.objective > 2 * free.objective


@pytest.mark.nightly
def test_forecast_intervals_cover_new_measurements():
    """Where law and noise are as assumed, 90 % intervals hold about as often as they say (40 data sets, 3 points)."""
    points = pd.DataFrame({"n_params": [1e9, 3e9, 0.5e9], "tokens": [20e9, 5e9, 2e9]})
    truth, held = law("chinchilla").predict(cases.of_spec("chinchilla").truth, points), []
    for seed in range(40):
        frame = design("chinchilla", noise=0.01, seed=seed)
        frame["run"] = [f"run-{i}" for i in range(len(frame))]  # independent noise: every point is a run
        found = cl.fit("chinchilla", frame, on="target", starts=8, restraint="none").forecast(points, interval=0.9)
        measured = truth * np.exp(0.01 * np.random.default_rng([9, seed]).standard_normal(3))
        held.append((found["lo"] < measured) & (measured < found["hi"]))
    assert 0.8 <= np.mean(held) <= 0.98


def test_forecast_table():
    frame = design("chinchilla", noise=0.01)
    fitted = cl.fit("chinchilla", frame, on="target", restraint="none")
    points = pd.DataFrame({"n_params": [1e9, 50e9], "tokens": [20e9, 2e12]})
    found = fitted.forecast(points, interval=0.9)
    assert list(found.columns) == ["n_params", "tokens", "loss", "lo", "hi", "findings"]
    wider = fitted.forecast(points, interval=0.99)
    assert np.all(wider["hi"] - wider["lo"] > found["hi"] - found["lo"])
    assert found["findings"].iloc[0] == ()
    assert {finding.code for finding in found["findings"].iloc[1]} == {"extrapolation"}
    assert "lo" not in fitted.forecast(points, interval=None)
    with pytest.raises(UsageError, match="interval"):
        fitted.forecast(points, interval=1.5)
    with pytest.raises(DataError, match="infinite at tokens = 0"):
        fitted.forecast(points.assign(tokens=0.0))


def test_two_runs_bound_nothing_and_say_so():
    frame = design("chinchilla", noise=0.01, sizes=(0.3e9, 4e9))
    found = cl.fit("chinchilla", frame, on="target", restraint="none").forecast(frame[["n_params", "tokens"]].head(2))
    assert found["lo"].isna().all()
    assert found["hi"].isna().all()
    assert {finding.code for finding in found["findings"].iloc[0]} >= {"no-interval"}


def test_results_print_well():
    fitted = cl.fit("chinchilla", design("chinchilla", noise=0.01), on="target", fix={"E": 1.7}, restraint="none")
    assert re.search(r"\n  E +1\.7  fixed\n", repr(fitted))
    assert "64 of 64 starts agree" in repr(fitted)
    assert fitted._repr_html_().startswith("<p><b>chinchilla on target</b>")
    assert "identify all of 5" in repr(cl.check("chinchilla", design("chinchilla"), on="target"))


def test_base_rows_are_not_fitted_and_are_kept_as_reference():
    runs = cl.examples.load("en-fr-pilot")
    fitted = cl.fit(
        "ptpp-floor", runs, on="source", where="ptpp <= 62 and replay in (0.1, 0.25, 0.5)", restraint="none"
    )
    assert (fitted.data["tokens"] > 0).all()
    assert set(fitted.base["ptpp"]) == {15.0, 31.0, 62.0, 124.0, 279.0}
    assert fitted.base["loss"].between(1.5, 3.5).all()


def test_a_wide_table_with_base_models_and_steps_is_fitted_as_the_long_one(tmp_path):
    long = cl.examples.load("en-fr-pilot").where("ptpp in (31, 124) and replay in (0.1, 0.25)").frame
    long = long[["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "step"]].astype({"eval": str})
    base = long[long["step"] == long["step"].min()].groupby(["eval", "n_params", "ptpp"], as_index=False).first()
    base = base.assign(run="base of " + base["run"].astype(str), tokens=0.0, step=0.0, replay=0.0)
    long = pd.concat([base, long])
    inputs = [name for name in long if name not in ("eval", "loss")]
    wide = long.set_index([*inputs, "eval"])["loss"].unstack("eval").add_suffix("_loss").reset_index()
    wide.to_csv(tmp_path / "wide.csv", index=False)
    one, other = (cl.fit("ptpp-floor", runs, on="source") for runs in (long, tmp_path / "wide.csv"))
    assert one.provenance["tuning"] == other.provenance["tuning"]
    assert one.provenance["tuning"]["batches"]
    point = {"n_params": 1e6, "tokens": 1e7, "replay": 0.1, "ptpp": 62}
    assert other.predict(point) == pytest.approx(one.predict(point), rel=1e-9)


def test_law_and_runs_may_be_given_by_name():
    (case,) = [one for one in cases.cases() if one.spec == "chinchilla"]
    frame, how = cases.design(case), {"on": "target", "restraint": "none", "starts": 2}
    by_place = cl.fit("chinchilla", frame, **how)
    assert cl.fit(frame, law_name="chinchilla", **how).params == by_place.params
    assert cl.fit(law_name="chinchilla", runs=frame, **how).params == by_place.params
    with refused(UsageError, "restraint"):  # the runs alone, for law auto, are read as far as the options
        cl.fit(runs=frame, on="target", restraint="some")
    with refused(UsageError, "runs", "law_name"):
        cl.fit("chinchilla", runs=frame, law_name="dcpt-l3")
