"""Every built-in law says when it is right, when it is wrong, and on which data that was measured."""

import re
from pathlib import Path

import pytest
from cases import BUILT_IN
from facts import refused

from cptlaw.errors import UsageError
from cptlaw.laws import describe, law

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_law_says_when_to_take_it(name):
    said = describe(law(name))
    assert len(said["right"].split()) >= 5, f"law {name}: set `right`, when to take it, in cptlaw/laws"
    assert len(said["wrong"].split()) >= 3, f"law {name}: set `wrong`, when not to take it, in cptlaw/laws"
    assert said["measured"]
    for page in re.findall(r"docs/\w+\.md", said["measured"]):
        assert (ROOT / page).exists(), f"law {name} names {page}"


def test_auto_is_described_by_check():
    with refused(UsageError, "cptlaw check RUNS --on EVAL"):
        law("auto")
