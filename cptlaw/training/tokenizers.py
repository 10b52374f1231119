"""Tokenizers: bytes, one trained on a text of the recipe, or a given one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cptlaw.errors import DataError
from cptlaw.training.fields import Fields, count, text
from cptlaw.training.store import Store

Ids = npt.NDArray[Any]

BYTES = {"kind": "bytes"}
END_OF_TEXT = "<|endoftext|>"


class Tokenizer:
    """Turns text into token ids, and ends each document with one separator.

    Parameters
    ----------
    encode
        Text to ids.
    vocabulary
        How many ids there are.
    separator
        The id between documents.
    """

    def __init__(self, encode: Callable[[str], Any], vocabulary: int, separator: int):
        self._encode, self.vocabulary, self.separator = encode, vocabulary, separator
        self.dtype = np.dtype(np.uint8 if vocabulary <= 2**8 else np.uint16 if vocabulary <= 2**16 else np.uint32)

    def document(self, content: str) -> Ids:
        """Return the ids of a document, separator included."""
        ids = np.asarray(self._encode(content), dtype=self.dtype)
        return np.append(ids, np.array([self.separator], dtype=self.dtype))


def read_tokenizer(value: Any, where: str) -> dict[str, Any]:
    """Read the tokenizer of a recipe: ``bytes``, ``{train_on: TEXT, vocabulary: 4096}`` or ``{pretrained: NAME}``."""
    if value == "bytes":
        return dict(BYTES)
    fields = Fields(value, where)
    if "pretrained" in fields:
        spec: dict[str, Any] = {"kind": "pretrained", "name": fields.take("pretrained", text)}
        spec["revision"] = fields.take("revision", text, None)
    else:
        spec = {"kind": "trained", "text": fields.take("train_on", text)}
        spec["vocabulary"] = fields.take("vocabulary", count)
        if int(spec["vocabulary"]) < 257:
            raise DataError(
                f"{where}: a vocabulary of {spec['vocabulary']} is too small. Expected 257 or more, or bytes."
            )
    fields.end()
    return spec


def vocabulary_of(spec: Mapping[str, Any]) -> int:
    """Return how many ids a tokenizer has, without training one."""
    if spec["kind"] == "bytes":
        return 256
    if spec["kind"] == "trained":
        return int(spec["vocabulary"])
    return _pretrained(spec).vocabulary


def name_of(spec: Mapping[str, Any]) -> str:
    """Return what the column `tokenizer` says."""
    return {"bytes": "bytes", "trained": f"bpe-{spec.get('vocabulary')}"}.get(spec["kind"], str(spec.get("name")))


def load_tokenizer(spec: Mapping[str, Any], store: Store, training_text: Callable[[], Iterator[str]]) -> Tokenizer:
    """Return a tokenizer; one that must be trained is trained once and kept in the store.

    Parameters
    ----------
    spec
        As `read_tokenizer` returns it; a trained one carries the fingerprint of its text as `identity`.
    store
        Where a trained one is kept.
    training_text
        The documents to train on.
    """
    if spec["kind"] == "bytes":
        # No text holds the byte 0, so it can stand between documents.
        return Tokenizer(lambda content: np.frombuffer(content.encode("utf-8"), dtype=np.uint8), 256, 0)
    if spec["kind"] == "pretrained":
        return _pretrained(spec)
    import tokenizers

    name = f"tokenizers/{hashlib.sha256(repr(sorted(spec.items())).encode()).hexdigest()[:20]}.json"
    if not store.exists(name):
        fresh = tokenizers.Tokenizer(tokenizers.models.BPE())
        fresh.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        fresh.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=int(spec["vocabulary"]),
            special_tokens=[END_OF_TEXT],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        fresh.train_from_iterator(training_text(), trainer)
        store.write(name, fresh.to_str().encode())
    loaded = tokenizers.Tokenizer.from_str(store.read(name).decode())
    return Tokenizer(
        lambda content: loaded.encode(content).ids, int(spec["vocabulary"]), loaded.token_to_id(END_OF_TEXT)
    )


def _pretrained(spec: Mapping[str, Any]) -> Tokenizer:
    import transformers

    try:
        found = transformers.AutoTokenizer.from_pretrained(spec["name"], revision=spec["revision"] or "main")
    except (OSError, ValueError) as error:
        raise DataError(f"tokenizer {spec['name']!r} cannot be loaded ({error}).") from None
    if found.eos_token_id is None:
        raise DataError(f"tokenizer {spec['name']!r} has no end-of-text token to put between documents.")
    return Tokenizer(
        lambda content: found(content, add_special_tokens=False)["input_ids"], len(found), found.eos_token_id
    )
