"""The Slurm engine: the jobs of a sweep as Slurm jobs, submitted with submitit as they can start.

Jobs of one kind that can start together are one job array. A job whose time runs out or that is preempted is queued
again by submitit, and one whose node is lost by Slurm; it then goes on from its last checkpoint in the store. What has
ended is read from the store, so that clusters without accounting will do. The process that began the sweep must stay,
on a login node for instance; started again after a kill, it first cancels what it had left in the queue.
"""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cptlaw.errors import UsageError, needed_for
from cptlaw_sweep.engines.base import Queue
from cptlaw_sweep.jobs import Job, Sweep, fingerprint_of
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.store import Store

if TYPE_CHECKING:
    from submitit import Job as SlurmJob

TICK_SECONDS = 2.0
LOOKS = 3  # a job must be out of the queue in so many looks: files of the store may be seen later than the queue
CLUSTERS = ("slurm", "local", "debug")


@dataclass(frozen=True)
class SlurmEngine:
    """Runs jobs on a Slurm cluster.

    Parameters
    ----------
    workers
        Most jobs at a time; as many as Slurm starts where not given.
    partition, account, qos, constraint
        As for ``sbatch``.
    minutes
        Time limit of a job. One that takes longer is queued again, up to `timeouts` times.
    timeouts
        How often.
    folder
        Where submitit keeps its files and the logs of the jobs; every node must reach it. ``slurm`` in the store where
        that is a folder, which it must be otherwise too.
    cluster
        ``"slurm"``, or ``"local"`` and ``"debug"``: submitit's own stand-ins, processes of this machine and this one.
    """

    workers: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    minutes: int | str = 240
    timeouts: int | str = 10
    folder: str | None = None
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        """Refuse a cluster that is not known before any job is prepared."""
        if self.cluster not in CLUSTERS:
            raise UsageError(f"--engine-option cluster={self.cluster}: expected {', '.join(CLUSTERS)}.")
        for name in ("minutes", "timeouts"):
            if not str(getattr(self, name)).isdecimal():  # on the command line they are text
                raise UsageError(f"--engine-option {name}={getattr(self, name)}: expected a whole number.")

    @property
    def _sbatch(self) -> dict[str, str]:
        given = {"partition": self.partition, "account": self.account, "qos": self.qos, "constraint": self.constraint}
        return {f"slurm_{name}": value for name, value in given.items() if value is not None}

    def run(self, sweep: Sweep, store_url: str, *, retry_failed: bool, progress: SweepProgress) -> None:
        """Run every job that is not finished; see `cptlaw_sweep.engines.base.Engine`."""
        with needed_for("--engine slurm", "cptlaw[slurm]"):
            import submitit
            import submitit.core.utils
        store = Store(store_url)
        queue = Queue(sweep, store, retry_failed=retry_failed, progress=progress)
        if not queue:
            return
        # The same store has the same name in every session: what an earlier one left in the queue is found by it.
        name = f"cptlaw-{fingerprint_of(store_url)[:10]}"
        cluster = _Slurm(name) if self.cluster == "slurm" else _StandIn()
        # What an earlier session left in the queue would train the same jobs beside this one, and write the same files.
        cluster.cancel_all()
        running: dict[str, tuple[Job, SlurmJob]] = {}
        absent: dict[str, int] = defaultdict(int)
        try:
            while queue:
                startable = queue.ready(None if self.workers is None else max(self.workers - len(running), 0))
                for job, handle in self._submit(submitit, startable, store, name):
                    queue.start(job)
                    running[job.id] = (job, handle)
                if not running:
                    # Whatever still waits can no longer start; it has been told with the job that it needs.
                    break
                time.sleep(TICK_SECONDS if self.cluster == "slurm" else 0.2)
                settled = store.finished_ids() | store.failed_ids()
                alive = cluster.alive([handle for _, handle in running.values()])
                for key, (job, handle) in list(running.items()):
                    # Several looks in a row: squeue forgets a job before the last file of its node has reached the
                    # store.
                    absent[key] = 0 if handle.job_id in alive else absent[key] + 1
                    if key in settled:
                        del running[key]
                        queue.settle(job)
                    elif absent[key] >= LOOKS:
                        del running[key]
                        queue.fail(job, f"its Slurm job ended without a result ({cluster.ending(handle)})")
                progress.tick([job for job, _ in running.values()])
        finally:
            if running:
                cluster.cancel([handle for _, handle in running.values()])

    def _submit(self, submitit: ModuleType, jobs: list[Job], store: Store, name: str) -> list[tuple[Job, SlurmJob]]:
        """Submit jobs, those that ask for the same as one array, and return each with submitit's handle."""
        by_kind: dict[tuple[float, int, int], list[Job]] = defaultdict(list)
        for job in jobs:
            # An array asks for the same of all its jobs; thousands of single ones would be refused by many schedulers.
            by_kind[job.gpus, job.memory, int(job.run.get("nodes", 1))].append(job)
        submitted: list[tuple[Job, SlurmJob]] = []
        for (gpus, memory, nodes), alike in by_kind.items():
            executor = self._executor(submitit, store, name, gpus, memory, nodes)
            try:
                with executor.batch():
                    handles = [executor.submit(_Work(), job.to_dict(), store.url) for job in alike]
            except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
                raise UsageError(f"sbatch refused the jobs: {_last_line(error)} See --engine-option.") from None
            submitted += zip(alike, handles, strict=True)
        return submitted

    def _executor(self, submitit: ModuleType, store: Store, name: str, gpus: float, memory: int, nodes: int) -> Any:
        folder = self.folder or (f"{store.url}/slurm" if store.is_local else None)
        if folder is None:
            raise UsageError(
                f"the store {store.url} is no folder, and Slurm needs one that all nodes reach for the logs of jobs. "
                f"Give one with --engine-option folder=PATH."
            )
        # submitit's stand-ins do not know the option.
        limit = {"slurm_max_num_timeout": int(self.timeouts)} if self.cluster == "slurm" else {}
        try:
            executor = submitit.AutoExecutor(folder=Path(folder).absolute(), cluster=self.cluster, **limit)
        except RuntimeError as error:
            raise UsageError(f"--engine slurm: {error} Start the sweep where sbatch and srun can be called.") from None
        asked: dict[str, Any] = {"name": name, "timeout_min": int(self.minutes), "mem_gb": math.ceil(memory / 1e8) / 10}
        # One core feeds one device: preparing rows is far cheaper than a step.
        asked["cpus_per_task"] = max(1, math.ceil(gpus))
        if gpus:
            asked["gpus_per_node"] = math.ceil(gpus)  # Slurm shares no GPU
        if nodes > 1:  # one launcher on each, which starts a process for each GPU
            asked |= {"nodes": nodes, "tasks_per_node": 1}
        if self.cluster == "slurm":
            asked |= self._sbatch
            # Arrays run as wide as the cluster lets them; --workers is kept by what is submitted.
            asked["slurm_array_parallelism"] = 10_000
        executor.update_parameters(**asked)
        return executor


