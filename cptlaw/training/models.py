"""Models: GPT-2-style decoders by size, any causal LM of transformers from a configuration, or a pre-trained one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers

from cptlaw.errors import DataError
from cptlaw.training.fields import Fields, count, positive, text

Spec = Mapping[str, Any]


def read_model(value: Any, where: str, *, vocabulary: int, context: int) -> dict[str, Any]:
    """Read a model of a recipe into plain data that defines it.

    Parameters
    ----------
    value
        ``{n_params: 1M}`` or ``{width: 64, layers: 2, heads: 4}`` (a GPT-2-style decoder from scratch), ``{config:
        {model_type: llama, ..}}`` (any decoder of transformers from scratch), or ``{pretrained: NAME, revision: ..}``.
    where
        Its place in the recipe.
    vocabulary
        Token ids of the sweep's tokenizer.
    context
        Tokens per window.
    """
    fields = value if isinstance(value, Fields) else Fields(value, where)
    if "pretrained" in fields:
        name = fields.take("pretrained", text)
        spec: dict[str, Any] = {"kind": "pretrained", "name": name, "revision": fields.take("revision", text, None)}
        if Path(name).is_dir():
            spec["files"] = _hashes(Path(name))
        return spec
    if "config" in fields:
        config = fields.take("config", lambda found, _: dict(found))
        return {"kind": "config", "config": config, "vocabulary": vocabulary, "context": context}
    if "n_params" in fields:
        shape = shape_of(fields.take("n_params", positive), vocabulary, context)
    else:
        shape = {name: fields.take(name, count) for name in ("width", "layers", "heads")}
        if not all(shape.values()) or shape["width"] % shape["heads"]:
            raise DataError(f"{where}: width {shape['width']} is not a multiple of heads {shape['heads']}.")
    return {"kind": "gpt2", **shape, "vocabulary": vocabulary, "context": context}


def shape_of(n_params: float, vocabulary: int, context: int) -> dict[str, int]:
    """Return width, layers and heads of the GPT-2-style decoder nearest to a number of parameters, embeddings included.

    Examples
    --------
    >>> shape_of(125_000, 256, 128)
    {'width': 64, 'layers': 2, 'heads': 4}
    """
    widths = [*range(8, 512, 4), *range(512, 16385, 64)]

    def total(width: int) -> float:
        layers = _layers(width)
        return (vocabulary + context + 2) * width + layers * (12 * width * width + 13 * width)

    width = min(widths, key=lambda width: abs(math.log(total(width) / n_params)))
    heads = max(1, round(width / (16 if width < 128 else 32 if width < 512 else 64)))
    while width % heads:
        heads -= 1
    return {"width": width, "layers": _layers(width), "heads": heads}


def _layers(width: int) -> int:
    return max(2, round(width / 64))


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files that make a local model."""
    found = {}
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def config_of(spec: Spec) -> Any:
    """Return the configuration of transformers for a model."""
    try:
        if spec["kind"] == "pretrained":
            return transformers.AutoConfig.from_pretrained(spec["name"], revision=spec["revision"] or "main")
        if spec["kind"] == "config":
            settings = {"vocab_size": spec["vocabulary"], "max_position_embeddings": spec["context"], **spec["config"]}
            return transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"model {spec.get('name') or spec['config']}: cannot be configured ({error}).") from None
    return transformers.GPT2Config(
        vocab_size=spec["vocabulary"],
        n_positions=spec["context"],
        n_embd=spec["width"],
        n_layer=spec["layers"],
        n_head=spec["heads"],
        # 0.02 suits a width of 768 and is far too small below a hundred.
        initializer_range=spec["width"] ** -0.5,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )


def build(spec: Spec, seed: int) -> Any:
    """Return a model: initialised from a seed, or with its pre-trained weights; in float32, ready to train."""
    torch.manual_seed(seed)
    config = config_of(spec)
    if spec["kind"] == "pretrained":
        try:
            return transformers.AutoModelForCausalLM.from_pretrained(
                spec["name"], revision=spec["revision"] or "main", dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            raise DataError(f"model {spec['name']!r} cannot be loaded ({error}).") from None
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def load_weights(folder: Path) -> Any:
    """Return the model that a job of the sweep kept."""
    return transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)


def count_parameters(model: Any) -> tuple[int, int]:
    """Return (total, without embeddings); shared weights count once, positions and an untied head are embeddings.

    Parameters
    ----------
    model
        A model of transformers, on any device, "meta" included.
    """
    parameters = {id(parameter): parameter.numel() for parameter in model.parameters()}
    embeddings = {
        id(module.weight): module.weight.numel() for module in model.modules() if isinstance(module, torch.nn.Embedding)
    }
    head = model.get_output_embeddings()
    if head is not None:
        embeddings[id(head.weight)] = head.weight.numel()
    total = sum(parameters.values())
    return total, total - sum(embeddings.values())


def sizes_of(spec: Spec) -> tuple[int, int]:
    """Return (total, without embeddings) of a model without allocating it."""
    return _sizes_of(_frozen(spec))


def _frozen(value: Any) -> Any:
    return tuple((key, _frozen(value[key])) for key in value) if isinstance(value, Mapping) else value


def _thawed(value: Any) -> Any:
    return {key: _thawed(item) for key, item in value} if isinstance(value, tuple) else value


@lru_cache(maxsize=256)
def _sizes_of(spec: Any) -> tuple[int, int]:
    with torch.device("meta"):
        return count_parameters(transformers.AutoModelForCausalLM.from_config(config_of(_thawed(spec))))
