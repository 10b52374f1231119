"""Runs of other recipes in the same store: their rows stay in the tables, told apart by name and by recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.store import Store


def earlier_jobs(sweep: Sweep, store: Store) -> list[dict[str, Any]]:
    """Return the lines of jobs.jsonl whose jobs are finished and none of this recipe, in their order."""
    seen, finished = {job.id for job in sweep.jobs}, store.finished_ids()
    result = []
    for record in store.read_lines("jobs.jsonl"):
        if record["id"] not in seen and record["id"] in finished and seen.issuperset(record["needs"]):
            seen.add(record["id"])
            result.append(record)
    return result


def with_earlier(sweep: Sweep, store: Store) -> Sweep:
    """Return a sweep with the finished jobs of other recipes of its store behind its own."""
    earlier = earlier_jobs(sweep, store)
    if not earlier:
        return sweep
    recipes = {record.get("recipe", sweep.name) for record in earlier} | {sweep.name}
    own = {job.id for job in sweep.jobs}
    names = {job.name for job in sweep.jobs}
    bases = {job.columns["base"] for job in sweep.jobs if job.kind == "base"}
    jobs: list[Job] = [_of_recipe(job, sweep.name, recipes) for job in sweep.jobs]
    for record in earlier:
        recipe = record.pop("recipe", sweep.name)
        job = Job.from_dict(record)
        columns = dict(job.columns)
        if job.name in names:
            name = f"{job.name}-{job.id[:6]}"
            columns |= {key: name for key in ("run", "trunk") if columns.get(key)}
            job = replace(job, name=name)
        # A base model of the same name that was trained in another way is another base model.
        start = job.id if job.kind == "base" else next(iter(job.needs), "")
        if start and start not in own and columns.get("base") in bases:
            columns["base"] = f"{columns['base']}-{start[:6]}"
        jobs.append(_of_recipe(replace(job, columns=columns), recipe, recipes))
    return replace(sweep, jobs=tuple(jobs))


def _of_recipe(job: Job, recipe: str, recipes: set[str]) -> Job:
    return replace(job, columns={**job.columns, "recipe": recipe}) if len(recipes) > 1 else job
