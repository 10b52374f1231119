"""From SWEEP.yaml to the jobs of a sweep. docs/sweep.md describes the fields; this file is what they mean.

A ladder is one trunk at constant rate per model and seed, cut into stages. From the end of each stage the trunk goes
on, and a short decay branches off: the base model of that budget. So a ladder costs little more than its largest stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.reading import existing_file, parse_yaml, read_utf8
from cptlaw.schedules import Phase, Schedule
from cptlaw.training import fields as read
from cptlaw.training.fields import Fields
from cptlaw.training.jobs import Job, Sweep, fingerprint_of
from cptlaw.training.models import read_model, sizes_of
from cptlaw.training.prepare import text_fingerprint
from cptlaw.training.sources import identity, read_source, with_files
from cptlaw.training.tokenizers import name_of, read_tokenizer, vocabulary_of

Plain = dict[str, Any]

PROCESS_BYTES = 700_000_000
"""Memory of a process before it holds any model: Python, torch, transformers."""


def load_sweep(path: str | Path) -> Sweep:
    """Read a recipe and return the jobs that it asks for.

    Parameters
    ----------
    path
        A YAML file; relative paths in it start at its folder.

    Raises
    ------
    DataError
        If the file is not usable: the message names the place in it, what was found and what was expected.
    """
    path = existing_file(Path(path))
    content = read_utf8(path).decode("utf-8")
    value = parse_yaml(content, str(path))
    try:
        return _Recipe(Fields(value, path.name), path).sweep(content)
    except UsageError as error:
        raise DataError(f"{path.name}: {error}") from None


@dataclass(frozen=True)
class _Model:
    name: str
    spec: Plain
    total: int
    non_embedding: int
    seeds: list[int]
    ptpp: float | None


@dataclass(frozen=True)
class _Base:
    """A model to adapt: kept by a job of the ladder, or given."""

    model: _Model
    seed: int
    ptpp: float | None
    start: Plain
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        budget = "" if self.ptpp is None else f"-p{self.ptpp:g}"
        return f"{self.model.name}{budget}" + (f"-s{self.seed}" if self.needs else "")


class _Recipe:
    def __init__(self, top: Fields, path: Path):
        self._path = path
        self._name = top.take("name", read.text, path.stem)
        self._context = top.take("context", read.count, 128)
        self._batch = top.take("batch", read.count, 8)
        self._micro_batch = top.take("micro_batch", read.count, 0)
        self._precision = top.take("precision", read.choice("fp32", "bf16"), "fp32")
        self._compile = top.take("compile", read.flag, False)
        self._checkpoint_seconds = top.take("checkpoint_seconds", read.number, 60.0)
        self._sources = {
            name: with_files(source, path.parent, f"{path.name}: text: {name}")
            for name, source in top.take("text", read.named(read_source)).items()
        }
        self._tokenizer = self._read_tokenizer(top)
        self._vocabulary = vocabulary_of(self._tokenizer)
        self._optimizer = _read_optimizer(top.take("optimizer", read.mapping, Fields({}, "optimizer")))
        resources = top.take("resources", read.mapping, Fields({}, "resources"))
        self._gpus = resources.take("gpus", read.number, 0.0)
        self._memory = resources.take("memory", read.count, 0)
        resources.end()
        if self._gpus > 1 and self._gpus != int(self._gpus):
            raise DataError(f"{path.name}: resources: gpus {self._gpus:g}: expected whole GPUs, or a share of one.")
        self._models = top.take("models", read.named(self._read_model))
        self._evals = top.take("evals", read.named(self._read_eval), {})
        self._sequences = top.take("eval_sequences", read.count, 384)
        self._pretrain = top.take("pretrain", read.mapping, None)
        self._adapt = top.take("adapt", read.many(read.mapping), [])
        top.end()
        if self._context < 1 or self._batch < 1:
            raise DataError(f"{path.name}: context and batch must be 1 or more.")
        self._texts: dict[str, Plain] = {}

    def sweep(self, content: str) -> Sweep:
        blocks = [self._read_adapt(block) for block in self._adapt]
        jobs: list[Job] = []
        bases: list[_Base] = []
        if self._pretrain is not None:
            jobs, bases = self._ladders(self._pretrain, blocks)
        given = [model for model in self._models.values() if model.spec["kind"] == "pretrained"]
        bases += [_Base(model, 0, model.ptpp, {"pretrained": True}, ()) for model in given]
        scratch = [model.name for model in self._models.values() if model.spec["kind"] != "pretrained"]
        if self._pretrain is None and scratch:
            raise DataError(f"{self._path.name}: {', '.join(scratch)} start from scratch: `pretrain` is missing.")
        for block in blocks:
            jobs += self._adaptations(block, bases)
        if not jobs:
            raise DataError(f"{self._path.name}: nothing to train. Give `pretrain`, `adapt`, or both.")
        # Blocks of `adapt` may ask for the same run; it is trained once.
        jobs = _with_distinct_names(list({job.id: job for job in jobs}.values()))
        return Sweep(self._name, tuple(jobs), self._texts, content)

    # Parts of the file

    def _read_tokenizer(self, top: Fields) -> Plain:
        spec = top.take("tokenizer", read_tokenizer, {"kind": "bytes"})
        if spec["kind"] == "trained":
            spec["identity"] = fingerprint_of(identity(self._source(spec["text"], "tokenizer: train_on")))
        return spec

    def _read_model(self, value: Any, where: str) -> _Model:
        fields = Fields(value, where)
        spec = read_model(fields, where, vocabulary=self._vocabulary, context=self._context)
        seeds = fields.take("seeds", read.many(read.count), [0])
        ptpp = fields.take("ptpp", read.positive, None) if spec["kind"] == "pretrained" else None
        fields.end()
        total, non_embedding = sizes_of(spec)
        return _Model(where.rsplit(": ", 1)[-1], spec, total, non_embedding, seeds, ptpp)

    def _read_eval(self, value: Any, where: str) -> Plain:
        fields = Fields(value, where)
        name = fields.take("text", read.text)
        whole = fields.take("whole", read.flag, False)
        fields.end()
        self._source(name, where)
        return {"text": name, "split": "all" if whole else "validation"}

    def _read_adapt(self, block: Fields) -> Plain:
        found: Plain = {"where": block.where}
        for role in ("source", "target"):
            found[role] = block.take(role, read.text)
            self._source(found[role], f"{block.where}: {role}")
        found["replay"] = block.take("replay", read.many(read.fraction))
        budgets: dict[str, list[float]] = {
            "tokens_per_param": block.take("tokens_per_param", read.many(read.positive), []),
            "tokens": block.take("tokens", read.many(read.positive), []),
        }
        if bool(budgets["tokens"]) == bool(budgets["tokens_per_param"]):
            raise DataError(f"{block.where}: expected either `tokens` or `tokens_per_param`, the lengths of the runs.")
        found |= budgets
        found["schedules"] = block.take("schedules", read.many(_read_schedule))
        found["orders"] = block.take("orders", read.many(read.count), [0])
        found["first"] = block.take("first_tokens_per_param", read.positive, 0.25)
        found["per_doubling"] = block.take("points_per_doubling", read.positive, 1.0)
        names = block.take("models", read.many(read.text), list(self._models))
        for name in names:
            if name not in self._models:
                raise DataError(
                    f"{block.where}: there is no model {name!r}.{did_you_mean(name, self._models)} "
                    f"Known: {', '.join(self._models)}."
                )
        found["models"] = names
        found["ptpp"] = block.take("ptpp", read.many(read.positive), None)
        found["seeds"] = block.take("seeds", read.many(read.count), None)
        block.end()
        return found

    def _source(self, name: str, where: str) -> Plain:
        if name not in self._sources:
            raise DataError(
                f"{where}: there is no text {name!r}.{did_you_mean(name, self._sources)} "
                f"Known: {', '.join(self._sources)}."
            )
        return self._sources[name]

    def _text(self, name: str) -> str:
        """Return the fingerprint of a text, and note that the sweep reads it."""
        source = self._sources[name]
        key = text_fingerprint(source, self._tokenizer)
        trained = self._tokenizer["kind"] == "trained"
        self._texts[key] = {
            "name": name,
            "source": source,
            "tokenizer": self._tokenizer,
            "tokenizer_source": self._sources[self._tokenizer["text"]] if trained else None,
        }
        return key

    def _eval_entries(self, source: str | None, targets: list[str]) -> list[Plain]:
        """Return the validation sets of a job: source, targets, and those that the recipe adds."""
        several = len(targets) > 1
        entries: list[Plain] = []
        for role, names in (("source", [source] if source else []), ("target", targets)):
            for name in names:
                own = self._evals.get(role) if not several else None
                text, split = (own["text"], own["split"]) if own else (name, "validation")
                entries.append(
                    {"eval": role, "domain": name if role == "target" else None, "text": text, "split": split}
                )
        for name, own in self._evals.items():
            if name not in ("source", "target"):
                entries.append({"eval": name, "domain": None, **own})
        for entry in entries:
            if entry["split"] == "validation" and not self._sources[entry["text"]]["validation"]:
                raise DataError(
                    f"{self._path.name}: text {entry['text']!r} has `validation: 0` and is to be measured on."
                )
            entry["text"] = self._text(entry["text"])
            entry["sequences"] = self._sequences
        return entries

    # Jobs

    def _job(
        self, base: _Model, name: str, kind: str, needs: tuple[str, ...], columns: Plain, **definition: Any
    ) -> Job:
        first, last = definition["steps"]
        tokens = (last - first) * self._batch * self._context
        rows = self._micro_batch or self._batch
        activations = rows * self._context * (12 * self._vocabulary + 80 * (base.spec.get("width") or 512) * 8)
        return Job(
            name=name,
            kind=kind,
            definition={
                "model": base.spec,
                "context": self._context,
                "batch": self._batch,
                "micro_batch": self._micro_batch,
                "optimizer": self._optimizer,
                "precision": self._precision,
                "compile": self._compile,
                **definition,
            },
            needs=needs,
            tokens=tokens,
            flops=6.0 * base.total * tokens,
            gpus=self._gpus,
            memory=self._memory or PROCESS_BYTES + 16 * base.total + activations,
            checkpoint_seconds=self._checkpoint_seconds,
            columns={
                "model": base.name,
                "n_params": base.total,
                "n_params_kind": "total",
                "n_params_non_embedding": base.non_embedding,
                "batch_tokens": self._batch * self._context,
                "tokenizer": name_of(self._tokenizer),
                **columns,
            },
        )

    def _ladders(self, block: Fields, adapt: list[Plain]) -> tuple[list[Job], list[_Base]]:
        where = block.where
        text = block.take("text", read.text)
        self._source(text, f"{where}: text")
        budgets = sorted(set(block.take("ptpp", read.many(read.positive))))
        peak = block.take("peak", lambda value, place: value)
        warmup = block.take("warmup", read.count, 100)
        decay = block.take("decay", read.fraction, 0.15)
        block.end()
        targets = list(dict.fromkeys(entry["target"] for entry in adapt))
        evals = self._eval_entries(text, targets)
        jobs, bases = [], []
        for model in (model for model in self._models.values() if model.spec["kind"] != "pretrained"):
            lr = _by_model(peak, model.name, f"{where}: peak")
            for seed in model.seeds:
                for job, base in self._ladder(model, seed, text, budgets, (lr, warmup, decay), evals, where):
                    jobs.append(job)
                    if base is not None:
                        bases.append(base)
        return jobs, bases

    def _ladder(
        self,
        model: _Model,
        seed: int,
        text: str,
        budgets: list[float],
        shape: tuple[float, int, float],
        evals: list[Plain],
        where: str,
    ) -> Iterator[tuple[Job, _Base | None]]:
        """Yield the stages of one trunk and the decays that branch off it."""
        lr, warmup, decay = shape
        start: Plain = {"seed": seed}
        done, needs = 0, tuple[str, ...]()
        mix = {"texts": [self._text(text)], "share": "1", "seed": seed}
        for ptpp in budgets:
            steps = round(ptpp * model.total / (self._batch * self._context))
            branch = steps - round(decay * steps)
            if branch <= max(done, warmup):
                raise DataError(
                    f"{where}: model {model.name} reaches ptpp {ptpp:g} after {steps} steps, of which the last "
                    f"{steps - branch} decay: no room after step {max(done, warmup)}, where the warm-up or the budget "
                    "before ends. Leave the budget out, or take a shorter warm-up or smaller batches."
                )
            phase = {"phase": "pretrain", "peak": lr, "warmup": warmup}
            trunk = self._job(
                model, f"trunk-{model.name}-p{ptpp:g}-s{seed}", "trunk", needs, {"ptpp": ptpp, "seed": seed},
                start=start, steps=[done, branch], phases=[_phase(**phase, steps=branch, schedule="constant")],
                mix=mix, evals=[], measure_at=[], keep="state",
            )  # fmt: skip
            yield trunk, None
            start, done, needs = {"state": trunk.id}, branch, (trunk.id,)
            whole = (
                _phase(**phase, steps=steps, schedule="wsd", decay=steps - branch, end=0.0)
                if steps > branch
                else _phase(**phase, steps=steps, schedule="constant")
            )
            name = f"base-{model.name}-p{ptpp:g}-s{seed}"
            columns = {"ptpp": ptpp, "seed": seed, "base": f"{model.name}-p{ptpp:g}-s{seed}"}
            columns |= {
                "lr_schedule": whole["schedule"],
                "lr_peak": lr,
                "pretrain_tokens": steps * self._batch * self._context,
            }
            decayed = self._job(
                model, name, "base", needs, columns,
                start=start, steps=[branch, steps], phases=[whole], mix=mix, evals=evals, measure_at=[steps],
                keep="weights",
            )  # fmt: skip
            yield decayed, _Base(model, seed, ptpp, {"weights": decayed.id}, (decayed.id,))

    def _adaptations(self, block: Plain, bases: list[_Base]) -> list[Job]:
        evals = self._eval_entries(block["source"], [block["target"]])
        chosen = [
            base
            for base in bases
            if base.model.name in block["models"]
            and (block["ptpp"] is None or base.ptpp in block["ptpp"])
            and (block["seeds"] is None or base.seed in block["seeds"])
        ]
        if not chosen:
            raise DataError(f"{block['where']}: no base model has these models, ptpp and seeds.")
        jobs = []
        for base in chosen:
            lengths = self._lengths(block, base)
            for replay in block["replay"]:
                for schedule in block["schedules"]:
                    peak = _by_model(schedule["peak"], base.model.name, f"{block['where']}: peak")
                    shape = {**schedule, "peak": peak}
                    # A run at constant rate passes every shorter one on its way.
                    ends = lengths[-1:] if schedule["schedule"] == "constant" else lengths
                    for order in block["orders"]:
                        for steps in ends:
                            jobs.append(self._adaptation(block, base, replay, shape, order, steps, lengths, evals))
        return jobs

    def _lengths(self, block: Plain, base: _Base) -> list[int]:
        """Return the lengths of the runs in steps: never shorter than asked."""
        tokens = block["tokens"] or [each * base.model.total for each in block["tokens_per_param"]]
        per_step = self._batch * self._context
        return sorted({max(1, -int(-each // per_step)) for each in tokens})

    def _adaptation(
        self,
        block: Plain,
        base: _Base,
        replay: float,
        shape: Plain,
        order: int,
        steps: int,
        lengths: list[int],
        evals: list[Plain],
    ) -> Job:
        per_step = self._batch * self._context
        first = max(1, round(block["first"] * base.model.total / per_step))
        ratio = 2.0 ** (1.0 / block["per_doubling"])
        at, point = {0, steps, *(length for length in lengths if length < steps)}, float(steps)
        while point >= first:
            at.add(round(point))
            point /= ratio
        phase = _phase(phase="cpt", steps=steps, tokens_per_step=per_step, **shape)
        seed = int(fingerprint_of(["adapt", base.seed, order])[:12], 16)
        texts = [self._text(block["source"]), self._text(block["target"])]
        length = f"-{steps * per_step / base.model.total:.3g}tpp" if len(lengths) > 1 and len(at) else ""
        parts = [base.name, block["target"], f"r{replay:g}", shape["schedule"], f"lr{shape['peak']:g}"]
        name = "-".join(parts) + (f"-o{order}" if order else "") + (length if shape["schedule"] != "constant" else "")
        columns = {"ptpp": base.ptpp, "seed": base.seed, "order": order, "replay": replay, "domain": block["target"]}
        columns |= {"lr_schedule": shape["schedule"], "lr_peak": shape["peak"], "base": base.name}
        mix = {"texts": texts, "share": read.exact_share(replay), "seed": seed}
        if replay in (0.0, 1.0):  # one corpus only
            mix = {"texts": texts[:1] if replay == 1.0 else texts[1:], "share": "1", "seed": seed}
        return self._job(
            base.model, name, "adapt", base.needs, columns,
            start=base.start, steps=[0, steps], phases=[phase], mix=mix, evals=evals, measure_at=sorted(at), keep=None,
        )  # fmt: skip


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


def _read_schedule(value: Any, where: str) -> Plain:
    """Read a schedule of adaptation: the fields of a phase of a schedules file, without its steps."""
    if not isinstance(value, Mapping) or "schedule" not in value or "peak" not in value:
        raise DataError(
            f"{where}: found {value!r}. Expected a schedule, such as {{schedule: wsd, peak: 3e-3, decay: 25%}}."
        )
    unusable = {"phase", "steps", "tokens_per_step"} & set(value)
    if unusable:
        raise DataError(f"{where}: {', '.join(sorted(unusable))} follow from the run; leave them out.")
    return {str(key): item for key, item in value.items()}


def _phase(**values: Any) -> Plain:
    """Return a phase as plain data, checked by the schedules themselves."""
    try:
        phase = Phase(**values)
        Schedule([phase])
    except TypeError as error:
        raise DataError(f"schedule {values}: {error}.") from None
    return phase.to_dict()


def _by_model(value: Any, model: str, where: str) -> float:
    """Return a learning rate given once, or per model."""
    if isinstance(value, Mapping):
        if model not in value:
            raise DataError(f"{where}: there is none for model {model}. Give one per model, or one for all.")
        value = value[model]
    return read.positive(value, where)


def _with_distinct_names(jobs: list[Job]) -> list[Job]:
    """Tell runs apart that differ only in what a name does not say, such as their warm-up."""
    names = Counter(job.name for job in jobs)
    return [replace(job, name=f"{job.name}-{job.id[:6]}") if names[job.name] > 1 else job for job in jobs]
