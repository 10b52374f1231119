"""Limits turn losses into what is limited and back, with the doubt about the base model beside that about the loss."""

import numpy as np
import pytest

from cptlaw.planning.limits import AboveBase, Upper
from cptlaw.planning.reference import Reference

POINTS = {"tokens": np.array([1e9])}


class Fixed:
    """A loss of 2.2 nats, or a tenth of an e-fold more where it is to be kept with a probability."""

    def upper(self, points, risk):
        return np.array([2.2 * np.exp(0.0 if risk is None else 0.1)])


@pytest.mark.parametrize(("measure", "value", "loss"), [("relative", 0.1, 2.2), ("absolute", 0.1, 2.1)])
def test_the_loss_at_a_limit_is_as_far_above_the_base_model(measure, value, loss):
    scale = AboveBase(Reference("measured", 2.0), measure)
    assert scale.loss_at(value) == pytest.approx(loss)
    assert scale.of(loss) == pytest.approx(value)


@pytest.mark.parametrize(("risk", "coverage"), [(0.8, 0.6), (0.95, 0.9)])
def test_one_side_of_both_doubts_is_kept(risk, coverage):
    """A limit that holds with 80 % leaves out the upper fifth alone: the end of an interval of 60 %."""
    guessed = Reference("law", 2.0, _half_width=lambda asked: 0.2 * asked)
    (above,) = Upper(Fixed(), risk, AboveBase(guessed, "relative"))(POINTS)
    assert above == pytest.approx(1.1 * np.exp(np.hypot(0.1, 0.2 * coverage)) - 1)
    (known,) = Upper(Fixed(), risk, AboveBase(Reference("measured", 2.0), "relative"))(POINTS)
    assert known == pytest.approx(1.1 * np.exp(0.1) - 1)
