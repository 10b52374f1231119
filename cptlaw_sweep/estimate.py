"""What a sweep would cost: tokens, FLOPs, time and disk of every run, before anything is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cptlaw.findings import Finding
from cptlaw.result import Line, Result, Table, plain
from cptlaw.units import format_quantity
from cptlaw_sweep.jobs import Job, Sweep
from cptlaw_sweep.progress import format_seconds

if TYPE_CHECKING:
    import pandas as pd

# Models above this are not timed here: their speed follows from that of the largest one that was.
LARGEST_MEASURED = 50_000_000


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
    memory
        What takes the memory of the largest run.
    merges
        Weights at which merges with the base model are measured too, and by how many runs.
    written
        Manifests that were written, if any.
    findings
        What is done without having been asked for.
    """

    frame: pd.DataFrame
    workers: int
    speed: str
    memory: str = ""
    merges: str = ""
    written: str | None = None
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the runs as plain data."""
        total = {name: self.frame[name].sum() for name in ("tokens", "flops", "seconds", "disk_bytes")}
        return {
            "runs": plain(self.frame),
            "total": total,
            "workers": self.workers,
            "speed": self.speed,
            "memory": self.memory,
            "merges": self.merges,
            "manifests": self.written,
        }

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
        disk = f"{_bytes_text(float(self.frame['disk_bytes'].sum()))} beside the prepared text"
        result = [("memory", self.memory), ("disk", disk), ("time", self.speed)]
        result += [("merges", self.merges)] if self.merges else []
        return [*result, ("manifests", self.written)] if self.written else result

    @property
    def tables(self) -> list[Table]:
        """The runs, one row each."""
        shown = self.frame[["run", "kind", "tokens", "flops", "seconds", "memory_bytes", "disk_bytes"]]
        formats: dict[str, Callable[..., str]] = dict.fromkeys(("tokens", "flops"), format_quantity)
        formats |= {"seconds": format_seconds, "memory_bytes": _bytes_text, "disk_bytes": _bytes_text}
        names = ("run", "kind", "tokens", "FLOPs", "time", "memory", "disk")
        return [replace(Table.of(shown, formats), columns=names)]


def _bytes_text(value: float) -> str:
    return f"{format_quantity(value)}B".replace("KB", "kB").replace("BB", "GB")


def estimate(sweep: Sweep, workers: int) -> DryRun:
    """Estimate each run, from the speed of the training step of each model as measured here, for half a second each."""
    import pandas as pd

    speeds, speed = _tokens_per_second(sweep)

    def seconds(job: Job) -> float:
        n_evals = sum(entry["sequences"] for entry in job.definition["evals"]) * len(job.definition["measure_at"])
        n_evals *= 1 + len(job.definition.get("merge", ()))
        # A loss without a gradient costs a third of a training step.
        tokens: float = job.tokens + n_evals * job.definition["context"] / 3
        return tokens / speeds[str(job.columns["model"])]

    runs = [job for job in sweep.jobs if job.kind != "evaluate"]
    columns: dict[str, Callable[[Job], object]] = {
        "run": lambda job: job.name,
        "kind": lambda job: job.kind,
        "tokens": lambda job: job.tokens,
        "flops": lambda job: job.flops,
        "seconds": seconds,
        "disk_bytes": disk_of,
        "memory_bytes": lambda job: job.memory,
        "id": lambda job: job.id,
    }
    # By columns: as many tuples as there are runs would take more memory than the table. Text as the objects that it
    # is: pandas' own strings load 20 MB of another library first.
    types = dict.fromkeys(("run", "kind", "id"), object)
    frame = pd.DataFrame(
        {name: pd.Series([of_job(job) for job in runs], dtype=types.get(name)) for name, of_job in columns.items()}
    )
    notes = tuple(Finding("info", "recipe", note) for note in sweep.notes)
    return DryRun(frame, workers, speed, _memory_text(sweep), _merges_text(sweep), findings=notes)


def _tokens_per_second(sweep: Sweep) -> tuple[dict[str, float], str]:
    """Return tokens per second of each model, and where they come from."""
    timed: Callable[[Job], float] | None = None
    with contextlib.suppress(ImportError):  # without torch nothing can be timed
        from cptlaw_sweep.timing import tokens_per_second as timed
    speeds: dict[str, float] = {}
    by_model = {str(job.columns["model"]): job for job in sweep.jobs if job.kind != "evaluate"}
    work = 5e9  # tokens per second times parameters: of one core, which does about 3e10 FLOP, until a model is timed
    guessed = []
    for name, job in sorted(by_model.items(), key=lambda item: item[1].columns["n_params"]):
        size = float(job.columns["n_params"])
        # A given model would have to be downloaded to be timed.
        if timed and size <= LARGEST_MEASURED and job.definition["model"]["kind"] != "pretrained":
            speeds[name] = timed(job)
            work = size * speeds[name]
        else:
            speeds[name] = work / size
            guessed.append(name)
    if not timed:
        return speeds, "not timed, since torch is not installed here: 3e10 FLOP per second of one core"
    device = "one thread of this machine" if not max(job.gpus for job in sweep.jobs) else "the GPU of this machine"
    speed = f"from training steps timed on {device}"
    if guessed:
        speed += f"; {', '.join(guessed)} too large to be timed here, or pre-trained: scaled by 6 N"
    return speeds, speed


def _memory_text(sweep: Sweep) -> str:
    """Return what takes the memory of the job that needs most of it."""
    job = max(sweep.jobs, key=lambda job: job.memory)
    parts = {name: size for name, size in job.run.get("memory", {}).items() if size}
    text = ", ".join(f"{name} {_bytes_text(size)}" for name, size in parts.items())
    return f"{_bytes_text(job.memory)} per process at most, in {job.name} ({text}, and the process itself)"


def _merges_text(sweep: Sweep) -> str:
    """Return at which weights how many runs are merged with their base model and measured so too."""
    merging = [job.definition["merge"] for job in sweep.jobs if job.definition.get("merge")]
    weights = ", ".join(f"{weight:g}" for weight in sorted({weight for some in merging for weight in some}))
    return f"both losses also at {weights} between base and adapted weights, in {len(merging)} runs" if merging else ""


def disk_of(job: Job) -> int:
    """Return the bytes that a finished job keeps: weights, or these and both moments of the optimiser; and rows."""
    # Float32 numbers for each parameter: weights, two moments of AdamW, and a copy of the weights where both are kept.
    floats: Mapping[object, int] = {"state": 3, "weights": 1, "weights+state": 4, None: 0}
    at = len(job.definition["measure_at"]) * (1 + len(job.definition.get("merge", ())))
    rows = at * len(job.definition["evals"]) * 160 + 4000
    models = {"all": len(job.definition["measure_at"]), "last": 1, "best": 1}.get(job.definition.get("kept", "no"), 0)
    kept = floats[job.definition["keep"]] + models
    return int(kept * 4 * job.columns["n_params"] + rows)
