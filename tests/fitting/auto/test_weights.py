"""What rollouts tell of an average at a point."""

import numpy as np
import pytest

from cptlaw.fitting.weights import RolloutScores

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
