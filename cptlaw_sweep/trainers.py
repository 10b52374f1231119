"""Runs as configurations of other trainers: one template for each, in the folder `templates`.

A run is that of an answer (``cptlaw export``; what an answer cannot know stands in capitals), or one of a sweep that
continues a given model (``cptlaw sweep --dry-run -o``). What a trainer cannot say of it stands in comments at the top.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cptlaw.errors import UsageError, name_hint, quote
from cptlaw.units import FEWEST_STEPS, ROW, parse_quantity, parse_share
from cptlaw.writing import file_name, write_all_to_edit
from cptlaw_sweep.answer_file import HIGHEST_RATE, LONGEST_NAME, read_answer
from cptlaw_sweep.templating import render

if TYPE_CHECKING:
    from cptlaw_sweep.jobs import Job, Sweep

# Trainer -> its template, which names the file of an answer too.
TRAINERS = {
    "axolotl": "axolotl.yaml",
    "llamafactory": "llamafactory.yaml",
    "automodel": "automodel.yaml",
    "torchtitan": "train_torchtitan.py",
    "trl": "train_trl.py",
    "megatron": "megatron.sh",
    "huggingface": "huggingface.yaml",
    "ms-swift": "ms_swift.yaml",
    "unsloth": "train_unsloth.py",
}
NO_IDS = ("axolotl", "llamafactory", "torchtitan", "trl", "ms-swift", "unsloth")  # they do not read token ids
NO_ADAPTERS = ("torchtitan", "megatron")
USEFUL_STEPS = 200  # below these a schedule has no shape; the batch of an answer's run is made smaller for them
CONTEXTS = (16, 10_000_000)  # tokens of a row
MOST_ROWS = 1_000_000  # of an optimiser step
MOST_GPUS = 1_000_000
MODEL = "BASE_MODEL"  # where no name is known
MIND = "mind: "  # how a warning begins among the comments of a file
LOOKS = 20  # evaluations of both losses in the run of an answer


@dataclass(frozen=True)
class Corpus:
    """One corpus of a mix.

    Attributes
    ----------
    name
        As the recipe calls it.
    share
        Of the rows of the run, above 0 to 1.
    source
        Where its text is, as the recipe was read.
    validation
        A file of its own for validation, or nothing.
    """

    name: str
    share: float
    source: Mapping[str, Any]
    validation: str | None = None

    @property
    def is_ids(self) -> bool:
        """Whether it is token ids in Megatron's two files, which most trainers do not read."""
        return bool(self.source.get("ids"))

    @property
    def paths(self) -> list[str]:
        """Its files; of a data set with a name, that name."""
        if "files" in self.source:
            return [str(entry["path"]) for entry in self.source["files"]]
        return [str(self.source["dataset"])]

    @property
    def kind(self) -> str | None:
        """The format of its files, as libraries of data sets name it; nothing for a data set with a name."""
        if "files" not in self.source:
            return None
        name = self.paths[0]
        return "parquet" if name.endswith(".parquet") else "json" if ".jsonl" in name or ".ndjson" in name else "text"

    @property
    def field(self) -> str:
        """The field of a record that holds the text."""
        # Libraries of data sets call the lines of a plain text "text", whatever the recipe says.
        return "text" if self.kind == "text" else str(self.source.get("field") or "text")

    @property
    def options(self) -> dict[str, object]:
        """What ``datasets.load_dataset`` takes beside `place`."""
        if self.kind is not None:
            return {"data_files": self.paths, "split": "train"}
        result = {"name": self.source["config"], "split": self.source["split"] or "train"}
        result |= {"revision": self.source.get("revision"), "streaming": self.source.get("streaming") or None}
        return {key: value for key, value in result.items() if value}

    @property
    def place(self) -> str:
        """What ``datasets.load_dataset`` takes first."""
        return self.kind or self.paths[0]

    @property
    def entries(self) -> dict[str, tuple[str, float]]:
        """Name of each file -> its path and share of the mix: a corpus of several shares its own by their bytes."""
        if len(self.paths) == 1:
            return {self.name: (self.paths[0], self.share)}
        local = all(os.path.exists(path) for path in self.paths)
        sizes = [max(os.path.getsize(path), 1) if local else 1 for path in self.paths]
        shares = [self.share * size / sum(sizes) for size in sizes]
        return {f"{self.name}-{k}": pair for k, pair in enumerate(zip(self.paths, shares, strict=True), 1)}

    @property
    def prefixes(self) -> list[str]:
        """The names of its token ids, without the endings of Megatron's files; text has yet to be tokenised."""
        if self.is_ids:
            return list(dict.fromkeys(path.rsplit(".", 1)[0] for path in self.paths))
        name = f"{file_name(self.name)}_text_document"
        return [name if self.kind is None else str(Path(self.paths[0]).with_name(name))]


