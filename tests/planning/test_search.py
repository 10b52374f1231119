"""The search for a global minimum: kinks, walls, slivers, ends."""

from types import SimpleNamespace

import numpy as np
import pytest

from cptlaw.planning.mixes.surface import Surface
from cptlaw.planning.search import GRID, minimise


def test_smooth_minimum():
    argument, value = minimise(lambda x: (x - 0.3217) ** 2 + 2.0, 0.0, 1.0)
    assert argument == pytest.approx(0.3217, abs=1e-7)
    assert value == pytest.approx(2.0)


def test_crossing_of_two_branches():
    argument, value = minimise(lambda x: np.maximum(np.exp(-5 * x), np.exp(3 * x - 2)), 0.0, 1.0)
    assert argument == pytest.approx(0.25, abs=1e-10)
    assert value == pytest.approx(np.exp(-1.25), rel=1e-9)


@pytest.mark.parametrize("end", [0.1, 0.5])
def test_ends(end):
    argument, _ = minimise(lambda x: np.abs(x - end), 0.1, 0.5)
    assert argument == end


def test_a_single_point():
    assert minimise(lambda x: x + 1.0, 0.3, 0.3) == (0.3, 1.3)


def test_edge_of_a_feasible_stretch():
    argument, _ = minimise(lambda x: np.where(x >= np.pi / 10, x, np.inf), 0.0, 1.0)
    assert argument >= np.pi / 10
    assert argument == pytest.approx(np.pi / 10, abs=1e-11)


def test_the_deepest_of_many():
    argument, value = minimise(lambda x: np.cos(40 * x) + (x - 0.7) ** 2, 0.0, 1.0)
    fine = np.linspace(0, 1, 2_000_001)
    assert value <= np.min(np.cos(40 * fine) + (fine - 0.7) ** 2) + 1e-12
    assert argument == pytest.approx(fine[np.argmin(np.cos(40 * fine) + (fine - 0.7) ** 2)], abs=1e-6)


def test_sliver_between_grid_points():
    def violation(x):
        return np.abs(x - 0.70711) - 1e-9

    def objective(x):
        return np.where(violation(x) <= 0, 5.0 + x, np.inf)

    argument, value = minimise(objective, 0.0, 1.0, violation)
    assert argument == pytest.approx(0.70711, abs=2e-9)
    assert value == pytest.approx(5.70711)


def test_nothing_allowed():
    _, value = minimise(lambda x: np.full(len(x), np.inf), 0.0, 1.0, lambda x: 1.0 + x)
    assert value == np.inf


def test_an_end_that_is_as_good_is_the_answer():
    """A law that clips its ratio at 1e-9 is flat below: the plan says replay 0, not a billionth."""
    argument, _ = minimise(lambda x: 1.5 + np.maximum(x, 1e-9) - 1e-3 * np.minimum(x, 1e-9), 0.0, 0.95)
    assert argument == 0.0


@pytest.mark.parametrize("place", [0.0, 0.1234567, 0.5, 1.0])
def test_a_dip_that_just_reaches_zero_is_found(place):
    def violation(x):
        return np.abs(x - place) - 1e-8

    _, value = minimise(lambda x: np.where(violation(x) <= 0, 1.0, np.inf), 0.0, 1.0, violation)
    assert value == 1.0


def test_a_dip_that_ends_far_above_zero_is_left_at_once():
    calls = []

    def violation(x):
        calls.append(len(x))
        return np.abs(x - 0.1234567) + 0.5

    assert minimise(lambda x: np.full(len(x), np.inf), 0.0, 1.0, violation)[1] == np.inf
    assert calls == [GRID]


def test_scans_of_a_surface_agree_with_single_points():
    rng = np.random.default_rng(0)
    loss = SimpleNamespace(reads=lambda name: True, at=lambda r, d: 2.0 + (r - 0.3) ** 2 + d**-0.3)
    surface = Surface(loss, (0.1, 0.5), (np.log(1e3), np.log(1e6)), (17, 33))
    replay, logs = rng.uniform(0.1, 0.5, 40), np.linspace(np.log(1e3), np.log(1e6), 21)
    shares, tokens = np.broadcast_to(replay, (21, 40)), np.broadcast_to(logs[:, None], (21, 40))
    single = [[float(surface.at(np.array([r]), np.array([d]))[0]) for r in replay] for d in logs]
    np.testing.assert_allclose(surface.at(shares, tokens), single, rtol=1e-12)
