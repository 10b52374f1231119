"""A format learned before CPT: what is left of it after, with and without replay of it, and after adding weights.

python -m studies skills             # prints the table; seconds
python -m studies skills --write     # keeps it for docs/how_to/base_or_chat.md

`studies/training/build_skill.py` says how the runs are made. The share of the skill that is kept is the fall of its
loss from the base model's, over that of the model that has just learned it.
"""

from __future__ import annotations

import argparse

import pandas as pd

from studies.harness import MEASURED, show, write_result

AFTER = {
    "french100": "the skill, then French",
    "french99-skill1": "the same with 1 % of the format in the mix",
    "french95-skill5": "the same with 5 %",
    "french75-english25": "the same with 25 % English instead",
}


def ends() -> dict[str, pd.Series]:
    """Return the losses on English, French and the format, by what was done."""
    frame = pd.read_csv(MEASURED / "skills.csv")
    last = frame.loc[frame.groupby(["run", "eval"])["tokens"].idxmax()]
    # A run on the format has it as its target, and nothing of French.
    wide = last.pivot_table(index="run", columns="eval", values="loss").rename(columns={"target": "french"})
    base = frame[frame["tokens"] == 0].set_index(["run", "eval"])["loss"]
    name = next(run for run in wide.index if "-skill-" in run)
    start = name.partition("-skill-")[0]
    found = {"base model": pd.Series({"source": base[f"base-{start}", "source"],
                                      "french": base[f"base-{start}:french", "target"],
                                      "skill": base[f"base-{start}", "skill"]})}  # fmt: skip
    found["the skill, learned with half English"] = wide.loc[name].drop("french")
    found["French, never the skill"] = wide.loc[f"{start}-french-r0-constant-lr0.003"]
    for run in wide.index:
        for mix, words in AFTER.items():
            if f"-mix-{mix}-" in run:
                found[words] = wide.loc[run]
    added = pd.read_csv(MEASURED / "skills_added.csv")
    for weight, part in added.groupby("merge_weight"):
        of = part.set_index(["domain", "eval"])["loss"]
        found[f"both learned from the base model, added at {weight:g}"] = pd.Series(
            {"source": of["skill", "source"], "french": of["french", "target"], "skill": of["skill", "skill"]}
        )
    return found


def tables() -> dict[str, pd.DataFrame]:
    """Return the table."""
    found = ends()
    base, learned = found["base model"]["skill"], found["the skill, learned with half English"]["skill"]
    rows = []
    for name, one in found.items():
        row = {"model": name, "format": f"{one['skill']:.2f}"}
        row |= {"kept of it": f"{100 * (base - one['skill']) / (base - learned):.0f} %"}
        row["French"] = f"{one['french']:.2f}" if pd.notna(one.get("french")) else "-"
        rows.append(row | {"English": f"{one['source']:.2f}"})
    return {"kept": pd.DataFrame(rows)}


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
