"""What rollouts leave of the share of a law."""

import numpy as np
import pytest

from cptlaw.fitting.weights import BEHIND_IN_ALL, left_by_rollouts


def test_a_law_that_another_is_ahead_of_in_every_rollout_hardly_counts():
    error = np.array([[0.02, 0.03, 0.02], [0.025, 0.06, 0.04], [0.01, 0.09, 0.06]])
    left = left_by_rollouts(error)
    assert left[[0, 2]].tolist() == [1.0, 1.0]  # they take turns
    assert left[1] == pytest.approx((0.02 / 0.025) ** (2 / 3 * BEHIND_IN_ALL), rel=0.1)
    assert left_by_rollouts(error[:, :1]).tolist() == left_by_rollouts(error[:, :0]).tolist() == [1.0, 1.0, 1.0]


def test_below_the_noise_no_law_is_ahead():
    assert left_by_rollouts(np.array([[1e-5, 1e-4], [2e-4, 3e-4]])) == pytest.approx(1.0, abs=0.1)
