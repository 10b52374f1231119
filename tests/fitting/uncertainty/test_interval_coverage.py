"""Intervals: the coverage study in small, and the pieces of the profile where the right answer is known."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.uncertainty.profile import profiles
from cptlaw.fitting.uncertainty.traces import _farthest_allowed
from cptlaw.fitting.uncertainty.units import units_along
from cptlaw.laws import law

ROOT = Path(__file__).parents[3]
CHINCHILLA = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37}


@pytest.fixture(scope="module")
def study(named_study):
    return named_study("interval_coverage")


@pytest.fixture(scope="module")
def designs(study):
    return {design.name: design for design in study.designs()}


def chinchilla(noise, run_noise=0.0, per_run=1, runs=80, seed=0):
    """Runs with several points each; normal noise by point and by run."""
    rng = np.random.default_rng(seed)
    sizes, ratio = 10 ** rng.uniform(8, 10, runs), 10 ** rng.uniform(0.7, 2.0, runs)
    frame = pd.DataFrame({"run": [f"run-{i}" for i in range(runs)], "n_params": sizes, "tokens": sizes * ratio})
    frame = frame.loc[frame.index.repeat(per_run)].reset_index(drop=True)
    frame["tokens"] *= 1.5 ** np.tile(np.arange(per_run), runs)
    frame["loss"] = law("chinchilla").predict(CHINCHILLA, frame)
    errors = noise * rng.standard_normal(len(frame)) + np.repeat(run_noise * rng.standard_normal(runs), per_run)
    return frame.assign(loss=frame["loss"] * np.exp(errors))


BEYOND = pd.DataFrame({"n_params": [1e9, 30e9, 300e9], "tokens": [20e9, 600e9, 6e12]})


@pytest.mark.nightly
def test_the_study_in_small(study, capsys, monkeypatch):
    """Few data sets cannot tell 85 from 95 per cent; they can tell honest intervals from broken ones."""
    monkeypatch.setattr(sys, "argv", ["interval_coverage.py", "--small"])
    study.main()
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if line.startswith("| ")]
    rows = {tuple(cell.strip() for cell in line.split("|")[1:4]): line.split("|")[4:-1] for line in lines[1:]}
    assert len(rows) == 3 * len(study.SMALL_SETS)
    known = [float(cells[0]) for (name, _, _), cells in rows.items() if name == "chinchilla-60"]
    assert np.mean(known) >= 75
    silent = {point: cells for (_, identified, point), cells in rows.items() if identified == "no"}
    assert float(silent["far"][0]) >= 80
    assert float(silent["far"][2]) > 3  # per cent: as wide as what the data leaves open
    assert "E >= 0 in 100 %" in printed.out


def test_identified_profile_agrees_with_the_delta_method(study):
    """In an almost linear, normal case the two are the same but for the quantile (runs or points as freedom)."""
    fitted = cl.fit("chinchilla", chinchilla(0.002), on="target", delta=0.02, starts=4, restraint="none")
    ends = profiles(fitted, BEYOND, [0.9])[0]
    linear = study.delta_method(fitted, BEYOND, with_noise=False)
    ratio = np.diff(ends, axis=1) / np.diff(linear, axis=1)
    assert np.all((ratio > 0.97) & (ratio < 1.15))
    within = fitted.data.drop(columns="loss").iloc[[0, 5]]  # where nothing is added for a wrong form
    inner = fitted.log_quantiles(within, [0.05, 0.95], measured=False)
    assert inner == pytest.approx(profiles(fitted, within, [0.9])[0].T, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_two_budgets_cover_the_closed_form(study, designs, seed):
    """laws.md 3.7: two budgets give the floors at 15 and 31 only, so the one at 279 is open between known ends."""
    design = designs["ptpp-floor-2"]
    fitted = cl.fit("ptpp-floor", design.runs(seed), on="target", starts=8, restraint="none")
    at = design.points.tail(1)
    free, positive, top = study.closed_form(fitted, at)
    (low, high) = profiles(fitted, at, [0.9])[0, 0]
    assert free < positive < top
    assert low <= positive
    assert high >= top - 1e-4
    # E >= 0 cuts off the end at eta -> 0; no more than noise allows lies beyond it.
    assert low >= free - 0.5 * (top - free)


def test_bent_valleys_are_followed_to_their_end(designs):
    """Gate and floor trade along a curve: descents that run out of steps there are no wall (both ends were short)."""
    design = designs["ptpp-gated-floor-2"]
    fitted = cl.fit("ptpp-gated-floor", design.runs(2), on="target", starts=8, restraint="none")
    low, high = 100 * (profiles(fitted, design.points, [0.9])[0] - np.log(fitted.predict(design.points))[:, None])[-1]
    assert low < -1.5
    assert high > 9


def test_what_one_row_asks_does_not_depend_on_the_others():
    fitted = cl.fit("chinchilla", chinchilla(0.004), on="target", starts=4, restraint="none")
    together = profiles(fitted, BEYOND, [0.9])[0]
    alone = np.concatenate([profiles(fitted, BEYOND.iloc[[i]], [0.9])[0] for i in range(len(BEYOND))])
    assert together == pytest.approx(alone, abs=1e-9)


def test_what_is_asked_does_not_depend_on_what_was_asked_before():
    first, second = (cl.fit("kaplan", chinchilla(0.02), on="target", starts=8, restraint="none") for _ in range(2))
    levels = [0.5, 0.9, 0.95]
    narrow_first = {level: profiles(first, BEYOND, [level])[0] for level in levels}
    wide_first = {level: profiles(second, BEYOND.iloc[::-1], [level])[0][::-1] for level in levels[::-1]}
    for level in levels:
        assert narrow_first[level] == pytest.approx(wide_first[level], abs=1e-9)
    assert profiles(first, BEYOND, levels) == pytest.approx(np.stack(list(narrow_first.values())), abs=1e-12)


@pytest.mark.parametrize("name", ["chinchilla", "auto"])
def test_rows_in_another_order_give_the_same_ends(name):
    frame = chinchilla(0.02)
    shuffled = frame.sample(frac=1.0, random_state=3)
    ends = [
        cl.fit(name, rows, on="target", restraint="none").forecast(BEYOND)[["loss", "lo", "hi"]]
        for rows in (frame, shuffled)
    ]
    assert ends[0].to_numpy() == pytest.approx(ends[1].to_numpy(), rel=1e-12)


def test_many_rows_take_the_range_of_what_was_met():
    fitted = cl.fit("chinchilla", chinchilla(0.004), on="target", starts=4, restraint="none")
    sizes = np.geomspace(1e9, 300e9, 40)
    many = pd.DataFrame({"n_params": sizes, "tokens": 20 * sizes})
    width = np.diff(profiles(fitted, many, [0.9])[0], axis=1)[:, 0]
    exact = np.diff(profiles(fitted, many.iloc[[5, 20, 35]], [0.9])[0], axis=1)[:, 0]
    assert np.all(width > 0)
    assert width[[5, 20, 35]] == pytest.approx(exact, rel=0.25)


def test_unbounded_is_missing_and_says_why():
    found = []
    for ends in (np.array([[-np.inf, 0.0]]), np.array([[0.0, np.inf]])):
        fitted = cl.fit("chinchilla", chinchilla(0.004), on="target", starts=4, restraint="none")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cptlaw.fitting.uncertainty.intervals.profiles", lambda *asked, of=ends: of[None])
            found.append(fitted.forecast(BEYOND.head(1)).iloc[0])
    assert np.isnan(found[0]["lo"])
    assert np.isnan(found[1]["hi"])
    for row in found:
        assert "unbounded" in {finding.code for finding in row["findings"]}


def test_the_data_can_leave_a_forecast_unbounded():
    """Sizes within 2 % of each other say nothing about a model ten thousand times smaller."""
    frame = chinchilla(0.01, runs=30)
    frame["n_params"] = np.linspace(1e9, 1.02e9, 30)
    fitted = cl.fit("chinchilla", frame, on="target", starts=8, restraint="none")
    found = fitted.forecast(pd.DataFrame({"n_params": [1e5], "tokens": [1e10]})).iloc[0]
    assert np.isnan(found["hi"])
    assert "unbounded" in {finding.code for finding in found["findings"]}


def test_design_effect_is_one_without_groups_and_grows_with_them():
    def effects(**kind):
        fitted = cl.fit("chinchilla", chinchilla(**kind), on="target", delta=0.05, starts=4, restraint="none")
        problem, start = fitted.problem(), fitted.optima[0]
        at = fitted.law.bind(BEYOND, fitted.role)
        return units_along(fitted, jacobian(problem, start[: problem.k], start[problem.k :], at=at))[0]

    assert effects(noise=0.01) == pytest.approx(np.ones(3), abs=1e-9)
    # Four points a run that err all alike count as one: the variance is four times that of independent points.
    alike = [effects(noise=1e-4, run_noise=0.01, per_run=4, runs=60, seed=seed) for seed in range(8)]
    assert np.median(alike, axis=0) == pytest.approx(4 * np.ones(3), rel=0.25)


def test_reach_interpolates_the_root_of_the_rise():
    def reach(distance, rises, *limits):
        return _farthest_allowed(np.transpose([distance] * len(limits)), np.array(rises), np.array(limits))

    distance = np.array([0.1, 0.2, 0.3, -0.1])
    rises = np.array([1.0, 4.0, 9.0, 1.0])
    assert reach(distance, rises, 6.25, 0.25) == pytest.approx([0.25, 0.05])
    assert reach(-distance, rises, 0.25) == pytest.approx([0.05])
    # A place that is allowed counts wherever it was met, also beyond one that is refused.
    assert 0.28 < reach(np.append(distance, 0.28), np.append(rises, 2.0), 6.25)[0] < 0.3
    assert reach([1.0], [0.0], 1.0)[0] == np.inf
    assert reach([0.5], [0.0], 1.0)[0] == 0.5
    assert reach(distance, rises, np.inf, 6.25) == pytest.approx([np.inf, 0.25])


def test_rows_that_lie_close_together_share_a_profile():
    """The late steps of a plan under a risk ask for a thousand rows that hardly differ."""
    fitted = cl.fit("chinchilla", chinchilla(0.004), on="target", starts=4, restraint="none")
    sizes = 30e9 * np.linspace(1.0, 1.001, 40)
    many = pd.DataFrame({"n_params": sizes, "tokens": 20 * sizes})
    ends = profiles(fitted, many, [0.9])[0]
    assert len(fitted._cache["traces"]) == 1
    assert ends[[5, 35]] == pytest.approx(profiles(fitted, many.iloc[[5, 35]], [0.9])[0], abs=1e-5)
