"""A format learned before CPT: what is left of it after, with and without replay of it, and after adding weights.

python -m studies skills             # prints the table; seconds
python -m studies skills --write     # keeps it for docs/how_to/base_or_chat.md

`studies/training/build_skill.py` says how the runs are made. The share of the skill that is kept is the fall of its
loss from the base model's, over that of the model that has just learned it.
"""

from __future__ import annotations

import argparse

import pandas as pd

from studies.harness import MEASURED, show, spread, write_result

AFTER = {
    "french100": "the skill, then French",
    "french99-skill1": "the same with 1 % of the format in the mix",
    "french95-skill5": "the same with 5 %",
    "french75-english25": "the same with 25 % English instead",
}


def ends() -> pd.DataFrame:
    """Return the losses on English, French and the format by what was done, one row per base model."""
    frame = pd.read_csv(MEASURED / "skills.csv")
    last = frame.loc[frame.groupby(["run", "eval"])["tokens"].idxmax()]
    last = last[last["tokens"] > 0].pivot_table(index="run", columns="eval", values="loss")
    base = frame[frame["tokens"] == 0].set_index(["run", "eval"])["loss"]
    added = pd.read_csv(MEASURED / "skills_added.csv").set_index(["base", "merge_weight", "domain", "eval"])["loss"]
    rows = []
    for start in added.index.unique("base"):
        learned = last.loc[f"{start}-skill-r0.5-constant-lr0.001"]  # the format is its target: nothing of French
        of_base = (base[f"base-{start}:french", "target"], base[f"base-{start}", "source"])
        found = {"base model": (base[f"base-{start}", "skill"], *of_base)}
        found["the skill, learned with half English"] = (learned["skill"], None, learned["source"])
        runs = {f"{start}-french-r0-constant-lr0.003": "French, never the skill"}
        after = start.replace("46k-p62", "46k-skill", 1)
        runs |= {f"{after}-french-mix-{mix}-constant-lr0.003": words for mix, words in AFTER.items()}
        found |= {words: tuple(last.loc[run, ["skill", "target", "source"]]) for run, words in runs.items()}
        for weight in added.index.unique("merge_weight"):
            of = [added[start, weight, *one] for one in (("skill", "skill"), ("french", "target"), ("skill", "source"))]
            found[f"both learned from the base model, added at {weight:g}"] = tuple(of)
        rows += [(start, name, *losses) for name, losses in found.items()]
    return pd.DataFrame(rows, columns=["base", "model", "format", "French", "English"])


def tables() -> dict[str, pd.DataFrame]:
    """Return the table: means and ranges over base models."""
    found = ends()
    of = found.set_index(["model", "base"])["format"]
    base, learned = (found["base"].map(of[name]) for name in ("base model", "the skill, learned with half English"))
    found.insert(3, "kept of it", 100 * (base - found["format"]) / (base - learned))
    rows = []
    for name, part in found.groupby("model", sort=False):
        row = {"model": name, "format": spread(part["format"]), "kept of it": f"{spread(part['kept of it'], 0)} %"}
        rows.append(row | {on: spread(part[on]) if part[on].notna().all() else "-" for on in ("French", "English")})
    return {"kept": pd.DataFrame(rows)}


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return ends()


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        write_result("skills", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
