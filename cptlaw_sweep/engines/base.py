"""What engines share: the protocol, and the queue that knows which jobs can start."""

from __future__ import annotations

import heapq
from collections.abc import Container
from typing import Protocol

from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.store import Store


class Engine(Protocol):
    """Runs the jobs of a sweep: each in its turn, each once, whatever happens to the others."""

    def run(self, sweep: Sweep, store_url: str, *, retry_failed: bool, progress: SweepProgress) -> None:
        """Run every job that is not finished.

        Parameters
        ----------
        sweep
            The jobs; their texts have been prepared in the store.
        store_url
            Where texts and results are; every worker must reach it.
        retry_failed
            Whether jobs that failed by themselves in an earlier session are tried again. Those that the machine failed,
            by a full disk or a killed worker, always are.
        progress
            Who is told. A failed job is told and does not end the others.
        """


class Queue:
    """The state of a sweep as its engine sees it: what is waiting, can start, runs, is finished or has failed.

    Every job is looked at once when it starts, ends or fails, however many wait: each counts the jobs that it still
    needs, and stands in a heap by its place in the sweep once there are none.
    """

    def __init__(self, sweep: Sweep, store: Store, *, retry_failed: bool, progress: SweepProgress):
        self._store, self._progress = store, progress
        done, failed = store.finished_ids(), store.failed_ids()
        for leftover in done.intersection(store.names("checkpoints")):  # stopped between its result and the tidying up
            store.remove(f"checkpoints/{leftover}")
        self._again = to_repeat(sweep, store, done)
        self.waiting: dict[str, Job] = {job.id: job for job in sweep.jobs}
        self.running: dict[str, Job] = {}
        self._place = {job.id: place for place, job in enumerate(sweep.jobs)}
        self._children: dict[str, list[str]] = {}
        self._lacks: dict[str, int] = {}
        self._ready: list[tuple[int, str]] = []
        self._pruned = _Pruning(sweep, store)
        for job in sweep.jobs:
            # Counted down as needs finish: looking at all waiting jobs after each one would be quadratic, and sweeps
            # have 100,000.
            self._lacks[job.id] = len(set(job.needs))
            for need in set(job.needs):
                self._children.setdefault(need, []).append(job.id)
            if not job.needs:
                self._push(job.id)
        for job in sweep.jobs:
            if job.id not in self.waiting:
                continue  # failed already, with one that it needs
            if job.id in done and job.id not in self._again:
                self.finish(job)
            elif job.id in failed and not store.try_again(job.id, anyway=retry_failed):
                self.fail(job, store.failure_of(job.id) or "no reason was recorded", record=False)

    def __bool__(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self.waiting or self.running)

    def ready(self, most: int | None = None) -> list[Job]:
        """Return the jobs that can start now, in the order of the sweep.

        Parameters
        ----------
        most
            Return no more than so many; all where not given.
        """
        result: list[Job] = []
        kept: list[tuple[int, str]] = []
        while self._ready and (most is None or len(result) < most):
            entry = heapq.heappop(self._ready)
            if entry[1] in self.waiting:
                result.append(self.waiting[entry[1]])
                kept.append(entry)
        for entry in kept:
            heapq.heappush(self._ready, entry)
        return result

    def start(self, job: Job) -> None:
        """Note that a job runs."""
        self.running[job.id] = self.waiting.pop(job.id)

    def settle(self, job: Job, lost: str | None = None) -> None:
        """Take what a worker left in the store for a job: a result, a reason, or neither.

        Parameters
        ----------
        lost
            Why it left nothing there, where its engine knows.
        """
        if lost is not None:
            self.fail(job, lost)
            return
        reason = self._store.failure_of(job.id)
        whole = job.id not in self._again or self._store.exists(f"models/{job.id}")
        if reason is None and whole and self._store.is_finished(job.id):
            self.finish(job)
        else:
            self.fail(job, reason or "the worker ended without a result", record=reason is None)

    def finish(self, job: Job) -> None:
        """Note that a job is finished."""
        self._forget(job)
        for child in self._children.get(job.id, ()):
            self._lacks[child] -= 1
            if not self._lacks[child]:
                self._push(child)
        self._pruned.finished(job)
        self._progress.count_finished(job)

    def fail(self, job: Job, reason: str, *, record: bool = True) -> None:
        """Note that a job has failed; those that need it cannot start, and are not recorded as failed themselves.

        Parameters
        ----------
        reason
            Why, for the table.
        record
            Whether the store must be told; not where the worker has done so.
        """
        self._forget(job)
        if record:
            try:
                self._store.put_failure(job.id, reason)
            except OSError as error:  # a full disk: the table of this session still tells
                reason = f"{reason} (and this could not be recorded: {error})"
        self._progress.count_failed(job, reason)
        lost = [job]
        while lost:
            cause = lost.pop()
            for key in self._children.get(cause.id, ()):
                if key in self.waiting:
                    child = self.waiting.pop(key)
                    self._progress.count_failed(child, f"needs {cause.name}, which failed")
                    lost.append(child)

    def _push(self, key: str) -> None:
        heapq.heappush(self._ready, (self._place[key], key))

    def _forget(self, job: Job) -> None:
        self.waiting.pop(job.id, None)
        self.running.pop(job.id, None)


def to_repeat(sweep: Sweep, store: Store, done: Container[str]) -> set[str]:
    """Return the finished jobs whose state was removed and is needed again, since the recipe grew a branch."""
    there = set(store.names("models"))
    wanted: set[str] = set()
    again: set[str] = set()
    for job in reversed(sweep.jobs):
        if job.id not in done or (job.id in wanted and job.definition.get("keep") and job.id not in there):
            wanted.update(job.needs)
            if job.id in done:
                again.add(job.id)
    return again


class _Pruning:
    """Removes the state of a stage of a trunk once the next stage and all its branches are finished.

    The last stage of a trunk stays, so that a larger budget can go on from it.
    """

    def __init__(self, sweep: Sweep, store: Store):
        self._store = store
        self._open: dict[str, int] = {}
        stages = {job.id for job in sweep.jobs if job.kind == "trunk"}
        goes_on = {need for job in sweep.jobs if job.kind == "trunk" for need in job.needs}
        for job in sweep.jobs:
            for need in stages.intersection(job.needs) & goes_on:
                self._open[need] = self._open.get(need, 0) + 1

    def finished(self, job: Job) -> None:
        """Note that a job no longer needs the states that it started from."""
        for need in job.needs:
            if need in self._open:
                self._open[need] -= 1
                if not self._open[need]:
                    self._store.remove(f"models/{need}")
