"""Given base models: known by content, measured first, with their own tokenizer, in both weight formats."""

import json
import shutil

import pytest
import torch
import transformers
import yaml
from facts import lacks, refused
from small_sweep import prepared, train_here
from tiny_model import save_tiny

from cptlaw.errors import DataError
from cptlaw_sweep import models
from cptlaw_sweep.given_models import content_of, read_config, vocabulary_in
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.model_spec import sizes_of
from cptlaw_sweep.sizes import count_folder, count_gpt2
from cptlaw_sweep.table import runs_table

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own

GIVEN = {
    "models": {"base": {"pretrained": "models/base", "ptpp": 100}},
    "pretrain": None,
    "adapt": {
        "source": "old",
        "target": "new",
        "replay": 0.25,
        "tokens": 4096,
        "schedules": {"schedule": "constant", "peak": 5e-3, "warmup": 5},
    },
}


def given_recipe(recipe, tmp_path, weights="safetensors", **changes):
    save_tiny(tmp_path / "models" / "base", weights=weights)
    path = recipe()
    value = {**yaml.safe_load(path.read_text()), **GIVEN, **changes}
    path.write_text(yaml.safe_dump({key: item for key, item in value.items() if item is not None}))
    return path


@pytest.mark.parametrize("weights", ["safetensors", "bin"])
def test_a_given_model_is_measured_first_and_then_continued(recipe, tmp_path, weights):
    path = given_recipe(recipe, tmp_path, weights)
    sweep, store = prepared(path, tmp_path / "out")
    assert [job.kind for job in sweep.jobs] == ["base", "adapt"]
    assert not train_here(sweep, store).failures
    frame = runs_table(sweep, store)
    base = frame[frame["tokens"] == 0]
    assert sorted(base["eval"]) == ["source", "target"]
    after = frame[frame["tokens"] > 0]
    # 128 steps of 32 tokens per parameter and less: points by tokens, not by tokens per parameter.
    assert after["step"].nunique() >= 8
    assert after["step"].max() == 32
    assert set(after["tokenizer"]) == {"base"}
    assert set(after["ptpp"]) == {100}
    # The base loss is the one that the model itself has, with dropout off.
    model = transformers.AutoModelForCausalLM.from_pretrained(str(tmp_path / "models" / "base")).eval()
    from cptlaw_sweep.evals import Eval

    entry = sweep.jobs[0].definition["evals"][0]
    rows = torch.from_numpy(Eval(entry, store, 32, tmp_path)._rows)
    with torch.no_grad():
        expected = float(models.mean_loss(model, rows))
    assert float(base.set_index("eval").loc["source", "loss"]) == pytest.approx(expected, rel=1e-5)


def test_a_model_is_its_content_and_not_its_path(recipe, tmp_path):
    path = given_recipe(recipe, tmp_path)
    first = [job.id for job in load_sweep(path).jobs]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("sweep.yaml", "old.jsonl", "new.jsonl"):
        shutil.copy(tmp_path / name, elsewhere / name)
    shutil.move(tmp_path / "models", elsewhere / "models")
    moved = load_sweep(elsewhere / "sweep.yaml")
    assert [job.id for job in moved.jobs] == first
    assert moved.jobs[0].places["model"] == str(elsewhere / "models" / "base")
    # What a library writes beside the content changes nothing; other weights do.
    config = elsewhere / "models" / "base" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "transformers_version": "0.0"}))
    assert [job.id for job in load_sweep(elsewhere / "sweep.yaml").jobs] == first
    save_tiny(elsewhere / "models" / "base", seed=5)
    assert first != [job.id for job in load_sweep(elsewhere / "sweep.yaml").jobs]


def test_a_model_that_changed_since_the_recipe_was_read_fails_its_runs(recipe, tmp_path):
    path = given_recipe(recipe, tmp_path)
    sweep, store = prepared(path, tmp_path / "out")
    save_tiny(tmp_path / "models" / "base", seed=6)
    progress = train_here(sweep, store)
    assert all("not the one that the recipe was read with" in reason for reason in progress.failures.values())
    assert len(progress.failures) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {"base": {"pretrained": "./nowhere"}}}, "there is no folder"),
        ({"models": {"base": {"pretrained": "models"}}}, "config.json cannot be read"),
    ],
)
def test_what_is_wrong_with_a_given_model_is_said(recipe, tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        load_sweep(given_recipe(recipe, tmp_path, **change))


def test_byte_tokens_are_refused_for_a_model_of_another_tokenizer(recipe, tmp_path):
    path = given_recipe(recipe, tmp_path, tokenizer="bytes")
    load_sweep(path)  # this one was trained on bytes
    config = tmp_path / "models" / "base" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "vocab_size": 32000}))
    with refused(DataError, "32000", "bytes"):
        load_sweep(path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "models" / "base" / name).unlink()
    path.write_text(path.read_text().replace("tokenizer: bytes\n", ""))
    with pytest.raises(DataError, match="no tokenizer in"):
        load_sweep(path)


def test_dropout_is_off_and_said(recipe, tmp_path):
    path = given_recipe(recipe, tmp_path)
    assert load_sweep(path).notes == ()
    save_tiny(tmp_path / "models" / "base", dropout=0.1)
    (note,) = load_sweep(path).notes
    assert lacks(note, "base", "attention_dropout 0.1") == []


def test_dropout_changes_no_loss(tmp_path):
    folder = save_tiny(tmp_path / "base", family="gpt2", dropout=0.5)
    spec = {"kind": "pretrained", "content": content_of(folder)}
    model = models.build(spec, 0, str(folder)).train()
    rows = torch.randint(256, (2, 33))
    assert models.mean_loss(model, rows).item() == models.mean_loss(model, rows).item()
    config = transformers.AutoConfig.from_pretrained(str(folder))
    assert models.without_dropout(config) == {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.5}


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_sizes_without_torch_are_those_with_it(tmp_path, family):
    folder = save_tiny(tmp_path / "base", family=family, steps=1)
    assert count_folder(folder) == models.sizes_of({"kind": "pretrained", "name": str(folder), "revision": None})


def test_weights_that_transformers_does_not_read_are_not_counted(tmp_path):
    folder = save_tiny(tmp_path / "base", family="llama", steps=1)
    size, content = count_folder(folder), content_of(folder)
    for name in ("consolidated", "training-00000-of-00001"):
        shutil.copy(folder / "model.safetensors", folder / f"{name}.safetensors")
    assert (count_folder(folder), content_of(folder)) == (size, content)


def test_sizes_of_our_own_are_those_of_transformers():
    spec = {"kind": "gpt2", "width": 24, "layers": 3, "heads": 2, "vocabulary": 300, "context": 40}
    assert count_gpt2(spec) == models.sizes_of(spec) == sizes_of(spec)


@pytest.mark.parametrize(
    "header", ["[" * 99_999, '{"a":' * 99_999, "[1]", '{"a": {}}', '{"a": {"shape": ["x"]}}', "9" * 5000]
)
def test_hostile_files_of_a_model_are_refused(tmp_path, header):
    (tmp_path / "config.json").write_text(header)
    (tmp_path / "tokenizer.json").write_text(header)
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with refused(DataError, "model.safetensors"):
        count_folder(tmp_path)
    with pytest.raises(DataError, match=r"tokenizer\.json"):
        vocabulary_in(tmp_path)
    if not header.startswith('{"a": {'):
        with pytest.raises(DataError, match=r"config\.json"):
            read_config(tmp_path)
