"""A run of continual pre-training of a given model, as other trainers ask about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from cptlaw_sweep.instructions import plain_name
from cptlaw_sweep.jobs import Job, Sweep

Settings = dict[str, Any]


@dataclass(frozen=True)
class Corpus:
    """One corpus of a mix.

    Attributes
    ----------
    name
        As the recipe calls it.
    source
        Where its text is, as the recipe was read.
    share
        Of the rows of the run, above 0 to 1.
    """

    name: str
    source: Mapping[str, Any]
    share: float

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


@dataclass(frozen=True)
class Run:
    """One job of a sweep, and the texts that it reads."""

    job: Job
    sweep: Sweep

    @property
    def name(self) -> str:
        """The name of its files."""
        return plain_name(self.job.name)

    @property
    def definition(self) -> Mapping[str, Any]:
        """All that decides about the losses."""
        return self.job.definition

    @property
    def model(self) -> str:
        """The folder or name of the given model."""
        return str(self.job.places["model"])

    @property
    def lora(self) -> Mapping[str, Any] | None:
        """Rank and alpha of its adapters, or nothing."""
        found: Mapping[str, Any] | None = self.definition["model"].get("lora")
        return found

    @property
    def phase(self) -> Mapping[str, Any]:
        """Its learning rate."""
        (phase,) = self.definition["phases"]
        found: Mapping[str, Any] = phase
        return found

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return int(self.definition["steps"][1])

    @property
    def warmup(self) -> int:
        """Steps of the warm-up."""
        return int(self.phase.get("warmup", 0))

    @property
    def decay(self) -> int:
        """Steps of the decay; all that follow the warm-up where the schedule names none."""
        return int(self.phase.get("decay") or self.steps - self.warmup)

    @property
    def end_share(self) -> float:
        """The rate at the end, as a share of the peak."""
        return float(self.phase.get("end") or 0.0) / float(self.phase["peak"])

    @property
    def seed(self) -> int:
        """A seed that 32-bit generators take."""
        return int(self.definition["mix"]["seed"]) % 2**31

    @property
    def checkpoints_activations(self) -> bool:
        """Whether activations are computed again instead of kept."""
        return bool(self.job.run.get("activation_checkpointing"))

    @property
    def batches(self) -> tuple[int, int]:
        """Rows per forward pass of one process, and passes per step."""
        processes = int(self.job.run.get("processes") or 1) * int(self.job.run.get("nodes") or 1)
        own = int(self.definition["batch"]) // processes
        micro = int(self.definition["micro_batch"]) or own
        return micro, own // micro

    @cached_property
    def corpora(self) -> tuple[Corpus, ...]:
        """The corpora of its mix."""
        mix = self.definition["mix"]
        texts = mix["texts"]
        if "weights" in mix:
            shares = [Fraction(weight) for weight in mix["weights"]]
        else:
            # A pure run names one text only, though its share may be that of the source, 1, or of the target.
            shares = [Fraction(mix["share"]), 1 - Fraction(mix["share"])][: len(texts)]
        return tuple(
            Corpus(self.sweep.texts[key]["name"], self.sweep.texts[key]["source"], float(share))
            for key, share in zip(texts, shares, strict=True)
        )

    @property
    def has_ids(self) -> bool:
        """Whether a corpus of the mix is token ids."""
        return any(corpus.is_ids for corpus in self.corpora)

    def missing(self, known: frozenset[str]) -> list[str]:
        """Return what no other trainer can say of this run.

        Parameters
        ----------
        known
            Names of the schedules that the trainer has.
        """
        said = [
            f"{corpus.source['validation']:.3g} of {corpus.name!r} is held out by the sweep and is in these files: "
            "take it out, or the losses of both are not alike"
            for corpus in self.corpora
            if corpus.source.get("validation")
        ]
        if self.phase["schedule"] not in known:
            said.append(f"the schedule {self.phase['schedule']} is written as constant: give the rates by hand")
        if self.phase.get("start"):
            said.append(f"the warm-up begins at 0 here, and at {self.phase['start']:g} in the sweep")
        if "pools" in self.definition["mix"]:
            said.append("pools of tokens are not known here: cut the files")
        if self.definition["start"].get("state"):
            said.append("the state of the optimiser is not carried")
        points = ", ".join(str(step) for step in self.definition["measure_at"])
        said.append(f"the sweep measures both losses after steps {points}")
        return said


def with_notes(notes: list[str], body: str) -> str:
    """Return the text of a file, headed by what it cannot say as comments."""
    return "".join(f"# {note}\n" for note in notes) + body


def yaml_of(settings: Settings, notes: list[str]) -> str:
    """Return settings as YAML, headed by what they cannot say as comments."""
    import yaml

    return with_notes(notes, str(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)))
