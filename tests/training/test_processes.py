"""A run shared by several processes, as with several GPUs, measures what one process measures."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_sweep import prepared, train_here

from cptlaw.training.worker import run_job

ASK = """
import sys
from cptlaw.training.jobs import Job
from cptlaw.training.store import Store
from cptlaw.training.worker import run_in_processes

store = Store(sys.argv[1])
run_in_processes(Job.from_dict(store.read_json(f"jobs/{sys.argv[2]}.json")), store, processes=2)
"""


def ask(store, job):
    """Start a process that has a job run in two processes of the CPU, by the launcher that starts one per GPU."""
    store.write_json(f"jobs/{job.id}.json", job.to_dict())
    return subprocess.Popen(
        [sys.executable, "-c", ASK, store.url, job.id],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def still_training(job):
    """Return the processes that have a job in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if job.id.encode() in command:
            found.append(entry.name)
    return found


def losses(store, job):
    return [(row["eval"], row["step"], row["tokens"], row["loss"]) for row in store.get_result(job.id)]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_two_processes_measure_what_one_does_though_killed_on_the_way(recipe, tmp_path):
    path = recipe(micro_batch=1, checkpoint_seconds=0.0, pretrain={"text": "old", "ptpp": 10, "peak": 2e-3})
    sweep, alone = prepared(path, tmp_path / "alone")
    train_here(sweep, alone)
    _, shared = prepared(path, tmp_path / "shared")
    trunk, base = sweep.jobs[:2]
    adapt = next(job for job in sweep.jobs if job.kind == "adapt" and "r0.25" in job.name)

    first = ask(shared, trunk)
    while not shared.tokens_so_far(trunk.id):
        assert first.poll() is None, shared.failed(trunk.id)
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    while still_training(trunk):
        time.sleep(0.1)
    assert not shared.finished(trunk.id)
    assert shared.failed(trunk.id) is None

    ask(shared, trunk).wait()
    run_job(base.to_dict(), shared.url)
    ask(shared, adapt).wait()
    assert [shared.get_report(job.id)["processes"] for job in (trunk, base, adapt)] == [2, 1, 2]
    for job in (base, adapt):
        ours, theirs = losses(shared, job), losses(alone, job)
        assert ours
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert [row[3] for row in ours] == pytest.approx([row[3] for row in theirs], rel=1e-4)
