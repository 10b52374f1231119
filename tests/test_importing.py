"""Logs of other trainers, small ones in the true formats, sound and broken."""

import json
import os
import re
import sys
import types

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.importing import Reader, reader, readers, wanted
from cptlaw.importing.history import History, Record
from cptlaw.importing.wanted import eval_of, is_eval_loss


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def cells(runs, *columns):
    return runs.frame[list(columns)].to_numpy().tolist()


# -- Hugging Face Trainer ------------------------------------------------------------------------------------------


def trainer_state(steps, offset=0.0):
    history = []
    for step in steps:
        history.append({"epoch": step / 1000, "grad_norm": 1.2, "learning_rate": 3e-4, "loss": 2.9, "step": step})
        evals = {"eval_fr_loss": 3.0 - step / 1000 + offset, "eval_fr_runtime": 1.5, "eval_fr_samples_per_second": 66.0}
        history.append({"epoch": step / 1000, **evals, "num_input_tokens_seen": step * 4096, "step": step})
        history.append({"epoch": step / 1000, "eval_en_loss": 2.0 + step / 1000, "step": step})
    history.append({"epoch": 1.0, "step": steps[-1], "total_flos": 1e15, "train_loss": 2.9, "train_runtime": 60.0})
    rest = {"best_metric": None, "epoch": 1.0, "is_world_process_zero": True, "max_steps": 400, "num_train_epochs": 1}
    return {**rest, "global_step": steps[-1], "log_history": history}


@pytest.fixture
def outputs(tmp_path):
    for name, offset in (("124M-p31-r25", 0.0), ("1.4B-p31-r50", 0.1)):
        write(tmp_path / name / "checkpoint-200" / "trainer_state.json", trainer_state([100, 200], offset))
        write(tmp_path / name / "trainer_state.json", trainer_state([100, 200, 400], offset))
        write(tmp_path / name / "config.json", {"model_type": "gpt2", "n_layer": 12, "seed": 7})
    write(tmp_path / "124M-p31-r25" / "runs" / "x" / "events.out.tfevents.1700000000.host.1.0", "not read")
    return tmp_path


def test_trainer_states_become_runs(outputs):
    runs = cl.import_logs(
        outputs,
        pattern="{n_params}-p{ptpp}-r{replay%}",
        mapping={"loss:target": "eval_fr_loss", "loss:source": "eval_en_loss"},
        batch_tokens="64K",
        config={"seed": "seed"},
    )
    assert len(runs) == 12
    assert runs.evals == ("source", "target")
    assert set(runs.frame["n_params"]) == {124e6, 1.4e9}
    assert set(runs.frame["replay"]) == {0.25, 0.5}
    assert set(runs.frame["seed"]) == {7}
    assert set(runs.frame["lr"]) == {3e-4}
    target = runs.on("target").where("run == '124M-p31-r25'")
    assert cells(target, "step", "tokens", "loss") == [[100, 6.4e6, 2.9], [200, 12.8e6, 2.8], [400, 25.6e6, 2.6]]
    assert "read as Hugging Face Trainer (4 files, 2 runs)" in runs.notes[0]
    assert any("not read: tensorboard" in note for note in runs.notes)


