"""What every engine calls, on whatever machine: run one job, and leave its result or its reason in the store."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping

from cptlaw.errors import UsageError
from cptlaw.writing import cache_folder
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.store import Store

DISK_FULL = "the disk is full"


def run_job(job_dict: Mapping[str, object], store_url: str) -> None:
    """Run one job in this process. Once it returns, the store holds the result, or why there is none.

    Calling it again does nothing for a finished job, and goes on from the last checkpoint of one that was stopped.
    """
    job, store = Job.from_dict(job_dict), Store(store_url)
    # The state of a stage is removed once its children are done, and trained again where the recipe grew a branch.
    if store.is_finished(job.id) and (not job.definition.get("keep") or store.exists(f"models/{job.id}")):
        return
    processes, nodes = (int(job.run.get(name, 1)) for name in ("processes", "nodes"))
    # The launcher sets WORLD_SIZE: a process of it must train, not launch again.
    if processes * nodes > 1 and "WORLD_SIZE" not in os.environ:
        run_in_processes(job, store, processes)
        return
    first = os.environ.get("RANK", "0") == "0"
    try:
        if job.kind == "evaluate":
            from cptlaw_sweep.hook import scores_of as work
        else:
            from cptlaw_sweep.loop import train as work

            silence_libraries()
        rows, report = work(job, store, cache_folder())
        if first:
            store.put_result(job.id, rows, report)
            store.remove(f"checkpoints/{job.id}")
    except Exception as error:  # noqa: BLE001  whatever it is, it is this run's reason, and the others go on
        # With several processes the others are waiting for this one, and only leaving ends them.
        if _asker is not None and not _is_alive(_asker):
            os._exit(1)  # the sweep was killed: that another process went before this one is no failure of the run
        if first:
            reason = reason_of(error)
            of_machine = isinstance(error, OSError) or reason.startswith(DISK_FULL)
            store.put_failure(job.id, reason, traceback.format_exc(), of_machine=of_machine)
        if "WORLD_SIZE" in os.environ:
            sys.exit(1)


def run_or_say(job_dict: Mapping[str, object], store_url: str) -> str | None:
    """Run one job as `run_job` does; return why it failed where not even that could be written to the store."""
    try:
        run_job(job_dict, store_url)
    except OSError as error:
        return reason_of(error)
    return None


def reason_of(error: BaseException) -> str:
    """Return one line that says why a run failed."""
    kind = type(error).__name__
    text = " ".join(str(error).split())
    # What a user can do something about comes first, whatever library raised it; safetensors says it in words alone.
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in text:
        return f"{DISK_FULL} ({text})"
    if kind in ("TrainingError", "DataError", "UsageError"):
        return text
    if kind == "OutOfMemoryError" or isinstance(error, MemoryError):
        return f"out of memory ({text[:200]})"
    return f"{kind}: {text[:300]}"


def silence_libraries() -> None:
    """Keep the libraries from telling of every file that they read: the sweep tells how it goes."""
    import logging

    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(logging.ERROR)


def run_in_processes(job: Job, store: Store, processes: int) -> None:
    """Run a job that asks for several processes, started by torch's own launcher: on one node, or its part on each.

    On several nodes every node calls this, with ``CPTLAW_NODE`` (0, 1, ..) and ``CPTLAW_HEAD`` (host:port of the
    first) in its environment; under Slurm both are known without.

    Parameters
    ----------
    store
        Where it is kept; all nodes must reach it.
    processes
        How many on each node.
    """
    nodes = int(job.run.get("nodes", 1))
    where = ["--standalone"] if nodes == 1 else _meeting_place(job, nodes)
    # Handed over through the store, since the processes may start on other nodes.
    store.write_json(f"jobs/{job.id}.json", job.to_dict())
    command = [sys.executable, "-m", "torch.distributed.run", *where, f"--nproc-per-node={processes}"]
    asked = ["-m", "cptlaw_sweep.worker", store.url, job.id, str(os.getpid())]
    ended = subprocess.run([*command, *asked], check=False)
    is_first = nodes == 1 or _node_number() == 0
    if is_first and not store.is_finished(job.id) and store.failure_of(job.id) is None:
        store.put_failure(job.id, f"its processes ended with code {ended.returncode}")


def _node_number() -> int:
    return int(os.environ.get("CPTLAW_NODE", os.environ.get("SLURM_NODEID", "0")))


def _meeting_place(job: Job, nodes: int) -> list[str]:
    """Return how torch's launchers of several nodes find each other."""
    head = os.environ.get("CPTLAW_HEAD")
    if head is None and "SLURM_JOB_NODELIST" in os.environ:
        names = subprocess.run(
            ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        # Another port for each job: several may have their first node in common.
        head = f"{names[0]}:{20_000 + int(job.id[:4], 16) % 20_000}"
    if head is None:
        raise UsageError(
            f"the run asks for {nodes} nodes: use --engine slurm, or set CPTLAW_NODE and CPTLAW_HEAD on each node."
        )
    host, _, port = head.partition(":")
    return [f"--nnodes={nodes}", f"--node-rank={_node_number()}", f"--master-addr={host}", f"--master-port={port}"]


# The process that had this one started, where it is one of several.
_asker: int | None = None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _leave_with(asker: int, launcher: int) -> None:
    """End this process when the one that asked for it or torch's launcher is killed.

    The launcher starts processes in sessions of their own, which survive it: without this the job of a sweep that was
    killed would train on beside the same job of the sweep that was started again.
    """
    while os.getppid() == launcher and _is_alive(asker):
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    place, identity, asked_by = sys.argv[1:]
    _asker = int(asked_by)
    threading.Thread(target=_leave_with, args=(int(asked_by), os.getppid()), daemon=True).start()
    run_job(Store(place).read_json(f"jobs/{identity}.json"), place)
