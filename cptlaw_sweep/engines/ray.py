"""The Ray engine: the jobs of a sweep as tasks of a Ray cluster, each with the CPUs, GPUs and memory that it asks for.

Ray places tasks and starts one again whose node or process was lost; the job then goes on from its last checkpoint in
the store. Every node needs the same Python environment and must reach the store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from types import ModuleType

from cptlaw.errors import UsageError, needed_for
from cptlaw_sweep.engines.base import Queue
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.store import Store
from cptlaw_sweep.worker import run_or_say

TICK_SECONDS = 1.0
LOOK_SECONDS = 5.0


class RayEngine:
    """Runs jobs on a Ray cluster: the one at `address`, else the one of this machine, else a new one on this machine.

    Parameters
    ----------
    workers
        Most jobs at a time; as many as the cluster has room for where not given.
    address
        Of the cluster, as ``ray.init`` takes it. ``RAY_ADDRESS`` and a cluster that was begun with ``ray start`` are
        found without it.
    retries
        How often a job is started again whose node or process was lost.
    patience
        Seconds to wait for a node that has room for what is left, after nodes were lost or before new ones came.
    """

    def __init__(
        self, workers: int | None = None, address: str | None = None, retries: int = 3, patience: float = 300.0
    ):
        self._workers = workers
        self._address = address
        self._retries = int(retries)
        self._patience = float(patience)

    def run(self, sweep: Sweep, store_url: str, *, retry_failed: bool, progress: SweepProgress) -> None:
        """Run every job that is not finished; see `cptlaw_sweep.engines.base.Engine`."""
        with needed_for("--engine ray", "cptlaw[ray]"):
            import ray
            import ray.exceptions
        queue = Queue(sweep, Store(store_url), retry_failed=retry_failed, progress=progress)
        if not queue:
            return
        is_ours = self._connect(ray)
        task = ray.remote(max_retries=self._retries, retry_exceptions=False)(run_or_say)
        running: dict[object, Job] = {}
        rooms = _Rooms(ray, self._patience)
        try:
            while queue:
                for job in queue.ready(None if self._workers is None else self._workers - len(running)):
                    queue.start(job)
                    asked = task.options(name=job.name, num_cpus=1, num_gpus=job.gpus, memory=job.memory)
                    running[asked.remote(job.to_dict(), store_url)] = job
                if not running:
                    # Whatever still waits can no longer start; it has been told with the job that it needs.
                    break
                ended, _ = ray.wait(list(running), num_returns=1, timeout=TICK_SECONDS)
                for reference in ended:
                    job = running.pop(reference)
                    queue.settle(job, self._reason(ray, reference))
                progress.tick(running.values())
                if not ended and (lacking := rooms.missing_resources(running.values())):
                    for reference, job in list(running.items()):
                        ray.cancel(reference, force=True)
                        del running[reference]
                        # Not recorded: nothing is wrong with the job, and a larger cluster runs it in the next session.
                        queue.fail(job, lacking, record=False)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if is_ours:
                ray.shutdown()

    def _connect(self, ray: ModuleType) -> bool:
        """Connect to a cluster and return whether the connection is ours to end."""
        if ray.is_initialized():
            return False
        # Nothing of a sweep leaves the machine unless the user has said so.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"log_to_driver": False, "logging_level": "warning"}
        address = self._address or os.environ.get("RAY_ADDRESS")
        try:
            ray.init(address=address or "auto", **quiet)
        except (ConnectionError, ValueError) as error:
            if address:
                raise UsageError(
                    f"no Ray cluster answers at {address} ({error}). Begin one with `ray start --head`, or leave the "
                    f"address out to use this machine."
                ) from None
            ray.init(include_dashboard=False, **quiet)
        return True

    def _reason(self, ray: ModuleType, reference: object) -> str | None:
        """Return why a task has left nothing in the store, or nothing if it has left a result or a reason."""
        try:
            problem: str | None = ray.get(reference)
        except ray.exceptions.OutOfMemoryError:
            return "its worker was stopped by Ray, because the node ran out of memory"
        except ray.exceptions.RayError as error:
            lost = f"its worker was lost {self._retries + 1} times" if self._retries else "its worker was lost"
            return f"{lost} ({type(error).__name__}: {_first_line(error)})"
        return problem


class _Rooms:
    """Whether the nodes of a cluster have room for jobs, looked up now and then."""

    def __init__(self, ray: ModuleType, patience: float):
        self._ray, self._patience = ray, patience
        self._last_look = self._fine = time.monotonic()

    def missing_resources(self, jobs: Iterable[Job]) -> str | None:
        """Return what no node has, once no job has had room on any node for longer than the patience."""
        now = time.monotonic()
        if now - self._last_look < min(LOOK_SECONDS, self._patience):
            return None
        self._last_look = now
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        # By what they ask for, of which there are few kinds: a sweep may have a hundred thousand jobs.
        asked = {(job.gpus, job.memory) for job in jobs}
        rooms = [tuple(node.get(name, 0.0) for name in ("CPU", "GPU", "memory")) for node in nodes]
        if any(cpus >= 1 and gpus <= free and memory <= most for gpus, memory in asked for cpus, free, most in rooms):
            self._fine = now
        if now - self._fine <= self._patience:
            return None
        gpus, memory = next(iter(asked))
        wanted = f"1 CPU, {gpus:g} GPU and {memory / 1e9:.1f} GB"
        return f"no node of the Ray cluster has {wanted}, and none came within {self._patience:g} seconds"


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")[:200]
