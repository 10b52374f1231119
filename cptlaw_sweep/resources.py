"""What a run trains on and how much it reads at a time: devices, processes, rows per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cptlaw.errors import DataError
from cptlaw_sweep import fields as read
from cptlaw_sweep.fields import Fields


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


@dataclass(frozen=True)
class Resources:
    """What one run may use.

    Parameters
    ----------
    gpus
        Whole GPUs, or a share of one for small models that are packed; 0 is the CPU.
    memory
        Bytes of a process; 0 where it is to be estimated.
    on_cpu
        Processes on the CPU; with GPUs there is one for each.
    nodes
        Machines, each with that many GPUs or processes.
    shard
        Whether weights and optimiser states are shared out among processes (FSDP).
    """

    gpus: float = 0.0
    memory: int = 0
    on_cpu: int = 0
    nodes: int = 1
    shard: bool = False

    @property
    def processes(self) -> int:
        """Processes that share one run."""
        return max(1, int(self.gpus), self.on_cpu) * self.nodes

    def read_rows(self, block: Fields, usual: Rows, where: str) -> Rows:
        """Read what is read per step, in the file or in a block of it."""
        found = Rows(
            block.take("context", read.count, usual.context),
            block.take("batch", read.count, usual.batch),
            block.take("micro_batch", read.count, usual.micro_batch),
        )
        if found.context < 1 or found.batch < 1:
            raise DataError(f"{where}: context and batch must be 1 or more.")
        if found.tokens > 10**10:
            raise DataError(f"{where}: context {found.context} times batch {found.batch} tokens per step are too many.")
        if found.batch % self.processes:
            raise DataError(f"{where}: batch {found.batch} cannot be shared evenly by {self.processes} processes.")
        own = found.batch // self.processes
        if found.micro_batch and own % found.micro_batch:
            # The nearest choices below, so that nobody has to divide.
            usable = [str(n) for n in range(1, min(own, 4096) + 1) if own % n == 0]
            raise DataError(
                f"{where}: micro_batch {found.micro_batch} does not divide the {own} rows of "
                f"{'a step' if self.processes == 1 else 'a process'}. Choose one of {', '.join(usable[-8:])}."
            )
        return found


def read_resources(value: Any, where: str) -> Resources:
    """Read the block ``resources`` of a recipe."""
    fields = Fields(value, where)
    found = Resources(
        fields.take("gpus", read.number, 0.0),
        fields.take("memory", read.count, 0),
        fields.take("processes", read.count, 0),
        max(1, fields.take("nodes", read.count, 1)),
        fields.take("shard", read.flag, False),
    )
    fields.end()
    # Ray and Slurm give whole devices beyond one.
    if found.gpus > 1 and found.gpus != int(found.gpus):
        raise DataError(f"{where}: gpus {found.gpus:g}: expected whole GPUs, or a share of one.")
    if found.gpus and found.on_cpu:
        raise DataError(f"{where}: `processes` is for the CPU; with GPUs there is one for each.")
    return found
