"""What a sweep would cost: tokens, FLOPs, time and disk of every run, before anything is trained."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from cptlaw.findings import Finding
from cptlaw.result import Line, Result, Table
from cptlaw.training import models
from cptlaw.training.jobs import Job, Sweep
from cptlaw.training.loop import loss_of, optimizer_for
from cptlaw.training.progress import format_seconds
from cptlaw.units import format_quantity

if TYPE_CHECKING:
    import pandas as pd

MEASURED_SECONDS = 0.5
LARGEST_MEASURED = 50_000_000
"""Models above this are not timed here: their speed follows from that of the largest one that was."""


@dataclass(frozen=True, repr=False)
class DryRun(Result):
    """What a sweep would train.

    Attributes
    ----------
    frame
        One row per run: tokens, flops, seconds (of one worker), disk_bytes.
    workers
        How many run at a time.
    speed
        Where the times come from.
    written
        Manifests that were written, if any.
    findings
        Nothing yet: a dry run looks at no loss.
    """

    frame: pd.DataFrame
    workers: int
    speed: str
    written: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def failed(self) -> int:
        """Nothing was tried."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return the runs as plain data."""
        total = {name: self.frame[name].sum() for name in ("tokens", "flops", "seconds", "disk_bytes")}
        runs = json.loads(self.frame.to_json(orient="records"))
        return {"runs": runs, "total": total, "workers": self.workers, "speed": self.speed, "manifests": self.written}

    @property
    def title(self) -> str:
        """The sum of all runs."""
        total = {name: float(self.frame[name].sum()) for name in ("tokens", "flops", "seconds")}
        return (
            f"{len(self.frame)} runs, {format_quantity(total['tokens'])} tokens, {format_quantity(total['flops'])} "
            f"FLOPs: {format_seconds(total['seconds'])} on one worker, "
            f"{format_seconds(total['seconds'] / self.workers)} on {self.workers}"
        )

    @property
    def lines(self) -> list[Line]:
        """Disk, where the times come from, and manifests."""
        disk = f"{_bytes(float(self.frame['disk_bytes'].sum()))} beside the prepared text"
        found = [("disk", disk), ("time", self.speed)]
        return [*found, ("manifests", self.written)] if self.written else found

    @property
    def tables(self) -> list[Table]:
        """The runs, one row each."""
        shown = self.frame[["run", "kind", "tokens", "flops", "seconds", "disk_bytes"]]
        formats: dict[str, Any] = dict.fromkeys(("tokens", "flops"), format_quantity)
        formats |= {"seconds": format_seconds, "disk_bytes": _bytes}
        return [replace(Table.of(shown, formats), columns=("run", "kind", "tokens", "FLOPs", "time", "disk"))]


def _bytes(value: float) -> str:
    return f"{format_quantity(value)}B".replace("KB", "kB")


def estimate(sweep: Sweep, workers: int) -> DryRun:
    """Estimate each run, from the speed of the training step of each model as measured here, for half a second each.

    Parameters
    ----------
    sweep
        The jobs.
    workers
        How many run at a time.
    """
    import pandas as pd

    speeds: dict[str, float] = {}
    by_model = {str(job.columns["model"]): job for job in sweep.jobs}
    largest: tuple[float, float] | None = None
    guessed = []
    for name, job in sorted(by_model.items(), key=lambda item: item[1].columns["n_params"]):
        size = float(job.columns["n_params"])
        if size <= LARGEST_MEASURED and job.definition["model"]["kind"] != "pretrained":
            speeds[name] = _tokens_per_second(job)
            largest = (size, speeds[name])
        else:
            # FLOP per second of the largest that was timed; one core does about 3e10 where none was.
            speeds[name] = largest[0] * largest[1] / size if largest else 5e9 / size
            guessed.append(name)
    rows = []
    for job in sweep.jobs:
        n_evals = sum(entry["sequences"] for entry in job.definition["evals"]) * len(job.definition["measure_at"])
        # A loss without a gradient costs a third of a training step.
        tokens = job.tokens + n_evals * job.definition["context"] / 3
        rows.append(
            {
                "run": job.name,
                "kind": job.kind,
                "tokens": job.tokens,
                "flops": job.flops,
                "seconds": tokens / speeds[str(job.columns["model"])],
                "disk_bytes": disk_of(job),
                "id": job.id,
            }
        )
    device = "one thread of this machine" if not max(job.gpus for job in sweep.jobs) else "the GPU of this machine"
    speed = f"from training steps timed on {device}"
    if guessed:
        speed += f"; {', '.join(guessed)} too large to be timed here, or pre-trained: scaled by 6 N"
    return DryRun(pd.DataFrame(rows), workers, speed)


def disk_of(job: Job) -> int:
    """Return the bytes that a finished job keeps: weights, or these and both moments of the optimiser; and rows."""
    floats: Mapping[Any, int] = {"state": 3, "weights": 1, None: 0}
    rows = len(job.definition["measure_at"]) * len(job.definition["evals"]) * 160 + 4000
    return int(floats[job.definition["keep"]] * 4 * job.columns["n_params"] + rows)


def _tokens_per_second(job: Job) -> float:
    """Time the training step of a job's model on random tokens."""
    definition = job.definition
    device = torch.device("cuda" if job.gpus and torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = models.build(definition["model"], 0).to(device).train()
        optimizer = optimizer_for(model, definition["optimizer"])
        rows = definition["micro_batch"] or definition["batch"]
        vocabulary = model.get_input_embeddings().weight.shape[0]
        ids = torch.randint(vocabulary, (rows, definition["context"] + 1), device=device)
        steps, started = 0, 0.0
        while steps < 2 or time.perf_counter() - started < MEASURED_SECONDS:
            if steps == 1:  # the first step is slower than all others
                started = time.perf_counter()
            loss_of(model, ids).backward()  # type: ignore[no-untyped-call, unused-ignore]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        if device.type == "cuda":
            torch.cuda.synchronize()
        return float((steps - 1) * ids.shape[0] * definition["context"] / (time.perf_counter() - started))
    finally:
        torch.set_num_threads(threads)
