"""What a run tells while it goes: JSON Lines in the store, and TensorBoard or Weights & Biases where asked.

live/NAME.jsonl        one row per measured loss, as in the runs table: `cptlaw forecast --run` reads it
live/NAME.steps.jsonl  training loss, learning rate, tokens per second
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from cptlaw_sweep.instructions import plain_name
from cptlaw_sweep.jobs import Job
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
    return f"{plain_name(name)[:120]}-{identity[:6]}"


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
        self._lines = {key: self._earlier(name, step) for key, name in self._names.items()}
        self._fresh: dict[str, list[str]] = {key: [] for key in self._names}
        self._put, self._rewrite = time.monotonic(), True
        self._sinks = [_Sink.open(kind, job, store) for kind in job.run.get("log", ()) if kind != "jsonl"]
        self._shared = {name: job.columns[name] for name in _COLUMNS if job.columns.get(name) is not None}

    def _earlier(self, name: str, step: int) -> list[str]:
        if not step or not self._store.exists(name):
            return []
        kept = []
        for line in self._store.read(name).decode().splitlines():
            try:
                # A process that goes on from a checkpoint trains the steps since then again, and writes them again.
                if int(json.loads(line)["step"]) <= step:
                    kept.append(line)
            except (ValueError, KeyError):  # the last line of a process that was killed
                continue
        return kept

    def measured(self, rows: list[dict[str, Any]]) -> None:
        """Tell the losses of one measurement."""
        for row in rows:
            plain = {key: value for key, value in row.items() if value is not None}
            self._add("rows", {"run": self._job.name, **self._shared, **plain})
            for sink in self._sinks:
                sink.log({f"eval/{row['eval']}": row["loss"]}, row["step"], row["tokens"])
        self._flush()

    def stepped(self, step: int, tokens: int, loss: float, lr: float, tokens_per_second: float) -> None:
        """Tell the mean training loss since the last call."""
        row = {"step": step, "tokens": tokens, "train_loss": loss, "lr": lr, "tokens_per_second": tokens_per_second}
        self._add("steps", row)
        for sink in self._sinks:
            sink.log({f"train/{key}": row[key] for key in ("train_loss", "lr", "tokens_per_second")}, step, tokens)
        self._flush()

    def close(self) -> None:
        """Write what is left."""
        self._flush(at_last=True)
        for sink in self._sinks:
            sink.close()

    def _add(self, key: str, row: dict[str, Any]) -> None:
        self._fresh[key].append(json.dumps(row, allow_nan=False))

    def _flush(self, *, at_last: bool = False) -> None:
        """Append to files of a folder; elsewhere files are written anew, now and then."""
        if "://" not in self._store.url:
            for key, name in self._names.items():
                path = Path(self._store.path(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                lines = self._lines[key] + self._fresh[key] if self._rewrite else self._fresh[key]
                if lines or self._rewrite:
                    with path.open("w" if self._rewrite else "a", encoding="utf-8") as file:
                        file.write("".join(f"{line}\n" for line in lines))
                self._fresh[key] = []
            self._rewrite = False
        elif at_last or time.monotonic() - self._put >= PUT_SECONDS:
            for key, name in self._names.items():
                self._lines[key] += self._fresh[key]
                self._fresh[key] = []
                self._store.write(name, "".join(f"{line}\n" for line in self._lines[key]).encode())
            self._put = time.monotonic()


class _Sink:
    """TensorBoard or Weights & Biases."""

    def __init__(self, writer: Any, kind: str):
        self._writer, self._kind = writer, kind

    @classmethod
    def open(cls, kind: str, job: Job, store: Store) -> _Sink:
        from cptlaw.errors import DataError

        try:
            if kind == "tensorboard":
                from torch.utils.tensorboard import SummaryWriter

                place = store.path(f"tensorboard/{file_name(job.name, job.id)}")
                return cls(SummaryWriter(place), kind)  # type: ignore[no-untyped-call, unused-ignore]
            import wandb

            columns = {key: value for key, value in job.columns.items() if value is not None}
            run = wandb.init(project="cptlaw", name=job.name, id=job.id, resume="allow", config=columns)
            return cls(run, kind)
        except ImportError:
            package = {"tensorboard": "tensorboard", "wandb": "wandb"}[kind]
            raise DataError(f"log: {kind} needs {package}. Install it with: pip install {package}") from None

    def log(self, values: dict[str, float], step: int, tokens: int) -> None:
        if self._kind == "wandb":
            self._writer.log({**values, "tokens": tokens}, step=step)
            return
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._kind == "wandb":
            self._writer.finish()
        else:
            self._writer.close()
