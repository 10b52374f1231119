"""Stores of trackers, written by the real packages in a process of their own."""

import json
import os
import subprocess
import sys

import pytest

RUNS = {"124M-r25": 0.0, "124M-r50": 0.1}
SETTINGS = {"n_params": 124_000_000, "trainer": {"global_batch_size": 64, "seq_length": 1000}}


def written_by(package, script, folder, runs=RUNS, settings=SETTINGS):
    """Run a script of a tracker in a process of its own: trackers leave threads, signals and settings behind."""
    pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, json.dumps(runs), json.dumps(settings)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"},
    )
    if done.returncode and "No module named" in done.stderr:
        pytest.skip(f"{package} lacks what it needs here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder
