"""Files of trackers and trainers that are no text log; the samples are ours, after what the packages write.

trackio writes its own where it is installed. Last read: trackio 0.43.0, and swanlab 0.10.3 for the form of its export.
"""

import json
import struct

import pytest
from facts import lacks
from log_files import cells, write
from tracker_logs import written_by

import cptlaw as cl


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def by_step(runs, *columns):
    return runs.frame.sort_values(["run", "step"])[list(columns)].to_numpy().tolist()


def test_the_log_of_llamafactory(tmp_path):
    rows = [
        {"current_steps": 10, "total_steps": 20, "loss": 2.1, "lr": 1e-5, "epoch": 0.5, "percentage": 50.0},
        {"current_steps": 10, "total_steps": 20, "eval_loss": 2.2, "epoch": 0.5, "elapsed_time": "0:00:10"},
        {"current_steps": 20, "total_steps": 20, "eval_loss": 2.1, "epoch": 1.0, "elapsed_time": "0:00:20"},
    ]
    write(tmp_path / "124M-r25" / "trainer_log.jsonl", lines(*rows))
    runs = cl.import_logs(tmp_path, pattern="{n_params}-r{replay%}", batch_tokens="64K")
    assert by_step(runs, "run", "step", "loss", "tokens") == [
        ["124M-r25", 10, 2.2, 640_000],
        ["124M-r25", 20, 2.1, 1_280_000],
    ]
    assert runs.frame["lr"].dropna().tolist() == [1e-5, 1e-5]


def test_the_log_of_ms_swift(tmp_path):
    rows = [{"loss": 2.0, "global_step/max_steps": "50/500"}, {"eval_loss": 2.1, "global_step/max_steps": "50/500"}]
    write(tmp_path / "v0" / "logging.jsonl", lines(*rows))
    assert by_step(cl.import_logs(tmp_path, batch_tokens=1000), "run", "step", "loss", "tokens") == [
        ["v0", 50, 2.1, 50_000]
    ]


def test_the_table_of_runs_of_wandb(tmp_path):
    """Each row is a run by its name; one that crashed is told and left out, and no setting that varies is dropped."""
    header = "Name,State,Runtime,data.en_frac,optimizer,output_dir,model.n_params,train/tokens_seen,eval/ja_loss\n"
    rows = "a,finished,10,0.1,adamw,/x/a,124000000,4e7,2.5\nb,finished,11,0.3,adamw,/x/b,124000000,4e7,2.7\n"
    crashed = "c,crashed,2,0.5,adamw,/x/c,124000000,2e7,9.5\n"
    path = write(tmp_path / "wandb-export.csv", header + rows + crashed)
    runs = cl.import_logs(path)
    assert cells(runs, "run", "loss", "tokens", "n_params", "data.en_frac") == [
        ["a", 2.5, 4e7, 124e6, 0.1],
        ["b", 2.7, 4e7, 124e6, 0.3],
    ]
    assert "optimizer" not in runs.frame.columns
    assert any(not lacks(note, "1 of 3 runs", "'c'", "crashed") for note in runs.notes)
    assert any("'data.en_frac' (0.1 to 0.5)" in note or "'data.en_frac' (0.1 to 0.3)" in note for note in runs.notes)
    assert any("left out: 'output_dir'" in note for note in runs.notes)
    named = cl.import_logs(path, config={"replay": "data.en_frac"}, all_runs=True)
    assert named.frame["replay"].tolist() == [0.1, 0.3, 0.5]


def test_the_metrics_of_levanter(tmp_path):
    for run, replay, loss in (("a", 0.1, 2.9), ("b", 0.3, 3.1)):
        config = {"trainer": {"train_batch_size": 128}, "replay": replay}
        summary = {"_step": 500, "train/loss": 2.0, "eval/paloma/c4_en/loss": loss, "eval/paloma/c4_en/bpb": loss / 3}
        write(tmp_path / run / "tracker_metrics.jsonl", lines({"config": config, "summary": summary}))
    runs = cl.import_logs(tmp_path, batch_tokens=1000)
    assert cells(runs, "run", "eval", "step", "loss", "replay") == [
        ["a", "paloma_c4_en", 500, 2.9, 0.1],
        ["b", "paloma_c4_en", 500, 3.1, 0.3],
    ]


def test_events_of_the_json_logger_of_levanter(tmp_path):
    rows = [
        {"tracker": "json_logger", "event": "hparams", "hparams": {"seed": 3}},
        {"tracker": "json_logger", "event": "log", "step": 0, "metrics": {"eval": {"fr": {"loss": 3.0}}}},
        {"tracker": "json_logger", "event": "log", "step": 10, "metrics": {"eval": {"fr": {"loss": 2.9}}}},
        {"tracker": "json_logger", "event": "finish", "summary": {"eval/fr/loss": 2.9}},
    ]
    write(tmp_path / "run" / "tracker_metrics.jsonl", lines(*rows))
    assert by_step(cl.import_logs(tmp_path), "step", "loss", "seed") == [[0, 3.0, 3], [10, 2.9, 3]]


def test_old_results_of_the_harness(tmp_path):
    results = {"piqa": {"acc": 0.62, "acc_stderr": 0.0113, "acc_norm": 0.63, "acc_norm_stderr": 0.0113}}
    config = {"model": "hf", "model_args": "pretrained=out/124M-r25/checkpoint-500"}
    document = {"results": results, "versions": {"piqa": 0}, "config": config}
    write(tmp_path / "124m_step500.json", document)
    write(tmp_path / "config.json", {"model_type": "llama"})
    runs = cl.import_logs(tmp_path)
    assert sorted(cells(runs, "run", "step", "eval", "loss")) == [
        ["124M-r25", 500, "piqa", 0.62],
        ["124M-r25", 500, "piqa:accuracy_norm", 0.63],
    ]
    assert runs.frame["n_items"].iloc[0] == pytest.approx(0.62 * 0.38 / 0.0113**2, rel=0.01)


