"""Models that are kept, the command that evaluates them, live rows, and how a sweep stands."""

import json
import shlex
import sys

import pandas as pd
import pytest
import torch
import transformers
from facts import refused
from small_sweep import RECIPE, prepared, train_here
from test_given_models import given_recipe

from cptlaw.errors import DataError
from cptlaw_sweep import models
from cptlaw_sweep.evals import Eval
from cptlaw_sweep.hook import read_scores
from cptlaw_sweep.live import file_name
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.merging import merge
from cptlaw_sweep.saved_models import folder_of, kept_steps
from cptlaw_sweep.table import jobs_table, runs_table, write_tables
from cptlaw_sweep.worker import run_job

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own

# Without transformers, whose import for each model would take most of the test.
SCRIPT = """
import json, sys
from safetensors.numpy import load_file
from tokenizers import Tokenizer
weights = load_file(sys.argv[1] + "/model.safetensors")
embeddings = next(each for name, each in weights.items() if "embed_tokens" in name or "wte" in name)
ids = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json").encode("neue Sprache").ids
value = float(embeddings[ids].sum())
score = {"value": value, "metric": "accuracy", "n_items": 20, "chance": 0.25}
json.dump({"words": score, "ids": len(ids)}, open(sys.argv[2], "w"))
"""


def evaluated(tmp_path, script=SCRIPT):
    (tmp_path / "evaluate.py").write_text(script)
    return f"{shlex.join([sys.executable, str(tmp_path / 'evaluate.py')])} {{model}} {{output}}"


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_a_kept_model_is_the_one_that_was_measured(recipe, tmp_path, lora):
    base = {"pretrained": "models/base", "ptpp": 100, **({"lora": lora} if lora else {})}
    path = given_recipe(recipe, tmp_path, models={"base": base}, keep="all", evaluate=evaluated(tmp_path), merge=[0.5])
    sweep, store = prepared(path, tmp_path / "out")
    assert not train_here(sweep, store).failures
    run = next(job for job in sweep.jobs if job.kind == "adapt")
    rows = store.get_result(run.id)
    measured = {(row["step"], row["eval"]): row["loss"] for row in rows if "merge_weight" not in row}
    merged = {(row["step"], row["eval"]): row["loss"] for row in rows if row.get("merge_weight") == 0.5}
    assert merged.keys() == measured.keys()
    steps = kept_steps(store, run.id)
    assert steps == run.definition["measure_at"]
    entry = next(entry for entry in run.definition["evals"] if entry["eval"] == "target")
    rows = torch.from_numpy(Eval(entry, store, 32, tmp_path)._rows)
    for step in (steps[0], steps[-1]):
        folder = tmp_path / "out" / folder_of(run.id, step)
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder)).eval()
        with torch.no_grad():
            assert models.mean_loss(model, rows).item() == pytest.approx(measured[step, "target"], rel=1e-4)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        assert tokenizer("neue")["input_ids"] == list(b"neue")
        assert tokenizer.decode(list("fünf <0>".encode())) == "fünf <0>"
        card = (folder / "README.md").read_text()
        assert f"({step} steps)" in card
        assert f"{measured[step, 'target']:.4f}" in card
    # Half way to its base it is what `cptlaw merge` makes of both folders.
    half = merge(tmp_path / "models" / "base", folder, tmp_path / "half", weight=0.5).output
    model = transformers.AutoModelForCausalLM.from_pretrained(half).eval()
    with torch.no_grad():
        assert models.mean_loss(model, rows).item() == pytest.approx(merged[step, "target"], rel=1e-4)
    assert abs(merged[step, "target"] / measured[step, "target"] - 1) > 1e-3
    frame = runs_table(sweep, store)
    found = frame.drop_duplicates("run").set_index("run")["merge_weight"]
    assert found.loc[[run.name, f"{run.name}-w0.5"]].tolist() == [1, 0.5]
    # The scores of the command are rows of the run.
    scores = frame[frame["metric"] == "accuracy"]
    assert set(scores["run"]) == {run.name}
    assert scores["step"].tolist() == steps
    assert (scores["tokens"] == scores["step"] * 128).all()
    assert set(scores["eval"]) == {"words"}
    assert set(scores["n_items"]) == {20}
    assert set(frame.loc[frame["eval"] == "ids", "loss"]) == {12}
    assert jobs_table(sweep, store).set_index("job").loc[run.name, "kept"] == f"kept/{run.id}"


