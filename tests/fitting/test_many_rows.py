"""Many rows and many runs: the same answers as by the plain way, which is slow."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting import fit_rows
from cptlaw.fitting.checking import residuals
from cptlaw.fitting.solving.blocks import independent_blocks, run_codes
from cptlaw.fitting.solving.identifiability import null_directions
from cptlaw.fitting.solving.objective import Objective
from cptlaw.runs import data_errors
from studies.speed.growth import table


@pytest.mark.parametrize("runs", [40, 17, 5])
def test_the_move_without_a_run_is_that_of_its_rows_left_out(runs):
    rng = np.random.default_rng(runs)
    rows = np.linalg.qr(rng.normal(size=(40, 4)))[0]
    pull, run = rng.normal(size=40), np.arange(40) % runs
    found = residuals._shifts(rows, run, pull, runs)
    for r in range(runs):
        rest = rows[run != r]
        # Least squares on all rows but these: the normal equations of the rest.
        expected = np.linalg.solve(rest.T @ rest, rows[run == r].T @ pull[run == r])
        assert found[r] == pytest.approx(expected, rel=1e-6)


def test_a_run_that_decides_a_direction_alone_moves_nothing_that_others_see():
    rows = np.eye(5)[:, :2]
    assert np.all(residuals._shifts(rows, np.arange(5), np.ones(5), 5) == 0.0)


def test_a_run_in_other_units_is_found_among_many():
    frame = table(500, 500)
    frame.loc[100, "tokens"] *= 1e3
    told = [found.message for found in data_errors._token_units(frame)]
    assert len(told) == 1
    assert "'r100'" in told[0]
    frame.loc[200, "tokens"] *= 1e3
    (both,) = data_errors._token_units(frame)
    assert both.data["runs"] == 2


def test_blocks_are_those_of_each_run_by_itself():
    rng = np.random.default_rng(0)
    run = rng.permutation(np.repeat(["b", "a", "c"], [30, 50, 3]))
    order, residual = rng.permutation(83).astype(float), np.cumsum(rng.normal(size=83))
    labels, effective = independent_blocks(run, order, residual)
    for name in "abc":
        own = run == name
        alone, size = independent_blocks(run[own], order[own], residual[own])
        assert effective[name] == pytest.approx(size[name])
        assert len(np.unique(labels[own])) == len(np.unique(alone))
        assert set(labels[own]).isdisjoint(labels[~own])


def test_runs_are_numbered_in_the_order_of_their_names():
    codes, names = run_codes(pd.DataFrame({"run": pd.Categorical(["b", "a", "b"], ["a", "b", "unused"])}))
    assert codes.tolist() == [1, 0, 1]
    assert names.tolist() == ["a", "b"]


def test_the_search_on_some_rows_ends_where_that_on_all_does(monkeypatch):
    frame = table(9000, 900, noise=0.02)
    some = cl.fit("chinchilla", frame, on="target", restraint="none")
    monkeypatch.setattr(fit_rows, "MOST_SEARCHED", 10**9)
    every = cl.fit("chinchilla", frame, on="target", restraint="none")
    assert some.objective == pytest.approx(every.objective, rel=1e-9)
    assert some.params == pytest.approx(every.params, rel=1e-4)
    assert some.n_points == every.n_points == 9000
    assert some.n_agree == pytest.approx(every.n_agree, abs=3)


def test_priors_are_weighed_and_starts_chosen_on_some_rows(monkeypatch):
    """Only what leads on these is polished on all, to the same optimum."""
    frame = table(9000, 900, noise=0.02)
    on_all = []
    evaluate = Objective.evaluate

    def watched(self, v, *how):
        on_all.extend([1] * len(v) if self.problem.n > 4000 else [])
        return evaluate(self, v, *how)

    monkeypatch.setattr(Objective, "evaluate", watched)
    some, few = cl.fit("auto", frame, on="target"), len(on_all)
    monkeypatch.setattr(fit_rows, "MOST_SEARCHED", 10**9)
    on_all.clear()
    every, all_rows = cl.fit("auto", frame, on="target"), len(on_all)
    assert few < all_rows / 2
    for one, other in zip(some.fits, every.fits, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-3)
        assert one.prior_weight == pytest.approx(other.prior_weight, rel=0.05)  # a part scatters a little otherwise
    rows = frame.iloc[:50]
    assert some.predict(rows) == pytest.approx(every.predict(rows), rel=1e-5)


def test_the_searched_rows_hold_every_level(monkeypatch):
    frame = table(9000, 900)
    frame.loc[:2, "n_params"] = 7e7  # a level of three rows
    sizes = []
    search = fit_rows.varpro.search

    def watched(problem, *rest):
        sizes.append((problem.n, np.unique(getattr(problem.x.N, "value", problem.x.N)).size))
        return search(problem, *rest)

    monkeypatch.setattr(fit_rows.varpro, "search", watched)
    cl.fit("chinchilla", frame, on="target", starts=4, restraint="none")
    assert sizes[0][0] < fit_rows.MOST_SEARCHED
    assert sizes[0][1] == 6


def test_directions_that_no_row_sees_take_no_more_memory_than_the_rows():
    matrix = np.random.default_rng(0).normal(size=(20_000, 4))
    matrix[:, 3] = matrix[:, 2]
    tracemalloc.start()
    found = null_directions(matrix, ["A", "B", "C", "D"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [sorted(one) for one in found] == [["C", "D"]]
    assert peak < 20 * matrix.nbytes  # a square of the rows would be 5,000 times as much
