"""A run that fails says why, the others go on, and it is tried again on request."""

import errno
import multiprocessing
import os
import shutil
import signal

import pandas as pd
import pytest
from facts import lacks, refused
from safetensors import SafetensorError
from small_sweep import RECIPE, Silent, prepared, train_here

from cptlaw.errors import DataError, UsageError
from cptlaw_sweep.engines.local import LocalEngine
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.store import Store
from cptlaw_sweep.sweep import sweep as sweep_of
from cptlaw_sweep.sweep import tune_lr
from cptlaw_sweep.table import jobs_table, runs_table, write_tables
from cptlaw_sweep.worker import reason_of

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


def test_a_loss_that_is_not_a_number_fails_its_run_only(recipe, tmp_path):
    schedules = [{"schedule": "constant", "peak": peak, "warmup": 5} for peak in (2e-5, 0.5)]
    settings = {
        "optimizer": {"weight_decay": 1e4},  # times 0.5: each step multiplies the weights by -4999
        "pretrain": {**RECIPE["pretrain"], "peak": 1e-5},
        "adapt": {**RECIPE["adapt"], "schedules": schedules},
    }
    sweep, store = prepared(recipe(**settings), tmp_path / "out")
    progress = train_here(sweep, store)
    assert len(progress.failures) == 4
    assert all("lr0.5" in name and "nan" in reason for name, reason in progress.failures.items())
    assert len(progress.done) == len(sweep.jobs) - 4
    table = jobs_table(sweep, store).set_index("job")
    assert table.loc[list(progress.failures), "reason"].str.contains("nan").all()
    assert set(runs_table(sweep, store)["lr_peak"]) == {1e-5, 2e-5}
    # Not tried again unless asked to.
    again = train_here(sweep, store)
    assert again.failures == progress.failures


def test_a_missing_shard_fails_the_runs_that_need_it_until_it_is_back(recipe, tmp_path):
    sweep, store = prepared(recipe(), tmp_path / "out")
    (key,) = (key for key, text in sweep.texts.items() if text["name"] == "new")
    shard = tmp_path / "out" / "texts" / key / "train-00000.bin"
    shutil.move(shard, tmp_path / "away")
    progress = train_here(sweep, store)
    assert len(progress.failures) == 4
    assert all("shard" in reason and "missing" in reason for reason in progress.failures.values())
    shutil.move(tmp_path / "away", shard)
    mended = train_here(sweep, store, retry_failed=True)
    assert not mended.failures
    assert len(mended.done) == len(sweep.jobs)
    assert store.failed_ids() == set()


def test_what_needs_a_failed_job_is_told_so_and_waits(recipe, tmp_path):
    sweep, store = prepared(recipe(), tmp_path / "out")
    first = sweep.jobs[0]
    store.put_failure(first.id, "it diverged", of_machine=False)
    progress = train_here(sweep, store)
    assert not progress.done
    assert progress.failures[first.name] == "it diverged"
    assert set(list(progress.failures.values())[1:]) >= {f"needs {first.name}, which failed"}
    assert store.failed_ids() == {first.id}  # only the cause is recorded
    assert len(train_here(sweep, store, retry_failed=True).done) == len(sweep.jobs)


def test_a_full_disk_fails_the_run_and_leaves_no_half_file(recipe, tmp_path, monkeypatch):
    sweep, store = prepared(recipe(), tmp_path / "out")
    victim = sweep.jobs[-1]
    replace = os.replace

    def full(source, target):
        if f"results/{victim.id}" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    progress = train_here(sweep, store)
    assert progress.failures.keys() == {victim.name}
    assert "disk is full" in progress.failures[victim.name]
    assert not list((tmp_path / "out").rglob("*.part"))
    assert store.failed_ids() == {victim.id}
    monkeypatch.undo()
    # Room was made, and the same command goes on: nothing is wrong with the run.
    assert len(train_here(sweep, store).done) == len(sweep.jobs)


