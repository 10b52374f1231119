"""Logs of trackers, small ones in the true formats, sound and broken."""

import json
import sqlite3
import sys
import types
from contextlib import closing

import pytest
from facts import lacks, refused
from log_files import cells, write

import cptlaw as cl
from cptlaw.errors import DataError, UsageError


def write_events(folder, scalars, stamp=None):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (extra tensorboard)")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    writer = EventFileWriter(str(folder))
    for tag, step, value in scalars:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(step=step, wall_time=1.7e9 + step, summary=summary))
    writer.close()
    (file,) = set(folder.iterdir()) - before
    return file.rename(folder / f"events.out.tfevents.{stamp}.host.1.0") if stamp else file


def test_tensorboard_folders_become_runs(tmp_path):
    tag = "lm loss validation"
    write_events(tmp_path / "a", [(tag, 0, 3.5), (tag, 100, 2.5), ("learning-rate", 100, 1e-3)], 1_700_000_000)
    write_events(tmp_path / "a", [(tag, 100, 2.45), (tag, 200, 2.4)], 1_700_000_999)  # restarted at 100
    write_events(tmp_path / "b", [(tag, 100, float("nan")), (tag, 200, 2.6)])
    runs = cl.import_logs(tmp_path, batch_tokens=1000, constants={"replay": "10%"})
    assert cells(runs, "run", "loss", "tokens") == [
        ["a", 3.5, 0],
        ["a", 2.45, 100_000],
        ["a", 2.4, 200_000],
        ["b", 2.6, 200_000],
    ]
    assert any(not lacks(note, "'a'", "1 steps", "again") for note in runs.notes)
    assert any(not lacks(note, "'b'", "1 losses", "NaN") for note in runs.notes)
    assert len(runs.base_losses("validation")) == 1


def test_damaged_event_files(tmp_path):
    file = write_events(tmp_path / "a", [("eval/loss", 100, 2.5)])
    file.write_bytes(b"this is no event file at all, but long enough")
    with pytest.raises(DataError, match=r"no loss of a validation set|cannot be read"):
        cl.import_logs(tmp_path)


def test_without_the_package_the_message_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "events.out.tfevents.1.host", "x")
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(UsageError, match=r"'.\[tensorboard\]'"):
        cl.import_logs(tmp_path)


def test_wandb_histories(tmp_path):
    files = tmp_path / "wandb" / "run-20260101_120000-abc123" / "files"
    lines = [
        {"_step": step, "_runtime": 1.0, "eval": {"fr_loss": 3 - step / 100}, "train/lr": 1e-3} for step in (0, 50)
    ]
    write(files / "wandb-history.jsonl", "\n".join(map(json.dumps, lines)) + '\n{"_step": 100, "ev')
    write(
        files / "config.yaml",
        "wandb_version: 1\n_wandb:\n  desc: null\n  value: {cli_version: 0.19}\n"
        "model:\n  desc: null\n  value:\n    n_params: 124000000\nseed:\n  value: 3\n",
    )
    runs = cl.import_logs(tmp_path, config={"n_params": "model.n_params", "seed": "seed"}, batch_tokens=2000)
    assert cells(runs, "eval", "loss", "tokens", "n_params", "seed") == [
        ["fr", 3.0, 0, 124e6, 3],
        ["fr", 2.5, 100_000, 124e6, 3],
    ]
    assert any("row 3" in note for note in runs.notes)
    with refused(UsageError, "'sede'", "'seed'"):
        cl.import_logs(tmp_path, config={"seed": "sede"})


def test_wandb_charts(tmp_path):
    write(
        tmp_path / "chart.csv",
        '"Step","a - eval/fr_loss","a - eval/fr_loss__MIN","a - eval/fr_loss__MAX","b - eval/fr_loss",'
        '"b - eval/fr_loss__MIN","b - eval/fr_loss__MAX"\n'
        '"0","3.1","3.1","3.1","","",""\n"100","2.9","2.9","2.9","2.88","2.88","2.88"\n',
    )
    runs = cl.import_logs(tmp_path / "chart.csv", batch_tokens=10_000)
    assert cells(runs, "run", "loss", "tokens") == [["a", 3.1, 0], ["a", 2.9, 1e6], ["b", 2.88, 1e6]]
    write(tmp_path / "chart.csv", '"Step","a - eval/loss","a - eval/loss__MIN"\n"x","3.1","3.1"\n')
    with refused(DataError, "row 2", "'x'"):
        cl.import_logs(tmp_path / "chart.csv")


