"""An answer as the configuration of a trainer, read again as that trainer reads it."""

import ast
import json
import tomllib

import pytest
import transformers
import yaml

from cptlaw.errors import DataError, UsageError
from cptlaw_sweep.export import TRAINERS, export, run_of

ANSWER = {"question": "How?", "feasible": True, "tokens": 20e9, "replay": 0.2, "lr_peak": 2e-5}
STEPS, WARMUP = 19074, 191


def written(to, tmp_path, **answer):
    (tmp_path / "answer.json").write_text(json.dumps({**ANSWER, **answer}))
    (path,) = export(tmp_path / "answer.json", to, tmp_path / "out")
    return path.read_text()


def test_the_steps_hold_the_tokens_of_the_answer():
    found = run_of(ANSWER, lr_peak=None, context=4096, batch=256, warmup="1%", end="10%")
    assert found["steps"] * found["batch"] * found["context"] == pytest.approx(20e9, rel=1e-4)
    assert (found["steps"], found["warmup"]) == (STEPS, WARMUP)
    short = run_of({**ANSWER, "tokens": 1e6}, lr_peak="1e-3", context=512, batch=256, warmup=0, end=0)
    assert short["batch"] < 256
    assert short["steps"] >= 200
    assert short["peak"] == 1e-3


def test_yaml_files_say_mix_rate_and_evaluations(tmp_path):
    axolotl = yaml.safe_load(written("axolotl", tmp_path))
    assert (axolotl["max_steps"], axolotl["warmup_steps"], axolotl["learning_rate"]) == (STEPS, WARMUP, 2e-5)
    assert len(axolotl["datasets"]) == len(axolotl["test_datasets"]) == 2
    factory = yaml.safe_load(written("llamafactory", tmp_path))
    assert (factory["dataset"], factory["interleave_probs"]) == ("source,target", "0.2,0.8")
    assert factory["eval_on_start"] is True
    automodel = yaml.safe_load(written("automodel", tmp_path))
    assert automodel["dataset"]["paths"] == ["20.0", "TOKENS_OF_SOURCE", "80.0", "TOKENS_OF_TARGET"]
    titan = tomllib.loads(written("torchtitan", tmp_path))
    assert (titan["training"]["steps"], titan["optimizer"]["lr"]) == (STEPS, 2e-5)
    assert "0.2 SOURCE" not in written("torchtitan", tmp_path)
    assert f"--train-iters {STEPS} --lr 2.0e-05" in written("megatron", tmp_path)


def test_transformers_takes_what_trl_hands_on(tmp_path):
    tree = ast.parse(written("trl", tmp_path))
    given = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    assert given["TRAIN"] == {"source": ("TEXT_OF_SOURCE", 0.2), "target": ("TEXT_OF_TARGET", 0.8)}
    settings = {**given["SETTINGS"], "bf16": False, "use_cpu": True, "output_dir": str(tmp_path)}
    arguments = transformers.TrainingArguments(**settings)
    assert (arguments.max_steps, arguments.learning_rate, arguments.eval_on_start) == (STEPS, 2e-5, True)
    trl = pytest.importorskip("trl", reason="TRL is not installed (make test-training installs it)")
    assert trl.SFTConfig(**settings, max_length=64, packing=True).max_steps == STEPS


def test_a_mix_of_corpora_and_no_replay_keep_their_shares(tmp_path):
    mixed = yaml.safe_load(written("llamafactory", tmp_path, replay=None, mix={"a": 0.5, "b": 0.3, "c": 0.2}))
    assert (mixed["dataset"], mixed["interleave_probs"]) == ("a,b,c", "0.5,0.3,0.2")
    alone = yaml.safe_load(written("axolotl", tmp_path, replay=0.0))
    assert len(alone["datasets"]) == 1


def test_what_cannot_be_exported_says_why(tmp_path, call):
    with pytest.raises(DataError, match="nothing keeps its limits"):
        export({**ANSWER, "feasible": False, "tokens": None}, "trl", tmp_path)
    with pytest.raises(UsageError, match="no peak rate"):
        export({**ANSWER, "lr_peak": None}, "trl", tmp_path)
    with pytest.raises(UsageError, match=r"no trainer 'tlr'\. Did you mean"):
        export(ANSWER, "tlr", tmp_path)
    (tmp_path / "x.json").write_text("[]")
    code, _, err = call("export", str(tmp_path / "x.json"), "--to", "trl")
    assert code == 2
    assert "this is no answer" in err
    (tmp_path / "train_trl.py").write_text("print('mine')\n")
    with pytest.raises(DataError, match="train_trl"):
        export(ANSWER, "trl", tmp_path)
    for trainer in TRAINERS:
        assert export(ANSWER, trainer, tmp_path / "all") == export(ANSWER, trainer, tmp_path / "all")
