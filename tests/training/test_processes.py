"""A run shared by several processes, as with several GPUs, measures what one process measures."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_sweep import RECIPE, prepared, train_here

from cptlaw_sweep.models import load_weights, mean_loss
from cptlaw_sweep.saved_models import folder_of
from cptlaw_sweep.worker import run_job

ASK = """
import sys
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.store import Store
from cptlaw_sweep.worker import run_in_processes

store = Store(sys.argv[1])
run_in_processes(Job.from_dict(store.read_json(f"jobs/{sys.argv[2]}.json")), store, processes=int(sys.argv[3]))
"""


def ask(store, job, processes=2, **variables):
    """Start a process that has a job run in processes of the CPU, by the launcher that starts one per GPU."""
    store.write_json(f"jobs/{job.id}.json", job.to_dict())
    return subprocess.Popen(
        [sys.executable, "-c", ASK, store.url, job.id, str(processes)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ask_on_one_node(store, job):
    """Have a job run in two processes of one node."""
    ask(store, job).wait()


def ask_on_two_nodes(store, job):
    """Have a job run by two launchers of one process each, that find each other by an address, as on two machines."""
    job = replace(job, run={**job.run, "processes": 1, "nodes": 2})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        head = f"127.0.0.1:{free.getsockname()[1]}"
    nodes = [ask(store, job, processes=1, CPTLAW_NODE=str(node), CPTLAW_HEAD=head) for node in range(2)]
    try:
        for node in nodes:
            node.wait(timeout=600)
    finally:
        for node in nodes:
            node.kill()


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
@pytest.mark.parametrize(
    ("shard", "ask_two"),
    [(False, ask_on_two_nodes), (True, ask_on_one_node)],
    ids=["rows shared, at last by two nodes", "weights sharded"],
)
def test_two_processes_measure_what_one_does_though_killed_on_the_way(recipe, tmp_path, shard, ask_two):
    resources = {"processes": 2, "shard": shard}
    path = recipe(
        micro_batch=1,
        checkpoint_seconds=0.0,
        pretrain={"text": "old", "ptpp": 5, "peak": 2e-3},
        adapt={**RECIPE["adapt"], "replay": 0.25, "keep": "last"},
        resources=resources,
    )
    sweep, alone = prepared(path, tmp_path / "alone")
    sweep = replace(sweep, jobs=tuple(replace(job, run={**job.run, "processes": 1}) for job in sweep.jobs))
    train_here(sweep, alone)
    _, shared = prepared(path, tmp_path / "shared")
    trunk, base = sweep.jobs[:2]
    adapt = next(job for job in sweep.jobs if job.kind == "adapt" and "r0.25" in job.name)

    first = ask(shared, trunk)
    while not shared.tokens_so_far(trunk.id):
        assert first.poll() is None, shared.failure_of(trunk.id)
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    while still_training(trunk):
        time.sleep(0.1)
    assert not shared.is_finished(trunk.id)
    assert shared.failure_of(trunk.id) is None

    ask(shared, trunk).wait()
    run_job(base.to_dict(), shared.url)  # one process goes on from what two have left
    ask_two(shared, adapt)
    assert shared.is_finished(adapt.id), shared.failure_of(adapt.id)
    assert adapt.definition.get("shard", False) == shard
    assert [shared.get_report(job.id)["processes"] for job in (trunk, base, adapt)] == [2, 1, 2]
    for job in (base, adapt):
        ours, theirs = losses(shared, job), losses(alone, job)
        assert ours
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert [row[3] for row in ours] == pytest.approx([row[3] for row in theirs], rel=1e-4)
    # What was kept is whole, whoever held which part of it.
    folder = folder_of(adapt.id, adapt.definition["steps"][1])
    rows = torch.randint(256, (2, 33), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        one, other = (
            mean_loss(load_weights(Path(store.url) / folder).eval(), rows).item() for store in (alone, shared)
        )
    assert one == pytest.approx(other, rel=1e-3)