@dataclass(frozen=True)
class Run:
    """A run of continual pre-training as trainers ask about it; rates are of the peak, lengths in optimiser steps."""

    name: str
    model: str
    corpora: Sequence[Corpus]
    steps: int
    schedule: str
    peak: float
    warmup: int
    decay: int
    end: float
    context: int
    batch: int
    micro: int
    accumulation: int
    seed: int = 0
    processes: int = 1
    bf16: bool = True
    recompute: bool = False
    lora: Mapping[str, object] | None = None
    optimizer: Mapping[str, float] = field(
        default_factory=lambda: {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0}
    )
    every: int | None = None  # steps between evaluations on the files for validation
    left_out: Sequence[str] = ()  # what no trainer can say

    @property
    def mix(self) -> str:
        """Its corpora with their shares, in words."""
        return ", ".join(f"{corpus.share:.4g} {corpus.name}" for corpus in self.corpora)

    @property
    def entries(self) -> dict[str, float]:
        """Name of each file -> its share of the mix."""
        return {name: share for corpus in self.corpora for name, (_, share) in corpus.entries.items()}

    @property
    def shares(self) -> list[str]:
        """The shares of its files, as text."""
        return [f"{share:.6g}" for share in self.entries.values()]

    @property
    def validations(self) -> list[str]:
        """Names of its validation sets."""
        return [f"{corpus.name}_validation" for corpus in self.corpora]

    @property
    def prefixes(self) -> list[tuple[float, str]]:
        """Per cent and place of each file of token ids; a corpus of several shares its own among them evenly."""
        places = [(corpus.share, corpus.prefixes) for corpus in self.corpora]
        return [(100 * share / len(some), place) for share, some in places for place in some]

    @property
    def end_rate(self) -> float:
        """The rate at the end."""
        return float(f"{self.peak * self.end:.12g}")

    def missing(self, *known: str) -> list[str]:
        """Return what a trainer cannot say of this run, given the schedules that it has."""
        unknown = f"the schedule {self.schedule} is written as constant: give the rates by hand"
        return [*([] if self.schedule in known else [unknown]), *self.left_out]

    @property
    def scheduler(self) -> dict[str, object]:
        """The schedule as transformers names it."""
        if self.schedule == "cosine":
            kwargs = {"lr_scheduler_kwargs": {"min_lr_rate": self.end}} if self.end else {}
            return {"lr_scheduler_type": "cosine_with_min_lr" if self.end else "cosine", **kwargs}
        if self.schedule == "linear" and not self.end:
            return {"lr_scheduler_type": "linear"}
        if self.schedule in ("wsd", "wsd-1-sqrt", "linear"):
            # A linear schedule that ends above 0 is one that decays from the end of its warm-up on.
            shape = {
                "num_decay_steps": self.decay,
                "num_stable_steps": self.steps - self.warmup - self.decay,
                "decay_type": "1-sqrt" if self.schedule == "wsd-1-sqrt" else "linear",
                "min_lr_ratio": self.end,
            }
            return {"lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": shape}
        if self.schedule == "inverse-sqrt" and self.decay == self.steps - self.warmup:
            return {"lr_scheduler_type": "inverse_sqrt"}
        return {"lr_scheduler_type": "constant_with_warmup"}

    @property
    def decay_style(self) -> str:
        """The schedule as Megatron names it."""
        if self.schedule == "inverse-sqrt" and self.decay == self.steps - self.warmup:
            return "inverse-square-root"
        return {"wsd": "WSD", "wsd-1-sqrt": "WSD", "linear": "linear", "cosine": "cosine"}.get(
            self.schedule, "constant"
        )

    @property
    def arguments(self) -> dict[str, object]:
        """What `transformers.TrainingArguments`, and all trainers that hand these on, take by name."""
        optimizer = self.optimizer
        result: dict[str, object] = {
            "output_dir": self.name,
            "max_steps": self.steps,
            "per_device_train_batch_size": self.micro,
            "gradient_accumulation_steps": self.accumulation,
            "learning_rate": self.peak,
            "warmup_steps": self.warmup,
            **self.scheduler,
            "weight_decay": optimizer["weight_decay"],
            "adam_beta1": optimizer["beta1"],
            "adam_beta2": optimizer["beta2"],
            "adam_epsilon": optimizer["epsilon"],
            "max_grad_norm": optimizer["clip"],
            "bf16": self.bf16,
            "seed": self.seed,
        }
        # Said only where it is on: newer versions have another name for it, and warn of this one.
        return {**result, "gradient_checkpointing": True} if self.recompute else result


