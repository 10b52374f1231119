"""What a run tells while it goes: JSON Lines in the store, and TensorBoard or Weights & Biases where asked.

live/NAME.jsonl        one row per measured loss, as in the runs table: `cptlaw forecast --run` reads it
live/NAME.steps.jsonl  training loss, learning rate, tokens per second
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from cptlaw.errors import needed_for
from cptlaw.writing import file_name as plain_name
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.specs import MeasuredRow
from cptlaw_sweep.store import Store

PUT_SECONDS = 30.0  # how often a store that is no folder gets the rows

_COLUMNS = ("n_params", "n_params_kind", "ptpp", "replay", "domain", "lr_schedule", "lr_peak", "seed", "batch_tokens")


def file_name(name: str, identity: str) -> str:
    """Return a name for files of a run: letters, digits, dots and dashes, and part of its identity.

    Examples
    --------
    >>> file_name("../a b", "0123456789")
    'a-b-012345'
    """
    return f"{plain_name(name, 120)}-{identity[:6]}"


class Live:
    """Writes rows as they come.

    Parameters
    ----------
    store
        Where they go.
    step
        Where the run goes on; later rows of an earlier process are dropped.
    """

    def __init__(self, job: Job, store: Store, step: int):
        self._job, self._store = job, store
        stem = f"live/{file_name(job.name, job.id)}"
        self._names = {"rows": f"{stem}.jsonl", "steps": f"{stem}.steps.jsonl"}
        # A process that goes on from a checkpoint trains the steps since then again, and writes them again.
        self._lines = {
            key: [_line(row) for row in store.read_lines(name) if row.get("step", math.inf) <= step] if step else []
            for key, name in self._names.items()
        }
        self._fresh: dict[str, list[str]] = {key: [] for key in self._names}
        self._put, self._begun = time.monotonic(), False
        self._sinks = [_sink(kind, job, store) for kind in job.run.get("log", ()) if kind != "jsonl"]
        self._shared = {name: job.columns[name] for name in _COLUMNS if job.columns.get(name) is not None}

    def write_losses(self, rows: list[MeasuredRow]) -> None:
        """Tell the losses of one measurement."""
        for row in rows:
            plain = {key: value for key, value in row.items() if value is not None}
            self._fresh["rows"].append(_line({"run": self._job.name, **self._shared, **plain}))
            for log, _ in self._sinks:
                log({f"eval/{row['eval']}": row["loss"]}, row["step"], row["tokens"])
        self._flush()

    def write_step(self, step: int, tokens: int, loss: float, lr: float, tokens_per_second: float) -> None:
        """Tell the mean training loss since the last call."""
        row = {"step": step, "tokens": tokens, "train_loss": loss, "lr": lr, "tokens_per_second": tokens_per_second}
        self._fresh["steps"].append(_line(row))
        for log, _ in self._sinks:
            log({f"train/{key}": row[key] for key in ("train_loss", "lr", "tokens_per_second")}, step, tokens)
        self._flush()

    def close(self) -> None:
        """Write what is left."""
        self._flush(at_last=True)
        for _, close in self._sinks:
            close()

    def _flush(self, *, at_last: bool = False) -> None:
        """Append to files of a folder; elsewhere files are written anew, now and then."""
        if not (self._store.is_local or at_last or time.monotonic() - self._put >= PUT_SECONDS):
            return
        for key, name in self._names.items():
            if self._store.is_local and self._begun:
                with open(self._store.path(name), "a", encoding="utf-8") as file:
                    file.writelines(self._fresh[key])
            else:
                self._lines[key] += self._fresh[key]
                self._store.write(name, "".join(self._lines[key]).encode())
            self._fresh[key] = []
        self._put, self._begun = time.monotonic(), True


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


Sink = tuple[Callable[[dict[str, float], int, int], Any], Callable[[], Any]]


def _sink(kind: str, job: Job, store: Store) -> Sink:
    """Return what logs values at a step and so many tokens to TensorBoard or Weights & Biases, and what ends it."""
    if kind == "tensorboard":
        with needed_for("log: tensorboard", "tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        writer = SummaryWriter(store.path(f"tensorboard/{file_name(job.name, job.id)}"))  # type: ignore[no-untyped-call, unused-ignore]

        def to_tensorboard(values: dict[str, float], step: int, tokens: int) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        return to_tensorboard, writer.close
    with needed_for("log: wandb", "wandb"):
        import wandb
    columns = {key: value for key, value in job.columns.items() if value is not None}
    run = wandb.init(project="cptlaw", name=job.name, id=job.id, resume="allow", config=columns)
    return lambda values, step, tokens: run.log({**values, "tokens": tokens}, step=step), run.finish
