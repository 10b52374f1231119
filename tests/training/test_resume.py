"""kill -9 at any moment, start again: the same losses to the last bit, and nothing done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import yaml
from small_sweep import RECIPE, prepared, results, train_here, write_language

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


def kill_and_resume(folder, recipe, place, longest, seed):
    """Train with a SIGKILL after random times until all is done.

    Returns the sweep, its store, the kills, and how many of these had a checkpoint to go on from. The child is a fork:
    starting again then costs no imports, so that many kills fit into a short test.
    """
    sweep, store = prepared(recipe, folder / place)
    draw = random.Random(seed)
    kills = resumes = 0
    while True:
        child = os.fork()
        if child == 0:
            try:
                train_here(sweep, store)
            finally:
                os._exit(0)
        deadline = time.monotonic() + draw.uniform(0.02, longest)
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.002)
        if ended != (0, 0):
            return sweep, store, kills, resumes
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        resumes += any(store.exists(f"checkpoints/{job.id}/latest.json") for job in sweep.jobs)


def check_same_bits(folder, settings, longest, seed, enough):
    write_language(folder / "old.jsonl", ["the", "old", "tongue", "is", "known", "to", "all"], 1)
    write_language(folder / "new.jsonl", ["neue", "Sprache", "lernt", "man", "nur", "langsam"], 2)
    recipe = folder / "sweep.yaml"
    recipe.write_text(yaml.safe_dump(settings))
    sweep, straight = prepared(recipe, folder / "straight")
    assert not train_here(sweep, straight).failures
    again, stopped, kills, resumes = kill_and_resume(folder, recipe, "stopped", longest, seed)
    assert kills >= enough
    assert resumes >= enough // 3
    assert results(again, stopped) == results(sweep, straight)
    # Nothing is left of unfinished work, and each job was recorded once.
    assert stopped.names("checkpoints") == []
    assert stopped.failed_ids() == set()
    return kills, resumes


# Saves whenever it may, and every optimiser step is small: kills fall everywhere.
SMALL = {
    **RECIPE,
    "checkpoint_seconds": 0,
    "pretrain": {**RECIPE["pretrain"], "ptpp": [4, 8]},
    "adapt": {**RECIPE["adapt"], "tokens_per_param": 4, "merge": [0.5]},
}


def test_a_sweep_killed_at_random_moments_gives_the_same_losses_to_the_last_bit(tmp_path):
    check_same_bits(tmp_path, SMALL, longest=1.0, seed=1, enough=3)


@pytest.mark.study
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("seed", range(3))
def test_many_kills_with_accumulation_and_both_precisions(tmp_path, seed, precision, capsys):
    settings = {**SMALL, "precision": precision, "micro_batch": 2, "models": {"10k": {"n_params": "10K"}}}
    kills, resumes = check_same_bits(tmp_path, settings, longest=1.0, seed=seed, enough=10)
    with capsys.disabled():
        print(f"{precision}, seed {seed}: {kills} kills, {resumes} with a checkpoint to go on from, all bits the same")


def test_the_whole_command_killed_takes_its_workers_along_and_goes_on(recipe, tmp_path):
    path = recipe(checkpoint_seconds=0, models={"2k": {"width": 12, "layers": 1, "heads": 2}})
    command = [sys.executable, "-m", "cptlaw", "sweep", str(path), "-o", str(tmp_path / "out"), "--workers", "1"]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    done = tmp_path / "out" / "done"
    while not (done.exists() and list(done.iterdir())) and started.poll() is None:
        time.sleep(0.02)
    workers = children_of(started.pid)
    started.kill()
    started.wait()
    assert len(workers) >= 2
    assert wait_until(lambda: not any(alive(worker) for worker in workers))
    before = {file.name: file.read_bytes() for file in done.iterdir()}
    assert 0 < len(before) < 8
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert (found["finished"], found["failed"]) == (8, 0)
    assert {name: (done / name).read_bytes() for name in before} == before


def children_of(pid):
    """Return the processes that another one started, and those that these started."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