def test_losses_are_recognised_and_tokens_taken_from_the_log(outputs):
    runs = cl.import_logs(outputs / "124M-p31-r25" / "trainer_state.json", constants={"n_params": "124M"})
    assert runs.evals == ("en", "fr")
    assert set(runs.frame["run"]) == {"124M-p31-r25"}
    assert cells(runs.on("fr"), "tokens") == [[409600], [819200], [1638400]]
    assert any("eval_fr_loss as eval 'fr'" in note for note in runs.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"global_step": 10, "log_history": [{"step": 1', "truncated or not JSON"),
        ({"global_step": 10}, "no list 'log_history'"),
        ({"log_history": [{"eval_loss": 2.0}]}, "entry 0 of log_history has no step"),
        ({"log_history": [{"loss": 2.0, "step": 5}]}, "no loss of a validation set"),
        ("", "the file is empty"),
    ],
)
def test_broken_trainer_states(tmp_path, content, said):
    path = write(tmp_path / "run" / "trainer_state.json", content)
    with pytest.raises(DataError, match=said) as raised:
        cl.import_logs(tmp_path)
    assert str(path) in str(raised.value) or str(path.parent) in str(raised.value)


# -- TensorBoard ---------------------------------------------------------------------------------------------------


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
    assert any("run 'a': 1 steps were logged again" in note for note in runs.notes)
    assert any("run 'b': 1 losses that are NaN" in note for note in runs.notes)
    assert len(runs.base_losses("validation")) == 1


def test_damaged_event_files(tmp_path):
    file = write_events(tmp_path / "a", [("eval/loss", 100, 2.5)])
    file.write_bytes(b"this is no event file at all, but long enough")
    with pytest.raises(DataError, match=r"no loss of a validation set|cannot be read"):
        cl.import_logs(tmp_path)


def test_without_the_package_the_message_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "events.out.tfevents.1.host", "x")
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_accumulator", None)
    with pytest.raises(UsageError, match=r"cptlaw\[tensorboard\]"):
        cl.import_logs(tmp_path)


# -- Weights & Biases ----------------------------------------------------------------------------------------------


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
    assert any("the last line (row 3) is cut off" in note for note in runs.notes)
    with pytest.raises(UsageError, match=r"has no setting 'sede'\. Did you mean 'seed'"):
        cl.import_logs(tmp_path, config={"seed": "sede"})


def test_wandb_charts(tmp_path):
    write(
        tmp_path / "chart.csv",
        '"Step","a - eval/fr_loss","a - eval/fr_loss__MIN","a - eval/fr_loss__MAX","b - eval/fr_loss",'
        '"b - eval/fr_loss__MIN","b - eval/fr_loss__MAX"\n'
        '"0","3.1","3.1","3.1","","",""\n"100","2.9","2.9","2.9","2.8","2.8","2.8"\n',
    )
    runs = cl.import_logs(tmp_path / "chart.csv", batch_tokens=10_000)
    assert cells(runs, "run", "loss", "tokens") == [["a", 3.1, 0], ["a", 2.9, 1e6], ["b", 2.8, 1e6]]
    write(tmp_path / "chart.csv", '"Step","a - eval/loss","a - eval/loss__MIN"\n"x","3.1","3.1"\n')
    with pytest.raises(DataError, match="row 2: column Step: found 'x'"):
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


# -- MLflow --------------------------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match=r"fr_loss, row 2: found '17000000'. Expected time, value and step"):
        cl.import_logs(mlruns)
    assert path.exists()


# -- text logs -----------------------------------------------------------------------------------------------------

MEGATRON = """\
[default0]:------------------------ arguments ------------------------
[default0]:  global_batch_size ............................... 512
[default0]:  seq_length ...................................... 2048
 [2026-01-01 10:00:00] iteration     1010/  200000 | consumed samples:       517120 | elapsed time per iteration (ms): \
2127.8 | learning rate: 3.750000E-05 | global batch size:   512 | lm loss: 2.812334E+00 | loss scale: 1.0 | \
grad norm: 2.031 | number of skipped iterations:   0 | number of nan iterations:   0 |
------------------------------------------------------------------------------------------------
 validation loss at iteration 1010 on validation set | lm loss value: 2.634210E+00 | lm loss PPL: 1.393183E+01 | \n\
------------------------------------------------------------------------------------------------
 iteration     1020/  200000 | consumed samples:       522240 | elapsed time per iteration (ms): 2127.8 | \
learning rate: 3.800E-05 | global batch size:   512 | lm loss: nan | loss scale: 1.0 |
 validation loss at iteration 1020 | lm loss value: 2.601000E+00 | lm loss PPL: 1.347722E+01 |
 validation loss at the end of training for test data | lm loss value: 2.700000E+00 | lm loss PPL: 1.487973E+01 |
"""


