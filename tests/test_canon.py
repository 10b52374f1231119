"""Each mechanism's numbers are as they were, or a commit says by how much they moved (tests/canon.py)."""

import json

import canon
import pytest

from studies import provenance


@pytest.mark.dear("the mechanism itself, once")
@pytest.mark.parametrize("name", canon.MECHANISMS)
def test_it_answers_as_it_did(name):
    before = json.loads(canon.TABLE.read_text(encoding="utf-8"))[name]
    moved = provenance.moved(before, canon.numbers(name))
    assert moved == "", "`python -m tests.canon --write`, where this is meant; the commit says what moved, and why"


def test_no_mechanism_is_kept_that_is_gone():
    assert list(json.loads(canon.TABLE.read_text(encoding="utf-8"))) == list(canon.MECHANISMS)
