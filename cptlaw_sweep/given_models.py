"""Given base models: folders as `save_pretrained` writes them, or names of the Hugging Face hub.

A model in a folder is known by its content, not by its path: the configuration, and the SHA-256 of its weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.reading import plain_json
from cptlaw_sweep.jobs import fingerprint_of

# As transformers names what it reads. Beside it may lie the same weights again (consolidated.safetensors), or a state.
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt"),
    *("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"),
)
# Settings that a library writes for itself and that change no loss.
_NOT_CONTENT = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache", "architectures")


def find_folder(name: str, start: Path) -> Path | None:
    """Return the folder that a name means, from the recipe's folder on, or nothing if it is a name of the hub.

    Raises
    ------
    DataError
        If it reads like a path and nothing is there.
    """
    folder = (start / Path(name).expanduser()).resolve()
    if folder.is_dir():
        return folder
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"there is no folder {folder}. Paths start at the recipe's folder.")
    return None


def read_config(folder: Path) -> dict[str, object]:
    """Return config.json of a model's folder."""
    try:
        document = plain_json((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder}: config.json cannot be read ({error}). Expected a folder as `save_pretrained` writes it."
        ) from None
    if not isinstance(document, dict):
        raise DataError(f"{folder}/config.json: expected a mapping. Write the folder again with `save_pretrained`.")
    return document


def content_of(folder: Path) -> str:
    """Return what stands for the model in a folder: its configuration and weights, wherever it lies."""
    config = {key: value for key, value in read_config(folder).items() if key not in _NOT_CONTENT}
    # transformers reads safetensors where there are both
    files = sorted(folder.glob(WEIGHTS[0])) or sorted(folder.glob(WEIGHTS[1]))
    if not files:
        raise DataError(f"{folder}: there are no weights in it ({' or '.join(WEIGHTS)}).")
    return fingerprint_of({"config": config, "weights": [_hash_of(path) for path in files]})


def tokenizer_content(folder: Path) -> str | None:
    """Return what stands for the tokenizer in a folder, or nothing if there is none."""
    files = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
    if not any(path.name in TOKENIZER_FILES[:4] for path in files):
        return None
    return fingerprint_of([[path.name, _hash_of(path)] for path in files if path.name != "tokenizer_config.json"])


def vocabulary_in(folder: Path) -> int | None:
    """Return how many ids the tokenizer of a folder has, from tokenizer.json, or nothing without that file."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
        vocabulary = document["model"]["vocab"]
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        return 1 + int(max([*ids, *(int(token["id"]) for token in document.get("added_tokens", []))]))
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: not a file of Hugging Face tokenizers.") from None


def dropout_of(config: Mapping[str, object]) -> dict[str, float]:
    """Return the settings of a configuration that drop something out in training, with their values."""
    return {
        name: value
        for name, value in config.items()
        if not name.startswith("summary")
        and ("dropout" in name or name.endswith("pdrop"))
        and isinstance(value, float)
        and value > 0
    }


def resolve(name: str, revision: str | None) -> str | None:
    """Return the commit that a name of the hub stands for now, so that a run is not taken for one of another commit."""
    try:
        from huggingface_hub import model_info, try_to_load_from_cache
    except ImportError:
        return revision
    cached = try_to_load_from_cache(name, "config.json", revision=revision or "main")
    if isinstance(cached, str) and "/snapshots/" in cached:
        return Path(cached).parent.name
    try:
        return str(model_info(name, revision=revision).sha)
    except Exception as error:  # noqa: BLE001  the hub's client raises errors of many kinds
        text = " ".join(str(error).split())[:200]
        raise DataError(f"model {name!r} is no folder here, and the hub does not give it ({text}).") from None


def _hash_of(path: Path) -> str:
    stat = path.stat()
    return _file_digest(str(path), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1024)
def _file_digest(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
