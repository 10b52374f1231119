"""An answer as the configuration of a trainer, read again as that trainer reads it."""

import ast
import json

import pytest
import transformers
import yaml

from cptlaw.errors import DataError, UsageError
from cptlaw_sweep.trainers import TRAINERS, export, run_of_answer

ANSWER = {"question": "How?", "feasible": True, "tokens": 20e9, "replay": 0.2, "lr_peak": 2e-5}
STEPS, WARMUP = 19074, 191


def written(to, tmp_path, **answer):
    (tmp_path / "answer.json").write_text(json.dumps({**ANSWER, **answer}))
    path, *_ = export(tmp_path / "answer.json", to, tmp_path / "out")
    return path.read_text()


def test_the_steps_hold_the_tokens_of_the_answer():
    found = run_of_answer(ANSWER, lr_peak=None, context=4096, batch=256, warmup="1%", end="10%")
    assert found.steps * found.batch * found.context == pytest.approx(20e9, rel=1e-4)
    assert (found.steps, found.warmup) == (STEPS, WARMUP)
    short = run_of_answer({**ANSWER, "tokens": 1e6}, lr_peak="1e-3", context=512, batch=256, warmup=0, end=0)
    assert short.batch < 256
    assert short.steps >= 200
    assert short.peak == 1e-3
    how = {"lr_peak": None, "context": 4096, "batch": None, "warmup": 0, "end": 0}
    assert run_of_answer(ANSWER, **how).batch == 256
    assert run_of_answer({**ANSWER, "batch_tokens": 2.2e6}, **how).batch == 512  # near what the answer advises


def test_yaml_files_say_mix_rate_and_evaluations(tmp_path):
    axolotl = yaml.safe_load(written("axolotl", tmp_path))
    assert (axolotl["max_steps"], axolotl["warmup_steps"], axolotl["learning_rate"]) == (STEPS, WARMUP, 2e-5)
    assert len(axolotl["datasets"]) == len(axolotl["test_datasets"]) == 2
    factory = yaml.safe_load(written("llamafactory", tmp_path))
    assert (factory["dataset"], factory["interleave_probs"]) == ("source,target", "0.2,0.8")
    assert factory["eval_on_start"] is True
    texts = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert texts["source"]["file_name"] == "TEXT_OF_SOURCE.jsonl"
    assert set(factory["eval_dataset"].split(",")) <= set(texts)
    automodel = yaml.safe_load(written("automodel", tmp_path))
    expected = ["20", "source_text_document", "80", "target_text_document"]
    assert automodel["dataset"]["paths"]["train"] == expected
    titan = written("torchtitan", tmp_path)
    ast.parse(titan)
    assert f"steps={STEPS}," in titan
    assert "lr=2e-05" in titan
    huggingface = yaml.safe_load(written("huggingface", tmp_path))
    assert (huggingface["max_steps"], huggingface["eval_on_start"]) == (STEPS, True)
    assert f"--train-iters {STEPS} --lr 2.0e-05" in written("megatron", tmp_path)


# TRL switches it on by its old name; nothing that is handed to it names it.
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")
def test_transformers_takes_what_trl_hands_on(tmp_path):
    tree = ast.parse(written("trl", tmp_path))
    given = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    assert {name: share for name, (*_, share) in given["TRAIN"].items()} == {"source": 0.2, "target": 0.8}
    assert given["TRAIN"]["target"][1]["data_files"] == ["TEXT_OF_TARGET.jsonl"]
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


def test_what_somebody_filled_in_stays(tmp_path, call):
    (tmp_path / "answer.json").write_text(json.dumps(ANSWER))
    (path,) = export(ANSWER, "trl", tmp_path)
    mine = path.read_text().replace("BASE_MODEL", "models/mine")
    path.write_text(mine)
    code, out, _ = call("export", str(tmp_path / "answer.json"), "--to", "trl", "-o", str(tmp_path))
    assert (code, out.strip()) == (0, str(tmp_path / "train_trl-2.py"))
    assert path.read_text() == mine
    for trainer in TRAINERS:
        assert export(ANSWER, trainer, tmp_path / "all") == export(ANSWER, trainer, tmp_path / "all")
