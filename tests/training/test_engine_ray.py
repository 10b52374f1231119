"""The Ray engine on a cluster of several nodes, started on this machine; `make test-ray` runs it by itself."""

import json
import threading
import time

import pytest
from small_sweep import Silent

from cptlaw.errors import UsageError
from cptlaw_sweep.engines.ray import RayEngine
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.store import Store
from cptlaw_sweep.sweep import make_engine
from cptlaw_sweep.worker import run_job

pytestmark = pytest.mark.filterwarnings("default")  # Ray and torch deprecate things of their own


@pytest.fixture
def cluster(monkeypatch):
    """A head that runs no jobs and two nodes with one CPU each."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (extra ray); `make test-ray` installs it")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    address = {"include_dashboard": False, "object_store_memory": 80_000_000}
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **address})
    for _ in range(2):
        found.add_node(num_cpus=1, memory=4_000_000_000, **address)
    yield found
    ray.shutdown()
    found.shutdown()


def prepared(path, folder):
    sweep, store = load_sweep(path), Store(folder)
    prepare(sweep.texts, store, lambda text: None)
    return sweep, store


class NodeKiller(threading.Thread):
    """Kills the node of the first job that has left a checkpoint."""

    def __init__(self, cluster, sweep, store):
        super().__init__(daemon=True)
        self.cluster, self.sweep, self.store = cluster, sweep, store
        self.killed_at = None

    def run(self):
        from ray._private.state import available_resources_per_node

        first = self.sweep.jobs[0]
        while not self.store.tokens_so_far(first.id):
            if self.store.is_finished(first.id):
                return
            time.sleep(0.02)
        # Only one job can run before the first is finished, so the node without a free CPU is its node.
        busy = [key for key, free in available_resources_per_node().items() if free.get("CPU", 0) < 1]
        node = next(node for node in self.cluster.worker_nodes if node.node_id in busy)
        self.cluster.remove_node(node, allow_graceful=False)
        if not self.store.is_finished(first.id):
            self.killed_at = self.store.tokens_so_far(first.id) / first.tokens


def test_a_node_is_lost_and_the_losses_are_the_same(cluster, recipe, tmp_path):
    path = recipe(
        pretrain={"text": "old", "ptpp": [60, 64], "peak": 1e-2, "warmup": 10},
        adapt={
            "source": "old",
            "target": "new",
            "replay": [0, 0.25],
            "tokens_per_param": 2,
            "schedules": {"schedule": "constant", "peak": 5e-3, "warmup": 5},
        },
        checkpoint_seconds=0.2,
    )
    sweep, store = prepared(path, tmp_path / "ray")
    killer = NodeKiller(cluster, sweep, store)
    killer.start()
    progress, began = Silent(), time.monotonic()
    RayEngine(address=cluster.address).run(sweep, store.url, retry_failed=False, progress=progress)
    seconds = time.monotonic() - began
    killer.join(5)
    assert killer.killed_at is not None, "the first job was finished before its node could be killed"
    assert progress.failures == {}
    assert sorted(progress.done) == sorted(job.name for job in sweep.jobs)

    _, alone = prepared(path, tmp_path / "alone")
    for job in sweep.jobs:
        run_job(json.loads(json.dumps(job.to_dict())), alone.url)
        assert store.get_result(job.id) == alone.get_result(job.id), job.name
    print(
        f"\n{len(sweep.jobs)} jobs on 2 nodes; one killed with the first job at {100 * killer.killed_at:.0f} %; "
        f"finished in {seconds:.0f} s, all losses equal to the last bit"
    )

    again = Silent()
    RayEngine(address=cluster.address).run(sweep, store.url, retry_failed=False, progress=again)
    assert len(again.done) == len(sweep.jobs)


def test_what_no_node_has_is_told_and_not_recorded(cluster, recipe, tmp_path):
    sweep, store = prepared(recipe(resources={"gpus": 4}), tmp_path / "out")
    progress = Silent()
    RayEngine(address=cluster.address, patience=0.5).run(sweep, store.url, retry_failed=False, progress=progress)
    assert "no node of the Ray cluster has 1 CPU, 4 GPU" in progress.failures[sweep.jobs[0].name]
    assert len(progress.failures) == len(sweep.jobs)
    assert store.failed_ids() == set()


def test_without_ray_the_message_names_the_extra(recipe, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"'\.\[ray\]'"):
        make_engine("ray").run(load_sweep(recipe()), str(tmp_path), retry_failed=False, progress=Silent())
