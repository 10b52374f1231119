"""The training loop: one job from its start to its last step, with measurements and checkpoints on the way.

Devices, precision, several processes and their checkpoints are accelerate's; models are transformers'. Ours is which
rows are seen and when is measured. Rows are a function of the step, so a resumed job sees what it would have seen.

Axes: b = rows of a micro-batch on this process, c = context, v = vocabulary.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from cptlaw.errors import DataError
from cptlaw.schedules import Phase, Schedule
from cptlaw.training import models
from cptlaw.training.jobs import Job
from cptlaw.training.mix import Mix
from cptlaw.training.prepare import Windows, fixed_sample
from cptlaw.training.store import Store

Rows = np.ndarray[Any, np.dtype[np.int64]]

PLAN_STEPS = 256
WATCH_STEPS = 50  # how often a loss is looked at for NaN; reading it waits for the device


class TrainingError(Exception):
    """A run cannot go on; the message says why, for the table."""


@contextlib.contextmanager
def accelerator_for(precision: str, on_cpu: bool) -> Iterator[Accelerator]:
    """Give an accelerator, and forget its settings afterwards: the next job of this process may have others."""
    try:
        yield Accelerator(mixed_precision="bf16" if precision == "bf16" else "no", cpu=on_cpu)
    finally:
        AcceleratorState._reset_state(reset_partial_state=False)


def optimizer_for(model: torch.nn.Module, spec: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": spec["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(spec["beta1"], spec["beta2"]), eps=spec["epsilon"], fused=True)


def loss_of(model: Any, rows_bc: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Return the cross-entropy of windows (b, c + 1) in nats: each of the c tokens is predicted once."""
    logits_bcv = model(input_ids=rows_bc[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits_bcv.flatten(0, 1).float(), rows_bc[:, 1:].flatten(), reduction=reduction
    )


class Training:
    """One job as it is being trained.

    Parameters
    ----------
    job
        What to train.
    store
        Where its texts, its start and its checkpoints are.
    accelerator
        Device, precision and processes.
    cache
        A local folder for what comes from a store that is elsewhere.
    """

    def __init__(self, job: Job, store: Store, accelerator: Accelerator, cache: Path):
        definition = job.definition
        self.job, self.store, self.accelerator, self.cache = job, store, accelerator, cache
        self.context, self.batch = int(definition["context"]), int(definition["batch"])
        processes = accelerator.num_processes
        self.micro = int(definition["micro_batch"]) or self.batch
        if self.batch % (self.micro * processes) and self.micro * processes != self.batch:
            self.micro = max(1, self.batch // processes)
        if self.batch % processes:
            raise TrainingError(f"{self.batch} rows per step cannot be shared by {processes} processes")
        lr = Schedule([Phase(**phase) for phase in definition["phases"]]).lr
        self.first, self.last = (int(step) for step in definition["steps"])
        self.lr = lr[: self.last + 1].tolist()
        texts = {
            key: Windows(store, key, "train", self.context, cache) for key in dict.fromkeys(definition["mix"]["texts"])
        }
        self.texts = [texts[key] for key in definition["mix"]["texts"]]
        self.mix = Mix.of(definition["mix"], {key: len(windows) for key, windows in texts.items()})
        self.evals = [_Eval(entry, store, self.context, cache) for entry in definition["evals"]]
        self.measure_at = set(definition["measure_at"])
        self.step, self.seconds = self.first, 0.0
        # In one process accelerate's wrappers end in these same calls, after asking which libraries are there: several
        # per cent of a small model's step.
        self._alone = accelerator.num_processes == 1
        self._plan: tuple[Rows, ...] | None = None
        # Entering accelerate's context costs a small model half a percent, and changes nothing in fp32.
        self._precision = accelerator.autocast if definition["precision"] != "fp32" else contextlib.nullcontext
        self.rows: list[dict[str, Any]] = []
        self._load_start()

    # Where it starts

    def _load_start(self) -> None:
        start, spec = self.job.definition["start"], self.job.definition["model"]
        found = self._checkpoint()
        if "weights" in start and found is None:
            model = models.load_weights(self.store.get_folder(f"models/{start['weights']}", self.cache))
        else:  # from scratch, pre-trained, or a model whose weights are about to be loaded over
            model = models.build(spec, int(start.get("seed", 0)))
        torch.manual_seed(int(self.job.definition["mix"]["seed"]) % 2**63)
        limit = getattr(model.config, "max_position_embeddings", None)
        if limit is not None and limit < self.context:
            raise TrainingError(f"the model reads {limit} tokens at most, and context is {self.context}")
        widest = max(windows.vocabulary for windows in self.texts)
        if model.get_input_embeddings().weight.shape[0] < widest:
            raise TrainingError(f"the tokenizer has {widest} ids, and the model knows fewer")
        model.train()
        optimizer = optimizer_for(model, self.job.definition["optimizer"])
        if self.job.definition["compile"]:
            model = torch.compile(model)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        if found is not None:
            folder, notes = found
            self._load_state(folder)
            self.step, self.seconds, self.rows = int(notes["step"]), float(notes["seconds"]), list(notes["rows"])
        elif "state" in start:
            self._load_state(self.store.get_folder(f"models/{start['state']}", self.cache))

    def _load_state(self, folder: Path) -> None:
        try:
            self.accelerator.load_state(str(folder))
        except (RuntimeError, KeyError, EOFError, ValueError) as error:
            raise TrainingError(f"the checkpoint in {folder} cannot be read ({error}); remove it and retry") from error

    def _checkpoint(self) -> tuple[Path, dict[str, Any]] | None:
        name = f"checkpoints/{self.job.id}/latest.json"
        if not self.store.exists(name):
            return None
        notes = self.store.read_json(name)
        return self.store.get_folder(str(notes["folder"]), self.cache), notes

    # The loop

    def run(self) -> None:
        """Train to the last step."""
        if self.step == self.first and self.first in self.measure_at and not self.rows:
            self._measure()
        optimizer = self.optimizer.optimizer if self._alone else self.optimizer
        clip_norm = torch.nn.utils.clip_grad_norm_ if self._alone else self.accelerator.clip_grad_norm_
        groups = optimizer.param_groups
        clip = float(self.job.definition["optimizer"]["clip"])
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        sum_loss, watched = torch.zeros((), device=self.accelerator.device), self.step
        started = last_saved = time.monotonic()
        while self.step < self.last:
            lr = self.lr[self.step + 1]
            for group in groups:
                group["lr"] = lr
            sum_loss += self._backward()
            if clip:
                clip_norm(parameters, clip)
            optimizer.step()
            optimizer.zero_grad()
            self.step += 1
            measuring = self.step in self.measure_at
            if measuring or self.step - watched >= WATCH_STEPS or self.step == self.last:
                mean = float(sum_loss) / (self.step - watched)
                if not math.isfinite(mean):
                    raise TrainingError(f"the training loss is {mean} within steps {watched + 1} to {self.step}")
                sum_loss.zero_()
                watched = self.step
                if measuring:
                    self._measure()
                now = time.monotonic()
                if self._all_agree(now - last_saved >= self.job.checkpoint_seconds) and self.step < self.last:
                    self.seconds += now - started
                    self._save_checkpoint()
                    started = last_saved = time.monotonic()
        self.seconds += time.monotonic() - started

    def _backward(self) -> torch.Tensor:
        """Accumulate the gradient of one step over its micro-batches; return the mean loss of this process."""
        part = self.accelerator.process_index
        mine = slice(part, None, self.accelerator.num_processes)
        rows = self._read(mine)
        pieces = rows.split(self.micro)
        total = torch.zeros((), device=rows.device)
        for index, piece in enumerate(pieces):
            last = index + 1 == len(pieces)
            with contextlib.nullcontext() if last else self.accelerator.no_sync(self.model):
                with self._precision():
                    loss = loss_of(self.model, piece)
                    if len(pieces) > 1:
                        loss = loss * (len(piece) / len(rows))
                if self._alone:
                    loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
                else:
                    self.accelerator.backward(loss)
            total += loss.detach()
        return total

    def _read(self, mine: slice) -> torch.Tensor:
        """Return the windows of this process in this step, (b, c + 1), on the device."""
        place = (self.step - self.first) % PLAN_STEPS
        if place == 0 or self._plan is None:
            # The mix of many steps at once: for one step alone it would cost a tenth of a small model's step.
            begin = self.step - place
            row = np.arange(begin * self.batch, (begin + PLAN_STEPS) * self.batch, dtype=np.int64)
            self._plan = tuple(found.reshape(PLAN_STEPS, self.batch) for found in self.mix.rows(row))
        part, window = (found[place, mine] for found in self._plan)
        if len(self.texts) == 1:
            found = self.texts[0][window]
        else:
            found = np.empty((len(part), self.context + 1), dtype=np.int64)
            for index, text in enumerate(self.texts):
                mine = part == index
                found[mine] = text[window[mine]]
        return torch.from_numpy(found).to(self.accelerator.device, non_blocking=True)

    # Measurements

    def _measure(self) -> None:
        self.model.eval()
        tokens = self.step * self.batch * self.context
        for entry in self.evals:
            loss = entry.loss(self.model, self.accelerator, self.micro)
            if not math.isfinite(loss):
                raise TrainingError(f"the loss on {entry.name} is {loss} at step {self.step}")
            row = {"eval": entry.name, "domain": entry.domain, "loss": loss, "step": self.step, "tokens": tokens}
            self.rows.append({**row, "lr": self.lr[self.step]})
        self.model.train()

    # Checkpoints

    def _all_agree(self, decision: bool) -> bool:
        """Return what the first process decided, so that all processes save together."""
        if self.accelerator.num_processes == 1:
            return decision
        flag = torch.tensor(float(decision and self.accelerator.is_main_process), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def _save_checkpoint(self) -> None:
        folder = f"checkpoints/{self.job.id}/step-{self.step}"
        self._save_folder(folder, state=True)
        if self.accelerator.is_main_process:
            notes = {
                "step": self.step,
                "tokens": (self.step - self.first) * self.batch * self.context,
                "seconds": self.seconds,
                "rows": self.rows,
                "folder": folder,
            }
            self.store.write_json(f"checkpoints/{self.job.id}/latest.json", notes)
            for name in self.store.names(f"checkpoints/{self.job.id}"):
                if name.startswith("step-") and name != f"step-{self.step}":
                    self.store.remove(f"checkpoints/{self.job.id}/{name}")
        self.accelerator.wait_for_everyone()

    def _save_folder(self, name: str, *, state: bool) -> None:
        """Save all that training needs to go on, or only the weights, as a folder of the store."""
        local = self._shared_scratch()
        if state:
            self.accelerator.save_state(str(local))
        else:
            weights = self.accelerator.get_state_dict(self.model)
            if self.accelerator.is_main_process:
                whole = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
                whole.save_pretrained(str(local), state_dict=weights)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.store.put_folder(local, name)

    def _shared_scratch(self) -> Path:
        """Return one scratch folder for all processes of the job."""
        from accelerate.utils import broadcast_object_list

        found = [str(self.store.scratch()) if self.accelerator.is_main_process else ""]
        if self.accelerator.num_processes > 1:
            broadcast_object_list(found)
        return Path(found[0])

    def keep(self) -> None:
        """Keep what later jobs start from."""
        kept = self.job.definition["keep"]
        if kept:
            self._save_folder(f"models/{self.job.id}", state=kept == "state")

    def report(self) -> dict[str, Any]:
        """Return how the job went: counts exact, seconds as measured."""
        counts = [int(n) for n in np.subtract(self._counts(self.last), self._counts(self.first))]
        tokens = [n * self.context for n in counts]
        seen = dict.fromkeys(self.job.definition["mix"]["texts"], 0)
        for key, n in zip(self.job.definition["mix"]["texts"], tokens, strict=True):
            seen[key] += n
        trained = (self.last - self.first) * self.batch * self.context
        return {
            "name": self.job.name,
            "kind": self.job.kind,
            "tokens": trained,
            "tokens_by_text": seen,
            "epochs_by_text": {
                key: self._counts(self.last)[index] / len(self.texts[index])
                for index, key in enumerate(self.job.definition["mix"]["texts"])
            },
            "seconds": self.seconds,
            "tokens_per_second": trained / self.seconds if self.seconds else None,
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
        }

    def _counts(self, step: int) -> list[int]:
        return self.mix.counts(step * self.batch)


class _Eval:
    """A fixed validation set."""

    def __init__(self, entry: Mapping[str, Any], store: Store, context: int, cache: Path):
        self.name, self.domain = str(entry["eval"]), entry["domain"]
        windows = Windows(store, entry["text"], entry["split"], context, cache)
        self._rows = windows[fixed_sample(windows, int(entry["sequences"]))]

    def loss(self, model: Any, accelerator: Accelerator, batch: int) -> float:
        """Return the mean cross-entropy in nats per token, summed in float64."""
        mine = torch.from_numpy(self._rows[accelerator.process_index :: accelerator.num_processes])
        total = torch.zeros((), dtype=torch.float64, device=accelerator.device)
        for piece in mine.split(max(batch, 32)):
            with torch.no_grad(), accelerator.autocast():
                total += loss_of(model, piece.to(accelerator.device), "sum").double()
        if accelerator.num_processes > 1:
            total = accelerator.reduce(total, "sum")
        return float(total) / int(self._rows[:, 1:].size)


def train(job: Job, store: Store, cache: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train one job from its last checkpoint, or from its start.

    Parameters
    ----------
    job
        What to train.
    store
        Where everything is.
    cache
        A local folder for what comes from a store that is elsewhere.

    Returns
    -------
    tuple
        The measured rows, and the report of the job.

    Raises
    ------
    TrainingError, DataError, OSError
        If the run cannot go on.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    on_cpu = not job.gpus
    if on_cpu and processes == 1:
        torch.set_num_threads(1)
    if job.gpus and not torch.cuda.is_available():
        raise DataError("the run asks for a GPU (resources: gpus), and there is none here")
    with accelerator_for(str(job.definition["precision"]), on_cpu) as accelerator:
        training = Training(job, store, accelerator, cache)
        training.run()
        training.keep()
        return training.rows, json.loads(json.dumps(training.report()))
