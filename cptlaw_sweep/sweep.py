"""The verb sweep: from a recipe to a runs table."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cptlaw.errors import UsageError, name_hint
from cptlaw.findings import Finding
from cptlaw.result import Result
from cptlaw.runs import Runs, read_runs
from cptlaw.writing import make_folder, write_to_edit
from cptlaw_sweep import require_training
from cptlaw_sweep.engines.base import Engine
from cptlaw_sweep.estimate import DryRun, estimate
from cptlaw_sweep.instructions import manifests as manifests_of
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.manifest import write_manifest
from cptlaw_sweep.other_recipes import earlier_jobs, with_earlier
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.status import SweepStatus, status_of
from cptlaw_sweep.store import Store
from cptlaw_sweep.table import schedules_of, write_tables
from cptlaw_sweep.trainers import configurations
from cptlaw_sweep.tune_lr import LearningRates, tune

if TYPE_CHECKING:
    import pandas as pd

ENGINES = {
    "local": "cptlaw_sweep.engines.local:LocalEngine",
    "ray": "cptlaw_sweep.engines.ray:RayEngine",
    "slurm": "cptlaw_sweep.engines.slurm:SlurmEngine",
}


@dataclass(frozen=True, repr=False)
class SweepResult(Result):
    """What a sweep has so far.

    Attributes
    ----------
    frame
        The runs table, one row per measured loss.
    store
        Where it is: `runs.csv` and `jobs.csv` beside the results of each run.
    finished, failed, jobs
        Counts of jobs.
    failures
        Job -> why it failed.
    """

    frame: pd.DataFrame
    store: str
    finished: int
    jobs: int
    failures: dict[str, str]

    @property
    def failed(self) -> int:
        """Jobs that failed, or could not start because one that they need failed."""
        return len(self.failures)

    @property
    def runs(self) -> Runs:
        """The table as every verb takes it."""
        return read_runs(self.frame, n_params_kind="total")

    def to_dict(self) -> dict[str, object]:
        """Return the counts and places as plain data."""
        return {
            "store": self.store,
            "runs": f"{self.store}/runs.csv",
            "jobs": self.jobs,
            "finished": self.finished,
            "failed": self.failed,
            "failures": self.failures,
            "rows": len(self.frame),
        }

    @property
    def title(self) -> str:
        """What is there, and where."""
        done = f"{self.finished} of {self.jobs} jobs finished, {len(self.frame)} losses measured"
        return f"{done}: {self.store}/runs.csv"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Jobs that failed."""
        return tuple(
            Finding("error", "failed", f"{name}: {reason}", f"All of them: {self.store}/jobs.csv")
            for name, reason in self.failures.items()
        )


def sweep(
    recipe: str | Path,
    store: str | Path | None = None,
    *,
    engine: str | Engine = "local",
    workers: int | None = None,
    engine_options: Mapping[str, str] | None = None,
    retry_failed: bool = False,
) -> SweepResult:
    """Train the runs of a recipe and return their losses. Stopped at any moment, it goes on where it was.

    Parameters
    ----------
    recipe
        SWEEP.yaml; docs/sweep.md describes it.
    store
        A folder, or a URL that fsspec knows. The name of the recipe without its ending where not given.
    engine
        ``"local"``, ``"ray"`` or ``"slurm"``, or an engine of your own (`cptlaw_sweep.engines.base.Engine`).
    workers
        Processes of the local engine; one per core, or as many as the GPUs hold, where not given. Most jobs at a time
        of the others.
    engine_options
        What else the engine takes, as ``{"partition": "gpu"}``; docs/engines.md lists them.
    retry_failed
        Whether runs that failed by themselves are tried again. Those that the machine failed, by a full disk or a
        killed worker, always are.

    Raises
    ------
    DataError
        If the recipe or its text is unusable, or the store holds tables that no sweep wrote. A run that fails does not
        raise: the others go on, and `failures` says why.
    UsageError
        If another sweep is at work in the folder.
    """
    require_training()
    chosen = make_engine(engine, workers, engine_options) if isinstance(engine, str) else engine
    plan = load_sweep(recipe)
    place = _store_of(recipe, store)
    place.check_ours()
    with place.one_sweep(), contextlib.closing(SweepProgress(plan, place)) as progress:
        place.clear_scratch()
        for note in plan.notes:
            progress.note(note)
        if earlier := earlier_jobs(plan, place):
            progress.note(f"{place.url} holds {len(earlier)} finished jobs of another recipe: the tables keep them")
        prepare(plan.texts, place, progress.note)
        write_manifest(plan, place)
        # Now and not at the end, so that live rows can be forecast from.
        place.write_json("schedules.json", schedules_of(with_earlier(plan, place)))
        progress.start(place.finished_ids())
        chosen.run(plan, place.url, retry_failed=retry_failed, progress=progress)
    failures = progress.failures
    frame = write_tables(plan, place, failures)
    names = {job.id: job.name for job in plan.jobs}
    write_manifest(plan, place)
    return SweepResult(
        frame, place.url, len(progress.done), len(plan.jobs), {names[key]: reason for key, reason in failures.items()}
    )


