"""How many parameters a decoder has and how much memory its training takes, from its shape alone: no torch needed.

Axes of counts: N parameters, h width, f width of the feed-forward layer, V vocabulary, c context, b rows per pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError
from cptlaw.reading import plain_json
from cptlaw_sweep.specs import ModelSpec

# Families whose feed-forward layer has a gate beside its input: three matrices instead of two.
GATED = ("llama", "mistral", "qwen2", "qwen3", "olmo", "olmo2", "smollm3", "gemma", "gemma2", "gemma3_text")

# Logits held at a time. Above it the cross-entropy goes through the tokens in pieces.
LOGITS = 2**26

_EMBEDDINGS = re.compile(
    r"(^|\.)(wte|wpe|embed_tokens|embed_positions|embed_in|embed_out|word_embeddings|lm_head)\.weight$"
)
_BUFFERS = re.compile(r"(inv_freq|masked_bias|\.attn\.bias|\.attention\.bias)$")


@dataclass(frozen=True)
class DecoderShape:
    """What of a decoder decides about its memory.

    Parameters
    ----------
    width, layers, heads, key_value_heads, head_width, feed_forward, vocabulary
        As configurations of transformers name them.
    gated
        Whether the feed-forward layer has a gate.
    """

    width: int
    layers: int
    heads: int
    key_value_heads: int
    head_width: int
    feed_forward: int
    vocabulary: int
    gated: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> DecoderShape | None:
        """Return the shape that a configuration gives, or nothing where it is of no known form."""

        def first(*names: str) -> int:
            return next((int(config[name]) for name in names if config.get(name)), 0)

        width, layers = first("hidden_size", "n_embd", "d_model"), first("num_hidden_layers", "n_layer", "n_layers")
        heads, vocabulary = first("num_attention_heads", "n_head", "n_heads"), first("vocab_size")
        if not (width and layers and heads and vocabulary):
            return None
        gated = config.get("model_type") in GATED
        return cls(
            width,
            layers,
            heads,
            first("num_key_value_heads") or heads,
            first("head_dim") or width // heads,
            first("intermediate_size", "n_inner", "ffn_dim") or 4 * width,
            vocabulary,
            gated,
        )


def shape_of_spec(spec: ModelSpec) -> DecoderShape | None:
    """Return the shape of a model of a recipe, or nothing where its configuration is of no known form."""
    given = {"vocab_size": spec.get("vocabulary"), **spec.get("config", {})}
    return DecoderShape.of(gpt2_settings(spec) if spec["kind"] == "gpt2" else given)


def count_gpt2(spec: ModelSpec) -> tuple[int, int]:
    """Return (total, without embeddings) of a GPT-2-style decoder whose head is its embedding."""
    width, layers = int(spec["width"]), int(spec["layers"])
    # Attention and a perceptron of four widths with their biases and norms, and the last norm.
    inner = layers * (12 * width * width + 13 * width) + 2 * width
    return inner + (int(spec["vocabulary"]) + int(spec["context"])) * width, inner


def gpt2_settings(spec: ModelSpec) -> dict[str, object]:
    """Return the configuration of a GPT-2-style decoder, as transformers names it."""
    return {
        "vocab_size": spec["vocabulary"],
        "n_positions": spec["context"],
        "n_embd": spec["width"],
        "n_layer": spec["layers"],
        "n_head": spec["heads"],
        # 0.02 suits a width of 768 and is far too small below a hundred.
        "initializer_range": spec["width"] ** -0.5,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    }


def count_folder(folder: Path) -> tuple[int, int] | None:
    """Return (total, without embeddings) of a model from the headers of its safetensors, or nothing without these."""
    files = sorted(folder.glob("model*.safetensors"))
    total = embeddings = 0
    for path in files:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length < 100_000_000:
                raise DataError(f"{path}: not a file of safetensors. Copy it again.")
            try:
                header = plain_json(file.read(length).decode("utf-8"))
                shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
                sizes = {name: math.prod(map(int, shape)) for name, shape in shapes.items()}
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
                raise DataError(f"{path}: not a file of safetensors. Copy it again.") from None
        for name, size in sizes.items():
            if _BUFFERS.search(name):
                continue
            total += size
            embeddings += size if _EMBEDDINGS.search(name) else 0
    return (total, total - embeddings) if files else None


def count_lora(spec: ModelSpec, rank: int) -> int:
    """Return the trainable parameters of adapters of some rank on all linear layers but the head (arXiv:2106.09685).

    Raises
    ------
    DataError
        If the model's configuration is of no known form.
    """
    shape = shape_of_spec(spec)
    if shape is None:
        raise DataError("lora: the shape of this model is not known, so its adapters cannot be counted.")
    h, f = shape.width, shape.feed_forward
    own, shared = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    # GPT-2 holds query, key and value in one matrix.
    attention = [(h, own), (own, h), (h, shared), (h, shared)] if shape.gated else [(h, 3 * h), (h, h)]
    inner = [(h, f), (f, h)] + ([(h, f)] if shape.gated else [])
    return shape.layers * rank * sum(a + b for a, b in attention + inner)


def piece_tokens(vocabulary: int) -> int:
    """Return how many tokens the cross-entropy takes at a time."""
    return max(128, LOGITS // max(vocabulary, 1))


def memory_of(
    n_total: int, n_trainable: int, shape: DecoderShape | None, *, rows: int, context: int, options: Mapping[str, Any]
) -> dict[str, int]:
    """Return the peak of memory of one process while it trains, in bytes, by what takes it.

    Parameters
    ----------
    n_total, n_trainable
        Parameters; frozen ones have no gradient and no optimiser state.
    shape
        Of the model; without it a usual one for its size is taken.
    rows
        Rows per forward pass.
    context
        Tokens per row.
    options
        ``precision`` (fp32 or bf16), ``checkpointing`` (of activations), ``shards`` (processes that share weights,
        gradients and optimiser state).

    Returns
    -------
    dict
        weights, gradients, optimizer, activations, logits.
    """
    bf16, shards = options.get("precision") == "bf16", int(options.get("shards") or 1)
    if shape is None:
        width = max(64, round((n_total / 12) ** 0.4))
        layers = max(2, round(n_total / (12 * width * width)))
        shape = DecoderShape(width, layers, 1, 1, width, 4 * width, 50_000, gated=False)
    h, f = shape.width, shape.feed_forward
    own, shared = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    tokens = rows * context
    # Elements that autograd keeps of one layer for the backward pass, per token; measured against saved tensors in the
    # tests. Norms and the residual stream stay in fp32 under autocast, inputs of products are bf16.
    streams = 2 * (3 if shape.gated else 2) * h
    products = 2 * h + 2 * own + 4 * shared + (own + shared if shape.gated else own) + (4 if shape.gated else 5) * f
    layer = 4 * streams + (2 if bf16 else 4) * products
    kept = 4 * h * shape.layers + layer if options.get("checkpointing") else layer * shape.layers
    frozen = n_total - n_trainable
    at_a_time = min(tokens, piece_tokens(shape.vocabulary))
    copies = 14 if bf16 else 12  # logits, their logarithm and its gradient in fp32; under autocast a bf16 copy too
    return {
        "weights": (4 * n_trainable + (2 if bf16 else 4) * frozen) // shards
        + (2 * n_trainable // shards if bf16 else 0),
        "gradients": 4 * n_trainable // shards,
        "optimizer": 8 * n_trainable // shards,
        "activations": int(tokens * kept),
        "logits": int(at_a_time * shape.vocabulary * copies),
    }