def test_the_wandb_api_is_asked_only_by_name(monkeypatch):
    class Run:
        id, name, config = "abc", "run-a", {"model": {"n_params": 124_000_000}}

        def scan_history(self):
            yield {"_step": 10, "eval/fr_loss": 2.5, "note": "text"}

    class Api:
        def runs(self, path):
            assert path == "team/project"
            return [Run()]

    class CommError(Exception):
        pass

    class UsageProblemError(Exception):
        pass

    errors = types.SimpleNamespace(CommError=CommError, UsageError=UsageProblemError)
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(Api=Api, errors=errors))
    runs = cl.import_logs("wandb:team/project", config={"n_params": "model.n_params"}, batch_tokens=1000)
    assert cells(runs, "run", "eval", "loss", "n_params", "tokens") == [["run-a", "fr", 2.5, 124e6, 10_000]]
    with pytest.raises(UsageError, match="expected wandb:ENTITY/PROJECT"):
        cl.import_logs("wandb:team")


def test_what_is_no_wandb_file_is_refused(tmp_path):
    pytest.importorskip("wandb")
    write(tmp_path / "run-1" / "run-1.wandb", "binary")
    with pytest.raises(DataError, match="Expected b':W&B'"):
        cl.import_logs(tmp_path)


@pytest.fixture
def mlruns(tmp_path):
    root = tmp_path / "mlruns"
    write(root / "0" / "meta.yaml", "artifact_location: file:///x\nexperiment_id: '0'\nname: Default\n")
    for run, name in (("0f3c", "run-a"), ("9ab1", "run-b")):
        folder = root / "0" / run
        write(folder / "meta.yaml", f"run_id: {run}\nlifecycle_stage: active\n")
        write(folder / "tags" / "mlflow.runName", name)
        write(folder / "params" / "n_params", "124M")
        write(folder / "params" / "model" / "depth", "12")
        write(folder / "metrics" / "eval" / "fr_loss", "1700000000000 3.0 0\n1700000001000 2.5 100\n")
        write(folder / "metrics" / "lr", "1700000000000 0.001 100\n")
    return root


def test_mlflow_folders(mlruns):
    runs = cl.import_logs(mlruns, config={"n_params": "n_params"}, batch_tokens="1K")
    assert cells(runs, "run", "eval", "loss", "tokens", "n_params")[:2] == [
        ["run-a", "fr", 3.0, 0, 124e6],
        ["run-a", "fr", 2.5, 1e5, 124e6],
    ]
    assert set(runs.frame["run"]) == {"run-a", "run-b"}


def test_damaged_mlflow_metrics(mlruns):
    path = write(mlruns / "0" / "0f3c" / "metrics" / "eval" / "fr_loss", "1700000000000 3.0 0\n17000000\n")
    with refused(DataError, "fr_loss", "row 2", "'17000000'"):
        cl.import_logs(mlruns)
    assert path.exists()


@pytest.mark.parametrize(("step", "value"), [(None, 2.5), ("late", 2.5), (1, "low"), (1, None)])
def test_a_database_with_what_is_no_number_is_named(tmp_path, step, value):
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.executescript(
            "create table runs(run_uuid, name, lifecycle_stage, start_time); create table tags(run_uuid, key, value);"
            "create table params(run_uuid, key, value);"
            "create table metrics(run_uuid, step, key, value, is_nan, timestamp);"
            "insert into runs values('abc', 'a', 'active', 1);"
        )
        database.execute("insert into metrics values('abc', ?, 'eval_loss', ?, 0, 1)", (step, value))
        database.commit()
    with pytest.raises(DataError, match=r"mlflow\.db: read as MLflow database"):
        cl.import_logs(tmp_path)
