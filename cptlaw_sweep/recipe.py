"""What SWEEP.yaml says: docs/sweep.md describes the fields; this file is what they mean.

`load_sweep` makes the jobs of it, by `ladders` (pre-training) and `adaptations` (continual pre-training). Nothing here
needs torch: a recipe can be read and priced on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, did_you_mean
from cptlaw.reading import existing_file, parse_yaml, read_utf8
from cptlaw_sweep import fields as read
from cptlaw_sweep import given, tokenizers
from cptlaw_sweep.adapt_block import read_adapt
from cptlaw_sweep.fields import Fields, Plain
from cptlaw_sweep.jobs import Job, fingerprint_of
from cptlaw_sweep.model_spec import Model, read_models
from cptlaw_sweep.prepare import text_fingerprint
from cptlaw_sweep.resources import Resources, Rows, read_resources
from cptlaw_sweep.sizes import memory_of
from cptlaw_sweep.sources import identity, read_source, with_files

# Memory of a process before it holds any model: Python, torch, transformers.
PROCESS_BYTES = 700_000_000

KEEP = ("last", "best", "all")


def read_recipe(path: Path) -> tuple[str, Any]:
    """Return the text of a recipe, and what it holds as plain data."""
    content = read_utf8(existing_file(path)).decode("utf-8")
    return content, parse_yaml(content, str(path))


class Recipe:
    """A recipe as it is read: what all jobs share, and the texts that they turn out to need."""

    def __init__(self, top: Fields, path: Path):
        self.path = path
        self.name = top.take("name", read.text, path.stem)
        self.resources = top.take("resources", read_resources, Resources())
        self.rows = self.resources.read_rows(top, Rows(128, 8, 0), path.name)
        self._precision = top.take("precision", read.choice("fp32", "bf16"), "fp32")
        self._compile = top.take("compile", read.flag, False)
        self._checkpointing = top.take("activation_checkpointing", read.flag, False)
        self._checkpoint_seconds = top.take("checkpoint_seconds", read.number, 60.0)
        self.sources = {
            name: with_files(source, path.parent, f"{path.name}: text: {name}")
            for name, source in top.take("text", read.named(read_source)).items()
        }
        self._models_asked = top.take("models", read.named(read.mapping))
        self.tokenizer, self._tokenizer_place = self._read_tokenizer(top)
        self._vocabulary = tokenizers.vocabulary_of(self.tokenizer, self._tokenizer_place)
        self._optimizer = _read_optimizer(top.take("optimizer", read.mapping, Fields({}, "optimizer")))
        self.evals = top.take("evals", read.named(self._read_eval), {})
        self._sequences = top.take("eval_sequences", read.count, 384)
        self.keep = top.take("keep", read.choice("no", *KEEP), "no")
        self.merge = top.take("merge", read.many(read.between), [])
        self.evaluate = top.take("evaluate", _read_evaluate, None)
        self._log = top.take("log", read.many(read.choice("jsonl", "tensorboard", "wandb")), ["jsonl"])
        self.pretrain = top.take("pretrain", read.mapping, None)
        blocks = top.take("adapt", read.many(read.mapping), [])
        top.end()
        self.texts: dict[str, Plain] = {}
        self._keys: dict[str, str] = {}
        self.adapt = [read_adapt(block, self) for block in blocks]
        longest = max([self.rows.context, *(block["rows"].context for block in self.adapt)])
        found = [
            model
            for entry in self._models_asked.values()
            for model in read_models(entry, vocabulary=self._vocabulary, context=longest, folder=path.parent)
        ]
        self.models = {model.name: model for model in found}
        for block in self.adapt:
            self.check_models(block)
        self._check_tokenizer()

    def notes(self) -> Iterator[str]:
        """Yield what a recipe brings along without asking for it."""
        for model in self.models.values():
            off = given.dropout_of(model.config)
            if off:
                listed = ", ".join(f"{name} {value:g}" for name, value in off.items())
                yield f"dropout of {model.name} is off ({listed} in its configuration)"

    # Parts of the file

    def _read_tokenizer(self, top: Fields) -> tuple[Plain, str | None]:
        where, folder = f"{self.path.name}: tokenizer", self.path.parent
        with_weights = {name: entry for name, entry in self._models_asked.items() if "pretrained" in entry}
        if "tokenizer" not in top and with_weights:
            # A given model reads its own ids and no others.
            name, entry = next(iter(with_weights.items()))
            asked = {key: entry.peek(key) for key in ("pretrained", "revision") if key in entry}
            where = f"{self.path.name}: models: {name}"
            top.take("tokenizer", read.text, "")
            if (model := given.find_folder(asked["pretrained"], folder)) is not None:
                given.read_config(model)  # whether it is a model at all comes first
            return tokenizers.read_tokenizer(asked, where, folder)

        def convert(value: Any, place: str) -> tuple[Plain, str | None]:
            return tokenizers.read_tokenizer(value, place, folder)

        spec, place = top.take("tokenizer", convert, ({"kind": "bytes"}, None))
        if spec["kind"] == "trained":
            spec["identity"] = fingerprint_of(identity(self.source(spec["text"], "tokenizer: train_on")))
        return spec, place

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
            own = given.tokenizer_content(folder)
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

    def _read_eval(self, value: Any, where: str) -> Plain:
        fields = Fields(value, where)
        name = fields.take("text", read.text)
        entire = fields.take("whole", read.flag, False)
        fields.end()
        self.source(name, where)
        return {"text": name, "split": "all" if entire else "validation"}

    def check_models(self, block: Plain) -> None:
        """Refuse a block that names a model that is not there; one entry with several ranks may be named as a whole."""
        if block["models"] is None:
            block["models"] = list(self.models)
        chosen: list[str] = []
        for name in block["models"]:
            ranks = [each for each in self.models if name in self._models_asked and each.startswith(f"{name}-r")]
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
            entry["sequences"] = self._sequences
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
            "optimizer": self._optimizer,
            "precision": self._precision,
            "compile": self._compile,
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
            checkpoint_seconds=self._checkpoint_seconds,
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
                "processes": self.resources.processes // self.resources.nodes,
                "nodes": self.resources.nodes,
                "activation_checkpointing": self._checkpointing,
                "log": self._log,
                "tokenizer": self.tokenizer,
                "memory": memory,
            },
        )

    def memory(self, base: Model, rows: Rows) -> dict[str, int]:
        """Return the peak of memory of a process that trains a model, by what takes it."""
        options = {
            "precision": self._precision,
            "checkpointing": self._checkpointing,
            "shards": self.resources.processes if self.resources.shard else 1,
        }
        trainable = base.total if base.trainable is None else base.trainable
        own = rows.micro_batch or rows.batch // self.resources.processes
        return memory_of(base.total, trainable, base.shape, rows=own, context=rows.context, options=options)


def _read_optimizer(fields: Fields) -> Plain:
    found = {
        "name": "adamw",
        "beta1": fields.take("beta1", read.fraction, 0.9),
        "beta2": fields.take("beta2", read.fraction, 0.95),
        "epsilon": fields.take("epsilon", read.positive, 1e-8),
        "weight_decay": fields.take("weight_decay", read.number, 0.1),
        "clip": fields.take("clip", read.number, 1.0),
    }
    fields.end()
    return found


def _read_evaluate(value: Any, where: str) -> Plain:
    """Read the command that evaluates each kept model."""
    fields = Fields({"command": value} if isinstance(value, str) else value, where)
    command = fields.take("command", read.text)
    seconds = fields.take("seconds", read.positive, 4 * 3600.0)
    fields.end()
    if "{model}" not in command:
        raise DataError(f"{where}: {command!r} names no {{model}}, the folder of the model to evaluate.")
    return {"command": command, "seconds": seconds}
