"""The whole path in miniature: a given decoder is continued, killed, resumed, kept and evaluated, and a plan made."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml
from small_sweep import RECIPE, write_language
from test_keep import evaluated
from tiny_model import save_tiny

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


def write_recipe(folder):
    write_language(folder / "old.jsonl", ["the", "old", "tongue", "is", "known", "to", "all"], 1)
    write_language(folder / "new.jsonl", ["neue", "Sprache", "lernt", "man", "nur", "langsam"], 2)
    models = {}
    for name, family, steps in (("short", "llama", 30), ("long", "gpt2", 120)):
        save_tiny(folder / "models" / name, family=family, steps=steps)
        models[name] = {"pretrained": f"models/{name}", "pt_tokens": 128 * steps}
    recipe = {
        **{key: RECIPE[key] for key in ("text", "context", "batch", "eval_sequences")},
        "models": models,
        "checkpoint_seconds": 0,
        "keep": "last",
        "evaluate": evaluated(folder),
        "adapt": {
            "source": "old",
            "target": "new",
            "replay": [0.1, 0.25, 0.5],
            "tokens": 16384,
            "first_tokens": 1024,
            "points": 5,
            "schedules": {"schedule": "constant", "peak": 3e-3, "warmup": 5},
        },
    }
    (folder / "sweep.yaml").write_text(yaml.safe_dump(recipe))


def test_from_a_given_decoder_to_an_answer(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    command = [sys.executable, "-m", "cptlaw", "sweep", "sweep.yaml", "-o", "out", "--workers", "1"]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    draw = random.Random(4)
    checkpoints = tmp_path / "out" / "checkpoints"
    while not (checkpoints.exists() and list(checkpoints.glob("*/latest.json"))):
        assert started.poll() is None
        time.sleep(0.02)
    time.sleep(draw.uniform(0, 0.5))
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["finished"], found["failed"]) == (found["jobs"], 0)

    frame = pd.read_csv("out/runs.csv")
    scores = frame[frame["metric"].notna()]
    assert set(scores["eval"]) == {"words", "ids"}
    assert len(scores) == 12  # two scores of six kept models
    assert len(list((tmp_path / "out" / "kept").glob("*/step-128/model.safetensors"))) == 6

    size = f"{frame['n_params'].max():.0f}"
    code, out, err = call(
        "answer", "out/runs.csv", "--schedules", "out/schedules.json", "--n-params", size, "--ptpp", "30", "--tokens",
        "16384", "--max-forgetting", "200%", "--json",
    )  # fmt: skip
    assert code in (0, 3), err
    answer = json.loads(out)
    assert {row["on"] for row in answer["laws"]} == {"target", "source"}
    if code == 0:
        assert answer["tokens"] <= 16384
        assert 0 <= answer["replay"] <= 1
        # Two base models of 30 and 120 steps, asked 23 times beyond: an end is null only where a finding says so.
        codes = {finding["code"] for finding in answer["findings"]}
        ends = [answer["target_loss_lo"], answer["target_loss_hi"]]
        assert ("unbounded" in codes) == (None in [*ends, answer["source_loss_lo"], answer["source_loss_hi"]])
        assert None in ends or ends[0] < answer["target_loss"] < ends[1]
