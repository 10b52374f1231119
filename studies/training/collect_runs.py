"""Collect what recipes have measured so far as one small table and its schedules: how the example runs are made.

    python -m studies collect_runs studies/recipes/en_fr_ladder.yaml studies/recipes/en_fr_overtrained.yaml \\
        --store runs/en-fr -o cptlaw/examples/en_fr_ladder.csv

A sweep writes its own `runs.csv` when it ends; this reads the store at any moment, takes several recipes that share
one, and leaves out what has not been trained. The hours of each recipe, from its finished jobs, go to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.store import Store
from cptlaw_sweep.table import jobs_table, runs_table, schedules_of

COLUMNS = [
    *("run", "eval", "loss", "n_params", "n_params_non_embedding", "tokens", "replay", "ptpp", "step", "lr"),
    *("lr_schedule", "lr_peak", "lr_pretrain", "seed", "base", "domain", "pretrain_decay", "phase", "tokenizer"),
    *("n_trainable", "lora_rank"),
]


def collect(recipes: list[Path], store: Store) -> tuple[pd.DataFrame, dict[str, object], pd.DataFrame]:
    """Return the finished runs of some recipes, their schedules, and what they cost.

    Parameters
    ----------
    recipes
        Recipes that share a store.
    store
        Where their results are.

    Returns
    -------
    frame
        One row per measured loss.
    schedules
        Run -> phases, as a schedules file has them.
    cost
        One row per recipe: jobs, those finished, tokens and hours of these.
    """
    tables, schedules, costs = [], {}, []
    for path in recipes:
        sweep = load_sweep(path)
        table = runs_table(sweep, store)
        phases = schedules_of(sweep)
        jobs = jobs_table(sweep, store)
        done = jobs[jobs["status"] == "finished"]
        hours = float(done["seconds"].sum()) / 3600 if "seconds" in done else 0.0
        costs.append((path.stem, len(jobs), len(done), int(done["tokens"].sum()), hours))
        if table.empty or not (table["tokens"] > 0).any():
            continue
        used = table.loc[table["tokens"] > 0, "base"]
        along = table["phase"].eq("pretrain") if "phase" in table else False
        table = table[table["base"].isin(used) | along]
        # Runs of base models are measured once for each domain, under names that end in it.
        first = [next(iter(phases.get(str(run).split(":")[0], ())), {}) for run in table["run"]]
        trained = [phase if phase.get("phase") == "pretrain" else {} for phase in first]  # a given model was not
        table = table.assign(
            lr_pretrain=[phase.get("peak") for phase in trained],
            pretrain_decay=[round(phase.get("decay", 0) / phase.get("steps", 1), 2) for phase in trained],
        )
        tables.append(table)
        schedules |= {run: phases[name] for run in table["run"].unique() if (name := run.split(":")[0]) in phases}
    frame = pd.concat(tables, ignore_index=True).drop_duplicates(["run", "eval", "step"], ignore_index=True)
    frame["loss"], frame["lr"] = frame["loss"].round(5), frame["lr"].round(8)
    several = [name for name in ("domain", "pretrain_decay") if frame[name].nunique() > 1]
    kept = [name for name in COLUMNS if name in frame and (name in several or name not in ("domain", "pretrain_decay"))]
    cost = pd.DataFrame(costs, columns=["recipe", "jobs", "finished", "tokens", "hours"])
    return frame[kept], schedules, cost


def main() -> None:
    """Write the table and its schedules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path, nargs="+", help="recipes that share a store")
    parser.add_argument("--store", required=True, help="where their results are")
    parser.add_argument("-o", "--output", type=Path, required=True, help="table to write, .csv")
    asked = parser.parse_args()
    frame, schedules, cost = collect(asked.recipes, Store(asked.store))
    frame.to_csv(asked.output, index=False)
    lines = ",\n".join(f"{json.dumps(run)}: {json.dumps(phases)}" for run, phases in sorted(schedules.items()))
    path = asked.output.with_name(f"{asked.output.stem}_schedules.json")
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(cost.round(2).to_string(index=False), file=sys.stderr)
    print(f"{len(frame)} losses of {frame['run'].nunique()} runs in {asked.output}, schedules in {path.name}")


if __name__ == "__main__":
    main()
