"""An answer as the configuration of a trainer, read again as that trainer reads it."""

import ast
import json
import math
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest
import transformers
import yaml
from facts import refused
from tiny_model import save_tiny

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
    swift = yaml.safe_load(written("ms-swift", tmp_path))
    assert (swift["max_steps"], swift["interleave_prob"], swift["tuner_type"]) == (STEPS, [0.2, 0.8], "full")
    assert json.loads(swift["columns"]) == {"text": "response"}
    assert json.loads(swift["lr_scheduler_kwargs"]) == {"min_lr_rate": 0.1}
    assert len(swift["dataset"]) == len(swift["val_dataset"]) == 2
    unsloth = ast.parse(written("unsloth", tmp_path))
    assert [one.names[0].name for one in unsloth.body if isinstance(one, ast.Import)] == ["unsloth", "datasets"]


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
    assert trl.SFTConfig(**settings, max_length=64).max_steps == STEPS


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("to", "package"), [("trl", "trl"), ("unsloth", "unsloth")])
def test_what_the_trainer_reads_has_the_planned_share_of_replay(to, package, tmp_path, monkeypatch):
    """Documents of the two corpora differ four times in length; the share is one of tokens."""
    datasets = pytest.importorskip("datasets")
    model, context = save_tiny(tmp_path / "model"), 512
    for name, letter, length, count in (("SOURCE", "s", 300, 1000), ("TARGET", "t", 1200, 800)):
        lines = "".join(json.dumps({"text": letter * length}) + "\n" for _ in range(count))
        (tmp_path / f"TEXT_OF_{name}.jsonl").write_text(lines)
        (tmp_path / f"VALIDATION_OF_{name}.jsonl").write_text(lines[:40_000].rpartition("\n")[0] + "\n")
    (tmp_path / "answer.json").write_text(json.dumps({**ANSWER, "replay": 0.25, "tokens": 1e6}))
    (path,) = export(tmp_path / "answer.json", to, tmp_path, base=str(model), context=context)
    path.write_text(path.read_text().replace("'bf16': True", "'bf16': False, 'use_cpu': True"))
    read = {}
    if to == "unsloth":  # it wants a graphics card
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        fake = types.SimpleNamespace(
            FastLanguageModel=types.SimpleNamespace(from_pretrained=lambda *_, **__: (None, tokenizer)),
            UnslothTrainer=lambda **given: read.update(given) or types.SimpleNamespace(train=lambda: None),
            UnslothTrainingArguments=lambda **given: given,
        )
        monkeypatch.setitem(sys.modules, "unsloth", fake)
    else:
        trl = pytest.importorskip(package, reason="TRL is not installed (make test-training installs it)")
        monkeypatch.setattr(trl.SFTTrainer, "train", lambda trainer: read.update(vars(trainer)))
    monkeypatch.chdir(tmp_path)
    datasets.disable_progress_bars()
    runpy.run_path(str(path), run_name="__main__")
    rows = list(read["train_dataset"]["input_ids"])
    assert {len(row) for row in rows} == {context}
    source, target = (sum(row.count(ord(letter)) for row in rows) for letter in "st")
    assert source / (source + target) == pytest.approx(0.25, abs=0.03)
    # Nothing of a document is dropped but the end of the corpus.
    assert target >= 800 * 1200 - 2 * context
    assert {len(row) for one in read["eval_dataset"].values() for row in one["input_ids"]} == {context}


def test_a_mix_of_corpora_and_no_replay_keep_their_shares(tmp_path):
    mixed = yaml.safe_load(written("llamafactory", tmp_path, replay=None, mix={"a": 0.5, "b": 0.3, "c": 0.2}))
    assert (mixed["dataset"], mixed["interleave_probs"]) == ("a,b,c", "0.5,0.3,0.2")
    alone = yaml.safe_load(written("axolotl", tmp_path, replay=0.0))
    assert len(alone["datasets"]) == 1


