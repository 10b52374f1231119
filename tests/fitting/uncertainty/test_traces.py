"""The traces of a profile: the inverse curvature that they start from, and one side of them alone."""

import numpy as np
import pytest
from counting import counted

import cptlaw as cl
from cptlaw.fitting.curvature import LEAST, inverse
from cptlaw.fitting.uncertainty.profile import profiles
from cptlaw.fitting.uncertainty.traces import BOTH_SIDES, FLAT


def test_a_coordinate_that_no_row_sees_has_a_finite_inverse():
    found = inverse(np.array([[4.0, 1.0, 0.0], [1.0, 4.0, 0.0], [0.0, 0.0, 0.0]]), LEAST, FLAT)
    assert np.isfinite(found).all()
    assert found[:2, :2] == pytest.approx(np.array([[4.0, -1.0], [-1.0, 4.0]]) / 15.0)


def test_one_side_costs_less_than_both_and_ends_where_they_do():
    runs = cl.examples.load("en-fr-pilot")
    ends, rows = {}, {}
    for sides in (BOTH_SIDES, (-1,), (1,)):
        fit = cl.fit("ptpp-blind", runs, on="target", where="ptpp == 31", starts=4, restraint="none")
        far = fit.completed("n_params=124672,tokens=4M,replay=25%")
        fit._cache.clear()  # a copy shares what its original has traced
        with counted() as counts:
            ends[sides] = profiles(fit, far, [0.8], sides=sides)[0, 0]
        rows[sides] = counts["rows"]
    low, high = ends[BOTH_SIDES]
    assert ends[-1,][0] == pytest.approx(low, abs=1e-9)
    assert ends[1,][1] == pytest.approx(high, abs=1e-9)
    assert max(rows[-1,], rows[1,]) < 0.75 * rows[BOTH_SIDES]
