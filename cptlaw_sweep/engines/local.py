"""The local engine: one process per core (or per share of a GPU), each with one thread, each running job after job.

Tiny models are packed this way: two threads on one small model are slower than one. A process that dies takes one job
with it, which is recorded with its reason, and is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

from cptlaw.errors import UsageError
from cptlaw_sweep.engines.base import Queue
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.store import Store

TICK_SECONDS = 1.0
LOOK_AHEAD = 64  # jobs that can start, of which the first whose memory is free is taken


class LocalEngine:
    """Runs jobs in processes of this machine.

    Parameters
    ----------
    workers
        How many processes. One per core where jobs run on the CPU, as many as the GPUs hold where they ask for GPUs.
    """

    def __init__(self, workers: int | None = None):
        self._asked = workers

    def run(self, sweep: Sweep, store_url: str, *, retry_failed: bool, progress: SweepProgress) -> None:
        """Run every job that is not finished; see `cptlaw_sweep.engines.base.Engine`."""
        queue = Queue(sweep, Store(store_url), retry_failed=retry_failed, progress=progress)
        if not queue:
            return
        slots = self._slots(sweep)
        workers = [_Worker(store_url, environment) for environment in slots[: len(queue.waiting)]]
        free_memory = _memory_of_machine()
        try:
            while queue:
                for worker in workers:
                    if worker.job is not None:
                        continue
                    job = next(_jobs_that_fit(queue, workers, free_memory), None)
                    if job is None:
                        break
                    queue.start(job)
                    worker.give(job)
                busy: dict[Any, _Worker] = {w.connection: w for w in workers if w.job is not None}
                if not busy:
                    # Whatever still waits can no longer start; it has been told with the job that it needs.
                    break
                progress.tick([worker.job for worker in workers if worker.job is not None])
                for connection in wait(list(busy), timeout=TICK_SECONDS):
                    worker = busy[connection]
                    job = worker.job
                    assert job is not None
                    queue.settle(job, worker.take())
        finally:
            for worker in workers:
                worker.stop()

    def _slots(self, sweep: Sweep) -> list[dict[str, str]]:
        """Return the environment of each process."""
        gpus = max(job.gpus for job in sweep.jobs)
        if gpus == 0:
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            # On the CPU each process is a thread of work; more threads than cores slow all of them down.
            return [{"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}] * (self._asked or cores)
        import torch

        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.cuda.device_count()))))
        devices = [device for device in visible.split(",") if device]
        if len(devices) < gpus:
            raise UsageError(f"the runs ask for {gpus:g} GPUs each, and this machine has {len(devices)}.")
        if gpus >= 1:
            groups = [devices[start : start + int(gpus)] for start in range(0, len(devices), int(gpus))]
            slots = [",".join(group) for group in groups if len(group) == int(gpus)]
        else:
            slots = [device for _ in range(int(1 / gpus)) for device in devices]
        return [{"CUDA_VISIBLE_DEVICES": slot} for slot in slots][: self._asked]


def _jobs_that_fit(queue: Queue, workers: list[_Worker], memory: int) -> Iterator[Job]:
    """Yield the jobs that can start and whose memory is free; a job too large for the machine may start alone."""
    used = sum(worker.job.memory for worker in workers if worker.job is not None)
    return (job for job in queue.ready(LOOK_AHEAD) if not used or used + job.memory <= memory)


def _memory_of_machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not told on this system
        return 2**62


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, store_url: str, environment: dict[str, str]):
        self._store_url, self._environment = store_url, environment
        self.job: Job | None = None
        self._start()

    def _start(self) -> None:
        context = _process_context()
        self.connection, theirs = context.Pipe()
        given = (theirs, self._store_url, self._environment)
        self._process: BaseProcess = context.Process(target=_run_jobs, args=given, daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process ends the pipe

    def give(self, job: Job) -> None:
        """Hand over a job."""
        self.job = job
        try:
            self.connection.send(job.to_dict())
        except OSError:  # it died while it waited
            self._start()
            self.connection.send(job.to_dict())

    def take(self) -> str | None:
        """Return nothing once a job has left its result or reason in the store, else how the process ended."""
        self.job = None
        try:
            problem: str | None = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            ending = _exit_reason(self._process.exitcode)
            self.connection.close()
            self._start()
            return f"its worker died ({ending})"
        return problem

    def stop(self) -> None:
        """End the process: at once if it is at work, else by itself."""
        self.connection.close()
        if self.job is None:
            self._process.join(5.0)
        self._process.terminate()
        self._process.join()


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        import signal

        name = signal.Signals(-code).name
        return f"{name}; the system kills a process so when memory runs out" if name == "SIGKILL" else name
    return f"exit code {code}"


def _process_context() -> SpawnContext | ForkServerContext:
    """Return the way to start processes: forks of one that has loaded torch and run nothing, if there is such a way."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cptlaw_sweep.loop"])
    return context


def _run_jobs(connection: Connection, store_url: str, environment: dict[str, str]) -> None:
    """Run jobs as they come, until the pipe ends."""
    os.environ.update(environment)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from cptlaw_sweep.worker import run_or_say

    while True:
        try:
            job: dict[str, object] = connection.recv()
        except EOFError:
            return
        connection.send(run_or_say(job, store_url))


def _leave_with_parent() -> None:
    """End this process when the sweep's is killed, so that a sweep started again has its cores and files to itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