def test_results_at_the_end_of_a_run(tmp_path):
    write(tmp_path / "124M-r25" / "eval_results.json", {"epoch": 1.0, "eval_loss": 2.2, "perplexity": 9.0})
    write(tmp_path / "124M-r25" / "all_results.json", {"epoch": 1.0, "eval_loss": 2.2, "train_loss": 2.0})
    runs = cl.import_logs(tmp_path, pattern="{n_params}-r{replay%}", constants={"tokens": "1B"})
    assert cells(runs, "run", "eval", "loss", "tokens", "replay") == [["124M-r25", "validation", 2.2, 1e9, 0.25]]


def test_curves_of_swanlab(tmp_path):
    header = "step,124M-r25-eval/fr_loss_step,124M-r25-eval/fr_loss_timestamp\n"
    write(tmp_path / "export.csv", header + "0,3.0,1750000000000\n10,2.9,1750000001000\n")
    runs = cl.import_logs(tmp_path, batch_tokens=1000)
    assert by_step(runs, "run", "eval", "step", "loss") == [["124M-r25", "fr", 0, 3.0], ["124M-r25", "fr", 10, 2.9]]


def test_curves_of_tensorboard(tmp_path):
    for tag, first in (("eval_fr_loss", 3.0), ("eval_en_loss", 2.0)):
        rows = f"Wall time,Step,Value\n1750000000.0,0,{first}\n1750000001.0,10,{first - 0.1}\n"
        write(tmp_path / f"run-124M-r25_eval-tag-{tag}.csv", rows)
    runs = cl.import_logs(tmp_path, batch_tokens=1000)
    assert set(runs.frame["run"]) == {"124M-r25_eval"}
    assert sorted(cells(runs, "eval", "step", "loss")) == [
        ["en", 0, 2.0],
        ["en", 10, 1.9],
        ["fr", 0, 3.0],
        ["fr", 10, 2.9],
    ]


TRACKIO = """
import json, os, sys
os.environ["TRACKIO_DIR"] = os.getcwd()
import trackio
runs, settings = map(json.loads, sys.argv[1:])
for name, more in runs.items():
    trackio.init(project="p", name=name, config=settings)
    for step in (0, 10):
        trackio.log({"eval/fr_loss": 3.0 - step / 100 + more}, step=step)
    trackio.finish()
"""


def test_trackio_writes_and_it_is_read(tmp_path):
    runs = cl.import_logs(written_by("trackio", TRACKIO, tmp_path), pattern="{n_params}-r{replay%}")
    assert by_step(runs, "run", "step", "loss", "tokens")[:2] == [
        ["124M-r25", 0, 3.0, 0],
        ["124M-r25", 10, 2.9, 640_000],
    ]


def test_a_database_of_trackio(tmp_path):
    """Its two tables as version 0.43 makes them, without the package; the JSON is bytes there."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "p.db")) as database:
        database.executescript(
            "create table metrics(id integer primary key, run_id text, timestamp text, run_name text, step integer, "
            "metrics text); create table configs(id integer primary key, run_id text, run_name text, config text);"
        )
        for run, replay, loss in (("a", 0.1, 2.5), ("b", 0.3, 2.7)):
            values = json.dumps({"eval/fr_loss": loss, "note": "text"}).encode()
            database.execute(
                "insert into metrics(run_id, run_name, step, metrics) values (?, ?, 10, ?)", (run, run, values)
            )
            config = json.dumps({"replay": replay, "_Username": "somebody"})
            database.execute("insert into configs(run_id, run_name, config) values (?, ?, ?)", (run, run, config))
        database.commit()
    assert by_step(cl.import_logs(tmp_path), "run", "loss", "replay") == [["a", 2.5, 0.1], ["b", 2.7, 0.3]]


def test_golden_values_of_megatron(tmp_path):
    curve = {"start_step": 1, "end_step": 100, "step_interval": 5, "values": {"1": 10.9, "5": 10.1, "10": "nan"}}
    write(tmp_path / "golden_values.json", {"lm loss": curve, "mem": {"start_step": 1, "values": [1, 2]}})
    runs = cl.import_logs(tmp_path, mapping={"loss:target": "lm loss"})
    assert by_step(runs, "step", "loss") == [[1, 10.9], [5, 10.1]]


def test_parameters_from_what_lies_beside_a_log(tmp_path):
    log = "step 0: train loss 3.0, val loss 3.0\nstep 10: train loss 2.9, val loss 2.9\n"
    write(tmp_path / "a" / "train.log", log)
    shape = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    write(tmp_path / "a" / "config.json", {"model_type": "llama", "vocab_size": 500, "intermediate_size": 128, **shape})
    runs = cl.import_logs(tmp_path)
    assert set(runs.frame["n_params"]) == {175_040}
    assert set(runs.frame["run"]) == {"a"}
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "F32", "shape": [100, 20], "data_offsets": [0, 8000]}}
    ).encode()
    (tmp_path / "a" / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    (tmp_path / "a" / "config.json").unlink()
    assert set(cl.import_logs(tmp_path).frame["n_params"]) == {2000}
    assert set(cl.import_logs(tmp_path, constants={"n_params": "1M"}).frame["n_params"]) == {1e6}
