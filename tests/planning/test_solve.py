"""The search of a plan where a loss or a limit is infinite, or no number, over part of what may be chosen."""

import numpy as np
import pytest

from cptlaw.planning.solve import Axis, Limit, Space, certificate, solve

# Warnings of NumPy are errors in tests: a user must never see one.
SPACE = Space((Axis("replay", 0.0, 1.0), Axis("tokens", 1e3, 1e6, log=True)))


def bowl(points):
    return (points["replay"] - 0.5) ** 2 + np.log(points["tokens"] / 1e4) ** 2


@pytest.mark.parametrize("beyond", [np.inf, np.nan, 1e308])
def test_the_best_is_found_beside_what_is_infinite(beyond):
    best = solve(SPACE, lambda points: np.where(points["replay"] < 0.3, beyond, bowl(points)))
    assert best.point["replay"] == pytest.approx(0.5, abs=1e-4)
    assert best.point["tokens"] == pytest.approx(1e4, rel=1e-3)
    edge = solve(SPACE, lambda points: np.where(points["replay"] < 0.6, beyond, bowl(points)))
    assert edge.point["replay"] == pytest.approx(0.6, abs=1e-4)


@pytest.mark.parametrize("beyond", [np.inf, np.nan, 1e308])
def test_a_limit_may_be_infinite_over_part_of_the_space(beyond):
    limit = Limit("max", 0.01, lambda points: np.where(points["replay"] > 0.6, beyond, points["replay"] - 0.4))
    best = solve(SPACE, bowl, [limit])
    assert best.kept
    assert best.point["replay"] == pytest.approx(0.41, abs=1e-4)
    nowhere = Limit("max", 0.01, lambda points: np.where(points["replay"] > 0.6, beyond, points["replay"] + 1.0))
    nearest = solve(SPACE, bowl, [nowhere])
    assert not nearest.kept
    assert nearest.point["replay"] == pytest.approx(0.0, abs=1e-4)


def test_at_risk_no_look_is_taken_where_the_forecasts_alone_refuse_what_a_wider_range_adds():
    space, asked = Space((Axis("replay", 0.2, 0.5),)), []

    def at_risk(points):
        asked.append(points["replay"].min())
        return 2.0 - points["replay"]

    dear = Limit("max-forgetting", 1.0, at_risk)
    sure = Limit("max-forgetting", 1.0, lambda points: 1.5 - points["replay"])
    wider = {"min-replay": (space.widened(replay=(0.0, 0.5)), lambda points: -points["replay"])}
    found = certificate(space, [dear], solve(space, at_risk), wider, [sure])
    assert min(asked) == 0.2
    assert found == certificate(space, [dear], solve(space, at_risk), wider)
    assert min(asked) == 0.0