def status(recipe: str | Path, store: str | Path | None = None) -> SweepStatus:
    """Say how a sweep stands: what is finished, runs, waits or failed. It may run meanwhile, here or elsewhere."""
    require_training()
    return status_of(load_sweep(recipe), _store_of(recipe, store))


def _store_of(recipe: str | Path, store: str | Path | None) -> Store:
    return Store(store if store is not None else Path(recipe).with_suffix("").name)


def tune_lr(
    recipe: str | Path,
    store: str | Path | None = None,
    *,
    engine: str | Engine = "local",
    workers: int | None = None,
    engine_options: Mapping[str, str] | None = None,
) -> LearningRates:
    """Find the learning rates of a recipe by short trials of its smallest models, and how they fall with size.

    Parameters
    ----------
    recipe
        SWEEP.yaml; its `peak` is where the trials begin. All else is taken from it, so that the rates suit it.
    store, engine, workers, engine_options
        As for `sweep`. The trials are kept beside the runs, and done once.
    """
    require_training()
    chosen = make_engine(engine, workers, engine_options) if isinstance(engine, str) else engine
    place = _store_of(recipe, store)
    place.check_ours()

    def run(plan: Sweep) -> Callable[[Job], float | None]:
        with contextlib.closing(SweepProgress(plan, place)) as progress:
            prepare(plan.texts, place, progress.note)
            progress.start(place.finished_ids())
            chosen.run(plan, place.url, retry_failed=False, progress=progress)

        def last(job: Job) -> float | None:
            rows = place.get_result(job.id) if place.is_finished(job.id) else []
            measured = [row for row in rows if row["eval"] == ("source" if job.kind == "base" else "target")]
            return float(measured[-1]["loss"]) if measured else None

        return last

    with place.one_sweep():
        result = tune(Path(recipe), run)
    place.write_json("tune-lr.json", result.to_dict())
    return result


def dry_run(
    recipe: str | Path, manifests: str | Path | None = None, *, engine: str = "local", workers: int | None = None
) -> DryRun:
    """Say what a sweep would train and what it would cost, and train nothing.

    Parameters
    ----------
    manifests
        A folder for one plain manifest per run, for a trainer of your own. None are written where not given.
    engine, workers
        As for `sweep`.
    """
    make_engine(engine)
    plan = load_sweep(recipe)
    result = estimate(plan, workers or os.cpu_count() or 1)
    if manifests is None:
        return result
    folder = make_folder(manifests)
    places = {}
    for name, text in {**manifests_of(plan), **configurations(plan)}.items():
        make_folder((folder / name).parent)
        places[folder / name] = write_to_edit(folder / name, text)
    beside = sum(place != asked for asked, place in places.items())
    note = f"; {beside} of them are NAME-2, beside files that say something else" if beside else ""
    return replace(result, written=f"{len(places)} files in {manifests}{note}")


def make_engine(name: str, workers: int | None = None, options: Mapping[str, str] | None = None) -> Engine:
    """Return an engine by name, with its options as text."""
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}.{name_hint(name, ENGINES)}")
    module, _, kind = ENGINES[name].partition(":")
    made = getattr(importlib.import_module(module), kind)
    known = [option for option in inspect.signature(made).parameters if option != "workers"]
    given: dict[str, object] = dict(options or {})
    for option in given:
        if option not in known:
            hint = name_hint(option, known or ["none"])
            raise UsageError(f"--engine-option {option}: the {name} engine takes no such option.{hint}")
    engine: Engine = made(**given, **({"workers": workers} if workers else {}))
    return engine
