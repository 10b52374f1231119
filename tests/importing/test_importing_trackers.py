"""Stores of trackers, written by the real packages."""

import sqlite3
from contextlib import closing

import pytest
from facts import refused
from tracker_logs import RUNS, SETTINGS, written_by

import cptlaw as cl
from cptlaw.errors import DataError

EXPECTED = [["124M-r25", 0.0, 3.0], ["124M-r25", 10.0, 2.9], ["124M-r50", 0.0, 3.1], ["124M-r50", 10.0, 3.0]]


WANDB = """
import json, sys, wandb
runs, settings = map(json.loads, sys.argv[1:])
for name, more in runs.items():
    run = wandb.init(project="p", name=name, config=settings, dir=".")
    for step in (0, 10):
        run.log({"eval/fr_loss": 3.0 - step / 100 + more, "train": {"loss": 2.0}}, step=step)
    run.finish()
"""

MLFLOW = """
import json, sys, mlflow
runs, settings = map(json.loads, sys.argv[1:])
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("e")
for name, more in runs.items():
    with mlflow.start_run(run_name=name):
        mlflow.log_params({"n_params": settings["n_params"], **settings["trainer"]})
        for step in (0, 10):
            mlflow.log_metric("eval_fr_loss", 3.0 - step / 100 + more, step=step)
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    return written_by("wandb", WANDB, tmp_path_factory.mktemp("wandb"))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return written_by("mlflow", MLFLOW, tmp_path_factory.mktemp("mlflow"))


@pytest.fixture
def tables(tmp_path):
    """The tables that MLflow 3 writes, as far as they are read."""
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.executescript(
            "create table runs(run_uuid, name, status, lifecycle_stage, start_time);"
            "create table tags(run_uuid, key, value); create table params(run_uuid, key, value);"
            "create table metrics(run_uuid, step, key, value, is_nan, timestamp);"
        )
        for start, (name, more) in enumerate(RUNS.items()):
            database.execute("insert into runs values(?, 'quick-fox-1', 'FINISHED', 'active', ?)", (name * 4, start))
            database.execute("insert into tags values(?, 'mlflow.runName', ?)", (name * 4, name))
            for key, value in ({"n_params": SETTINGS["n_params"]} | SETTINGS["trainer"]).items():
                database.execute("insert into params values(?, ?, ?)", (name * 4, key, str(value)))
            for step in (0, 10):
                row = (name * 4, step, "eval_fr_loss", 3.0 - step / 100 + more, False, step)
                database.execute("insert into metrics values(?, ?, ?, ?, ?, ?)", row)
        database.commit()
    return tmp_path


@pytest.mark.parametrize("store", ["offline", "tables", pytest.param("database", marks=pytest.mark.nightly)])
def test_rows_and_tokens(store, request):
    runs = cl.import_logs(request.getfixturevalue(store), config={"n_params": "n_params"}, pattern="{any}-r{replay%}")
    rows = runs.frame.sort_values(["run", "step"])[["run", "step", "loss"]].astype(object).to_numpy().tolist()
    assert rows == [[run, step, pytest.approx(loss)] for run, step, loss in EXPECTED]
    assert set(runs.frame["n_params"]) == {124e6}
    assert set(runs.frame["replay"]) == {0.25, 0.5}
    assert set(runs.frame["tokens"]) == {0.0, 640_000.0}
    assert any("are step x" in note for note in runs.notes)


def test_a_wandb_file_that_breaks_off_is_read_as_far_as_it_goes(offline, tmp_path):
    whole = next(offline.rglob("*.wandb")).read_bytes()
    (tmp_path / "run-a.wandb").write_bytes(whole[: whole.rindex(b"fr_loss") + 3])
    runs = cl.import_logs(tmp_path / "run-a.wandb", constants={"n_params": "124M"})
    assert any("cut off" in note for note in runs.notes)
    assert len(runs.frame) >= 1


def test_a_damaged_wandb_file_is_refused(offline, tmp_path):
    whole = bytearray(next(offline.rglob("*.wandb")).read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "run-a.wandb").write_bytes(whole)
    with refused(DataError, "run-a.wandb", "checksum"):
        cl.import_logs(tmp_path / "run-a.wandb")
