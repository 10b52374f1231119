"""Result files of studies: those that cost next to nothing are what their command makes of the rows, today."""

import json

import pytest

from studies.harness import RESULTS, find_data, held

CHEAP = (
    *("adapters", "distances", "dynamics_trained", "forgetting_by_size", "merge_law", "plans_trained", "skills"),
    *("vocabulary", "what_holds"),
)


@pytest.mark.parametrize("name", CHEAP)
def test_a_result_file_is_what_its_command_makes(name, named_study):
    """Pages are held against the files by `docs/run_pages.py` (tests/test_pages.py)."""
    written = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    made = held(named_study(name).tables())
    assert made == {key: written["tables"][key] for key in made}


def test_public_tables_are_what_the_command_makes_of_them(named_study):
    script = named_study("what_holds")
    if any(find_data(name, None) is None for name in script.PUBLIC):
        pytest.skip("the public tables are not in ../shared/data")
    written = json.loads((RESULTS / "what_holds.json").read_text(encoding="utf-8"))["tables"]
    made = held(script.public(None))
    assert made == {key: written[key] for key in made}


def test_seals_are_scored_as_the_file_says(named_study):
    written = json.loads((RESULTS / "seals.json").read_text(encoding="utf-8"))["tables"]["all"]["rows"]
    made = held(named_study("seals").tables(["en_fr_overtrained_800", "en_fr_617k_62"]))["all"]["rows"]
    assert made == [row for row in written if row[0] in {one[0] for one in made}]


def test_the_seal_of_617k_tells_what_the_terms_of_size_are_worth():
    """A statement of the page that no single number carries: with them both errors are halved, or nearly."""
    rows = json.loads((RESULTS / "seals.json").read_text(encoding="utf-8"))["tables"]["all"]["rows"]
    of_617k = {row[1]: row for row in rows if row[0].startswith("617K without replay")}
    with_sizes, without = of_617k["shared-tokens"], of_617k["shared-tokens, shift alike at all sizes"]
    assert float(without[2]) > 2.5 * float(with_sizes[2])
    assert float(without[5]) > 1.5 * float(with_sizes[5])


def test_the_seal_of_anchors_is_scored_as_the_file_says(named_study):
    written = json.loads((RESULTS / "anchors_by_size.json").read_text(encoding="utf-8"))["tables"]["sealed"]
    assert held({"sealed": named_study("anchors_by_size").sealed()})["sealed"] == written


def test_every_plan_that_was_made_has_been_trained():
    plans, totals, _ = json.loads((RESULTS / "plans_trained.json").read_text(encoding="utf-8"))["tables"].values()
    made = [row for row in plans["rows"] if row[3] != "refused"]
    assert all(row[5] for row in made)
    assert totals["rows"][0][1] == f"{len(made)} of {len(plans['rows'])}" == "10 of 12"
