"""What manifests, jobs and the store hold of texts, tokenizers and models: plain data, by the names of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, Required, TypedDict


class SourceFile(TypedDict):
    """A file of a text, as it was when the sweep was planned."""

    path: str
    sha256: str


class SourceSpec(TypedDict, total=False):
    """Where a text comes from: files, or a data set of Hugging Face `datasets`."""

    files: list[SourceFile]
    ids: str
    dataset: str
    config: str | None
    data_files: str | list[str] | None
    split: str
    streaming: bool
    revision: str | None
    field: str
    group: str | None
    validation: float
    max_tokens: int | None


class TokenizerSpec(TypedDict, total=False):
    """What defines a tokenizer; a trained one carries the fingerprint of its text as `identity`."""

    kind: Required[Literal["bytes", "trained", "pretrained"]]
    text: str
    vocabulary: int
    identity: str
    name: str
    revision: str | None
    content: str
    called: str


class TextSpec(TypedDict):
    """A text with its tokenizer, ready to be prepared."""

    name: str
    source: SourceSpec
    tokenizer: TokenizerSpec
    tokenizer_source: SourceSpec | None
    tokenizer_place: NotRequired[str | None]


class Shard(TypedDict):
    """A file of token ids."""

    file: str
    tokens: int
    sha256: str


class SplitIndex(TypedDict):
    """The shards of one side of a prepared text."""

    tokens: int
    documents: int
    shards: list[Shard]


class TextIndex(TypedDict):
    """What is known of a prepared text."""

    dtype: str
    vocabulary: int
    bytes: int
    train: SplitIndex
    validation: SplitIndex


class LoraSpec(TypedDict):
    """Adapters of a given model."""

    rank: int
    alpha: float


class DecoderWidths(TypedDict):
    """The shape of a GPT-2-style decoder."""

    width: int
    layers: int
    heads: int


class ModelSpec(TypedDict, total=False):
    """What defines a model: a shape of our own, a configuration of transformers, or one that comes with weights."""

    kind: Required[Literal["gpt2", "config", "pretrained"]]
    width: int
    layers: int
    heads: int
    vocabulary: int
    context: int
    config: Mapping[str, object]
    content: str
    name: str
    revision: str | None
    place: str
    lora: LoraSpec


class MixSpec(TypedDict, total=False):
    """Which texts a run reads and how much of each: weights, or the share of the first of two."""

    texts: Required[list[str]]
    weights: list[str]
    share: str
    pools: Mapping[str, int]
    seed: Required[int]


class MeasuredRow(TypedDict):
    """One loss or score of a run, as the store keeps it."""

    eval: str
    domain: str | None
    loss: float
    step: int
    tokens: int
    lr: float | None
    merge_weight: NotRequired[float]
    metric: NotRequired[str]
    n_items: NotRequired[float]
    chance: NotRequired[float]


class JobReport(TypedDict, total=False):
    """How a finished job went: counts exact, seconds as measured; of an evaluation without what is of training."""

    name: Required[str]
    kind: Required[str]
    seconds: Required[float]
    tokens_per_second: Required[float | None]
    tokens: int
    tokens_by_text: Mapping[str, int]
    epochs_by_text: Mapping[str, float]
    device: str
    processes: int
