"""Both losses along the line between base and adapted weights, of runs whose weights a sweep kept.

    cptlaw sweep studies/recipes/merging.yaml -o runs/merging --workers 1
    python -m studies merging studies/recipes/merging.yaml studies/recipes/merging_125k.yaml --store runs/merging \\
        -o studies/measured/merging.csv

At w the weights are base + w (adapted - base): 0 is the base model, 1 the adapted one. The last checkpoint of a run is
measured at eleven w, earlier ones at a quarter, half, three quarters and 1; with ``--two`` also base + w (A - base) +
w (B - base) for adaptations A and B of one base model to two corpora. Nothing is trained: validation sets are those of
the sweep. Rows that the output has are not measured again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from accelerate import Accelerator

from cptlaw_sweep import models, saved_models
from cptlaw_sweep.evals import Eval
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.loop import loss_of
from cptlaw_sweep.store import Store

LAST = tuple(k / 10 for k in range(11))
EARLIER = (0.25, 0.5, 0.75, 1.0)
TWO = (0.3, 0.5, 0.7, 1.0)
COLUMNS = ("n_params", "ptpp", "seed", "replay", "domain", "lr_schedule", "lr_peak", "base")
KEY = ["run", "tokens", "merge_weight"]
Weights = Mapping[str, torch.Tensor]


def along(base: Weights, *adapted: Weights, weight: float) -> dict[str, torch.Tensor]:
    """Return base + weight * (the sum of what each adaptation changed)."""
    return {name: start + weight * sum(one[name] - start for one in adapted) for name, start in base.items()}


class Folder:
    """The weights that a sweep kept, and its validation sets."""

    def __init__(self, where: str, cache: Path):
        self.store, self.cache = Store(where), cache
        self.accelerator = Accelerator(cpu=True)
        self._evals: dict[str, Eval] = {}

    def model(self, name: str) -> Any:
        """Return a model of the store, ready to be measured."""
        return models.load_weights(self.store.get_folder(name, self.cache)).eval()

    def base(self, job: Job) -> Any:
        """Return the model that a run began from: one of the store, or a given one."""
        given = job.places.get("model")
        if given is None:
            return self.model(f"models/{job.definition['start']['weights']}")
        return models.load_weights(Path(given)).eval()

    def losses(self, model: Any, entries: list[Mapping[str, Any]], context: int) -> dict[str, float]:
        """Return the loss on each validation set that a job names, in nats per token."""
        found = {}
        for entry in entries:
            key = f"{entry['text']}-{entry['split']}"
            if key not in self._evals:
                self._evals[key] = Eval(entry, self.store, context, self.cache)
            found[str(entry["eval"])] = self._evals[key].loss(loss_of, model, self.accelerator, 8, torch.no_grad)
        return found


def measured(folder: Folder, job: Job, known: set[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one run: each kept step at each weight."""
    steps = saved_models.kept_steps(folder.store, job.id)
    if not steps:
        return
    model = folder.base(job)
    base = {name: value.clone() for name, value in model.state_dict().items()}
    for step in steps:
        tokens = step * int(job.columns["batch_tokens"])
        missing = [w for w in (LAST if step == steps[-1] else EARLIER) if (job.name, tokens, w) not in known]
        if not missing:
            continue
        adapted = folder.model(saved_models.folder_of(job.id, step)).state_dict()
        for weight in missing:
            model.load_state_dict(along(base, adapted, weight=weight))
            for role, loss in folder.losses(model, job.definition["evals"], int(job.definition["context"])).items():
                yield row(job, tokens, weight, role, loss)


def row(job: Job, tokens: int, weight: float, role: str, loss: float) -> dict[str, Any]:
    """Return a row of the table."""
    shared = {name: job.columns.get(name) for name in COLUMNS}
    return {"run": job.name, "eval": role, "loss": round(loss, 6), "tokens": tokens, "merge_weight": weight, **shared}


def pairs(jobs: list[Job]) -> Iterator[tuple[Job, Job]]:
    """Yield the runs of one base model on two corpora, of each the one with the least replay."""
    least: dict[Any, Job] = {}
    for job in sorted(jobs, key=lambda job: -job.columns["replay"]):
        if job.columns["lr_schedule"] == "constant":
            least[job.columns["base"], job.columns["domain"]] = job
    alone = list(least.values())
    for place, one in enumerate(alone):
        for other in alone[place + 1 :]:
            if one.columns["base"] == other.columns["base"] and one.columns["domain"] != other.columns["domain"]:
                yield one, other


def of_two(folder: Folder, one: Job, other: Job) -> Iterator[dict[str, Any]]:
    """Yield the losses of what two adaptations of one base model come to together; evals are named by their corpora."""
    model = folder.base(one)
    base = {name: value.clone() for name, value in model.state_dict().items()}
    ends = []
    for job in (one, other):
        step = saved_models.kept_steps(folder.store, job.id)[-1]
        ends.append(
            (folder.model(saved_models.folder_of(job.id, step)).state_dict(), step * int(job.columns["batch_tokens"]))
        )
    for weight in TWO:
        model.load_state_dict(along(base, *(end for end, _ in ends), weight=weight))
        for job in (one, other):
            found = folder.losses(model, job.definition["evals"], int(job.definition["context"]))
            for role, loss in found.items():
                if role != "target" and job is other:
                    continue
                name = f"{one.name}+{other.columns['domain']}"
                yield {
                    **row(job, ends[0][1], weight, role, loss), "run": name, "domain": job.columns["domain"]
                }  # fmt: skip


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("recipes", nargs="+", type=Path)
    parser.add_argument("--store", required=True)
    parser.add_argument("--two", action="store_true", help="sums of two adaptations, in place of single ones")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    jobs = [job for path in asked.recipes for job in load_sweep(path).jobs if job.kind == "adapt"]
    rows = pd.read_csv(asked.output).to_dict("records") if asked.output.exists() else []
    known = {tuple(each[name] for name in KEY) for each in rows}
    with tempfile.TemporaryDirectory() as cache:
        folder = Folder(asked.store, Path(cache))
        if asked.two:
            rows = [each for one, other in pairs(jobs) for each in of_two(folder, one, other)]
        else:
            for job in jobs:
                rows += measured(folder, job, known)
                pd.DataFrame(rows).to_csv(asked.output, index=False)
                print(f"{job.name}: {len(rows)} rows in all")
    pd.DataFrame(rows).to_csv(asked.output, index=False)


if __name__ == "__main__":
    main()