def export(
    answer: str | Path | Mapping[str, object],
    to: str,
    folder: str | Path = ".",
    *,
    base: str | None = None,
    gpus: float | str | None = None,
    lr_peak: float | str | None = None,
    context: float | str | None = ROW,
    batch: float | str | None = None,
    warmup: float | str | None = 0.01,
    end: float | str | None = 0.1,
) -> list[Path]:
    """Write the run of an answer as the configuration of a trainer. Where that fails, nothing is left in the folder.

    Parameters
    ----------
    answer
        What `cptlaw.answer` found, or the file of ``cptlaw answer --json``.
    to
        The trainer: one of `TRAINERS`.
    folder
        Where the files go. One that is there and says anything else stays, and NAME-2 is written.
    base
        The base model as the trainer loads it: a name or a folder. That of the answer where it has one.
    gpus
        Devices that share the batch, such as 8: each accumulates its part. One device where not given.
    lr_peak
        Peak rate; that of the answer where it has one.
    context
        Tokens of a row.
    batch
        Rows of an optimiser step, by default near what the answer advises, else 256; fewer where the run would have
        less than `USEFUL_STEPS`.
    warmup, end
        Shares of the steps that warm up, and of the peak rate at which the cosine ends.

    Raises
    ------
    UsageError, DataError
        If there is no such trainer, the answer names no run, or a number is out of its range.
    """
    how = {"lr_peak": lr_peak, "context": context, "batch": batch, "warmup": warmup, "end": end}
    return write_all_to_edit(files_of_answer(answer, to, base=base, gpus=gpus, **how), folder)


def files_of_answer(answer: object, to: str, **how: Any) -> dict[str, str]:
    """Return file -> content for the run of an answer, see `export`."""
    if to not in TRAINERS:
        raise UsageError(f"there is no trainer {to!r}.{name_hint(to, TRAINERS)}")
    return files(to, [run_of_answer(answer, **how)], TRAINERS[to])


def notes_of(contents: Mapping[str, str]) -> list[str]:
    """Return what is still to be done by hand in the files of an answer, and what to mind."""
    text = "\n".join(contents.values())
    left = [what for what, sign in (("your model", MODEL), ("your texts", "TEXT_OF_")) if sign in text]
    fill = [f"put {' and '.join(left)} where the file has capitals"] if left else []
    return fill + list(dict.fromkeys(re.findall(rf"{re.escape(MIND)}(.*)", text)))


def configurations(sweep: Sweep) -> dict[str, str]:
    """Return file -> content for each run of continual pre-training of a given model: a configuration of each trainer.

    A run that a trainer cannot do at all is not among its files, and runs of models that the sweep itself makes are
    left out: no other trainer has them yet.
    """
    jobs = [job for job in sweep.jobs if job.kind == "adapt" and job.definition["model"]["kind"] == "pretrained"]
    runs = [run_of_job(job, sweep) for job in jobs]
    return {f"{trainer}/{name}": text for trainer in TRAINERS for name, text in files(trainer, runs).items()}


