"""The fields of SWEEP.yaml, block by block, as docs/sweep.md describes them; `recipe` says what they mean together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag, model_validator

from cptlaw.errors import DataError, name_hint
from cptlaw_sweep.fields import (
    Between,
    Block,
    Count,
    Flag,
    Many,
    Named,
    Number,
    Positive,
    Share,
    Text,
    choice,
    problem,
    reader,
)

ENDINGS = (".bin", ".idx")
MOST_LAYERS = 10_000
MOST_TOKENS = 10**10  # of an optimiser step
# What a block of `adapt` may say for itself; where it does not, what the recipe says holds.
HANDED_DOWN = ("context", "batch", "micro_batch", "keep", "merge")
Keep = Annotated[str, choice("no", "last", "best", "all")]
Log = Annotated[str, choice("jsonl", "tensorboard", "wandb")]


def _by_key(**tags: str) -> Discriminator:
    """Return what chooses the kind of a block by a key that it has; `default` where it has none of them."""

    def tag(value: object) -> str:
        keys = value if isinstance(value, Mapping) else ()
        return f"<{next((tags[key] for key in tags if key in keys), tags['default'])}>"

    return Discriminator(tag)


class Resources(Block):
    """What one run may use.

    Attributes
    ----------
    gpus
        Whole GPUs, or a share of one for small models that are packed; 0 is the CPU.
    memory
        Bytes of a process; 0 where it is to be estimated.
    processes
        Processes on the CPU; with GPUs there is one for each.
    nodes
        Machines, each with that many GPUs or processes.
    shard
        Whether weights and optimiser states are shared out among processes (FSDP).
    """

    gpus: Number = 0.0
    memory: Count = 0
    processes: Count = 0
    nodes: Count = 1
    shard: Flag = False

    @model_validator(mode="after")
    def _check(self) -> Resources:
        # Ray and Slurm give whole devices beyond one.
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise problem(f"gpus {self.gpus:g}: expected whole GPUs, or a share of one.")
        if self.gpus and self.processes:
            raise problem("`processes` is for the CPU; with GPUs there is one for each.")
        return self

    @property
    def per_node(self) -> int:
        """Processes that share one run on each machine."""
        return max(1, int(self.gpus), self.processes)

    @property
    def in_all(self) -> int:
        """Processes that share one run."""
        return self.per_node * max(1, self.nodes)


class Optimizer(Block):
    """AdamW."""

    beta1: Share = 0.9
    beta2: Share = 0.95
    epsilon: Positive = 1e-8
    weight_decay: Number = 0.1
    clip: Number = 1.0


class EvalSet(Block):
    """A validation set beside those of source and target."""

    text: Text
    whole: Flag = False

    @property
    def split(self) -> str:
        """The part of the text that is measured on."""
        return "all" if self.whole else "validation"


class Evaluate(Block):
    """The command that evaluates each kept model."""

    command: Text
    seconds: Positive = 4 * 3600.0

    @model_validator(mode="after")
    def _check(self) -> Evaluate:
        if "{model}" not in self.command:
            raise problem(f"{self.command!r} names no {{model}}, the folder of the model to evaluate.")
        return self


class _Source(Block):
    validation: Share = 0.01
    max_tokens: Count | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, with its defaults."""
        return self.model_dump()


