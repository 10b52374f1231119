"""Merging an adapted model with its base: every tensor, in shards, tied heads, and what is refused."""

import json
import shutil

import pytest
import torch
import transformers
from facts import refused
from tiny_model import save_tiny

import cptlaw as cl
from cptlaw.errors import DataError, UsageError
from cptlaw_sweep import merging
from cptlaw_sweep.merging import merge

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


@pytest.fixture(scope="module", params=["llama", "gpt2"])  # an own head, and one tied to the embeddings
def models(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    base = save_tiny(folder / "base", family=request.param)
    adapted = save_tiny(folder / "adapted", family=request.param, steps=60, text="die neue Sprache kennt jeder. " * 100)
    return base, adapted


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(str(folder)).state_dict()


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_every_tensor_lies_on_the_line(models, tmp_path, weight):
    base, adapted = models
    found = merge(base, adapted, tmp_path / "out", weight=weight)
    start, end, merged = (loaded(folder) for folder in (base, adapted, tmp_path / "out"))
    assert merged.keys() == end.keys()
    for name, tensor in merged.items():
        torch.testing.assert_close(tensor, start[name] + weight * (end[name] - start[name]), rtol=1e-6, atol=1e-7)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    assert tokenizer("neue")["input_ids"] == list(b"neue")
    floats = {name: each for name, each in start.items() if name != "lm_head.weight" or found.n_params > 5000}
    norm = sum(float(each.double().square().sum()) for each in floats.values()) ** 0.5
    apart = sum(float((end[name] - each).double().square().sum()) for name, each in floats.items()) ** 0.5
    assert found.change == pytest.approx(apart / norm, rel=0.2)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]  # nothing is left beside it


def test_shards_are_merged_one_by_one_and_keep_their_names(models, tmp_path):
    base, adapted = models
    model = transformers.AutoModelForCausalLM.from_pretrained(str(adapted))
    model.save_pretrained(str(tmp_path / "sharded"), max_shard_size="8KB")
    found = merge(base, tmp_path / "sharded", tmp_path / "out", weight=0.5)
    assert found.shards > 1
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {path.name for path in (tmp_path / "out").glob("*.safetensors")}
    start, end, merged = (loaded(folder) for folder in (base, adapted, tmp_path / "out"))
    for name, tensor in merged.items():
        torch.testing.assert_close(tensor, 0.5 * start[name] + 0.5 * end[name], rtol=1e-6, atol=1e-7)


def test_small_changes_survive_half_precision(models, tmp_path):
    base, adapted = models
    model = transformers.AutoModelForCausalLM.from_pretrained(str(adapted), dtype=torch.bfloat16)
    model.save_pretrained(str(tmp_path / "half"))
    merge(base, tmp_path / "half", tmp_path / "out", weight=0.5)
    start, end, merged = (loaded(folder) for folder in (base, tmp_path / "half", tmp_path / "out"))
    for name, tensor in merged.items():
        assert tensor.dtype == torch.bfloat16
        exact = 0.5 * start[name].double() + 0.5 * end[name].double()
        # Rounded once, at the end: within half a step of 8 binary digits, but for what single precision rounds.
        assert ((tensor.double() - exact).abs() <= 2.0**-8 * (1 + 1e-3) * exact.abs() + 1e-9).all()


def test_nothing_is_written_over(models, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is there already"):
        merge(*models, tmp_path / "mine", weight=0.5)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_of_two_merges_at_once_into_one_folder_the_first_stays(models, tmp_path, monkeypatch):
    write, out = merging._write_shards, tmp_path / "out"

    def slow(*given):
        monkeypatch.setattr(merging, "_write_shards", write)
        merge(*models, out, weight=0.25)
        return write(*given)

    monkeypatch.setattr(merging, "_write_shards", slow)
    with pytest.raises(DataError, match="is there already"):
        merge(*models, out, weight=0.5)
    assert "at 0.25" in (out / "README.md").read_text()
    assert list(tmp_path.iterdir()) == [out]


def test_what_cannot_be_merged_is_refused(models, tmp_path):
    base, adapted = models
    out = tmp_path / "out"
    with refused(UsageError, "weight", "1.2"):
        merge(base, adapted, out, weight=1.2)
    with pytest.raises(DataError, match=r"config\.json cannot be read"):
        merge(tmp_path / "nowhere", adapted, out, weight=0.5)
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "config.json").write_text((adapted / "config.json").read_text())
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with refused(DataError, "save_pretrained"):
        merge(base, tmp_path / "pickled", out, weight=0.5)
    (tmp_path / "pickled" / "adapter_config.json").write_text("{}")
    with pytest.raises(DataError, match="holds an adapter"):
        merge(base, tmp_path / "pickled", out, weight=0.5)
    (tmp_path / "pickled" / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(DataError, match="cannot be read"):
        merge(base, tmp_path / "pickled", out, weight=0.5)
    (tmp_path / "pickled" / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../secret"}}')
    with refused(DataError, "'../secret'"):
        merge(base, tmp_path / "pickled", out, weight=0.5)
    assert not out.exists()


@pytest.mark.parametrize("file", ["model.safetensors", "1" * 3000])
def test_an_index_that_tells_of_what_is_not_there_is_refused(models, tmp_path, file):
    base, adapted = models
    shutil.copytree(adapted, tmp_path / "adapted")
    shutil.copytree(base, tmp_path / "base")
    for name in ("base", "adapted"):
        index = {"weight_map": {"a tensor": file}}
        (tmp_path / name / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="Copy the"):
        merge(tmp_path / "base", tmp_path / "adapted", tmp_path / "out", weight=0.5)
    assert not (tmp_path / "out").exists()


def test_other_models_and_other_vocabularies_are_refused(models, tmp_path):
    base, adapted = models
    model = transformers.AutoModelForCausalLM.from_pretrained(str(adapted))
    model.resize_token_embeddings(260)
    model.save_pretrained(str(tmp_path / "wider"))
    with pytest.raises(DataError, match="the same vocabulary"):
        merge(base, tmp_path / "wider", tmp_path / "out", weight=0.5)
    other = {"llama": "gpt2", "gpt2": "llama"}[model.config.model_type]
    with refused(DataError, str(base), "other"):
        merge(base, save_tiny(tmp_path / "other", family=other, steps=0), tmp_path / "out", weight=0.5)
    assert not (tmp_path / "out").exists()


def test_the_verb(models, tmp_path, call):
    base, adapted = map(str, models)
    code, out, _ = call("merge", base, adapted, "-w", "0.7", "-o", str(tmp_path / "out"), "--json")
    assert code == 0
    assert json.loads(out)["weight"] == 0.7
    assert cl.merge(base, adapted, tmp_path / "again", weight=0.7).n_params == json.loads(out)["n_params"]
    code, _, err = call("merge", base, adapted, "-w", "0.7", "-o", str(tmp_path / "out"))
    assert (code, err.count("\n")) == (2, 1)