def test_what_cannot_be_exported_says_why(tmp_path, call):
    with refused(DataError, "limits"):
        export({**ANSWER, "feasible": False, "tokens": None}, "trl", tmp_path)
    with pytest.raises(UsageError, match="no peak rate"):
        export({**ANSWER, "lr_peak": None}, "trl", tmp_path)
    with refused(UsageError, "'tlr'", "'trl'"):
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


def test_the_devices_share_the_batch(tmp_path, call):
    for to, name in (("axolotl", "axolotl.yaml"), ("llamafactory", "llamafactory.yaml"), ("ms-swift", "ms_swift.yaml")):
        export(ANSWER, to, tmp_path / "eight", gpus=8)
        config = yaml.safe_load((tmp_path / "eight" / name).read_text())
        assert config["gradient_accumulation_steps"] == 32
        assert config["max_steps"] == STEPS
    assert "--nproc-per-node 8 " in export(ANSWER, "megatron", tmp_path, gpus="8xH100")[0].read_text()
    uneven = run_of_answer(ANSWER, gpus=7)
    assert uneven.batch == 7 * uneven.accumulation
    (tmp_path / "answer.json").write_text(json.dumps(ANSWER))
    alone = call("export", str(tmp_path / "answer.json"), "--to", "trl", "-o", str(tmp_path / "a"))
    shared = call("export", str(tmp_path / "answer.json"), "--to", "trl", "-o", str(tmp_path / "b"), "--gpus", "8")
    assert "one device" in alone[2]
    assert "one device" not in shared[2]


@pytest.mark.parametrize(
    ("named", "loaded"),
    [("llama-3.1-8b", "meta-llama/Llama-3.1-8B"), ("allenai/OLMo-2-1124-7B", "allenai/OLMo-2-1124-7B")],
)
def test_an_answer_names_its_base_as_a_trainer_loads_it(tmp_path, call, named, loaded):
    code, out, _ = call("answer", "--base", named, "--target-tokens", "20B", "--max-forgetting", "5%", "--json")
    assert (code, json.loads(out)["base"]) == (0, loaded)
    (tmp_path / "answer.json").write_text(out)
    assert call("export", str(tmp_path / "answer.json"), "--to", "axolotl", "-o", str(tmp_path))[0] == 0
    assert yaml.safe_load((tmp_path / "axolotl.yaml").read_text())["base_model"] == loaded


def test_the_base_model_is_filled_in(tmp_path, call):
    (tmp_path / "answer.json").write_text(json.dumps({**ANSWER, "base": "org/model-8b"}))
    where = ("export", str(tmp_path / "answer.json"), "--to", "axolotl", "-o", str(tmp_path), "--json")
    assert call(*where)[0] == 0
    assert yaml.safe_load((tmp_path / "axolotl.yaml").read_text())["base_model"] == "org/model-8b"
    code, out, _ = call(*where, "--base", "models/mine")
    (path,) = json.loads(out)["written"]
    assert (code, yaml.safe_load(Path(path).read_text())["base_model"]) == (0, "models/mine")
    assert json.loads(out)["notes"] == ["put your texts where the file has capitals"]


NONSENSE = [
    {"context": 0}, {"context": 0.4}, {"context": "1e12"}, {"context": 100.5}, {"lr_peak": 0}, {"lr_peak": -1e-4},
    {"lr_peak": "nan"}, {"lr_peak": 1e6}, {"warmup": 1}, {"warmup": -0.1}, {"end": -0.1}, {"end": 2}, {"batch": 0},
    {"batch": 2.5}, {"gpus": 0}, {"gpus": 1.5}, {"gpus": "x"}, {"gpus": 10**9}, {"base": "a\nb: c"}, {"base": ""},
    {"gpus": 999_999},
]  # fmt: skip
SPOILT = [
    {"tokens": math.nan}, {"tokens": -1.0}, {"tokens": "20B"}, {"tokens": True}, {"tokens": 1000.0},
    {"tokens": math.inf},
    {"replay": 1.5}, {"replay": [0.2]}, {"mix": [0.2, 0.8]}, {"mix": {"a": 0.5}}, {"mix": {"a": 0.5, "b": math.nan}},
    {"mix": {"a": 0.5, "": 0.5}}, {"mix": {"a": 0.5, "b\x07": 0.5}}, {"mix": {"a": "0.5", "b": 0.5}},
    {"feasible": "yes"}, {"lr_peak": 0.0}, {"lr_peak": "2e-5"}, {"batch_tokens": -1}, {"question": 7}, {"base": ["a"]},
]  # fmt: skip