class Ids(_Source):
    """Token ids in Megatron's NAME.bin and NAME.idx."""

    ids: Many[Text]

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, with its defaults."""
        names = dict.fromkeys(name.removesuffix(".bin").removesuffix(".idx") for name in self.ids)
        return {**super().plain(), "ids": True, "files": [f"{name}{ending}" for name in names for ending in ENDINGS]}


class Files(_Source):
    """Files of text, or records with a field of text."""

    files: Many[Text]
    field: Text = "text"
    group: Text | None = None


class Dataset(_Source):
    """A data set of Hugging Face `datasets`."""

    dataset: Text
    config: Text | None = None
    revision: Text | None = None
    data_files: Many[Text] | None = None
    split: Text = "train"
    streaming: Flag = False
    field: Text = "text"
    group: Text | None = None

    @model_validator(mode="after")
    def _check(self) -> Dataset:
        if self.streaming and self.max_tokens is None:
            raise problem("a streamed data set has no end that is known. Say how much is read with max_tokens.")
        return self


def _one_source(value: object) -> object:
    if isinstance(value, Mapping) and sum(kind in value for kind in ("files", "dataset", "ids")) != 1:
        raise problem(
            "expected one of `files` (paths), `ids` (Megatron's NAME of NAME.bin and NAME.idx) or `dataset` "
            "(of Hugging Face datasets)."
        )
    return value


Source = Annotated[
    Annotated[Files, Tag("<files>")] | Annotated[Ids, Tag("<ids>")] | Annotated[Dataset, Tag("<dataset>")],
    _by_key(ids="ids", dataset="dataset", default="files"),
    BeforeValidator(_one_source),
]


class TrainedTokenizer(Block):
    """Byte-level BPE, trained on a text of the recipe."""

    train_on: Text
    vocabulary: Count

    @model_validator(mode="after")
    def _check(self) -> TrainedTokenizer:
        if self.vocabulary < 257:  # each byte has a symbol, and documents need an end
            raise problem(f"a vocabulary of {self.vocabulary} is too small. Expected 257 or more, or bytes.")
        return self


class GivenTokenizer(Block):
    """One in a folder, or of the hub."""

    pretrained: Text
    revision: Text | None = None


class Bytes(Block):
    """No tokenizer: bytes."""

    bytes: Flag = True


Tokenizer = Annotated[
    Annotated[Bytes, Tag("<bytes>")]
    | Annotated[GivenTokenizer, Tag("<given>")]
    | Annotated[TrainedTokenizer, Tag("<trained>")],
    _by_key(bytes="bytes", pretrained="given", default="trained"),
    BeforeValidator(lambda value: {"bytes": True} if value == "bytes" else value),
]


class Lora(Block):
    """Adapters of low rank on all linear layers (LoRA, arXiv:2106.09685)."""

    rank: Many[Count]
    alpha: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Lora:
        if not all(self.rank) or len(set(self.rank)) != len(self.rank):
            raise problem("rank: expected ranks of 1 or more, each once.")
        return self


class _Model(Block):
    seeds: Many[Count] = [0]
    lora: Lora | None = None


class _Scratch(_Model):
    @model_validator(mode="after")
    def _no_adapters(self) -> _Scratch:
        if self.lora is not None:
            raise problem("lora: adapters are trained beside a given model; this one starts from scratch.")
        return self


class Sized(_Scratch):
    """A GPT-2-style decoder of about so many parameters, from scratch."""

    n_params: Positive


class Shaped(_Scratch):
    """A GPT-2-style decoder from scratch."""

    width: Count
    layers: Count
    heads: Count

    @model_validator(mode="after")
    def _check(self) -> Shaped:
        if not (self.width and self.layers and self.heads) or self.width % self.heads:
            raise problem(f"width {self.width} is not a multiple of heads {self.heads}.")
        if self.layers > MOST_LAYERS or self.width > 10**6:
            raise problem(
                f"{self.layers} layers of width {self.width}: expected at most {MOST_LAYERS} layers, and a width of at "
                "most 1,000,000."
            )
        return self


class Configured(_Scratch):
    """Any decoder of transformers, from scratch."""

    config: Named[Any]

    @model_validator(mode="after")
    def _check(self) -> Configured:
        for name, extent in self.config.items():
            if isinstance(extent, int | float) and abs(extent) > 1e9:
                raise problem(f"config: {name} is {extent:g}. No decoder has so many.")
        return self


class Given(_Model):
    """A model that comes with weights."""

    pretrained: Text
    revision: Text | None = None
    ptpp: Positive | None = None
    pt_tokens: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Given:
        if self.ptpp is not None and self.pt_tokens is not None:
            raise problem("expected `ptpp` or `pt_tokens`, not both.")
        return self


Model = Annotated[
    Annotated[Given, Tag("<given>")]
    | Annotated[Configured, Tag("<configured>")]
    | Annotated[Sized, Tag("<sized>")]
    | Annotated[Shaped, Tag("<shaped>")],
    _by_key(pretrained="given", config="configured", n_params="sized", default="shaped"),
]


class RateRule(Block):
    """A learning rate by size: ``at * (N / n_params) ** power``."""

    at: Positive
    n_params: Positive
    power: Number = -1 / 3


class Pretrain(Block):
    """The ladder of pre-training."""

    text: Text
    ptpp: Many[Positive]
    schedule: Annotated[str, choice("wsd", "constant", "cosine", "linear")] = "wsd"
    peak: Any
    warmup: Count = 100
    decay: Share = 0.15
    end: Many[Any] = [0.0]
    points_per_doubling: Positive | None = None
    first_tokens_per_param: Positive = 0.25


def _schedules(value: object) -> list[dict[str, object]]:
    """Read schedules of adaptation: the fields of a phase without its steps; `peak` may be several rates."""
    result = []
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, Mapping) or "schedule" not in one or "peak" not in one:
            raise DataError(f"found {one!r}. Expected a schedule, such as {{schedule: wsd, peak: 3e-3, decay: 25%}}.")
        if unusable := {"phase", "steps", "tokens_per_step"} & set(one):
            raise DataError(f"{', '.join(sorted(unusable))} follow from the run; leave them out.")
        peaks = one["peak"] if isinstance(one["peak"], list) else [one["peak"]]
        if not peaks:
            raise DataError("peak: the list is empty.")
        result += [{**{str(key): item for key, item in one.items()}, "peak": peak} for peak in peaks]
    if not result:
        raise DataError("the list is empty.")
    return result


class Rows(Block):
    """What is read per optimiser step.

    Attributes
    ----------
    context
        Tokens per row.
    batch
        Rows per step.
    micro_batch
        Rows per forward pass of one process; 0 takes all.
    """

    context: Count = 128
    batch: Count = 8
    micro_batch: Count = 0

    @property
    def step_tokens(self) -> int:
        """Tokens per optimiser step."""
        return self.context * self.batch

    def check_rows(self, processes: int, where: str = "") -> None:
        """Refuse rows that so many processes cannot share."""
        if self.context < 1 or self.batch < 1:
            raise problem(f"{where}context and batch must be 1 or more.")
        if self.step_tokens > MOST_TOKENS:
            raise problem(f"{where}context {self.context} times batch {self.batch} tokens per step are too many.")
        if self.batch % processes:
            raise problem(f"{where}batch {self.batch} cannot be shared evenly by {processes} processes.")
        own = self.batch // processes
        if self.micro_batch and own % self.micro_batch:
            # The nearest choices below, so that nobody has to divide.
            usable = [str(n) for n in range(1, min(own, 4096) + 1) if own % n == 0]
            raise problem(
                f"{where}micro_batch {self.micro_batch} does not divide the {own} rows of "
                f"{'a step' if processes == 1 else 'a process'}. Choose one of {', '.join(usable[-8:])}."
            )


class Adapt(Rows):
    """A block of continual pre-training: which runs it asks for."""

    target: Text
    source: Text | None = None
    replay: Many[Share] | None = None
    mixes: Many[Named[Share]] | None = None
    pools: Named[Positive] = {}
    tokens_per_param: Many[Positive] = []
    tokens: Many[Positive] = []
    schedules: Annotated[list[dict[str, Any]], reader(_schedules)]
    orders: Many[Count] = [0]
    first_tokens_per_param: Positive = 0.25
    first_tokens: Positive | None = None
    points_per_doubling: Positive = 1.0
    points: Count | None = None
    models: Many[Text] | None = None
    ptpp: Many[Positive] | None = None
    seeds: Many[Count] | None = None
    optimizer_state: Annotated[str, choice("fresh", "carried")] = "fresh"
    merge: Many[Between] = []
    keep: Keep = "no"

    @model_validator(mode="after")
    def _check(self) -> Adapt:
        if (self.replay is None) == (self.mixes is None):
            raise problem("expected either `replay` (shares of the source) or `mixes` (weights of corpora).")
        if bool(self.tokens) == bool(self.tokens_per_param):
            raise problem("expected either `tokens` or `tokens_per_param`, the lengths of the runs.")
        if self.source is None and any(self.replay or ()):
            raise problem("'source' is missing: replay draws from it. docs/sweep.md lists the fields.")
        for place, weights in enumerate(self.mixes or ()):
            if abs(sum(weights.values()) - 1) > 1e-6:
                raise problem(f"mixes[{place}]: the weights sum to {sum(weights.values()):.4g}. Expected 1.")
        for name in self.pools:
            if name not in self.corpora:
                raise problem(f"pools: no mix reads {name!r}.{name_hint(name, sorted(map(str, self.corpora)))}")
        return self

    @property
    def weights(self) -> list[dict[Any, float]]:
        """The weights of the corpora of each mix."""
        return self.mixes or [{self.source: share, self.target: 1 - share} for share in self.replay or ()]

    @property
    def corpora(self) -> set[Any]:
        """The corpora that any mix names."""
        return {name for weights in self.weights for name in weights}

    @property
    def others(self) -> tuple[str, ...]:
        """The corpora beside source and target."""
        return tuple(sorted(self.corpora - {self.source, self.target}))

    @property
    def is_carried(self) -> bool:
        """Whether runs go on with the optimiser of pre-training."""
        return self.optimizer_state == "carried"


class SweepFile(Rows):
    """A recipe."""

    name: Text | None = None
    resources: Resources = Resources()
    precision: Annotated[str, choice("fp32", "bf16")] = "fp32"
    compile: Flag = False
    activation_checkpointing: Flag = False
    checkpoint_seconds: Number = 60.0
    text: Named[Source]
    models: Named[Model]
    tokenizer: Tokenizer | None = None
    optimizer: Optimizer = Optimizer()
    evals: Named[EvalSet] = {}
    eval_sequences: Count = 384
    keep: Keep = "no"
    merge: Many[Between] = []
    evaluate: Annotated[
        Evaluate | None, BeforeValidator(lambda value: {"command": value} if isinstance(value, str) else value)
    ] = None
    log: Many[Log] = ["jsonl"]
    pretrain: Pretrain | None = None
    adapt: Many[Adapt] = []

    @model_validator(mode="after")
    def _hand_down(self) -> SweepFile:
        self.check_rows(self.resources.in_all)
        for place, block in enumerate(self.adapt):
            for name in set(HANDED_DOWN) - block.model_fields_set:
                setattr(block, name, getattr(self, name))
            block.check_rows(self.resources.in_all, f"adapt[{place}]: ")
        return self

    def named_texts(self) -> Iterator[tuple[str, str]]:
        """Yield where texts are named, and their names."""
        if isinstance(self.tokenizer, TrainedTokenizer):
            yield "tokenizer: train_on", self.tokenizer.train_on
        if self.pretrain is not None:
            yield "pretrain: text", self.pretrain.text
        for name, one in self.evals.items():
            yield f"evals: {name}", one.text
        for place, block in enumerate(self.adapt):
            for number, weights in enumerate(block.mixes or ()):
                yield from ((f"adapt[{place}]: mixes[{number}]", name) for name in weights)
            yield f"adapt[{place}]: target", block.target
            if block.source is not None:
                yield f"adapt[{place}]: source", block.source
