"""What rollouts tell of an average at a point."""

import numpy as np
import pytest

from cptlaw.fitting.weights import BEHIND_IN_ALL, RolloutScores, left_by_rollouts

ALONG_SIZE, ALONG_TOKENS = [1.0, 0.0], [0.0, 1.0]


def _scores(of_size, of_tokens):
    """Return four rollouts along each of two directions in which both of two laws err alike."""
    error = np.array([[of_size] * 4 + [of_tokens] * 4] * 2)
    return RolloutScores(np.ones(2), error, np.array([ALONG_SIZE] * 4 + [ALONG_TOKENS] * 4))


def test_rollouts_that_err_as_expected_change_nothing():
    found = _scores(0.02, 0.02).error_ratio(np.array([[2.0, 0.0], [0.0, 0.0]]), np.full(8, 0.02))
    assert found == pytest.approx(1.0, rel=0.01)


def test_rollouts_that_go_the_way_of_the_point_count_most():
    scores, expected = _scores(0.04, 0.01), np.full(8, 0.02)
    size, tokens = scores.error_ratio(np.array([[2.0, 0.0], [0.0, 2.0]]), expected)
    assert 1.5 < size < 2.0
    assert 0.5 < tokens < 0.7


def test_one_rollout_counts_half():
    one = RolloutScores(np.ones(1), np.array([[0.04]]), np.array([ALONG_SIZE]))
    assert one.error_ratio(np.array([[2.0, 0.0]]), np.array([0.01])) == pytest.approx(2.0, rel=0.01)
    none = RolloutScores(np.ones(1), np.zeros((1, 0)), np.zeros((0, 2)))
    assert none.error_ratio(np.array([[2.0, 0.0]]), np.zeros(0)).tolist() == [1.0]


def test_a_law_that_another_is_ahead_of_in_every_rollout_hardly_counts():
    error = np.array([[0.02, 0.03, 0.02], [0.025, 0.06, 0.04], [0.01, 0.09, 0.06]])
    left = left_by_rollouts(error)
    assert left[[0, 2]].tolist() == [1.0, 1.0]  # they take turns
    assert left[1] == pytest.approx((0.02 / 0.025) ** (2 / 3 * BEHIND_IN_ALL), rel=0.1)
    assert left_by_rollouts(error[:, :1]).tolist() == left_by_rollouts(error[:, :0]).tolist() == [1.0, 1.0, 1.0]


def test_below_the_noise_no_law_is_ahead():
    assert left_by_rollouts(np.array([[1e-5, 1e-4], [2e-4, 3e-4]])) == pytest.approx(1.0, abs=0.1)
