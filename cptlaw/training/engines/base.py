"""What engines share: the protocol, and the queue that knows which jobs can start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from cptlaw.training.jobs import Job, Sweep
from cptlaw.training.store import Store


class Progress(Protocol):
    """Who is told how a sweep goes."""

    def finished(self, job: Job) -> None:
        """Tell that a job has been finished, now or in an earlier session."""

    def failed(self, job: Job, reason: str) -> None:
        """Tell that a job has failed, or cannot start because one that it needs has failed."""

    def tick(self, running: Iterable[Job]) -> None:
        """Tell, every second or so, which jobs run now."""


class Engine(Protocol):
    """Runs the jobs of a sweep: each in its turn, each once, whatever happens to the others."""

    def run(self, sweep: Sweep, store_url: str, *, retry_failed: bool, progress: Progress) -> None:
        """Run every job that is not finished.

        Parameters
        ----------
        sweep
            The jobs; their texts have been prepared in the store.
        store_url
            Where texts and results are; every worker must reach it.
        retry_failed
            Whether jobs that failed in an earlier session are tried again.
        progress
            Who is told. A failed job is told and does not end the others.
        """


class Queue:
    """The state of a sweep as its engine sees it: what is waiting, can start, runs, is finished or has failed.

    Parameters
    ----------
    sweep
        The jobs.
    store
        Where finished and failed jobs are recorded.
    retry_failed
        Whether jobs that failed earlier are forgiven.
    progress
        Who is told.
    """

    def __init__(self, sweep: Sweep, store: Store, *, retry_failed: bool, progress: Progress):
        self._store, self._progress = store, progress
        self.waiting: dict[str, Job] = {job.id: job for job in sweep.jobs}
        self.running: dict[str, Job] = {}
        self._finished: set[str] = set()
        done, failed = store.finished_ids(), store.failed_ids()
        for leftover in done.intersection(store.names("checkpoints")):  # stopped between its result and the tidying up
            store.remove(f"checkpoints/{leftover}")
        for job in sweep.jobs:
            if job.id in done:
                self.finish(job)
            elif job.id in failed and retry_failed:
                store.forget_failure(job.id)
            elif job.id in failed:
                self.fail(job, store.failed(job.id) or "no reason was recorded", record=False)

    def __bool__(self) -> bool:
        """Whether there is anything left to do."""
        return bool(self.waiting or self.running)

    def ready(self) -> list[Job]:
        """Return the jobs that can start now, in the order of the sweep."""
        return [job for job in self.waiting.values() if self._finished.issuperset(job.needs)]

    def start(self, job: Job) -> None:
        """Note that a job runs."""
        self.running[job.id] = self.waiting.pop(job.id)

    def settle(self, job: Job) -> None:
        """Take what a worker left in the store for a job: a result, a reason, or neither."""
        if self._store.finished(job.id):
            self.finish(job)
        else:
            reason = self._store.failed(job.id)
            self.fail(job, reason or "the worker ended without a result", record=reason is None)

    def finish(self, job: Job) -> None:
        """Note that a job is finished."""
        self._forget(job)
        self._finished.add(job.id)
        self._progress.finished(job)

    def fail(self, job: Job, reason: str, *, record: bool = True) -> None:
        """Note that a job has failed; those that need it cannot start, and are not recorded as failed themselves.

        Parameters
        ----------
        job
            The job.
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
        self._progress.failed(job, reason)
        for other in [other for other in self.waiting.values() if job.id in other.needs]:
            self.fail(other, f"needs {job.name}, which failed", record=False)

    def put_back(self, job: Job) -> None:
        """Let a job start again whose worker was lost through no fault of the job, such as a node that went away."""
        self.running.pop(job.id, None)
        self.waiting[job.id] = job

    def _forget(self, job: Job) -> None:
        self.waiting.pop(job.id, None)
        self.running.pop(job.id, None)
