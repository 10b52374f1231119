"""The runs of the recipes in studies/recipes keep their identities: results that were trained stay theirs."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from cptlaw_sweep.load_sweep import load_sweep

RECIPES = Path(__file__).parents[2] / "studies" / "recipes"
# SHA-256 of the sorted identities of all jobs, where each corpus is one file that says its own name.
IDENTITIES = {
    "code_to_prose": "cd809fe99683b1f93026",
    "docs_to_code": "56ec282b77ffef01ea4b",
    "docs_to_manuals": "e7a23587d9e3f49a98a1",
    "domains": "9cb137897db477f12cd2",
    "domains_dense": "47dd7e0736e93756fe68",
    "domains_planned": "073c30459df397dee313",
    "dynamics": "efc6ae23fa1534f1da91",
    "dynamics_batches": "eff4c408e8396b02e51e",
    "dynamics_sizes": "91c5ca05c8c4a2cda700",
    "en_fr_617k": "763aa7505f58cea00fed",
    "en_fr_ladder": "91abf1b29d9f36275793",
    "en_fr_large": "6c082ddb8cddd721fafe",
    "en_fr_overtrained": "8fac1e368d3a0343c8dd",
    "en_fr_stable": "15fe569004d3234d9491",
    "english_to_french": "707019aa6c5ac47de030",
    "learning_rates_125k": "67cdbd62fe7e2af24a4f",
    "learning_rates_46k": "2e7cdd0cf65218a98357",
    "plans_en_fr": "8ea40f2d35c28f02fb9b",
    "plans_python": "38e285b1d50454395e9f",
    "three_corpora": "3aaf81ba900bd05db456",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Lay out the recipes as in the repository, with corpora of one document each."""
    top = tmp_path_factory.mktemp("identities")
    place = top / "examples" / "sweeps"
    shutil.copytree(RECIPES, place)
    for recipe in place.glob("*.yaml"):
        for corpus in re.findall(r"corpora/[a-z_0-9]+", recipe.read_text()):
            (top / corpus).mkdir(parents=True, exist_ok=True)
            (top / corpus / "a.jsonl").write_text(f'{{"text": "the {corpus} text of a corpus"}}\n')
    return place


@pytest.mark.parametrize("name", IDENTITIES)
def test_the_runs_of_a_recipe_keep_their_identities(folder, name):
    ids = sorted(job.id for job in load_sweep(folder / f"{name}.yaml").jobs)
    assert hashlib.sha256(" ".join(ids).encode()).hexdigest()[:20] == IDENTITIES[name]
