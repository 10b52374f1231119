"""What a sweep consists of: jobs, plain frozen values with an identity, and the order that they need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from cptlaw_sweep.specs import TextSpec

# Raised when the same definition would train to other losses, so that old results are not taken for new ones.
IDENTITY_VERSION = 1
AS_TEXT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def fingerprint_of(value: object) -> str:
    """Return 20 hexadecimal digits that stand for a value of plain data, whatever the order of its keys.

    Examples
    --------
    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    True
    """
    # Sorted, so that the order in which a recipe is written does not matter.
    return hashlib.sha256(AS_TEXT(value).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Job:
    """One piece of training: from a start, over a mix of texts, along a schedule, with its measurements.

    Parameters
    ----------
    name
        What the run is called in the table. It can change without the run being repeated.
    kind
        ``"trunk"`` (a stage of the constant-rate trunk of a ladder), ``"base"`` (its short decay, which gives the base
        model of one pre-training budget; or the measurement of a given one), ``"adapt"`` (continual pre-training, the
        runs of the table) or ``"evaluate"`` (a command on the models that a run kept).
    definition
        All that decides about the losses, as plain data: start, model, mix, steps, schedule, optimiser, evaluation.
    needs
        Identities of the jobs whose checkpoints this one starts from.
    tokens
        Tokens trained on in this job.
    flops
        6 * n_params * tokens, in FLOP.
    gpus
        GPUs that the job asks for; a fraction shares one, 0 means CPU.
    memory
        Bytes of memory that the job asks for, an estimate.
    checkpoint_seconds
        How often the job saves where it is.
    columns
        Columns of the runs table that are the same for all rows of the run.
    places
        Where a given model and its tokenizer lie. They are known by their content, so places are no part of identity.
    run
        How it is trained where that changes no loss: processes, activation checkpointing, live logs.
    """

    name: str
    kind: str
    definition: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    tokens: int = 0
    flops: float = 0.0
    gpus: float = 0.0
    memory: int = 0
    checkpoint_seconds: float = 60.0
    columns: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The identity: a hash of what defines the losses, not of the name and not of where the job ran."""
        return fingerprint_of({"version": IDENTITY_VERSION, "definition": self.definition})

    def to_dict(self) -> dict[str, object]:
        """Return plain data that goes to JSON and back."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**plain, "needs": list(self.needs), "id": self.id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Job:
        """Return the job of `to_dict`."""
        values = {key: value for key, value in data.items() if key not in ("id", "recipe")}
        return cls(**{**values, "needs": tuple(values["needs"])})


@dataclass(frozen=True)
class Sweep:
    """All jobs of one recipe, dependencies first, and the texts that they read.

    Parameters
    ----------
    name
        What the sweep is called.
    jobs
        The jobs; what a job needs stands before it.
    texts
        Fingerprint of prepared text -> how to prepare it.
    recipe
        The recipe as it was written.
    notes
        What is done without having been asked for, to be said once.
    """

    name: str
    jobs: tuple[Job, ...]
    texts: Mapping[str, TextSpec]
    recipe: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the order can be run and that no two jobs are one."""
        # Dependencies first is what lets engines, estimates and pruning go through the jobs once.
        seen: set[str] = set()
        for job in self.jobs:
            missing = [need for need in job.needs if need not in seen]
            if missing:
                raise ValueError(f"job {job.name} stands before {', '.join(missing)}, which it needs")
            seen.add(job.id)
        if len(seen) != len(self.jobs):
            raise ValueError("two jobs of the sweep have the same definition")

    @property
    def runs(self) -> tuple[Job, ...]:
        """The jobs with measurements: base models and continual pre-training, and trunks that are measured."""
        return tuple(job for job in self.jobs if job.kind != "trunk" or job.definition["measure_at"])

    @property
    def tokens(self) -> int:
        """Tokens trained on in all jobs."""
        return sum(job.tokens for job in self.jobs)

    @property
    def flops(self) -> float:
        """FLOP of all jobs."""
        return sum(job.flops for job in self.jobs)
