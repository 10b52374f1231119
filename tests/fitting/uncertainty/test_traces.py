"""The inverse curvature that traces of a profile start from."""

import numpy as np
import pytest

from cptlaw.fitting.uncertainty.traces import _inverse


def test_a_coordinate_that_no_row_sees_has_a_finite_inverse():
    found = _inverse(np.array([[4.0, 1.0, 0.0], [1.0, 4.0, 0.0], [0.0, 0.0, 0.0]]))
    assert np.isfinite(found).all()
    assert found[:2, :2] == pytest.approx(np.array([[4.0, -1.0], [-1.0, 4.0]]) / 15.0)