class _Work:
    """What a Slurm job calls; submitit asks it for what to queue when time is up."""

    def __call__(self, job: dict[str, object], store_url: str) -> None:
        from cptlaw_sweep.worker import run_job

        run_job(job, store_url)

    def checkpoint(self, job: dict[str, object], store_url: str) -> Any:
        """Return the same work: the store knows how far it is."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job, store_url)


class _Slurm:
    """What Slurm itself says of the jobs of one sweep, which carry one name."""

    def __init__(self, name: str):
        self._name = name

    def alive(self, handles: list[SlurmJob]) -> set[str]:
        """Return the ids of the jobs that wait or run; all of them where Slurm does not answer."""
        command = ["squeue", "--noheader", "--array", "--format=%i", f"--name={self._name}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:  # a controller that is restarted answers later
            return {handle.job_id for handle in handles}
        # Jobs of an array are ID_INDEX; one that was submitted alone is ID.
        return set(ended.stdout.split())

    def ending(self, handle: SlurmJob) -> str:
        """Return how a job ended, as far as Slurm still knows."""
        ended = subprocess.run(["scontrol", "show", "job", handle.job_id], capture_output=True, text=True, check=False)
        replies = {name: re.search(rf"\b{name}=(\S+)", ended.stdout) for name in ("JobState", "Reason", "ExitCode")}
        text = ", ".join(f"{name} {match[1]}" for name, match in replies.items() if match)
        return f"{text or 'Slurm no longer knows it'}; its log is {handle.paths.stderr}"

    def cancel(self, handles: list[SlurmJob]) -> None:
        """Cancel jobs."""
        subprocess.run(["scancel", *{handle.job_id for handle in handles}], capture_output=True, check=False)

    def cancel_all(self) -> None:
        """Cancel what an earlier session of this sweep left in the queue, and wait until it is gone."""
        with contextlib.suppress(FileNotFoundError):  # told when the first job is submitted
            subprocess.run(["scancel", f"--name={self._name}"], capture_output=True, check=False)
            while self.alive([]):
                time.sleep(TICK_SECONDS)


class _StandIn:
    """The same for submitit's stand-ins, whose jobs end with the process that began them."""

    def alive(self, handles: list[SlurmJob]) -> set[str]:
        return {handle.job_id for handle in handles if not handle.done()}

    def ending(self, handle: SlurmJob) -> str:
        return f"its log is {handle.paths.stderr}"

    def cancel(self, handles: list[SlurmJob]) -> None:
        for handle in handles:
            handle.cancel(check=False)

    def cancel_all(self) -> None:
        return


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