def test_megatron_logs(tmp_path):
    write(tmp_path / "8.1B-r34.log", MEGATRON)
    runs = cl.import_logs(tmp_path, pattern="{n_params}-r{replay%}", seq_length=2048, first_step=1000)
    assert cells(runs, "eval", "step", "loss", "tokens", "lr") == [
        ["validation", 1010, 2.63421, 10 * 512 * 2048, 3.75e-5],
        ["validation", 1020, 2.601, 20 * 512 * 2048, 3.8e-5],
        ["test", 1020, 2.7, 20 * 512 * 2048, 3.8e-5],
    ]
    assert any("1.04858e+09 tokens at step 1000 count as pre-training" in note for note in runs.notes)
    whole = cl.import_logs(tmp_path, seq_length=2048)
    assert cells(whole, "tokens")[0] == [517120 * 2048]
    assert set(runs.frame["replay"]) == {0.34}
    by_step = cl.import_logs(tmp_path, batch_tokens=512 * 2048, first_step="1K")
    assert cells(by_step, "tokens")[0] == [10 * 512 * 2048]
    plain = cl.import_logs(tmp_path)
    assert cells(plain, "tokens")[0] == [1010 * 512 * 2048]
    assert any("step x global_batch_size 512 x seq_length 2048, from its settings" in note for note in plain.notes)


NEMO = """\
[NeMo I 2026-01-01 10:00:00 nemo_logging:393] Rank 0 has data parallel group
Training epoch 0, iteration 98/199 | lr: 3e-05 | consumed_samples: 792 | global_batch_size: 8 | global_step: 98 | \
reduced_train_loss: 4.31 | train_step_timing in s: 0.0315
Training epoch 0, iteration 99/199 | lr: 3e-05 | consumed_samples: 800 | global_batch_size: 8 | global_step: 99 | \
reduced_train_loss: 4.233 | train_step_timing in s: 0.0315
Validation: iteration 1/8
Training epoch 0, iteration 100/199 | lr: 3e-05 | consumed_samples: 808 | global_batch_size: 8 | global_step: 100 | \
reduced_train_loss: 4.288 | train_step_timing in s: 0.0316 | val_loss: 4.106
Training epoch 0, iteration 101/199 | lr: 3e-05 | consumed_samples: 816 | global_batch_size: 8 | global_step: 101 | \
reduced_train_loss: 4.133 | train_step_timing in s: 0.0322 | val_loss: 4.106
Training epoch 0, iteration 200/300 | lr: 2e-05 | consumed_samples: 1608 | global_batch_size: 8 | global_step: 200 | \
reduced_train_loss: 4.0 | train_step_timing in s: 0.0322 | val_loss: 3.951
"""


def test_nemo_logs_count_a_validation_once(tmp_path):
    write(tmp_path / "nemo.log", NEMO)
    runs = cl.import_logs(tmp_path / "nemo.log", seq_length=1000)
    assert cells(runs, "step", "loss", "tokens", "lr") == [[100, 4.106, 800_000, 3e-5], [102, 3.951, 816_000, 3e-5]]


def test_nemo_progress_bars(tmp_path):
    bar = "Epoch 0: :   5%| | 10/200 [00:10<03:10, 1.00it/s, v_num=0, reduced_train_loss=4.5{}, global_step={}, \
consumed_samples={}{}]\r"
    text = bar.format("", "9.000", "80.00", "") + bar.format("", "10.00", "88.00", ", val_loss=4.400")
    write(tmp_path / "bar.log", text)
    runs = cl.import_logs(tmp_path / "bar.log", seq_length=100)
    assert cells(runs, "step", "loss", "tokens") == [[10, 4.4, 8000]]


TITAN = """\
[rank0]:[titan] 2026-01-01 10:00:00,100 - root - INFO - \x1b[34mModel llama3 debugmodel \x1b[31msize: 6,139,136 total \
parameters\x1b[39m
[rank0]:[titan] 2026-01-01 10:00:21,511 - root - INFO - \x1b[31mstep: 100  \x1b[32mloss:  6.2250  \x1b[38;2;180;60;0m\
grad_norm:  0.8319  \x1b[36mmemory:  1.41GiB(1.79%)  \x1b[34mtps: 193,831  \x1b[36mtflops: 18.36  \x1b[35m\
mfu: 1.86%\x1b[39m
[rank0]:[titan] 2026-01-01 10:00:22,511 - root - INFO - \x1b[33mvalidate step: 100  \x1b[32mloss:  6.1903  \x1b[36m\
memory:  1.41GiB(1.79%)  \x1b[34mtps: 293,831\x1b[39m
[rank1]:[titan] 2026-01-01 10:00:22,511 - root - INFO - \x1b[33mvalidate step: 100  \x1b[32mloss:  6.1903  \x1b[36m\
memory:  1.41GiB(1.79%)  \x1b[34mtps: 293,831\x1b[39m
"""


