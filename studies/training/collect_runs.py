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

from cptlaw_sweep.jobs import Sweep
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.store import Store
from cptlaw_sweep.table import jobs_table, runs_table, schedules_of

COLUMNS = [
    *("run", "eval", "loss", "n_params", "n_params_non_embedding", "tokens", "replay", "ptpp", "step", "lr"),
    *("lr_schedule", "lr_peak", "lr_pretrain", "seed", "base", "domain", "pretrain_decay", "phase", "tokenizer"),
    *("n_trainable", "lora_rank", "context"),
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
        table = with_rows(table, sweep, store)
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
    alike = [name for name in ("domain", "pretrain_decay", "context") if frame[name].nunique() < 2]
    kept = [name for name in COLUMNS if name in frame and name not in alike]
    cost = pd.DataFrame(costs, columns=["recipe", "jobs", "finished", "tokens", "hours"])
    return frame[kept], schedules, cost


def with_rows(table: pd.DataFrame, sweep: Sweep, store: Store) -> pd.DataFrame:
    """Return a runs table with the tokens per row of each run, and the first losses in rows of another length.

    The runs table has one loss of a base model for all that begin from it, in rows as those of pre-training.
    """
    length = {job.columns.get("trunk") or job.name: int(job.definition["context"]) for job in sweep.runs}
    of_job = {job.id: job for job in sweep.jobs}
    firsts = []
    for name, rows in table[table["tokens"] > 0].groupby("run", sort=False):
        job = next((each for each in sweep.runs if each.name == name and each.kind == "adapt"), None)
        if job is None or not job.needs or of_job[job.needs[0]].definition["context"] == length[job.name]:
            continue
        begun = {each["eval"]: each["loss"] for each in store.get_result(job.id) if each["step"] == 0}
        first = rows.drop_duplicates("eval").assign(tokens=0, flops=0.0, step=0, lr=0.0)
        firsts.append(first.assign(loss=first["eval"].map(begun)))
    return pd.concat([table, *firsts], ignore_index=True).assign(
        context=lambda all_: all_["run"].str.partition(":")[0].map(length)
    )


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
