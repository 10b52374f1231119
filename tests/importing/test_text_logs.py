"""Text logs of trainers, small ones in the true formats, sound and broken."""

import pytest
from facts import lacks
from log_files import cells, write

import cptlaw as cl
from cptlaw.errors import DataError

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
    assert any(not lacks(note, "1.04858e+09 tokens", "step 1000") for note in runs.notes)
    whole = cl.import_logs(tmp_path, seq_length=2048)
    assert cells(whole, "tokens")[0] == [517120 * 2048]
    assert set(runs.frame["replay"]) == {0.34}
    by_step = cl.import_logs(tmp_path, batch_tokens=512 * 2048, first_step="1K")
    assert cells(by_step, "tokens")[0] == [10 * 512 * 2048]
    plain = cl.import_logs(tmp_path)
    assert cells(plain, "tokens")[0] == [1010 * 512 * 2048]
    assert any(not lacks(note, "global_batch_size 512", "seq_length 2048") for note in plain.notes)


def test_a_rate_that_was_not_taken_is_said(tmp_path):
    write(tmp_path / "logs" / "8.1B-r34.log", MEGATRON)
    plan = {"feasible": True, "replay": 0.34, "tokens": 20 * 512 * 2048, "atpp": 20 * 512 * 2048 / 8.1e9}
    how = {"pattern": "{n_params}-r{replay%}", "seq_length": 2048, "first_step": 1000}
    said = {}
    for name, rate in (("taken", 3.8e-5), ("kept", 3e-4)):
        planned = write(tmp_path / f"{name}.json", {**plan, "lr_peak": rate})
        said[name] = cl.import_logs(tmp_path / "logs", planned=planned, **how).notes[-1]
    assert lacks(said["taken"], "taken.json", "lr_peak, n_params, replay, tokens") == []
    assert lacks(said["kept"], "3.8e-05", "0.0003") == []
    assert "--override-opt_param-scheduler" in said["kept"]
    other = write(tmp_path / "other.json", {**plan, "replay": 0.1})
    assert "replay 34%, 10% was planned" in cl.import_logs(tmp_path / "logs", planned=other, **how).notes[-1]
    with pytest.raises(DataError, match="plans no run"):
        cl.import_logs(tmp_path / "logs", planned=write(tmp_path / "none.json", {"tokens": None}), **how)


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


def test_torchtitan_logs_count_tokens(tmp_path):
    trainer = (
        "[titan] 2026-01-01 - root - INFO - Trainer is initialized with local batch size 8, global batch size 64, \
gradient accumulation steps 1, sequence length 2048, total steps 1000 (warmup 20)\n"
    )
    write(tmp_path / "titan.log", trainer + TITAN)
    assert cells(cl.import_logs(tmp_path), "tokens") == [[100 * 64 * 2048]]


def test_torchtitan_logs(tmp_path):
    write(tmp_path / "titan.log", TITAN)
    runs = cl.import_logs(tmp_path, batch_tokens=10_000, config={"n_params": "total_parameters"}, n_params_kind="total")
    assert cells(runs, "run", "eval", "loss", "tokens", "n_params") == [["titan", "validation", 6.1903, 1e6, 6_139_136]]
    assert not any("logged again" in note for note in runs.notes)
    train = cl.import_logs(tmp_path, mapping={"loss:train": "train loss"}, batch_tokens=10_000)
    assert cells(train, "eval", "loss") == [["train", 6.225]]


def test_evaluations_of_one_moment_are_at_one_step_though_a_bar_between_them_lags(tmp_path):
    """The first of them was read as one of step 0: the base model, which nobody had measured."""
    bar = "\r {}%|##  | {}/1000 [05:00<15:00,  1.20s/it]"
    lines = [bar.format(0, 0)]
    for step in (250, 500):
        epoch = step / 1000
        lines.append(f"{{'loss': 2.5, 'learning_rate': 1e-4, 'epoch': {epoch}}}")
        lines.append(
            f"{{'eval_en_loss': 2.4, 'eval_en_runtime': 12.1, 'epoch': {epoch}}}" + bar.format(step // 10, step)
        )
        lines.append(f"{{'eval_fr_loss': 3.1, 'eval_fr_runtime': 12.1, 'epoch': {epoch}}}")
    write(tmp_path / "train.log", "\n".join(lines))
    runs = cl.import_logs(tmp_path)
    assert cells(runs, "eval", "step") == [["en", 250], ["fr", 250], ["en", 500], ["fr", 500]]
    write(tmp_path / "train.log", "\n".join([lines[0], *lines[1:3]]))
    assert 0 not in set(cl.import_logs(tmp_path).frame.get("step", []))