def test_torchtitan_logs(tmp_path):
    write(tmp_path / "titan.log", TITAN)
    runs = cl.import_logs(tmp_path, batch_tokens=10_000, config={"n_params": "total_parameters"}, n_params_kind="total")
    assert cells(runs, "run", "eval", "loss", "tokens", "n_params") == [["titan", "validation", 6.1903, 1e6, 6_139_136]]
    assert not any("logged again" in note for note in runs.notes)
    train = cl.import_logs(tmp_path, mapping={"loss:train": "train loss"}, batch_tokens=10_000)
    assert cells(train, "eval", "loss") == [["train", 6.225]]


# -- tables --------------------------------------------------------------------------------------------------------


def test_wide_tables(tmp_path):
    write(
        tmp_path / "a.csv",
        "step,eval/fr_nll,eval/en_nll,opt/lr,seen,n_params\n0,3.1,2.0,,0,124M\n100,2.9,2.1,1e-3,1M,124M\n",
    )
    runs = cl.import_logs(
        tmp_path / "a.csv",
        mapping={"loss:target": "eval/fr_nll", "loss": "eval/en_nll", "tokens": "seen", "lr": "opt/lr"},
    )
    assert runs.evals == ("en", "target")
    assert cells(runs.on("target"), "run", "loss", "tokens", "n_params") == [
        ["a", 3.1, 0, 124e6],
        ["a", 2.9, 1e6, 124e6],
    ]
    assert cells(runs.on("target"), "lr")[1] == [1e-3]


def test_json_lines_of_several_runs(tmp_path):
    lines = [{"run": run, "step": 10, "metrics": {"val_loss": loss}} for run, loss in (("a", 2.5), ("b", 2.6))]
    write(tmp_path / "m.jsonl", "\n".join(map(json.dumps, lines)))
    assert cells(cl.import_logs(tmp_path), "run", "loss") == [["a", 2.5], ["b", 2.6]]
    write(tmp_path / "m.jsonl", '{"step": 1}\n[1]\n{"step": 2}')
    with pytest.raises(DataError, match=r"row 2: found '\[1\]'\. Expected one object per line"):
        cl.import_logs(tmp_path)


def test_a_runs_table_comes_back_as_it_is(tmp_path):
    pilot = cl.examples.load("en-fr-pilot").where("n_params == 45936 and lr_schedule == 'constant' and ptpp == 15")
    path = tmp_path / "runs.csv"
    pilot.frame.to_csv(path, index=False)
    again = cl.import_logs(path)
    key = ["run", "eval", "tokens"]
    shared = [*key, "loss", "n_params", "replay", "ptpp", "seed", "lr_schedule"]
    one, two = (runs.frame[shared].sort_values(key, ignore_index=True).astype(str) for runs in (pilot, again))
    pd.testing.assert_frame_equal(one, two)


# -- what holds for all --------------------------------------------------------------------------------------------


