"""Every forecast that was sealed before its runs, scored on what was measured since: all laws of all seals.

python -m studies seals             # prints the tables; seconds
python -m studies seals --write     # keeps them for studies/measured_tables.md; a test compares
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection

import pandas as pd

import cptlaw as cl
from studies.harness import HOME, MEASURED, show, write_result

SEALED = HOME / "sealed"
QUESTIONS = {
    "en_fr_204k_15": "204K, budget 15, from 30K and 46K",
    "en_fr_overtrained_800": "46K, budget 800, from 15 to 279",
    "en_fr_204k": "204K, budgets 31 to 279, from 30K to 125K",
    "en_fr_371k": "371K, budgets 15 and 31, from 30K to 125K",
    "en_fr_371k_62": "371K, budgets 62 to 279, from 30K to 1.04M",
    "en_fr_no_replay": "204K and 371K without replay, from 30K to 1.04M",
    "en_fr_617k": "617K, budgets 15 and 31, from 30K to 371K",
    "en_fr_617k_62": "617K without replay and at budget 62, from 30K to 1.04M",
    "en_fr_1m": "1.04M, budgets 15 and 31, from 30K to 617K",
}
"""In the order of their sealing; what a seal is called says the file, without the loss and the laws."""
PART = re.compile(r"_(source|target)_(auto_after_warm_up|auto|laws|shared)$")
ROLES = ("target", "source")
LAWS = {"ptpp-floor": "Form 1", "ptpp-gate": "Form 2", "ptpp-gated-floor": "Form 3", "ptpp-nearest": "nearest budget"}


def called(law: str, file: str) -> str:
    """Return the name of a law on the page: published names of the forms, options where two of one law stand."""
    if file.endswith("after_warm_up"):
        return "auto, later rule of warm-up"
    if "sizes" in law:
        return "shared-tokens, shift alike at all sizes"
    return LAWS.get(law, law.partition(":")[0])


def scored(names: Collection[str] = QUESTIONS) -> pd.DataFrame:
    """Return every measured point of the seals that ask some questions: question, law, on, replay, error, inside."""
    ladder = cl.examples.load("en-fr-ladder").frame
    runs = pd.concat([ladder, cl.read_runs(MEASURED / "large.csv").frame], ignore_index=True)
    asked = runs[(runs["n_params"] > 2e5) | (runs["ptpp"] == 800)]  # no seal is of any other run
    table = cl.read_runs(asked, n_params_kind="total").where("lr_schedule == 'constant'")
    found = []
    for path in sorted(SEALED.glob("en_fr_*.json")):
        if PART.sub("", path.stem) not in names:
            continue
        rows = cl.score([path], table).frame
        law = [called(one, path.stem) for one in rows["law"]]
        found.append(rows.assign(question=PART.sub("", path.stem), law=law))
    every = pd.concat(found, ignore_index=True)
    # The published forms end at the least replay that was run: without any they are no forecast.
    forms = every["law"].isin(LAWS.values())
    averaged = every["law"].eq("average") & every["question"].isin(every.loc[forms, "question"])
    return every[(every["replay"] > 0) | ~(forms | averaged)]


def tables(names: Collection[str] = QUESTIONS) -> dict[str, pd.DataFrame]:
    """Return one row per question and law: measurements, errors and mean errors in per cent, intervals that held."""
    rows = []
    points = scored(names)
    for name in names:
        mine = points[points["question"] == name]
        for law, part in sorted(mine.groupby("law"), key=lambda pair: pair[1]["error"].abs().mean()):
            row = {"sealed for": QUESTIONS[name], "law": law}
            for on in ROLES:
                one = part[part["on"] == on]
                held, n = int(one["inside"].sum()), int(one["inside"].notna().sum())
                row[on] = f"{100 * one['error'].abs().mean():.2f}" if len(one) else "-"
                row[f"{on}, mean"] = f"{100 * one['error'].mean():+.1f}" if len(one) else "-"
                row[f"{on}, held"] = f"{held} of {n}" if n else "-"
            rows.append(row)
    return {"all": pd.DataFrame(rows)}


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return scored(["en_fr_204k"])


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("seals", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