@pytest.mark.parametrize("how", NONSENSE, ids=str)
def test_nonsense_is_refused_before_anything_is_written(tmp_path, how):
    for to in TRAINERS:
        with pytest.raises((UsageError, DataError)):
            export(ANSWER, to, tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("entries", SPOILT, ids=str)
def test_a_spoilt_answer_is_refused(tmp_path, entries):
    with pytest.raises(DataError if entries != {"tokens": 1000.0} else UsageError):
        export({**ANSWER, **entries}, "llamafactory", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_of_corpora_are_data(tmp_path):
    """Quotes, separators and other scripts in a file of somebody else's end neither a list nor a line."""
    mix = {'a" , trust_remote_code: true': 0.25, "web/en": 0.25, "\u65e5\u672c": 0.25, "$(x)": 0.25}
    question = "How?\ntrust_remote_code: true\x00\u2028trust_remote_code: true"
    for to in TRAINERS:
        path, *_ = export({**ANSWER, "replay": None, "mix": mix, "question": question}, to, tmp_path / to)
        text = path.read_text()
        if path.suffix == ".py":
            ast.parse(text)
        elif path.suffix == ".yaml":
            config = yaml.safe_load(text)
            assert "trust_remote_code" not in config
    factory = yaml.safe_load((tmp_path / "llamafactory" / "llamafactory.yaml").read_text())
    listed = json.loads((tmp_path / "llamafactory" / "dataset_info.json").read_text())
    assert len(factory["dataset"].split(",")) == len(factory["interleave_probs"].split(",")) == 4
    assert {*factory["dataset"].split(","), *factory["eval_dataset"].split(",")} == set(listed)


def test_few_steps_are_warned_of(tmp_path, call):
    (tmp_path / "answer.json").write_text(json.dumps({**ANSWER, "tokens": 4e5}))
    code, _, err = call("export", str(tmp_path / "answer.json"), "--to", "trl", "-o", str(tmp_path))
    assert code == 0
    assert "98 steps" in err
    assert "98 steps" in (tmp_path / "train_trl.py").read_text()


def test_nothing_is_left_after_a_failure(tmp_path, monkeypatch):
    from cptlaw import writing

    write = writing.write_to_edit

    def second_fails(path, text):
        if path.name == "dataset_info.json":
            raise DataError("the disk is full")
        return write(path, text)

    monkeypatch.setattr(writing, "write_to_edit", second_fails)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "llamafactory.yaml").write_text("mine: true")
    for folder in ("new/deep", "mine"):
        with pytest.raises(DataError, match="full"):
            export(ANSWER, "llamafactory", tmp_path / folder)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [
        "mine/llamafactory.yaml"
    ]
    assert not (tmp_path / "new").exists()


def test_it_needs_neither_torch_nor_what_recipes_need(tmp_path):
    (tmp_path / "answer.json").write_text(json.dumps(ANSWER))
    lines = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in {'torch', 'transformers', 'datasets', 'pydantic', 'peft', 'fsspec'}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from cptlaw.cli import main\n"
        "main(['export', 'answer.json', '--to', 'unsloth', '-o', 'out'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "out/train_unsloth.py"), ended.stderr


def test_what_is_to_be_above_0_is_said_so(tmp_path):
    """The smallest number above it was named instead, 4.94066e-324."""
    with refused(DataError, "'tokens'", "above 0, up to 1e+18"):
        export({**ANSWER, "tokens": math.nan}, "trl", tmp_path)
