"""What users do costs no more than it did, in counts: fits, evaluations, rows and files (tests/counting.py)."""

import pytest
import yaml
from counting import TABLE, span, works

LEAST, MOST = 0.75, 1.1  # times what stands in the table; below, it is to be written anew


@pytest.fixture(scope="module")
def today():
    return dict(works())


@pytest.mark.parametrize("work", yaml.safe_load(TABLE.read_text()))
def test_it_costs_what_it_did(today, work):
    before = yaml.safe_load(TABLE.read_text())[work]
    assert today[work].keys() == before.keys()
    changed = {
        what: (count, today[work][what])
        for what, count in before.items()
        if not LEAST * min(span(count)) <= today[work][what] <= MOST * max(span(count))
    }
    assert changed == {}, "python tests/counting.py --write, where this is meant"


def test_the_table_holds_all_of_them(today):
    assert list(today) == list(yaml.safe_load(TABLE.read_text()))
    for again in ("the same question again", "another limit"):
        assert not any(today[again].values())