def test_a_disk_too_full_for_the_reason_still_tells_it(recipe, tmp_path, monkeypatch):
    sweep, store = prepared(recipe(), tmp_path / "out")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Store, "put_failure", full)
    progress = Silent()
    from cptlaw_sweep.engines.base import Queue

    queue = Queue(sweep, store, retry_failed=False, progress=progress)
    queue.start(sweep.jobs[0])
    queue.fail(sweep.jobs[0], "its worker died")
    assert "its worker died (" in progress.failures[sweep.jobs[0].name]
    assert not queue


@pytest.mark.parametrize(
    ("name", "content"),
    [("done/{}.json", b'{"seco'), ("done/{}.json", b"[]"), ("done/{}.json", b"{}"), ("done/{}.json", b"\xff\x00"),
     ("results/{}.jsonl", b'{"eval": "so'), ("results/{}.jsonl", b'{"eval": "source"}\n'), ("failed/{}.json", b"")],
)  # fmt: skip
def test_a_damaged_record_is_named_with_what_makes_it_anew(recipe, tmp_path, name, content):
    sweep = load_sweep(recipe())
    store, job = Store(tmp_path / "out"), sweep.runs[0]
    report = {"name": job.name, "kind": job.kind, "seconds": 1.0, "tokens_per_second": 1.0}
    store.write(f"results/{job.id}.jsonl", b"")
    if name.startswith("failed"):
        store.write(name.format(job.id), content)
    else:
        store.put_result(job.id, [], report)
        store.write(name.format(job.id), content)
    with refused(DataError, name.format(job.id), "Remove", job.id):
        train_nothing(sweep, store)


def train_nothing(sweep, store):
    """Look at a store as a sweep that goes on does, and write its tables."""
    from cptlaw_sweep.engines.base import Queue

    Queue(sweep, store, retry_failed=False, progress=Silent())
    write_tables(sweep, store, {})


def test_a_full_disk_is_named_whichever_library_found_it():
    text = "Error while serializing: I/O error: No space left on device (os error 28)"
    assert lacks(reason_of(SafetensorError(text)), "disk", f"({text})") == []


class Assassin(Silent):
    """Kills the worker of the first run of continual pre-training that it sees."""

    killed = None

    def tick(self, running):
        for job in running:
            if job.kind == "adapt" and self.killed is None:
                self.killed = job.name
                (worker,) = multiprocessing.active_children()
                os.kill(worker.pid, signal.SIGKILL)


def test_a_dead_worker_takes_one_run_with_it_and_is_replaced(recipe, tmp_path):
    sweep, store = prepared(recipe(adapt={**RECIPE["adapt"], "tokens_per_param": 10}), tmp_path / "out")
    progress = Assassin()
    LocalEngine(workers=1).run(sweep, store.url, retry_failed=False, progress=progress)
    assert progress.killed
    assert progress.failures.keys() == {progress.killed}
    assert "its worker died (SIGKILL" in progress.failures[progress.killed]
    assert len(progress.done) == len(sweep.jobs) - 1
    mended = train_here(sweep, store)
    assert len(mended.done) == len(sweep.jobs)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("finished", "failed", "code"), [(0, 3, 1), (1, 2, 0), (3, 0, 0)])
def test_a_sweep_of_which_no_job_finished_ends_with_1(call, monkeypatch, tmp_path, finished, failed, code):
    from cptlaw_sweep import sweep

    failures = {f"run-{number}": "the disk is full" for number in range(failed)}
    done = sweep.SweepResult(pd.DataFrame(), str(tmp_path), finished, finished + failed, failures)
    monkeypatch.setattr(sweep, "sweep", lambda *given, **how: done)
    assert call("sweep", "sweep.yaml")[0] == code


def test_a_second_sweep_in_a_folder_is_refused_and_touches_nothing(recipe, tmp_path):
    path, place = recipe(), tmp_path / "out"
    sweep_of(path, place, workers=1)
    before = {file: file.stat().st_mtime_ns for file in place.rglob("*") if file.name != "sweep.lock"}
    for verb in (sweep_of, tune_lr):
        with Store(place).one_sweep(), pytest.raises(UsageError) as refused:
            verb(path, place, workers=1)
        assert str(place) in str(refused.value)
        assert {file: file.stat().st_mtime_ns for file in place.rglob("*") if file.name != "sweep.lock"} == before
    assert not sweep_of(path, place, workers=1).failures  # free again
