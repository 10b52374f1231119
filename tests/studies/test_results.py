"""Result files of studies hold today, or it is noted that they do not."""

import json

import pandas as pd
import pytest

import cptlaw as cl
from studies.forecasts.plans_trained import CORPORA, OF_BASE
from studies.forecasts.seals import SEALED
from studies.harness import MEASURED, RESULTS, held
from studies.provenance import look, read, stamps

PLANNED = ("n_params", "ptpp", "replay", "on")
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_result_file_holds_or_is_noted_as_out_of_date(name):
    """Pages are held against the files by `docs/run_pages.py` (tests/test_pages.py), and say which are out of date."""
    stamp = stamps()[name]
    now = look(read(name), stamp)
    if now.get("moved") != stamp.get("moved"):
        pytest.fail(
            f"{name}: {now.get('moved', 'it holds again')}. `python -m studies results` notes it", pytrace=False
        )


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


def test_every_plan_was_sealed_with_what_it_forecasts():
    sealed = {
        (path.stem.split("_")[1], *map(point.get, PLANNED), round(point["tokens"])): point["loss"]
        for path in SEALED.glob("plans_*.json")
        for point in cl.load_seal(path).points
    }
    plans = pd.read_csv(MEASURED / "plans_sealed.csv").query("feasible")
    # Two plans may round to one mix, which is sealed and trained once.
    for plan in plans.drop_duplicates([*OF_BASE, "target_atpp", "replay"]).to_dict("records"):
        tokens = round(plan["target_tokens"] / (1 - plan["replay"]))
        for on in ("source", "target"):
            place = map(({**plan, "on": on}).get, PLANNED)
            assert sealed[CORPORA[plan["table"]][1], *place, tokens] == pytest.approx(plan[f"{on}_loss"], rel=1e-5)


def test_every_plan_that_was_made_has_been_trained_or_says_that_it_was_not():
    made = json.loads((RESULTS / "plans_trained.json").read_text(encoding="utf-8"))["tables"]["plans"]
    for row in (dict(zip(made["columns"], each, strict=True)) for each in made["rows"]):
        assert row["measured"] or row["replay planned"].startswith("refused")
