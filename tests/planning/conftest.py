"""Fits that several files of tests plan with."""

import pytest
from planning_fits import (
    FORM_3,
    SOURCE_1,
    made_fit,
)


@pytest.fixture(scope="module")
def forms():
    return made_fit("ptpp-gated-floor", FORM_3, "target"), made_fit("ptpp-floor", SOURCE_1, "source")
