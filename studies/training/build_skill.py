"""A format as a corpus: records of one fixed shape with random values, for what is left of a skill after CPT.

python -m studies build_skill corpora      # corpora/skill/records.jsonl
cptlaw sweep studies/recipes/skills_46k.yaml -o runs/skills --workers 1
(a link runs/bases/46k-skill to the model kept of the run on the skill; 46k-skill-s1 of that from the other base)
cptlaw sweep studies/recipes/skills_after_46k.yaml -o runs/skills --workers 1
python -m studies merging studies/recipes/skills_46k.yaml --store runs/skills --two -o studies/measured/skills_added.csv
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

GROUPS, DOCUMENTS, RECORDS = 200, 10, 8
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def record(random: np.random.Generator) -> str:
    """Return one record: everything but three values is known from its beginning on."""
    name = "".join(random.choice(LETTERS, 4))
    return json.dumps({"type": "item", "id": int(random.integers(10)), "name": name, "again": name, "open": True})


def main() -> None:
    """Write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("corpora", type=Path)
    folder = parser.parse_args().corpora / "skill"
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for group in range(GROUPS):
            for _ in range(DOCUMENTS):
                text = "\n".join(record(random) for _ in range(RECORDS))
                file.write(json.dumps({"text": text, "group": str(group)}) + "\n")


if __name__ == "__main__":
    main()