def files(trainer: str, runs: Sequence[Run], name: str | None = None) -> dict[str, str]:
    """Return file -> content for the runs that a trainer can do.

    Parameters
    ----------
    name
        That of the file; that of each run, with the ending of the template, where not given.
    """
    able = [
        run
        for run in runs
        if not (trainer in NO_ADAPTERS and run.lora) and not (trainer in NO_IDS and any(c.is_ids for c in run.corpora))
    ]
    result: dict[str, str] = {}
    for run in able:
        place = Path(name or _file_name(run.name, Path(TRAINERS[trainer]).suffix, result))
        result[place.name] = render(TRAINERS[trainer], run=run, file=place)
    if trainer == "llamafactory" and able:
        # Its list of texts, which all runs of a folder share.
        corpora = {corpus.name: corpus for run in able for corpus in run.corpora}
        result["dataset_info.json"] = render("dataset_info.json", corpora=corpora)
    return result


def _file_name(name: str, ending: str, taken: Mapping[str, str]) -> str:
    if ending != ".py":
        return f"{name}{ending}"
    # The name of a module: a dot would be read as a package, and two names may differ in such a character only.
    plain = re.sub(r"\W", "_", name)
    while f"{plain}.py" in taken:
        plain += "_"
    return f"{plain}.py"


