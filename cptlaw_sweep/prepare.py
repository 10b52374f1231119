"""From text to token shards in the store, once per text and tokenizer; and reading windows from them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from cptlaw.errors import DataError
from cptlaw_sweep.jobs import fingerprint_of
from cptlaw_sweep.sources import documents, id_documents, identity
from cptlaw_sweep.specs import Shard, SourceSpec, SplitIndex, TextIndex, TextSpec, TokenizerSpec
from cptlaw_sweep.store import Store
from cptlaw_sweep.tokenizers import Ids, Tokenizer, identity_of, load_tokenizer

SHARD_TOKENS = 2**26
BATCH_CHARACTERS = 2**22  # of documents that are encoded at a time, on all cores where the tokenizer can
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")


def text_fingerprint(source: SourceSpec, tokenizer: TokenizerSpec) -> str:
    """Return what stands for a prepared text: contents, reading, split and tokenizer, and not where the files are."""
    return fingerprint_of({"version": 1, "source": identity(source), "tokenizer": identity_of(tokenizer)})


def is_validation(group: str, share: float) -> bool:
    """Whether documents of a group belong to the validation text; the same on every machine and for ever."""
    # By a hash of the group, not by its place: a text that grows keeps its validation documents.
    draw = int.from_bytes(hashlib.sha256(group.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return draw < share * 2.0**64


def prepare(texts: Mapping[str, TextSpec], store: Store, progress: Callable[[str], None]) -> None:
    """Prepare the texts that are not in the store yet.

    Parameters
    ----------
    texts
        Fingerprint -> ``{name, source, tokenizer, tokenizer_source}``.
    """
    for key, text in texts.items():
        if store.exists(f"texts/{key}/index.json"):
            continue
        progress(f"preparing text {text['name']}")
        place = text.get("tokenizer_place")
        trained_on = (content for _, content in documents(text["tokenizer_source"] or {}))  # read where one is trained
        tokenizer = load_tokenizer(text["tokenizer"], store, trained_on, place)
        folder = store.scratch()
        try:
            index = _write_shards(text["source"], tokenizer, folder, text["name"])
            for name in [shard["file"] for split in SPLITS for shard in index[split]["shards"]]:
                store.put_file(folder / name, f"texts/{key}/{name}")
            # The index comes last: a text without it has not been prepared.
            store.write_json(f"texts/{key}/index.json", index)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write_shards(source: SourceSpec, tokenizer: Tokenizer, folder: Path, name: str) -> TextIndex:
    writers = {split: _ShardWriter(folder, split, tokenizer.dtype) for split in SPLITS}
    left = source["max_tokens"]
    n_bytes = 0
    read = _given_ids(source, tokenizer, name) if "ids" in source else _encoded_documents(source, tokenizer)
    for group, ids, size in read:
        if left is not None:
            ids = ids[:left]
            left -= len(ids)
        writers["validation" if is_validation(group, source["validation"]) else "train"].add(ids)
        n_bytes += size
        # What is not needed is not read: a source may be far larger than its share.
        if left == 0:
            break
    index: TextIndex = {
        "dtype": tokenizer.dtype.name,
        "vocabulary": tokenizer.vocabulary,
        "bytes": n_bytes,
        "train": writers["train"].close(),
        "validation": writers["validation"].close(),
    }
    if not index["train"]["tokens"] or (source["validation"] > 0 and not index["validation"]["tokens"]):
        raise DataError(
            f"text {name!r}: too few documents or groups to give {source['validation']:.3g} of them to validation. "
            "A file of plain text is one document: cut it into several files or the lines of a .jsonl, or give another "
            "`validation` share."
        )
    return index


def _encoded_documents(source: SourceSpec, tokenizer: Tokenizer) -> Iterator[tuple[str, Ids, int]]:
    """Yield (group, ids, bytes of text) of each document, encoded many at a time and never all held."""
    waiting: list[tuple[str, str]] = []
    held = 0
    for document in documents(source):
        waiting.append(document)
        held += len(document[1])
        if held >= BATCH_CHARACTERS:
            yield from _encode_batch(waiting, tokenizer)
            waiting, held = [], 0
    yield from _encode_batch(waiting, tokenizer)


def _encode_batch(waiting: list[tuple[str, str]], tokenizer: Tokenizer) -> Iterator[tuple[str, Ids, int]]:
    contents = [content for _, content in waiting]
    for (group, content), ids in zip(waiting, tokenizer.documents(contents), strict=True):
        yield group, ids, len(content.encode("utf-8", "surrogatepass"))


def _given_ids(source: SourceSpec, tokenizer: Tokenizer, name: str) -> Iterator[tuple[str, Ids, int]]:
    """Yield (group, ids, bytes) of each document of a source of token ids."""
    for row, (group, ids) in enumerate(id_documents(source)):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < tokenizer.vocabulary:
            raise DataError(
                f"text {name!r}: document {row} holds token id {int(ids.max())}, and the tokenizer has "
                f"{tokenizer.vocabulary}. Give the tokenizer that these ids were made with."
            )
        # Packed ids mostly hold their separators already.
        ended = ids if len(ids) and ids[-1] == tokenizer.separator else np.append(ids, tokenizer.separator)
        yield group, ended.astype(tokenizer.dtype), ids.nbytes


class _ShardWriter:
    def __init__(self, folder: Path, split: str, dtype: np.dtype[np.generic]):
        self._folder, self._split, self._dtype = folder, split, dtype
        self._waiting: list[Ids] = []
        self._held = self._documents = 0
        self._shards: list[Shard] = []

    def add(self, ids: Ids) -> None:
        self._waiting.append(ids)
        self._held += len(ids)
        self._documents += 1
        if self._held >= SHARD_TOKENS:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        name = f"{self._split}-{len(self._shards):05d}.bin"
        content = np.concatenate(self._waiting).astype(self._dtype.newbyteorder("<")).tobytes()
        (self._folder / name).write_bytes(content)
        # Little-endian on every machine, so that stores and hashes can be shared between them.
        digest = hashlib.sha256(content).hexdigest()
        self._shards.append({"file": name, "tokens": self._held, "sha256": digest})
        self._waiting, self._held = [], 0

    def close(self) -> SplitIndex:
        self._flush()
        tokens = sum(shard["tokens"] for shard in self._shards)
        return {"tokens": tokens, "documents": self._documents, "shards": self._shards}


class Windows:
    """The windows of one split of a prepared text: row i holds `context` tokens and the one that follows.

    Parameters
    ----------
    store
        Where the text was prepared.
    key
        Its fingerprint.
    split
        ``"train"`` or ``"validation"``, or ``"all"`` for both.
    context
        Tokens to predict per window.
    cache
        A local folder for shards of a store that is elsewhere.
    """

    def __init__(self, store: Store, key: str, split: Literal["train", "validation", "all"], context: int, cache: Path):
        index = read_index(store, key)
        folder = store.get_folder(f"texts/{key}", cache)
        dtype = np.dtype(index["dtype"]).newbyteorder("<")
        self.context, self.vocabulary = context, int(index["vocabulary"])
        self._shards: list[Ids] = []
        counts = []
        for part in SPLITS if split == "all" else (split,):
            for shard in index[part]["shards"]:
                path = folder / shard["file"]
                if not path.exists() or path.stat().st_size != shard["tokens"] * dtype.itemsize:
                    raise DataError(
                        f"shard {path} is missing or truncated. Remove its folder, and start the sweep again."
                    )
                # A plain view: slices of a memmap are ten times slower to make.
                self._shards.append(np.asarray(np.memmap(path, dtype=dtype, mode="r")))
                # Windows overlap by the token that is predicted from the one before, and never reach across shards.
                counts.append((shard["tokens"] - 1) // context)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        if len(self) == 0:
            raise DataError(f"text {key} ({split}) has no window of {context} tokens. Give more text, or less context.")

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the windows, (rows, context + 1)."""
        out = np.empty((len(rows), self.context + 1), dtype=np.int64)
        shards = np.searchsorted(self._starts, rows, side="right") - 1
        for place, (row, shard) in enumerate(zip(rows.tolist(), shards.tolist(), strict=True)):
            start = (row - int(self._starts[shard])) * self.context
            out[place] = self._shards[shard][start : start + self.context + 1]
        return out


def fixed_sample(windows: Windows, sequences: int) -> npt.NDArray[np.int64]:
    """Return evenly spaced windows, the same ones each time, as a fixed validation set: (sequences,)."""
    n = min(sequences, len(windows))
    # Evenly spaced rather than drawn: the same windows at every step of every run, so that losses differ by the model
    # alone.
    return (np.arange(n, dtype=np.int64) * len(windows)) // n


def read_index(store: Store, key: str) -> TextIndex:
    """Return what is known of a prepared text: tokens, documents, hashes of its shards."""
    index: TextIndex = store.read_json(f"texts/{key}/index.json")
    return index
