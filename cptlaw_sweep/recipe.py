"""What SWEEP.yaml says: docs/sweep.md describes the fields; this file is what they mean.

`load_sweep` makes the jobs of it, by `ladders` (pre-training) and `adaptations` (continual pre-training). Nothing here
needs torch: a recipe can be read and priced on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from cptlaw.errors import DataError, name_hint
from cptlaw.reading import existing_file, parse_yaml, read_utf8
from cptlaw_sweep import given_models, tokenizers
from cptlaw_sweep.fields import Plain, read_block, with_shared_keys
from cptlaw_sweep.jobs import Job, fingerprint_of
from cptlaw_sweep.model_spec import Model, models_of
from cptlaw_sweep.prepare import text_fingerprint
from cptlaw_sweep.schema import EvalSet, Given, GivenTokenizer, Rows, SweepFile
from cptlaw_sweep.sizes import memory_of
from cptlaw_sweep.sources import identity, with_files
from cptlaw_sweep.specs import TextSpec, TokenizerSpec

# Memory of a process before it holds any model: Python, torch, transformers.
PROCESS_BYTES = 700_000_000


def read_recipe(path: Path) -> tuple[str, object]:
    """Return the text of a recipe, and what it holds as plain data."""
    content = read_utf8(existing_file(path)).decode("utf-8")
    return content, parse_yaml(content, str(path))


class Recipe:
    """A recipe as it is read: what all jobs share, and the texts that they turn out to need."""

    def __init__(self, value: object, path: Path):
        asked = read_block(SweepFile, value, path.name)
        self.path, self.asked, self.resources = path, asked, asked.resources
        self.name = asked.name or path.stem
        self.sources = {
            name: with_files(source.plain(), path.parent, f"{path.name}: text: {name}")
            for name, source in asked.text.items()
        }
        for where, name in asked.named_texts():
            if name not in self.sources:
                raise DataError(f"{path.name}: {where}: there is no text {name!r}.{name_hint(name, self.sources)}")
        self.tokenizer, self._tokenizer_place = self._read_tokenizer()
        vocabulary = tokenizers.vocabulary_of(self.tokenizer, self._tokenizer_place)
        self.texts: dict[str, TextSpec] = {}
        self._keys: dict[str, str] = {}
        self._shared: dict[object, Plain] = {}
        read = vocabulary, max(rows.context for rows in (asked, *asked.adapt))
        self.models = {
            model.name: model
            for name, entry in asked.models.items()
            for model in models_of(name, entry, f"{path.name}: models: {name}", read, path.parent)
        }
        for place, block in enumerate(asked.adapt):
            block.models = self._chosen(block.models, self.place_of(place))
        for model in self.models.values():
            self._check_tokenizer(model, vocabulary)

    def place_of(self, block: int) -> str:
        """Return where a block of `adapt` stands, for messages."""
        return f"{self.path.name}: adapt[{block}]"

    def notes(self) -> Iterator[str]:
        """Yield what a recipe brings along without asking for it."""
        for model in self.models.values():
            off = given_models.dropout_of(model.config)
            if off:
                listed = ", ".join(f"{name} {value:g}" for name, value in off.items())
                yield f"dropout of {model.name} is off ({listed} in its configuration)"

    # Parts of the file

    def _read_tokenizer(self) -> tuple[TokenizerSpec, str | None]:
        where, folder, wanted = f"{self.path.name}: tokenizer", self.path.parent, self.asked.tokenizer
        with_weights = [(name, entry) for name, entry in self.asked.models.items() if isinstance(entry, Given)]
        if wanted is None and with_weights:
            # A given model reads its own ids and no others.
            name, entry = with_weights[0]
            where = f"{self.path.name}: models: {name}"
            if (model := given_models.find_folder(entry.pretrained, folder)) is not None:
                given_models.read_config(model)  # whether it is a model at all comes first
            wanted = GivenTokenizer(pretrained=entry.pretrained, revision=entry.revision)
        spec, place = tokenizers.spec_of(wanted, where, folder)
        if spec["kind"] == "trained":
            spec["identity"] = fingerprint_of(identity(self.sources[spec["text"]]))
        return spec, place

    def _check_tokenizer(self, model: Model, vocabulary: int) -> None:
        """Refuse a given model whose ids are not those of the sweep's tokenizer."""
        if model.place is None or not Path(model.place).is_dir():
            return
        where = f"{self.path.name}: models: {model.name}"
        known = int(cast("int", model.config.get("vocab_size") or 0))
        if known and known < vocabulary:
            raise DataError(
                f"{where}: it knows {known} token ids, and the tokenizer has {vocabulary}. "
                "Leave `tokenizer` out to use the model's own."
            )
        if self.tokenizer["kind"] == "bytes" and known != 256:
            raise DataError(
                f"{where}: a model with {known} token ids was not trained on bytes. "
                "Leave `tokenizer` out to use the model's own, or name it."
            )
        own, content = given_models.tokenizer_content(Path(model.place)), self.tokenizer.get("content")
        if own and content and own != content:
            raise DataError(
                f"{where}: its tokenizer is not the one of the sweep, and losses per token of two tokenizers "
                "cannot be compared. Use one recipe per tokenizer."
            )

    def _chosen(self, names: list[str] | None, where: str) -> list[str]:
        """Return the models that a block names, or all; one entry with several ranks stands for each of them."""
        result: list[str] = []
        for name in self.models if names is None else names:
            ranks = [each for each in self.models if name in self.asked.models and each.startswith(f"{name}-r")]
            if name not in self.models and not ranks:
                raise DataError(f"{where}: there is no model {name!r}.{name_hint(name, self.models)}")
            result += [name] if name in self.models else ranks
        return result

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
        known = self.asked.evals
        own = known if len(targets) == 1 else {}  # of several targets nothing says which is meant
        sets: list[tuple[str, str | None, EvalSet]] = []
        sets += [("source", None, own.get("source") or EvalSet(text=source))] if source else []
        sets += [("target", name, own.get("target") or EvalSet(text=name)) for name in targets]
        sets += [("source", None, known["source"])] if source is None and "source" in known else []
        sets += [(name, None, EvalSet(text=name)) for name in others]
        sets += [(name, None, one) for name, one in known.items() if name not in ("source", "target", *others)]
        entries = []
        for name, domain, one in sets:
            if not one.whole and not self.sources[one.text]["validation"]:
                raise DataError(f"{self.path.name}: text {one.text!r} has `validation: 0` and is to be measured on.")
            entry = {"eval": name, "domain": domain, "text": self.text(one.text), "split": one.split}
            entries.append({**entry, "sequences": self.asked.eval_sequences})
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
        rows = rows or self.asked
        first, last = definition["steps"]
        tokens = (last - first) * rows.step_tokens
        key = base.name, id(rows), bool(definition.get("merge"))
        if key not in self._shared:  # of 100,000 runs of a model what they share is made once
            self._shared[key] = self._of_model(base, rows, merging=key[-1])
        shared = self._shared[key]
        return Job(
            name=name,
            kind=kind,
            definition=with_shared_keys({**shared["definition"], **definition}),
            needs=needs,
            tokens=tokens,
            flops=shared["flops"] * tokens,
            gpus=self.resources.gpus,
            memory=shared["memory"],
            checkpoint_seconds=self.asked.checkpoint_seconds,
            columns=with_shared_keys({**shared["columns"], **columns}),
            places=shared["places"],
            run=shared["run"],
        )

    def _of_model(self, base: Model, rows: Rows, merging: bool) -> Plain:
        """Return what all jobs of a model share: of their definition, their columns and how they are run."""
        trainable = base.total if base.trainable is None else base.trainable
        definition: Plain = {
            "model": base.spec,
            "context": rows.context,
            "batch": rows.batch,
            "micro_batch": rows.micro_batch,
            "optimizer": {"name": "adamw", **self.asked.optimizer.model_dump()},
            "precision": self.asked.precision,
            "compile": self.asked.compile,
        }
        if self.resources.shard:
            definition["shard"] = True
        # Adapters have columns of their own only where there are some, or every table would carry them empty.
        adapters = {"n_trainable": trainable, "lora_rank": base.spec["lora"]["rank"]} if "lora" in base.spec else {}
        places = {"model": base.place} if base.place else {}
        if self._tokenizer_place:
            places["tokenizer"] = self._tokenizer_place
        memory = memory_of(
            base.total,
            trainable,
            base.shape,
            rows=rows.micro_batch or rows.batch // self.resources.in_all,
            context=rows.context,
            options={
                "precision": self.asked.precision,
                "checkpointing": self.asked.activation_checkpointing,
                "shards": self.resources.in_all if self.resources.shard else 1,
            },
        )
        if merging and not adapters:
            memory["merges"] = 8 * base.total  # float32 copies of the base model and of the adapted one
        return {
            "definition": definition,
            # Of each token. Adapters need the gradient of every activation, but of no frozen weight.
            "flops": 6.0 * base.total if not adapters else 4.0 * base.total + 2.0 * trainable,
            "memory": self.resources.memory or PROCESS_BYTES + sum(memory.values()),
            "columns": {
                "model": base.name,
                "n_params": base.total,
                "n_params_kind": "total",
                "n_params_non_embedding": base.non_embedding,
                **adapters,
                "batch_tokens": rows.step_tokens,
                "tokenizer": tokenizers.name_of(self.tokenizer),
            },
            "places": places,
            "run": {
                "processes": self.resources.per_node,
                "nodes": max(1, self.resources.nodes),
                "activation_checkpointing": self.asked.activation_checkpointing,
                "log": self.asked.log,
                "tokenizer": self.tokenizer,
                "memory": memory,
            },
        }
