"""The parameters of a model, from the config.json of Hugging Face or from the headers of safetensors."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Families whose embeddings are tied unless their config says otherwise; all others that are known have two.
_TIED = ("gemma", "gpt2", "opt", "bloom", "falcon", "mpt", "cohere", "starcoder2", "granite")
_LARGEST_HEADER = 200_000_000  # bytes


def parameters_of_config(config: Mapping[str, object], *, active: bool = False) -> float | None:
    """Return all parameters of a causal language model, embeddings included; ``None`` where the config does not tell.

    Exact for Llama, Mistral, Qwen, Gemma, OLMo, GPT-NeoX, GPT-2, DeepSeek, gpt-oss and mixtures of experts of these;
    biases and norms of others are counted as Llama's, which is off by less than a thousandth.

    Parameters
    ----------
    config
        What stands in config.json; of a model of text and images the part of the text counts.
    active
        Count of the experts only those that a token passes.

    Examples
    --------
    >>> llama = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    >>> more = {"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}
    >>> parameters_of_config(llama | more)
    8030261248.0
    """
    text = config.get("text_config")
    if isinstance(text, Mapping):
        config = {"tie_word_embeddings": config.get("tie_word_embeddings"), **text}
    kind = str(config.get("model_type", ""))
    if kind == "gpt2" or {"n_embd", "n_layer"} <= set(config):
        return _gpt2(config)
    width, layers, vocabulary = (_of(config, name) for name in ("hidden_size", "num_hidden_layers", "vocab_size"))
    heads = _of(config, "num_attention_heads")
    if width is None or layers is None or vocabulary is None or heads is None:
        return None
    if kind in ("gpt_neox", "gptneox"):
        inner = _of(config, "intermediate_size") or 4 * width
        tied = bool(config.get("tie_word_embeddings", False))
        return layers * _block(width, inner) + 2 * width + vocabulary * width * (1 if tied else 2)
    blocks = sum(_attention(config, kind, place) + _mlp(config, kind, place, active) for place in range(int(layers)))
    norms = _norms(kind) * width * layers + (0 if kind == "olmo" else width)
    said = config.get("tie_word_embeddings")
    tied = any(kind.startswith(family) for family in _TIED) if said is None else bool(said)
    return float(blocks + norms + vocabulary * width * (1 if tied else 2))


def parameters_beside(folder: Path) -> tuple[float, str] | None:
    """Return the parameters that the weights or the config in a folder tell, and the name of the file."""
    weights = sorted(path for path in folder.glob("model*.safetensors") if path.is_file())
    counts = [_parameters_of_safetensors(path) for path in weights]
    if counts and all(count is not None for count in counts):
        return float(sum(count or 0 for count in counts)), weights[0].name
    path = folder / "config.json"
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        count = parameters_of_config(value) if isinstance(value, dict) else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return None if count is None else (count, path.name)


def _parameters_of_safetensors(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length <= _LARGEST_HEADER else {}
        return sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__") or None
    except (OSError, ValueError, KeyError, TypeError, struct.error, AttributeError):
        return None


def _attention(config: Mapping[str, Any], kind: str, place: int) -> float:
    width, heads = float(config["hidden_size"]), float(config["num_attention_heads"])
    shared = _of(config, "num_key_value_heads") or heads
    size = _of(config, "head_dim") or width // heads
    if (rank := _of(config, "kv_lora_rank")) is not None:
        return _latent_attention(config, rank)
    queries, keys = heads * size, shared * size
    count = width * queries * 2 + 2 * width * keys
    has_bias = config.get("attention_bias")
    if kind.startswith("qwen2") or config.get("qkv_bias"):
        count += queries + 2 * keys
    elif has_bias:
        count += queries + 2 * keys + width
    if kind in ("olmo2", "olmo3", "olmoe"):
        count += queries + keys
    elif kind.startswith(("qwen3", "gemma3")):
        count += 2 * size
    if kind == "gpt_oss":
        count += heads  # a sink for each head
    return count


def _latent_attention(config: Mapping[str, Any], rank: float) -> float:
    """Return the parameters of an attention whose keys and values are compressed, as DeepSeek's are."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    plain, turned = config.get("qk_nope_head_dim", 128), config.get("qk_rope_head_dim", 64)
    value, of_queries = config.get("v_head_dim", 128), _of(config, "q_lora_rank")
    queries = heads * (plain + turned)
    count = width * queries if of_queries is None else width * of_queries + of_queries + of_queries * queries
    count += width * (rank + turned) + rank + rank * heads * (plain + value)
    return float(count + heads * value * width)


def _mlp(config: Mapping[str, Any], kind: str, place: int, active: bool) -> float:
    width, inner = float(config["hidden_size"]), _of(config, "intermediate_size") or 0.0
    experts = next(
        (n for key in ("num_experts", "num_local_experts", "n_routed_experts") if (n := _of(config, key))), 0
    )
    dense_first = _of(config, "first_k_dense_replace") or 0
    every = _of(config, "decoder_sparse_step") or 1
    if not experts or place < dense_first or (place + 1) % every:
        has_gate = kind not in ("phi", "starcoder2") and config.get("hidden_act") not in ("relu2", "xielu")
        return (3 if has_gate else 2) * width * inner
    own = _of(config, "moe_intermediate_size") or inner
    passed = next((n for key in ("num_experts_per_tok", "experts_per_token") if (n := _of(config, key))), experts)
    used = passed if active else experts
    count = used * 3 * width * own + width * experts
    count += (_of(config, "n_shared_experts") or 0) * 3 * width * own
    if shared := _of(config, "shared_expert_intermediate_size"):
        count += 3 * width * shared + width
    if kind == "gpt_oss":
        count += used * (2 * own + width) + experts  # biases of the experts and of the router
    return count


def _norms(kind: str) -> int:
    if kind in ("gemma2", "gemma3", "gemma3_text"):
        return 4
    return 0 if kind == "olmo" else 1 if kind in ("cohere", "cohere2", "phi") else 2


def _gpt2(config: Mapping[str, object]) -> float | None:
    width, layers, vocabulary = (_of(config, name) for name in ("n_embd", "n_layer", "vocab_size"))
    if width is None or layers is None or vocabulary is None:
        return None
    inner = _of(config, "n_inner") or 4 * width
    places = _of(config, "n_positions") or _of(config, "n_ctx") or _of(config, "block_size") or 1024
    return layers * _block(width, inner) + (vocabulary + places) * width + 2 * width


def _block(width: float, inner: float) -> float:
    """Return the parameters of a block with biases everywhere and a plain layer between."""
    return 4.0 * width**2 + 9 * width + 2 * width * inner + inner


def _of(config: Mapping[str, object], name: str) -> float | None:
    value = config.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9 else None
