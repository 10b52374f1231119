"""Models of a recipe as plain data: what defines them, how many parameters they have. Needs no torch for most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError
from cptlaw_sweep import given
from cptlaw_sweep.fields import Fields, count, positive, text, whole
from cptlaw_sweep.sizes import DecoderShape, count_folder, count_gpt2, count_lora, shape_of_spec

MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Model:
    """A model of a recipe.

    Parameters
    ----------
    name
        In the recipe; with adapters, their rank added.
    spec
        What defines it, as plain data.
    total, non_embedding
        Parameters.
    seeds
        Of its initialisation.
    ptpp
        Pre-training tokens per parameter, where it is given and they are known.
    place
        Where a given one lies: a folder, or a name of the hub.
    trainable
        Parameters that are trained; all but those frozen beside adapters.
    config
        The settings that its shape is read from.
    """

    name: str
    spec: dict[str, Any]
    total: int
    non_embedding: int
    seeds: list[int]
    ptpp: float | None
    place: str | None = None
    trainable: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether it comes with weights."""
        return bool(self.spec["kind"] == "pretrained")

    @property
    def shape(self) -> DecoderShape | None:
        """What decides about its memory."""
        return DecoderShape.of(self.config) if self.is_given else shape_of_spec(self.spec)


def read_model(value: Any, where: str, *, vocabulary: int, context: int) -> dict[str, Any]:
    """Read a model of a recipe into plain data that defines it.

    Parameters
    ----------
    value
        ``{n_params: 1M}`` or ``{width: 64, layers: 2, heads: 4}`` (a GPT-2-style decoder from scratch), ``{config:
        {model_type: llama, ..}}`` (any decoder of transformers from scratch).
    """
    fields = value if isinstance(value, Fields) else Fields(value, where)
    if "pretrained" in fields:
        raise UsageError(f"{where}: a given model is read by `read_given`.")
    if "config" in fields:
        config = fields.take("config", lambda found, _: dict(found))
        for name, extent in config.items():
            if isinstance(extent, int | float) and abs(extent) > 1e9:
                raise DataError(f"{where}: config: {name} is {extent:g}. No decoder has so many.")
        return {"kind": "config", "config": config, "vocabulary": vocabulary, "context": context}
    if "n_params" in fields:
        shape = shape_of(fields.take("n_params", positive), vocabulary, context)
    else:
        shape = {name: fields.take(name, count) for name in ("width", "layers", "heads")}
        if not all(shape.values()) or shape["width"] % shape["heads"]:
            raise DataError(f"{where}: width {shape['width']} is not a multiple of heads {shape['heads']}.")
        if shape["layers"] > MOST_LAYERS or shape["width"] > 10**6:
            raise DataError(
                f"{where}: {shape['layers']} layers of width {shape['width']}: expected at most {MOST_LAYERS} layers, "
                "and a width of at most 1,000,000."
            )
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
        # Embeddings of tokens and positions and the last norm; then attention and a perceptron of four widths, with
        # their biases and norms.
        return (vocabulary + context + 2) * width + layers * (12 * width * width + 13 * width)

    width = min(widths, key=lambda width: abs(math.log(total(width) / n_params)))
    heads = max(1, round(width / (16 if width < 128 else 32 if width < 512 else 64)))
    # Heads must divide the width: the next smaller number that does.
    while width % heads:
        heads -= 1
    return {"width": width, "layers": _layers(width), "heads": heads}


def _layers(width: int) -> int:
    return max(2, round(width / 64))


def read_models(fields: Fields, *, vocabulary: int, context: int, folder: Path) -> list[Model]:
    """Read one entry of `models`; with several ranks of adapters it is several models.

    Parameters
    ----------
    vocabulary, context
        Of the sweep.
    folder
        Where relative paths start: the folder of the recipe.
    """
    where = fields.where
    name = where.rsplit(": ", 1)[-1]
    if "pretrained" in fields:
        model = _read_given(fields, name, folder)
    else:
        spec = read_model(fields, where, vocabulary=vocabulary, context=context)
        seeds = fields.take("seeds", whole, [0])
        total, non_embedding = sizes_of(spec, where)
        model = Model(name, spec, total, non_embedding, seeds, None)
    adapters = fields.take("lora", lambda value, place: _read_lora(Fields(value, place)), None)
    fields.end()
    if adapters is None:
        return [model]
    if not model.is_given:
        raise DataError(f"{where}: lora: adapters are trained beside a given model; this one starts from scratch.")
    return [_with_adapters(model, rank, adapters, several=len(adapters["ranks"]) > 1) for rank in adapters["ranks"]]


def _read_given(fields: Fields, name: str, folder: Path) -> Model:
    where = fields.where
    asked = fields.take("pretrained", text)
    revision = fields.take("revision", text, None)
    ptpp = fields.take("ptpp", positive, None)
    tokens = fields.take("pt_tokens", positive, None)
    seeds = fields.take("seeds", whole, [0])
    try:
        place = given.find_folder(asked, folder)
    except DataError as error:
        raise DataError(f"{where}: pretrained: {error}") from None
    if place is not None:
        spec: dict[str, Any] = {"kind": "pretrained", "content": given.content_of(place)}
        config = given.read_config(place)
        # Read off the shapes that stand in the folder where they can be, for building a model of billions takes a
        # minute and torch.
        sizes = count_folder(place) or sizes_with_torch({**spec, "place": str(place)}, where)
    else:
        spec = {"kind": "pretrained", "name": asked, "revision": given.resolve(asked, revision)}
        config = {}
        sizes = sizes_with_torch(spec, where)
    if ptpp is not None and tokens is not None:
        raise DataError(f"{where}: expected `ptpp` or `pt_tokens`, not both.")
    if tokens is not None:
        ptpp = tokens / sizes[0]
    return Model(name, spec, *sizes, seeds, ptpp, str(place) if place else asked, None, config)


def _read_lora(fields: Fields) -> dict[str, Any]:
    """Read adapters of low rank (LoRA, arXiv:2106.09685)."""
    ranks = fields.take("rank", whole)
    found = {"ranks": ranks, "alpha": fields.take("alpha", positive, None)}
    fields.end()
    if not all(ranks) or len(set(ranks)) != len(ranks):
        raise DataError(f"{fields.where}: rank: expected ranks of 1 or more, each once.")
    return found


def _with_adapters(model: Model, rank: int, adapters: Mapping[str, Any], *, several: bool) -> Model:
    alpha = adapters["alpha"] or 2.0 * rank
    spec = {**model.spec, "lora": {"rank": rank, "alpha": alpha}}
    trainable = count_lora({"kind": "config", "config": model.config}, rank)
    name = f"{model.name}-r{rank}" if several else model.name
    return Model(
        name, spec, model.total, model.non_embedding, model.seeds, model.ptpp, model.place, trainable, model.config
    )


def sizes_of(spec: Mapping[str, Any], where: str = "model") -> tuple[int, int]:
    """Return (total, without embeddings) of a model without allocating it."""
    if spec["kind"] == "gpt2":
        return count_gpt2(spec)
    return sizes_with_torch(spec, where)


def sizes_with_torch(spec: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return (total, without embeddings) of a model that transformers builds without allocating it."""
    try:
        from cptlaw_sweep import models
    except ImportError:
        raise UsageError(
            f"{where}: counting the parameters of this model needs transformers and torch. "
            "Install them with: pip install 'cptlaw[training]'"
        ) from None
    return models.sizes_of(spec)
