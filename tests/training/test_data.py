"""Text and token ids: Parquet, JSON Lines, Megatron's files, read once, many at a time, and never all held."""

import json
import struct
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import yaml
from facts import refused
from small_sweep import RECIPE, prepared, train_here

from cptlaw.errors import DataError
from cptlaw_sweep import prepare as preparing
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.megatron import documents
from cptlaw_sweep.prepare import read_index

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


def write_megatron(prefix, rows, dtype=np.uint16, split=1):
    """Write documents as Megatron's tools do; each may lie in several sequences."""
    codes = {np.uint8: 1, np.int32: 4, np.uint16: 8}
    sequences, bounds, content = [], [0], b""
    for ids in rows:
        for part in np.array_split(np.asarray(ids, dtype=dtype), split):
            sequences.append((len(part), len(content)))
            content += part.tobytes()
        bounds.append(len(sequences))
    prefix.with_suffix(".bin").write_bytes(content)
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, codes[dtype], len(sequences), len(bounds))
    lengths = np.array([length for length, _ in sequences], dtype="<i4").tobytes()
    places = np.array([place for _, place in sequences], dtype="<i8").tobytes()
    prefix.with_suffix(".idx").write_bytes(head + lengths + places + np.array(bounds, dtype="<i8").tobytes())


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_documents_of_megatron_are_read_as_they_were_written(tmp_path, dtype, split):
    draw = np.random.default_rng(0)
    rows = [draw.integers(0, 250, size=n) for n in (1, 40, 7, 300)]
    write_megatron(tmp_path / "web", rows, dtype, split)
    found = list(documents(str(tmp_path / "web")))
    assert [ids.tolist() for ids in found] == [ids.tolist() for ids in rows]


@pytest.mark.parametrize("harm", ["magic", "short index", "short content", "empty"])
def test_a_broken_file_of_megatron_is_refused(tmp_path, harm):
    write_megatron(tmp_path / "web", [range(100)])
    index, content = tmp_path / "web.idx", tmp_path / "web.bin"
    if harm == "magic":
        index.write_bytes(b"X" * 100)
    elif harm == "short index":
        index.write_bytes(index.read_bytes()[:40])
    elif harm == "short content":
        content.write_bytes(content.read_bytes()[:50])
    else:
        index.write_bytes(b"")
    with pytest.raises(DataError, match=r"web\.(idx|bin)"):
        list(documents(str(tmp_path / "web")))


def lines_of(path):
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def test_the_same_text_as_json_lines_parquet_and_ids_is_trained_alike(recipe, tmp_path):
    path = recipe(adapt={**RECIPE["adapt"], "replay": 0.25})
    texts = lines_of(tmp_path / "new.jsonl")
    pd.DataFrame({"text": texts}).to_parquet(tmp_path / "new.parquet")
    write_megatron(tmp_path / "new_text_document", [[*text.encode(), 0] for text in texts], np.uint8)
    value = yaml.safe_load(path.read_text())
    tokens = {}
    for kind, source in {
        "jsonl": {"files": "new.jsonl"},
        "parquet": {"files": "new.parquet"},
        "ids": {"ids": "new_text_document"},
    }.items():
        value["text"]["new"] = {**source, "validation": "10%"}
        path.write_text(yaml.safe_dump(value))
        sweep, store = prepared(path, tmp_path / "out")
        (key,) = (key for key, text in sweep.texts.items() if text["name"] == "new")
        index = read_index(store, key)
        tokens[kind] = sum(index[split]["tokens"] for split in ("train", "validation"))
        # Windows of text and of ids hold the same documents, though another split may fall on them.
        assert tokens[kind] == sum(len(text.encode()) + 1 for text in texts)
    assert not train_here(sweep, store).failures
    value["text"]["new"] = {"ids": "nothing"}
    path.write_text(yaml.safe_dump(value))
    with pytest.raises(DataError, match=r"nothing\.bin"):
        load_sweep(path)


def test_ids_of_another_tokenizer_are_refused(recipe, tmp_path):
    path = recipe()
    write_megatron(tmp_path / "ids", [range(5000)], np.uint16)
    value = yaml.safe_load(path.read_text())
    value["text"]["new"] = {"ids": "ids"}
    path.write_text(yaml.safe_dump(value))
    with refused(DataError, "id 4999", "256"):
        prepared(path, tmp_path / "out")


def test_preparing_holds_a_shard_and_not_the_text(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(preparing, "SHARD_TOKENS", 2**16)
    monkeypatch.setattr(preparing, "BATCH_CHARACTERS", 2**16)
    path = recipe()
    with (tmp_path / "new.jsonl").open("a") as file:
        for row in range(3000):
            file.write(json.dumps({"text": f"{row} " + "neue Sprache " * 200}) + "\n")
    size = (tmp_path / "new.jsonl").stat().st_size
    tracemalloc.start()
    try:
        prepared(path, tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 7_000_000
    assert peak < 0.35 * size


def test_a_tokenizer_takes_documents_many_at_a_time_with_the_ids_of_one_by_one(recipe, tmp_path):
    from cptlaw_sweep.tokenizers import load_tokenizer

    sweep, store = prepared(recipe(tokenizer={"train_on": "old", "vocabulary": 300}), tmp_path / "out")
    (text,) = (text for text in sweep.texts.values() if text["name"] == "old")
    tokenizer = load_tokenizer(text["tokenizer"], store, ())
    texts = lines_of(tmp_path / "old.jsonl")[:20]
    together = tokenizer.documents(texts)
    assert [ids.tolist() for ids in together] == [tokenizer.documents([text])[0].tolist() for text in texts]
    assert all(ids[-1] == tokenizer.separator for ids in together)
