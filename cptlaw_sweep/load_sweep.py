"""From SWEEP.yaml to the jobs of a sweep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from cptlaw.errors import DataError, UsageError
from cptlaw_sweep.adaptations import adaptations, evaluations
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.ladders import Base, given_bases, ladders
from cptlaw_sweep.recipe import Recipe, read_recipe


def load_sweep(path: str | Path) -> Sweep:
    """Read a recipe and return the jobs that it asks for.

    Parameters
    ----------
    path
        A YAML file; relative paths in it start at its folder.

    Raises
    ------
    DataError
        If the file is not usable: the message names the place in it, what was found and what was expected.
    """
    path = Path(path)
    content, value = read_recipe(path)
    try:
        return sweep_of(Recipe(value, path), content)
    except UsageError as error:
        raise DataError(f"{path.name}: {error}") from None


def sweep_of(recipe: Recipe, content: str) -> Sweep:
    """Return the jobs that a recipe asks for, base models first."""
    jobs: list[Job] = []
    bases: list[Base] = []
    scratch = [model.name for model in recipe.models.values() if not model.is_given]
    if recipe.asked.pretrain is not None:
        jobs, bases = ladders(recipe, recipe.asked.pretrain)
    elif scratch:
        raise DataError(f"{recipe.path.name}: {', '.join(scratch)} start from scratch: `pretrain` is missing.")
    measured, with_weights = given_bases(recipe)
    jobs, bases = measured + jobs, bases + with_weights
    for place in range(len(recipe.asked.adapt)):
        jobs += adaptations(recipe, place, bases)
    if not jobs:
        raise DataError(f"{recipe.path.name}: nothing to train. Give `pretrain`, `adapt`, or both.")
    # Blocks of `adapt` may ask for the same run; it is trained once.
    jobs = _with_distinct_names(list({job.id: job for job in jobs}.values()))
    jobs += evaluations(recipe, jobs)
    return Sweep(recipe.name, tuple(jobs), recipe.texts, content, tuple(recipe.notes()))


def _with_distinct_names(jobs: list[Job]) -> list[Job]:
    """Tell runs apart that differ only in what a name does not say, such as their warm-up."""
    # Only where names clash: names without a hash are what people read and filter by.
    names = Counter(job.name for job in jobs)
    return [replace(job, name=f"{job.name}-{job.id[:6]}") if names[job.name] > 1 else job for job in jobs]