def test_nothing_recognised_tells_what_was_looked_for(tmp_path):
    write(tmp_path / "notes.txt", "nothing of interest")
    with pytest.raises(DataError, match="the format is not recognised") as raised:
        cl.import_logs(tmp_path)
    for kind in readers():
        assert kind.looks_for in str(raised.value)
    assert "Traceback" not in str(raised.value)
    with pytest.raises(DataError, match="no such file or folder"):
        cl.import_logs(tmp_path / "absent")
    with pytest.raises(DataError, match="found nothing that looks like NeMo log"):
        cl.import_logs(tmp_path, log_format="nemo")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mapping": {"loss:x": "eval_de_loss"}}, "no metric 'eval_de_loss' in the logs. Did you mean 'eval_"),
        ({"mapping": {"n_param": "x"}}, "'n_param' is not a column of a runs table. Did you mean 'n_params'"),
        ({"constants": {"n_params": "many"}}, "'many' is not a number"),
        ({"constants": {"loss": "2"}}, "'loss' is not a column"),
        ({"pattern": "{n_params}-x{ptpp}"}, "does not fit --pattern"),
        ({"pattern": "no braces"}, "holds no column in braces"),
        ({"pattern": "{seed}-{seed}"}, "names a column twice"),
        ({"batch_tokens": "-1"}, "expected a number above 0"),
        ({"batch_tokens": "1M", "seq_length": "2K"}, "give --batch-tokens .* or --seq-length"),
        ({"log_format": "trainers"}, "no such format. Did you mean 'trainer'"),
        ({"output": "runs.xlsx"}, "expected a file ending in .csv"),
        ({"output": "absent/runs.csv"}, "the folder absent does not exist"),
    ],
)
def test_options_that_cannot_be_used(outputs, options, said):
    with pytest.raises(CptlawError, match=said):
        cl.import_logs(outputs, **options)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_what_is_written_reads_back(outputs, tmp_path, ending):
    path = tmp_path / f"table{ending}"
    runs = cl.import_logs(outputs, path, pattern="{n_params}-p{ptpp}-r{replay%}", batch_tokens="64K")
    again = cl.read_runs(path)
    assert again.fingerprint == runs.fingerprint
    assert runs.path == path
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~umask())
    assert [other.name for other in tmp_path.iterdir() if other.name.endswith(".part")] == []


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failed_import_leaves_the_old_table(outputs, tmp_path):
    old = "run,eval,loss\nold,target,2.5\n"
    path = write(tmp_path / "runs.csv", old)
    write(outputs / "124M-p31-r25" / "trainer_state.json", "{")
    with pytest.raises(DataError):
        cl.import_logs(outputs, path)
    assert path.read_text() == old


def test_the_command_line(outputs, tmp_path, capsys):
    table = tmp_path / "runs.csv"
    arguments = ["import", str(outputs), "-o", str(table), "--pattern", "{n_params}-p{ptpp}-r{replay%}"]
    arguments += ["--map", "loss:target=eval_fr_loss,loss:source=eval_en_loss", "--batch-tokens", "64K"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--set", "lr_schedule=cosine", "--json"])
    assert not ended.value.code
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["rows"], found["runs"], found["evals"]) == (12, 2, ["source", "target"])
    assert "read as Hugging Face Trainer" in printed.err
    with pytest.raises(SystemExit) as ended:
        main([*arguments[:-4], "--map", "loss"])
    assert ended.value.code == 2
    assert "expected loss:EVAL=METRIC" in capsys.readouterr().err
    fitted = cl.read_runs(table)
    assert np.isfinite(fitted.frame["loss"]).all()


