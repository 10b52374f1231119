"""Tokenizers: bytes, one trained on a text of the recipe, or a given one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cptlaw.errors import DataError, needed_for
from cptlaw_sweep import given_models
from cptlaw_sweep.schema import Bytes, GivenTokenizer, TrainedTokenizer
from cptlaw_sweep.specs import TokenizerSpec
from cptlaw_sweep.store import Store

Ids = npt.NDArray[Any]

END_OF_TEXT = "<|endoftext|>"


class Tokenizer:
    """Turns text into token ids, and ends each document with one separator.

    Parameters
    ----------
    encode
        Texts to ids, many at a time: libraries take them on all cores.
    vocabulary
        How many ids there are.
    separator
        The id between documents.
    """

    def __init__(self, encode: Callable[[list[str]], Sequence[object]], vocabulary: int, separator: int):
        self._encode, self.vocabulary, self.separator = encode, vocabulary, separator
        # The narrowest type that holds all ids: prepared texts are read from disk at every step.
        self.dtype = np.dtype(np.uint8 if vocabulary <= 2**8 else np.uint16 if vocabulary <= 2**16 else np.uint32)

    def documents(self, contents: list[str]) -> list[Ids]:
        """Return the ids of some documents, separators included."""
        end = np.array([self.separator], dtype=self.dtype)
        return [np.append(np.asarray(ids, dtype=self.dtype), end) for ids in self._encode(contents)]


def spec_of(
    asked: GivenTokenizer | TrainedTokenizer | Bytes | None, where: str, folder: Path
) -> tuple[TokenizerSpec, str | None]:
    """Return what defines the tokenizer of a recipe, and the folder where it lies, if it lies in one."""
    if isinstance(asked, TrainedTokenizer):
        return {"kind": "trained", "text": asked.train_on, "vocabulary": asked.vocabulary}, None
    if not isinstance(asked, GivenTokenizer):
        return {"kind": "bytes"}, None
    place = given_models.find_folder(asked.pretrained, folder)
    if place is None:
        return {"kind": "pretrained", "name": asked.pretrained, "revision": asked.revision}, None
    content = given_models.tokenizer_content(place)
    if content is None:
        raise DataError(f"{where}: there is no tokenizer in {place}. Name the one that the model was trained with.")
    return {"kind": "pretrained", "content": content, "called": place.name}, str(place)


def identity_of(spec: TokenizerSpec) -> dict[str, object]:
    """Return what of a tokenizer decides about ids: not what its folder is called."""
    return {key: value for key, value in spec.items() if key != "called"}


def vocabulary_of(spec: TokenizerSpec, place: str | None = None) -> int:
    """Return how many ids a tokenizer has, without training one."""
    if spec["kind"] == "bytes":
        return 256
    if spec["kind"] == "trained":
        return int(spec["vocabulary"])
    known = given_models.vocabulary_in(Path(place)) if place else None
    return known or _pretrained_tokenizer(spec, place).vocabulary


def name_of(spec: TokenizerSpec) -> str:
    """Return what the column `tokenizer` says."""
    called = str(spec.get("name") or spec.get("called"))
    return {"bytes": "bytes", "trained": f"bpe-{spec.get('vocabulary')}"}.get(spec["kind"], called)


def load_tokenizer(
    spec: TokenizerSpec, store: Store, training_text: Iterable[str], place: str | None = None
) -> Tokenizer:
    """Return a tokenizer; one that must be trained is trained once and kept in the store.

    Parameters
    ----------
    spec
        As `spec_of` returns it; a trained one carries the fingerprint of its text as `identity`.
    """
    if spec["kind"] == "bytes":
        # No text holds the byte 0, so it can stand between documents.
        return Tokenizer(lambda texts: [np.frombuffer(each.encode("utf-8"), dtype=np.uint8) for each in texts], 256, 0)
    if spec["kind"] == "pretrained":
        return _pretrained_tokenizer(spec, place)
    import tokenizers

    name = _file_of(spec)
    if not store.exists(name):
        fresh = tokenizers.Tokenizer(tokenizers.models.BPE())
        fresh.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        fresh.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=int(spec["vocabulary"]),
            special_tokens=[END_OF_TEXT],
            # All bytes from the start, or validation text could hold what the training text lacks.
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        fresh.train_from_iterator(training_text, trainer)
        store.write(name, fresh.to_str().encode())
    loaded = tokenizers.Tokenizer.from_str(store.read(name).decode())
    return Tokenizer(_batch_encoder(loaded), int(spec["vocabulary"]), loaded.token_to_id(END_OF_TEXT))


def _batch_encoder(loaded: Any) -> Callable[[list[str]], Sequence[object]]:
    """Return an encoder of many texts at a time, on all cores."""
    return lambda texts: [one.ids for one in loaded.encode_batch(texts, add_special_tokens=False)]


def _pretrained_tokenizer(spec: TokenizerSpec, place: str | None) -> Tokenizer:
    whole = load_pretrained(spec, place)
    if whole.eos_token_id is None:
        raise DataError(f"tokenizer {name_of(spec)!r} has no end-of-text token to put between documents.")
    # Fast tokenizers encode on all cores and without the warnings about length that those of transformers print.
    backend = getattr(whole, "backend_tokenizer", None)
    if backend is not None:
        return Tokenizer(_batch_encoder(backend), len(whole), whole.eos_token_id)
    return Tokenizer(lambda texts: whole(texts, add_special_tokens=False)["input_ids"], len(whole), whole.eos_token_id)


def load_pretrained(spec: TokenizerSpec, place: str | None) -> Any:
    """Return the tokenizer of transformers that a folder or a name stands for."""
    with needed_for("reading a given tokenizer", "cptlaw[training]"):
        import transformers
    named = {"revision": spec.get("revision") or "main"} if place is None else {}
    try:
        return transformers.AutoTokenizer.from_pretrained(place or spec["name"], **named)
    except (OSError, ValueError) as error:
        raise DataError(f"tokenizer {name_of(spec)!r} cannot be loaded ({error}).") from None


def as_pretrained(spec: TokenizerSpec, store: Store, place: str | None) -> Any:
    """Return the tokenizer of a sweep as one of transformers, to be kept beside a model."""
    if spec["kind"] == "pretrained":
        return load_pretrained(spec, place)
    import tokenizers
    import transformers

    if spec["kind"] == "trained":
        whole = tokenizers.Tokenizer.from_str(store.read(_file_of(spec)).decode())
        return transformers.PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=END_OF_TEXT)
    # Byte-level BPE without merges, each symbol at the id of its byte. No text holds the byte 0: it ends documents.
    symbols = {symbol: byte for byte, symbol in enumerate([END_OF_TEXT, *_byte_symbols()[1:]])}
    whole = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=symbols, merges=[]))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=END_OF_TEXT)


def _byte_symbols() -> list[str]:
    """Return the printable symbol of each byte in byte-level BPE, as GPT-2 chose them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


def _file_of(spec: TokenizerSpec) -> str:
    return f"tokenizers/{hashlib.sha256(repr(sorted(spec.items())).encode()).hexdigest()[:20]}.json"