def run_of_answer(
    answer: object,
    *,
    base: str | None = None,
    gpus: float | str | None = None,
    lr_peak: float | str | None = None,
    context: float | str | None = ROW,
    batch: float | str | None = None,
    warmup: float | str | None = 0.01,
    end: float | str | None = 0.1,
) -> Run:
    """Return the run of an answer: a cosine over all its tokens, both losses evaluated from step 0 on; see `export`."""
    found = read_answer(answer)
    if lr_peak is None and found.lr_peak is None:
        raise UsageError("the answer says no peak rate: its runs were all of one. Give it with lr_peak= (--lr-peak).")
    peak = parse_in_range(lr_peak if lr_peak is not None else found.lr_peak, "lr_peak", math.ulp(0.0), HIGHEST_RATE)
    context_tokens = parse_whole_number(context, "context", *CONTEXTS)
    devices = 1 if gpus is None else parse_whole_number(str(gpus).lower().partition("x")[0], "gpus", 1, MOST_GPUS)
    warmup_share, floor = parse_share(warmup, "warmup"), float(parse_share(end, "end"))
    usual = (found.batch_tokens or 256 * context_tokens) / context_tokens
    advised = 2 ** round(math.log2(min(max(usual, 1.0), MOST_ROWS)))
    most = advised if batch is None else parse_whole_number(batch, "batch", 1, MOST_ROWS)
    # Each device does the same number of rows.
    rows = max(1, min(most, int(found.tokens / (context_tokens * USEFUL_STEPS))) // devices) * devices
    steps = math.ceil(found.tokens / (context_tokens * rows))
    warmup_steps = round(warmup_share * steps)
    if steps < FEWEST_STEPS or warmup_steps >= steps:
        raise UsageError(
            f"{found.tokens:.4g} tokens are {steps} steps of {rows} rows of {context_tokens} tokens, {warmup_steps} of "
            f"them warm-up. Expected {FEWEST_STEPS} steps or more, and a warm-up that ends before them. Take a smaller "
            "context or warmup, or fewer gpus."
        )
    few = [f"{MIND}{steps} steps: below {USEFUL_STEPS} a schedule has hardly a shape; a smaller context gives more"]
    name = found.base if base is None else base
    return Run(
        name="out",
        model=MODEL if name is None else _checked_text(name, "base"),
        corpora=[_to_fill_in(name, share) for name, share in found.mix.items()],
        steps=steps,
        schedule="cosine",
        peak=float(f"{peak:.4g}"),
        warmup=warmup_steps,
        decay=steps - warmup_steps,
        end=floor,
        context=context_tokens,
        batch=rows,
        micro=1,
        accumulation=rows // devices,
        processes=devices,
        every=max(1, steps // LOOKS),
        left_out=[
            f"written by cptlaw export, {_for_devices(devices, rows)}. {found.question}".strip(),
            *(few if steps < USEFUL_STEPS else []),
        ],
    )


def _for_devices(devices: int, rows: int) -> str:
    some = "for one device" if devices == 1 else f"for {devices} devices"
    return f"{some}: {rows} rows a step, {rows // devices} on each"


def parse_in_range(value: object, name: str, low: float, high: float) -> float:
    """Read a number in a range, such as ``"10%"``."""
    number = parse_quantity(value, name)
    if not low <= number <= high:
        raise UsageError(
            f"{name}: {quote(value)}. Expected {'above 0' if 0 < low < 1e-300 else f'{low:g}'} to {high:g}."
        )
    return number


def parse_whole_number(value: object, name: str, low: int, high: int) -> int:
    """Read a whole number in a range, such as ``"4K"``."""
    number = parse_in_range(value, name, low, high)
    if number != int(number):
        raise UsageError(f"{name}: {quote(value)}. Expected a whole number.")
    return int(number)


def _checked_text(text: object, name: str) -> str:
    if not isinstance(text, str) or not text.isprintable() or not text.strip() or len(text) > LONGEST_NAME:
        raise UsageError(f"{name}: {quote(text)}. Expected the name or the folder of a model.")
    return text


def _to_fill_in(name: str, share: float) -> Corpus:
    here = re.sub(r"\W", "_", name).upper()
    source = {"files": [{"path": f"TEXT_OF_{here}.jsonl"}], "field": "text"}
    return Corpus(name, share, source, f"VALIDATION_OF_{here}.jsonl")


def run_of_job(job: Job, sweep: Sweep) -> Run:
    """Return a run of a sweep."""
    from cptlaw_sweep.mix import weights_of  # with NumPy, which the help of the verbs does not wait for

    definition, mix = job.definition, job.definition["mix"]
    (phase,) = definition["phases"]
    steps, warmup = int(definition["steps"][1]), int(phase.get("warmup", 0))
    processes, nodes = (int(job.run.get(name, 1)) for name in ("processes", "nodes"))
    own = int(definition["batch"]) // (processes * nodes)
    micro = int(definition["micro_batch"]) or own
    corpora = [
        Corpus(sweep.texts[key]["name"], float(share), sweep.texts[key]["source"])
        for key, share in zip(mix["texts"], weights_of(mix), strict=True)
    ]
    return Run(
        name=file_name(job.name, 150),
        model=str(job.places["model"]),
        corpora=corpora,
        steps=steps,
        schedule=phase["schedule"],
        peak=float(phase["peak"]),
        warmup=warmup,
        decay=int(phase.get("decay") or steps - warmup),
        end=float(phase.get("end") or 0.0) / float(phase["peak"]),
        context=int(definition["context"]),
        batch=int(definition["batch"]),
        micro=micro,
        accumulation=own // micro,
        seed=int(mix["seed"]) % 2**31,  # that 32-bit generators take
        processes=processes,
        bf16=definition["precision"] == "bf16",
        recompute=bool(job.run.get("activation_checkpointing")),
        lora=definition["model"].get("lora"),
        optimizer=definition["optimizer"],
        left_out=list(_left_out(job, phase, corpora)),
    )


def _left_out(job: Job, phase: Mapping[str, object], corpora: Sequence[Corpus]) -> list[str]:
    """Return what no other trainer can say of a run of a sweep."""
    values = [
        f"{corpus.source['validation']:.3g} of {corpus.name!r} is held out by the sweep and is in these files: take it "
        "out, or the losses of both are not alike"
        for corpus in corpora
        if corpus.source.get("validation")
    ]
    if phase.get("start"):
        values.append(f"the warm-up begins at 0 here, and at {phase['start']:g} in the sweep")
    if "pools" in job.definition["mix"]:
        values.append("pools of tokens are not known here: cut the files")
    if job.definition["start"].get("state"):
        values.append("the state of the optimiser is not carried")
    if job.definition.get("merge"):
        weights = ", ".join(f"{weight:g}" for weight in job.definition["merge"])
        values.append(f"the sweep also measures merges with the base model at {weights}: see cptlaw merge")
    points = ", ".join(str(step) for step in job.definition["measure_at"])
    return [*values, f"the sweep measures both losses after steps {points}"]
