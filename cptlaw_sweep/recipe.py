"""What SWEEP.yaml says: docs/sweep.md describes the fields; this file is what they mean.

`load_sweep` makes the jobs of it, by `ladders` (pre-training) and `adaptations` (continual pre-training). Nothing here
needs torch: a recipe can be read and priced on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, did_you_mean
from cptlaw.reading import existing_file, parse_yaml, read_utf8
from cptlaw_sweep import given_models, tokenizers
from cptlaw_sweep.fields import Plain, read_block
from cptlaw_sweep.jobs import Job, fingerprint_of
from cptlaw_sweep.model_spec import Model, models_of
from cptlaw_sweep.prepare import text_fingerprint
from cptlaw_sweep.schema import Adapt, Given, GivenTokenizer, Resources, RowsAsked, SweepFile
from cptlaw_sweep.sizes import memory_of
from cptlaw_sweep.sources import identity, with_files

# Memory of a process before it holds any model: Python, torch, transformers.
PROCESS_BYTES = 700_000_000


@dataclass(frozen=True)
class Rows:
    """What is read per optimiser step.

    Parameters
    ----------
    context
        Tokens per row.
    batch
        Rows per step.
    micro_batch
        Rows per forward pass of one process; 0 takes all.
    """

    context: int
    batch: int
    micro_batch: int

    @property
    def tokens(self) -> int:
        """Tokens per optimiser step."""
        return self.context * self.batch


def rows_of(asked: RowsAsked, usual: Rows, resources: Resources, where: str) -> Rows:
    """Return what is read per step, as the file or a block of it asks."""
    result = Rows(
        usual.context if asked.context is None else asked.context,
        usual.batch if asked.batch is None else asked.batch,
        usual.micro_batch if asked.micro_batch is None else asked.micro_batch,
    )
    if result.context < 1 or result.batch < 1:
        raise DataError(f"{where}: context and batch must be 1 or more.")
    if result.tokens > 10**10:
        raise DataError(f"{where}: context {result.context} times batch {result.batch} tokens per step are too many.")
    if result.batch % resources.in_all:
        raise DataError(f"{where}: batch {result.batch} cannot be shared evenly by {resources.in_all} processes.")
    own = result.batch // resources.in_all
    if result.micro_batch and own % result.micro_batch:
        # The nearest choices below, so that nobody has to divide.
        usable = [str(n) for n in range(1, min(own, 4096) + 1) if own % n == 0]
        raise DataError(
            f"{where}: micro_batch {result.micro_batch} does not divide the {own} rows of "
            f"{'a step' if resources.in_all == 1 else 'a process'}. Choose one of {', '.join(usable[-8:])}."
        )
    return result


def read_recipe(path: Path) -> tuple[str, Any]:
    """Return the text of a recipe, and what it holds as plain data."""
    content = read_utf8(existing_file(path)).decode("utf-8")
    return content, parse_yaml(content, str(path))


class Recipe:
    """A recipe as it is read: what all jobs share, and the texts that they turn out to need."""

    def __init__(self, value: Any, path: Path):
        asked = read_block(SweepFile, value, path.name)
        self.path, self.asked, self.resources = path, asked, asked.resources
        self.name = asked.name or path.stem
        self.pretrain, self.evaluate = asked.pretrain, asked.evaluate
        self.rows = rows_of(asked, Rows(128, 8, 0), self.resources, path.name)
        self.sources = {
            name: with_files(source.plain(), path.parent, f"{path.name}: text: {name}")
            for name, source in asked.text.items()
        }
        self.tokenizer, self._tokenizer_place = self._read_tokenizer(asked)
        self._vocabulary = tokenizers.vocabulary_of(self.tokenizer, self._tokenizer_place)
        self.evals = {
            name: {"text": one.text, "split": "all" if one.whole else "validation"} for name, one in asked.evals.items()
        }
        for name, one in asked.evals.items():
            self.source(one.text, f"{path.name}: evals: {name}")
        self.texts: dict[str, Plain] = {}
        self._keys: dict[str, str] = {}
        self.adapt = [self._read_adapt(block, f"{path.name}: adapt[{k}]") for k, block in enumerate(asked.adapt)]
        longest = max([self.rows.context, *(block["rows"].context for block in self.adapt)])
        result = [
            model
            for name, entry in asked.models.items()
            for model in models_of(
                name, entry, f"{path.name}: models: {name}", (self._vocabulary, longest), path.parent
            )
        ]
        self.models = {model.name: model for model in result}
        for block in self.adapt:
            self.check_models(block)
        self._check_tokenizer()

    def notes(self) -> Iterator[str]:
        """Yield what a recipe brings along without asking for it."""
        for model in self.models.values():
            off = given_models.dropout_of(model.config)
            if off:
                listed = ", ".join(f"{name} {value:g}" for name, value in off.items())
                yield f"dropout of {model.name} is off ({listed} in its configuration)"

    # Parts of the file

    def _read_tokenizer(self, asked: SweepFile) -> tuple[Plain, str | None]:
        where, folder, wanted = f"{self.path.name}: tokenizer", self.path.parent, asked.tokenizer
        with_weights = [(name, entry) for name, entry in asked.models.items() if isinstance(entry, Given)]
        if wanted is None and with_weights:
            # A given model reads its own ids and no others.
            name, entry = with_weights[0]
            where = f"{self.path.name}: models: {name}"
            if (model := given_models.find_folder(entry.pretrained, folder)) is not None:
                given_models.read_config(model)  # whether it is a model at all comes first
            wanted = GivenTokenizer(pretrained=entry.pretrained, revision=entry.revision)
        spec, place = tokenizers.spec_of(wanted, where, folder)
        if spec["kind"] == "trained":
            spec["identity"] = fingerprint_of(identity(self.source(spec["text"], f"{where}: train_on")))
        return spec, place

    def _read_adapt(self, asked: Adapt, where: str) -> Plain:
        """Return a block of `adapt` with what it leaves to the recipe."""
        for place, weights in enumerate(asked.mixes or ()):
            for name in weights:
                self.source(name, f"{where}: mixes[{place}]")
        self.source(asked.target, f"{where}: target")
        if asked.source is not None:
            self.source(asked.source, f"{where}: source")
        mixes = [
            {
                "replay": None if asked.source is None and asked.mixes else weights.get(asked.source, 0.0),
                "weights": weights,
            }
            | ({"named": True} if asked.mixes else {})
            for weights in asked.weights
        ]
        used = {name for weights in asked.weights for name in weights}
        return {
            **asked.model_dump(),
            "where": where,
            "rows": rows_of(asked, self.rows, self.resources, where),
            "mixes": mixes,
            "others": tuple(sorted(used - {asked.source, asked.target})),
            "pools": {name: int(tokens) for name, tokens in asked.pools.items()},
            "carried": asked.optimizer_state == "carried",
            "keep": asked.keep or self.asked.keep,
            "merge": self.asked.merge if asked.merge is None else asked.merge,
        }

    def _check_tokenizer(self) -> None:
        """Refuse a given model whose ids are not those of the sweep's tokenizer."""
        for model in self.models.values():
            where = f"{self.path.name}: models: {model.name}"
            folder = Path(model.place) if model.place and Path(model.place).is_dir() else None
            if folder is None:
                continue
            known = int(model.config.get("vocab_size") or 0)
            if known and known < self._vocabulary:
                raise DataError(
                    f"{where}: it knows {known} token ids, and the tokenizer has {self._vocabulary}. "
                    "Leave `tokenizer` out to use the model's own."
                )
            own = given_models.tokenizer_content(folder)
            if self.tokenizer["kind"] == "bytes" and known != 256:
                raise DataError(
                    f"{where}: a model with {known} token ids was not trained on bytes. "
                    "Leave `tokenizer` out to use the model's own, or name it."
                )
            if own and self.tokenizer.get("content") and own != self.tokenizer["content"]:
                raise DataError(
                    f"{where}: its tokenizer is not the one of the sweep, and losses per token of two tokenizers "
                    "cannot be compared. Use one recipe per tokenizer."
                )

    def check_models(self, block: Plain) -> None:
        """Refuse a block that names a model that is not there; one entry with several ranks may be named as a whole."""
        if block["models"] is None:
            block["models"] = list(self.models)
        chosen: list[str] = []
        for name in block["models"]:
            ranks = [each for each in self.models if name in self.asked.models and each.startswith(f"{name}-r")]
            if name not in self.models and not ranks:
                raise DataError(
                    f"{block['where']}: there is no model {name!r}.{did_you_mean(name, self.models)} "
                    f"Known: {', '.join(self.models)}."
                )
            chosen += [name] if name in self.models else ranks
        block["models"] = chosen

    def source(self, name: str, where: str) -> Plain:
        """Return a text of the recipe."""
        if name not in self.sources:
            raise DataError(
                f"{where}: there is no text {name!r}.{did_you_mean(name, self.sources)} "
                f"Known: {', '.join(self.sources)}."
            )
        return self.sources[name]

    def text(self, name: str) -> str:
        """Return the fingerprint of a text, and note that the sweep reads it."""
        if name in self._keys:
            return self._keys[name]
        source = self.sources[name]
        key = text_fingerprint(source, self.tokenizer)
        trained = self.tokenizer["kind"] == "trained"
        self.texts[key] = {
            "name": name,
            "source": source,
            "tokenizer": self.tokenizer,
            "tokenizer_source": self.sources[self.tokenizer["text"]] if trained else None,
            "tokenizer_place": self._tokenizer_place,
        }
        self._keys[name] = key
        return key

    def eval_entries(self, source: str | None, targets: list[str], others: tuple[str, ...] = ()) -> list[Plain]:
        """Return the validation sets of a job: source, targets, other corpora of its mix, and those of the recipe."""
        several = len(targets) > 1
        entries: list[Plain] = []
        for role, names in (("source", [source] if source else []), ("target", targets)):
            for name in names:
                own = self.evals.get(role) if not several else None
                text, split = (own["text"], own["split"]) if own else (name, "validation")
                entries.append(
                    {"eval": role, "domain": name if role == "target" else None, "text": text, "split": split}
                )
        if source is None and "source" in self.evals:
            entries.append({"eval": "source", "domain": None, **self.evals["source"]})
        entries += [{"eval": name, "domain": None, "text": name, "split": "validation"} for name in others]
        for name, own in self.evals.items():
            if name not in ("source", "target", *others):
                entries.append({"eval": name, "domain": None, **own})
        for entry in entries:
            if entry["split"] == "validation" and not self.sources[entry["text"]]["validation"]:
                raise DataError(
                    f"{self.path.name}: text {entry['text']!r} has `validation: 0` and is to be measured on."
                )
            entry["text"] = self.text(entry["text"])
            entry["sequences"] = self.asked.eval_sequences
        return entries

    # Jobs

    def job(
        self,
        base: Model,
        name: str,
        kind: str,
        needs: tuple[str, ...],
        columns: Plain,
        rows: Rows | None = None,
        **definition: Any,
    ) -> Job:
        """Return a job of a model, with what all jobs share."""
        rows = rows or self.rows
        first, last = definition["steps"]
        tokens = (last - first) * rows.tokens
        trainable = base.total if base.trainable is None else base.trainable
        shared: Plain = {
            "model": base.spec,
            "context": rows.context,
            "batch": rows.batch,
            "micro_batch": rows.micro_batch,
            "optimizer": {"name": "adamw", **self.asked.optimizer.model_dump()},
            "precision": self.asked.precision,
            "compile": self.asked.compile,
        }
        if self.resources.shard:
            shared["shard"] = True
        # Adapters have columns of their own only where there are some, or every table would carry them empty.
        adapters = {"n_trainable": trainable, "lora_rank": base.spec["lora"]["rank"]} if "lora" in base.spec else {}
        places = {"model": base.place} if base.place else {}
        if self._tokenizer_place:
            places["tokenizer"] = self._tokenizer_place
        memory = self.memory(base, rows)
        if definition.get("merge") and not adapters:
            memory["merges"] = 8 * base.total  # float32 copies of the base model and of the adapted one
        return Job(
            name=name,
            kind=kind,
            definition={**shared, **definition},
            needs=needs,
            tokens=tokens,
            # Adapters need the gradient of every activation, but of no frozen weight.
            flops=(6.0 * base.total if not adapters else 4.0 * base.total + 2.0 * trainable) * tokens,
            gpus=self.resources.gpus,
            memory=self.resources.memory or PROCESS_BYTES + sum(memory.values()),
            checkpoint_seconds=self.asked.checkpoint_seconds,
            columns={
                "model": base.name,
                "n_params": base.total,
                "n_params_kind": "total",
                "n_params_non_embedding": base.non_embedding,
                **adapters,
                "batch_tokens": rows.tokens,
                "tokenizer": tokenizers.name_of(self.tokenizer),
                **columns,
            },
            places=places,
            run={
                "processes": self.resources.per_node,
                "nodes": max(1, self.resources.nodes),
                "activation_checkpointing": self.asked.activation_checkpointing,
                "log": self.asked.log,
                "tokenizer": self.tokenizer,
                "memory": memory,
            },
        )

    def memory(self, base: Model, rows: Rows) -> dict[str, int]:
        """Return the peak of memory of a process that trains a model, by what takes it."""
        options = {
            "precision": self.asked.precision,
            "checkpointing": self.asked.activation_checkpointing,
            "shards": self.resources.in_all if self.resources.shard else 1,
        }
        trainable = base.total if base.trainable is None else base.trainable
        own = rows.micro_batch or rows.batch // self.resources.in_all
        return memory_of(base.total, trainable, base.shape, rows=own, context=rows.context, options=options)
