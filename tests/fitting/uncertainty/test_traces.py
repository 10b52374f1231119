"""The inverse curvature that traces of a profile start from."""

import numpy as np
import pytest

from cptlaw.fitting.curvature import LEAST, inverse
from cptlaw.fitting.uncertainty.traces import FLAT


def test_a_coordinate_that_no_row_sees_has_a_finite_inverse():
    found = inverse(np.array([[4.0, 1.0, 0.0], [1.0, 4.0, 0.0], [0.0, 0.0, 0.0]]), LEAST, FLAT)
    assert np.isfinite(found).all()
    assert found[:2, :2] == pytest.approx(np.array([[4.0, -1.0], [-1.0, 4.0]]) / 15.0)
