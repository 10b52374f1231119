"""The Slurm engine: on submitit's stand-ins, and on a Slurm of this machine; `make test-slurm` runs it by itself."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import slurm_cluster
from facts import refused
from small_sweep import Silent

from cptlaw.errors import UsageError
from cptlaw_sweep.engines.slurm import SlurmEngine
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.store import Store
from cptlaw_sweep.sweep import make_engine
from cptlaw_sweep.worker import run_job

pytestmark = pytest.mark.filterwarnings("default")  # torch and submitit deprecate things of their own


@pytest.fixture
def submitit():
    return pytest.importorskip("submitit", reason="submitit is not installed (extra slurm); `make test-slurm` does")


def prepared(path, folder):
    sweep, store = load_sweep(path), Store(folder)
    prepare(sweep.texts, store, lambda text: None)
    return sweep, store


def check_same_as_alone(path, folder, sweep, store):
    _, alone = prepared(path, folder)
    for job in sweep.jobs:
        run_job(json.loads(json.dumps(job.to_dict())), alone.url)
        assert store.get_result(job.id) == alone.get_result(job.id), job.name


def test_a_sweep_through_submitit(submitit, recipe, tmp_path):
    path = recipe()
    sweep, store = prepared(path, tmp_path / "out")
    progress = Silent()
    SlurmEngine(workers=2, cluster="debug").run(sweep, store.url, retry_failed=False, progress=progress)
    assert progress.failures == {}
    assert sorted(progress.done) == sorted(job.name for job in sweep.jobs)
    check_same_as_alone(path, tmp_path / "alone", sweep, store)


def test_a_process_that_dies_fails_its_job_alone(submitit, recipe, tmp_path):
    """A job whose text is gone leaves a reason; one that is killed leaves none, and the engine finds out."""
    sweep, store = prepared(
        recipe(pretrain={"text": "old", "ptpp": 2000, "peak": 1e-2, "warmup": 10}), tmp_path / "out"
    )
    progress = Silent()

    def kill_first():
        folder = tmp_path / "out" / "slurm"
        while not (found := list(folder.glob("*_0_log.out"))):
            time.sleep(0.05)
        process = int(found[0].name.split("_")[0])  # submitit names local jobs after the process that watches them
        for worker in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            os.kill(int(worker), signal.SIGKILL)
        os.kill(process, signal.SIGKILL)

    threading.Thread(target=kill_first, daemon=True).start()
    SlurmEngine(cluster="local").run(sweep, store.url, retry_failed=False, progress=progress)
    first, *others = sweep.jobs
    assert "its Slurm job ended without a result" in progress.failures[first.name]
    assert set(progress.failures) == {job.name for job in sweep.jobs}
    assert all("needs" in progress.failures[job.name] for job in others)
    assert store.failed_ids() == {first.id}


def test_options_that_cannot_be_used(recipe, tmp_path, monkeypatch):
    with refused(UsageError, "'partition'"):
        make_engine("slurm", options={"partitions": "gpu"})
    with refused(UsageError, "moon", "slurm, local, debug"):
        make_engine("slurm", options={"cluster": "moon"})
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UsageError, match=r"'\.\[slurm\]'"):
        make_engine("slurm").run(load_sweep(recipe()), str(tmp_path), retry_failed=False, progress=Silent())


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    with slurm_cluster.SlurmCluster(tmp_path_factory.mktemp("slurm")) as found:
        monkeypatch.setenv("SLURM_CONF", str(found.configuration))
        yield found


@pytest.mark.study  # Slurm lets a job wait for two minutes before it starts again
def test_a_node_of_slurm_is_lost_and_the_losses_are_the_same(submitit, cluster, recipe, tmp_path):
    path = recipe(
        pretrain={"text": "old", "ptpp": 120, "peak": 1e-2, "warmup": 10},
        checkpoint_seconds=0.2,
    )
    sweep, store = prepared(path, tmp_path / "out")
    first = sweep.jobs[0]
    killed = {}

    def lose_a_node():
        while not store.tokens_so_far(first.id):
            time.sleep(0.05)
        node = cluster.busy_node()
        killed["processes"] = cluster.lose(node)
        killed["at"] = store.tokens_so_far(first.id) / first.tokens
        killed["finished"] = store.is_finished(first.id)

    threading.Thread(target=lose_a_node, daemon=True).start()
    progress, began = Silent(), time.monotonic()
    SlurmEngine().run(sweep, store.url, retry_failed=False, progress=progress)
    seconds = time.monotonic() - began
    assert killed["finished"] is False, "the first job was finished before its node could be lost"
    assert progress.failures == {}
    assert sorted(progress.done) == sorted(job.name for job in sweep.jobs)
    check_same_as_alone(path, tmp_path / "alone", sweep, store)
    print(
        f"\n{len(sweep.jobs)} jobs on 2 nodes of Slurm; one lost ({killed['processes']} processes killed) with the "
        f"first job at {100 * killed['at']:.0f} %; finished in {seconds:.0f} s, all losses equal to the last bit"
    )