@pytest.mark.parametrize("keep", ["last", "best"])
def test_the_last_or_the_best_is_kept_alone(recipe, tmp_path, keep):
    # A rate far too high: the best is not the last.
    adapt = {**RECIPE["adapt"], "replay": 0, "schedules": {"schedule": "constant", "peak": [5e-3, 1.0], "warmup": 5}}
    sweep, store = prepared(recipe(adapt={**adapt, "keep": keep, "ptpp": 4}), tmp_path / "out")
    train_here(sweep, store)
    for job in (job for job in sweep.jobs if job.kind == "adapt" and store.is_finished(job.id)):
        rows = [row for row in store.get_result(job.id) if row["eval"] == "target" and row["step"]]
        best = min(rows, key=lambda row: row["loss"])["step"]
        assert kept_steps(store, job.id) == [best if keep == "best" else rows[-1]["step"]]


def test_a_failed_evaluation_says_why_and_leaves_the_run(recipe, tmp_path):
    adapt = {**RECIPE["adapt"], "replay": 0, "ptpp": 4}
    path = recipe(adapt=adapt, keep="last", evaluate=evaluated(tmp_path, "raise SystemExit('no such benchmark')"))
    sweep, store = prepared(path, tmp_path / "out")
    progress = train_here(sweep, store)
    ((name, reason),) = progress.failures.items()
    assert name.startswith("evaluate-")
    assert reason.endswith("no such benchmark")
    # Mended, only the evaluation is done again.
    evaluated(tmp_path)
    assert not train_here(sweep, store, retry_failed=True).failures
    with refused(DataError, "evaluate: ", "`keep: last`"):
        load_sweep(recipe(evaluate="x {model}"))
    with pytest.raises(DataError, match=r"names no \{model\}"):
        load_sweep(recipe(evaluate="x"))


def test_scores_of_the_evaluation_harness_are_read(tmp_path):
    value = {
        "results": {
            "arc_easy": {"alias": "arc_easy", "acc,none": 0.5, "acc_stderr,none": 0.01, "acc_norm,none": 0.45},
            "gsm8k": {"exact_match,strict-match": 0.1},
        },
        "n-samples": {"arc_easy": {"original": 2376, "effective": 100}},
    }
    folder = tmp_path / "scores.json" / "model"
    folder.mkdir(parents=True)
    (folder / "results_2026.json").write_text(json.dumps(value))
    assert read_scores(tmp_path / "scores.json") == {
        "arc_easy": {"loss": 0.5, "metric": "accuracy", "n_items": 100},
        "arc_easy:accuracy_norm": {"loss": 0.45, "metric": "accuracy_norm", "n_items": 100},
        "gsm8k": {"loss": 0.1, "metric": "exact_match"},
    }


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"a": true}', '{"a": NaN}', '{"results": {}}', "[" * 5000])
def test_scores_that_are_none_are_refused(tmp_path, content):
    (tmp_path / "scores.json").write_text(content)
    with pytest.raises(DataError, match="evaluate"):
        read_scores(tmp_path / "scores.json")


def test_live_rows_are_those_of_the_table_and_can_be_forecast_from(recipe, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe(log=["jsonl", "tensorboard"], adapt={**RECIPE["adapt"], "tokens_per_param": 16, "points_per_doubling": 4})
    code, out, err = call("sweep", "sweep.yaml", "--status", "-o", "out")
    assert code == 0, err
    assert "waiting" in out
    sweep, store = prepared("sweep.yaml", "out")
    for job in sweep.jobs:
        run_job(job.to_dict(), store.url)
    table = write_tables(sweep, store, {})
    job = next(job for job in sweep.jobs if job.kind == "adapt")
    stem = f"out/live/{file_name(job.name, job.id)}"
    live = pd.read_json(f"{stem}.jsonl", lines=True)
    mine = table[table["run"] == job.name].reset_index(drop=True)
    assert live.loc[live["step"] > 0, "loss"].tolist() == pytest.approx(mine["loss"].tolist(), rel=1e-12)
    steps = pd.read_json(f"{stem}.steps.jsonl", lines=True)
    assert {"train_loss", "lr", "tokens_per_second"} <= set(steps)
    assert list((tmp_path / "out" / "tensorboard").glob("*/events*"))
    code, out, err = call("sweep", "sweep.yaml", "--status", "-o", "out", "--json")
    assert code == 0, err
    status = json.loads(out)
    assert (status["finished"], status["jobs"]) == (len(sweep.jobs), len(sweep.jobs))
    # As it stood when three quarters were trained.
    live[live["step"] <= 0.75 * live["step"].max()].to_json("now.jsonl", orient="records", lines=True)
    code, out, err = call("forecast", "--run", "now.jsonl", "--schedules", "out/schedules.json", "--json")
    assert code == 0, err
    assert {point["eval"] for point in json.loads(out)["points"]} == {"source", "target"}
