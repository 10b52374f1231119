"""Result files of studies: what takes less than a minute is what its command makes of the rows, today."""

import json
import os
import shlex
import subprocess
import sys

import pandas as pd
import pytest

import cptlaw as cl
from studies.forecasts.plans_trained import CORPORA, OF_BASE
from studies.forecasts.seals import SEALED
from studies.harness import MEASURED, RESULTS, RESULTS_VARIABLE, held
from studies.provenance import QUICK, ROOT, changes, differing, read

PLANNED = ("n_params", "ptpp", "replay", "on")
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_result_file_is_what_its_command_makes(name, tmp_path):
    """Pages are held against the files by `docs/run_pages.py` (tests/test_pages.py).

    A file whose code and data are as they were is not made anew, nor is one that takes long: the site says that it is
    out of date. `python -m studies results --remake` makes them all.
    """
    written = read(name)
    changed = changes(written)
    if changed and written.get("seconds", QUICK + 1) > QUICK:
        pytest.skip(f"out of date, and takes {written.get('seconds', 'unknown')} seconds: {', '.join(changed)}")
    if not changed:
        return
    words = shlex.split(written["command"])
    environment = os.environ | {RESULTS_VARIABLE: str(tmp_path)}
    subprocess.run([sys.executable, *words[1:]], cwd=ROOT, env=environment, capture_output=True, check=True)
    made = tmp_path / f"{name}.json"
    if not made.exists():
        pytest.skip("its tables are not in ../shared/data")
    assert differing(written["tables"], json.loads(made.read_text(encoding="utf-8"))["tables"]) == []


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