def test_a_reader_registers_itself_and_is_held_against_sources_in_its_turn(tmp_path, monkeypatch, capsys):
    known = dict(reader._KINDS)
    monkeypatch.setattr(reader, "_KINDS", known)

    class Diary(Reader):
        name, title, looks_for, order = "diary", "diary", "*.diary", 65

        def find(self, source):
            return sorted(source.glob("*.diary"))

        def read(self, found, source):
            losses = {"eval_fr_loss": 2.5}
            return [History(path.stem, path, (Record(100.0, losses),)) for path in found]

    names = [kind.name for kind in readers()]
    assert names[names.index("tensorboard") :][:3] == ["tensorboard", "diary", "megatron"]
    write(tmp_path / "124M.diary", "dear diary")
    command = ["import", str(tmp_path), "-o", str(tmp_path / "runs.csv"), "--pattern", "{n_params}", "--batch-tokens"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "4K"])
    assert not ended.value.code
    assert "read as diary" in capsys.readouterr().err
    assert cl.read_runs(tmp_path / "runs.csv").frame["loss"].tolist() == [2.5]
    with pytest.raises(SystemExit) as ended:
        main([*command, "4K", "--format", "dairy"])
    assert "Did you mean 'diary'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("metric", "counts", "name"),
    [
        ("eval_loss", True, "validation"),
        ("eval/wikitext-fr/loss", True, "wikitext_fr"),
        ("validation_metrics/loss", True, "validation"),
        ("val_loss_dataloader_idx_1", True, "dataloader_idx_1"),
        ("lm loss validation vs samples", False, None),
        ("lm loss validation ppl", False, None),
        ("train_loss", False, None),
        ("loss", False, None),
        ("eval_load_balancing_loss", False, None),
    ],
)
def test_names_of_losses(metric, counts, name):
    assert is_eval_loss(metric) is counts
    if counts:
        assert eval_of(metric) == name


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["-", "", "a", "p"]), min_size=2, max_size=4),
    st.text("ap-/1", max_size=8),
    st.booleans(),
)
def test_names_are_cut_as_by_a_regular_expression(literals, name, is_any):
    names = [f"any{place}" if is_any and place % 2 else f"f{place}" for place in range(len(literals) - 1)]
    pattern = literals[0] + "".join(f"{{{field}}}{literal}" for field, literal in zip(names, literals[1:], strict=True))
    inner = [f"(?P<{field}>{'.*?' if field.startswith('any') else '[^/]+?'})" for field in names]
    expression = literals[0] + "".join(part + literal for part, literal in zip(inner, literals[1:], strict=True))
    expected = re.fullmatch(expression, name, re.DOTALL)
    assert wanted._fields_of(pattern, name) == (expected and expected.groupdict())


def test_a_long_name_of_a_run_is_cut_at_once():
    pattern = "-".join(f"{{any{place}}}" for place in range(9)) + "x"
    assert wanted._fields_of(pattern, "-" * 4000) is None


class TestOddSources:
    def test_an_empty_file_beside_logs_is_passed_over(self, tmp_path):
        write(tmp_path / "empty.log", "")
        write(tmp_path / "odd.txt", "x")
        write(tmp_path / "metrics.csv", "step,eval_loss\n1,2.5\n")
        assert len(cl.import_logs(tmp_path, constants={"n_params": "1M"})) == 1

    @pytest.mark.parametrize("content", ["", "x", "{", "[", "\n", "\0", "step", "1,2", "\xff"])
    @pytest.mark.parametrize(
        "name", ["a.csv", "a.jsonl", "a.log", "a", "trainer_state.json", "wandb-history.jsonl", "events.out.tfevents.1"]
    )
    def test_a_short_file_is_one_message(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        for source in (tmp_path / name, tmp_path):
            with pytest.raises(CptlawError):
                cl.import_logs(source, log_format=None)

    @pytest.mark.parametrize("value", ["9" * 400, "1e999", "-1", "NaN", "[[[]]]", '"x"', "{}", "9" * 5000])
    def test_odd_values_in_logs_are_left_out_or_told(self, tmp_path, value):
        write(tmp_path / "a.jsonl", f'{{"step": 1, "eval_loss": 2.5}}\n{{"step": {value}, "eval_loss": {value}}}\n')
        try:
            assert len(cl.import_logs(tmp_path)) in (1, 2)
        except CptlawError as error:
            assert len(str(error)) < 2000  # noqa: PT017  either is right

    def test_nested_logs_end(self, tmp_path):
        write(tmp_path / "a.jsonl", '{"step": 1, "eval_loss": 2.5, "x": ' + "[" * 5000 + "]" * 5000 + "}\n")
        with pytest.raises(DataError, match="nested more than"):
            cl.import_logs(tmp_path)

    def test_logs_with_endless_lines_are_read(self, tmp_path):
        for piece in ("validation loss at ", "| ", "a", "1", "global_step: ", "step: 1 loss: ", "x: 1", " on"):
            line = "validation loss at iteration 1 | lm loss value: 2.5E+00 | "
            write(tmp_path / "a.log", (piece * (200_000 // len(piece)) + "\n") * 3 + line + "\n")
            assert len(cl.import_logs(tmp_path)) == 1  # quadratic it would be minutes
