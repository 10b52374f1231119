"""Models of a recipe as plain data: what defines them, how many parameters they have. Needs no torch for most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cptlaw.errors import DataError, needed_for
from cptlaw_sweep import given_models
from cptlaw_sweep.schema import Configured, Given, Lora, Shaped, Sized
from cptlaw_sweep.sizes import DecoderShape, count_folder, count_gpt2, count_lora, shape_of_spec
from cptlaw_sweep.specs import DecoderWidths, ModelSpec


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
    spec: ModelSpec
    total: int
    non_embedding: int
    seeds: list[int]
    ptpp: float | None
    place: str | None = None
    trainable: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether it comes with weights."""
        return bool(self.spec["kind"] == "pretrained")

    @property
    def shape(self) -> DecoderShape | None:
        """What decides about its memory."""
        return DecoderShape.of(self.config) if self.is_given else shape_of_spec(self.spec)


def shape_of(n_params: float, vocabulary: int, context: int) -> DecoderWidths:
    """Return width, layers and heads of the GPT-2-style decoder nearest to a number of parameters, embeddings included.

    Examples
    --------
    >>> shape_of(125_000, 256, 128)
    {'width': 64, 'layers': 2, 'heads': 4}
    """
    widths = [*range(8, 512, 4), *range(512, 16385, 64)]

    def total(width: int) -> int:
        shape: ModelSpec = {"kind": "gpt2", "width": width, "layers": _layers_of_width(width)}
        return count_gpt2({**shape, "vocabulary": vocabulary, "context": context})[0]

    width = min(widths, key=lambda h: abs(math.log(total(h) / n_params)))
    heads = max(1, round(width / (16 if width < 128 else 32 if width < 512 else 64)))
    # Heads must divide the width: the next smaller number that does.
    while width % heads:
        heads -= 1
    return {"width": width, "layers": _layers_of_width(width), "heads": heads}


def _layers_of_width(width: int) -> int:
    return max(2, round(width / 64))


def models_of(
    name: str, asked: Given | Configured | Sized | Shaped, where: str, read: tuple[int, int], folder: Path
) -> list[Model]:
    """Return the models of one entry of `models`; with several ranks of adapters they are several.

    Parameters
    ----------
    read
        Vocabulary and context of the sweep.
    folder
        Where relative paths start: the folder of the recipe.
    """
    if isinstance(asked, Given):
        model = _given_model(name, asked, where, folder)
        return [_with_adapters(model, rank, asked.lora) for rank in asked.lora.rank] if asked.lora else [model]
    vocabulary, context = read
    if isinstance(asked, Configured):
        spec: ModelSpec = {"kind": "config", "config": asked.config}
    elif isinstance(asked, Sized):
        shape = shape_of(asked.n_params, vocabulary, context)
        spec = {"kind": "gpt2", "width": shape["width"], "layers": shape["layers"], "heads": shape["heads"]}
    else:
        spec = {"kind": "gpt2", "width": asked.width, "layers": asked.layers, "heads": asked.heads}
    spec |= {"vocabulary": vocabulary, "context": context}
    return [Model(name, spec, *sizes_of(spec, where), asked.seeds, None)]


def _given_model(name: str, asked: Given, where: str, folder: Path) -> Model:
    try:
        place = given_models.find_folder(asked.pretrained, folder)
    except DataError as error:
        raise DataError(f"{where}: pretrained: {error}") from None
    if place is not None:
        spec: ModelSpec = {"kind": "pretrained", "content": given_models.content_of(place)}
        config = given_models.read_config(place)
        # Read off the shapes that stand in the folder where they can be, for building a model of billions takes a
        # minute and torch.
        sizes = count_folder(place) or sizes_of({**spec, "place": str(place)}, where)
    else:
        commit = given_models.resolve(asked.pretrained, asked.revision)
        spec = {"kind": "pretrained", "name": asked.pretrained, "revision": commit}
        config = {}
        sizes = sizes_of(spec, where)
    ptpp = asked.ptpp if asked.pt_tokens is None else asked.pt_tokens / sizes[0]
    return Model(name, spec, *sizes, asked.seeds, ptpp, str(place) if place else asked.pretrained, None, config)


def _with_adapters(model: Model, rank: int, adapters: Lora) -> Model:
    spec: ModelSpec = {**model.spec, "lora": {"rank": rank, "alpha": adapters.alpha or 2.0 * rank}}
    trainable = count_lora({"kind": "config", "config": model.config}, rank)
    name = f"{model.name}-r{rank}" if len(adapters.rank) > 1 else model.name
    return replace(model, name=name, spec=spec, trainable=trainable)


def sizes_of(spec: ModelSpec, where: str = "model") -> tuple[int, int]:
    """Return (total, without embeddings) of a model without allocating it; but for our own decoders by transformers."""
    if spec["kind"] == "gpt2":
        return count_gpt2(spec)
    with needed_for(f"{where}: counting the parameters of this model", "cptlaw[training]"):
        from cptlaw_sweep import models
    return models.sizes_of(spec)
