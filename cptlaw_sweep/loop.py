"""The training loop: one job from its start to its last step, with measurements and checkpoints on the way.

Devices, precision and processes are accelerate's; models are transformers'. Ours is which rows are seen and when is
measured. Rows are a function of the step, so a resumed job sees what it would have seen.

Axes: b = rows of a micro-batch on this process, c = context, v = vocabulary.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from cptlaw.errors import DataError
from cptlaw.schedules import Phase, Schedule
from cptlaw_sweep import models, parallel, saved_models, state
from cptlaw_sweep.checkpoints import Checkpoints
from cptlaw_sweep.evals import Eval
from cptlaw_sweep.interpolated import Between
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.live import Live
from cptlaw_sweep.mix import DataMix
from cptlaw_sweep.models import mean_loss as loss_of
from cptlaw_sweep.prepare import Windows
from cptlaw_sweep.sizes import LOGITS
from cptlaw_sweep.specs import JobReport, MeasuredRow
from cptlaw_sweep.store import Store

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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


def optimizer_for(model: torch.nn.Module, spec: Mapping[str, object]) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": spec["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=0.0, betas=(spec["beta1"], spec["beta2"]), eps=spec["epsilon"], fused=True)


class Training:
    """One job as it is being trained.

    Parameters
    ----------
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
        if self.batch % processes:
            raise TrainingError(f"{self.batch} rows per step cannot be shared by {processes} processes")
        own = self.batch // processes
        self.micro = int(definition["micro_batch"]) or own
        if own % self.micro:
            raise TrainingError(f"micro_batch {self.micro} does not divide the {own} rows of a process")
        self.shard = bool(definition.get("shard")) and processes > 1
        phases = [Phase(**phase) for phase in definition["phases"]]
        lr = Schedule(phases).lr if phases else np.zeros(1)
        self.first, self.last = (int(step) for step in definition["steps"])
        self.lr = lr[: self.last + 1].tolist()
        texts = {
            key: Windows(store, key, "train", self.context, cache) for key in dict.fromkeys(definition["mix"]["texts"])
        }
        self.texts = [texts[key] for key in definition["mix"]["texts"]]
        self.mix = DataMix.of(definition["mix"], {key: len(windows) for key, windows in texts.items()}, self.context)
        self.evals = [Eval(entry, store, self.context, cache) for entry in definition["evals"]]
        self.measure_at = set(definition["measure_at"])
        self.step, self.seconds = self.first, 0.0
        self._alone = accelerator.num_processes == 1
        self._plan: tuple[Rows, ...] | None = None
        # FSDP2 casts by itself; and entering accelerate's context costs a small model half a percent in fp32.
        in_fp32 = definition["precision"] == "fp32" or self.shard
        self.precision = contextlib.nullcontext if in_fp32 else accelerator.autocast
        self.rows: list[MeasuredRow] = []
        self._checkpoints = Checkpoints(job, store, accelerator, shard=self.shard)
        self._load_start()
        self._live = Live(job, store, self.step) if accelerator.is_main_process and job.run else None

    # Where it starts

    def _load_start(self) -> None:
        definition, latest = self.job.definition, self._checkpoints.latest(self.cache)
        start, merges = definition["start"], definition.get("merge", ())
        starts_here = latest is None or bool(merges)  # a merge needs the model of the start, whatever was reached since
        model = self._model_at_start(starts_here)
        torch.manual_seed(int(definition["mix"]["seed"]) % 2**63)
        vocabulary = self._checked_vocabulary(model)
        self.score = loss_of
        if self.micro * self.context * vocabulary > LOGITS and models.enable_loss_in_pieces(model):
            self.score = models.loss_in_pieces
        self._save_memory(model)
        model.train()
        self.bare = model
        self.model = parallel.wrap(model, self.accelerator, shard=self.shard, bf16=definition["precision"] == "bf16")
        self.optimizer = optimizer_for(model, definition["optimizer"])
        if definition["compile"]:
            self.model = torch.compile(self.model)
        if "state" in start and starts_here:
            self._load_state(self.store.get_folder(f"models/{start['state']}", self.cache))
        self._between = Between(model) if merges else None
        if latest is not None:
            folder, notes = latest
            self._load_state(folder)
            self.step, self.seconds, self.rows = int(notes["step"]), float(notes["seconds"]), list(notes["rows"])

    def _model_at_start(self, starts_here: bool) -> torch.nn.Module:
        start = self.job.definition["start"]
        if "weights" in start and starts_here:
            return models.load_weights(self.store.get_folder(f"models/{start['weights']}", self.cache))
        # From scratch, pre-trained, or a model whose weights are about to be loaded over.
        place = self.job.places.get("model")
        return models.build(self.job.definition["model"], int(start.get("seed", 0)), place)

    def _checked_vocabulary(self, model: PreTrainedModel) -> int:
        limit = getattr(model.config, "max_position_embeddings", None)
        if limit is not None and limit < self.context:
            raise TrainingError(f"the model reads {limit} tokens at most, and context is {self.context}")
        widest = max(windows.vocabulary for windows in self.texts)
        vocabulary = int(model.get_input_embeddings().weight.shape[0])
        if vocabulary < widest:
            raise TrainingError(f"the tokenizer has {widest} ids, and the model knows {vocabulary}")
        return vocabulary

    def _save_memory(self, model: PreTrainedModel) -> None:
        adapters = "lora" in self.job.definition["model"]
        if self.job.run.get("activation_checkpointing"):
            models.recompute_activations(model)
            if adapters:
                model.enable_input_require_grads()  # nothing before the first adapter has a gradient of its own
        if adapters and self.job.definition["precision"] == "bf16" and not self.shard:
            for parameter in model.parameters():
                if not parameter.requires_grad:
                    parameter.data = parameter.data.to(torch.bfloat16)

    def _load_state(self, folder: Path) -> None:
        try:
            state.load(
                folder, self.bare, self.optimizer, self.accelerator.process_index, self.accelerator.num_processes
            )
        except (RuntimeError, KeyError, EOFError, ValueError, OSError) as error:
            raise TrainingError(f"the checkpoint in {folder} cannot be read ({error}); remove it and retry") from error

    # The loop

    def run(self) -> None:
        """Train to the last step."""
        if self.step == self.first and self.first in self.measure_at and not self.rows:
            self._measure()
        optimizer = self.optimizer
        groups = optimizer.param_groups
        clip = float(self.job.definition["optimizer"]["clip"])
        parameters = [p for p in self.bare.parameters() if p.requires_grad]
        sum_loss, watched = torch.zeros((), device=self.accelerator.device), self.step
        started = last_saved = looked = time.monotonic()
        while self.step < self.last:
            lr = self.lr[self.step + 1]
            for group in groups:
                group["lr"] = lr
            sum_loss += self._backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
            optimizer.zero_grad()
            self.step += 1
            measuring = self.step in self.measure_at
            if measuring or self.step - watched >= WATCH_STEPS or self.step == self.last:
                # Reading a number waits for the device: the sum is kept there and looked at every so many steps.
                mean = float(sum_loss) / (self.step - watched)
                if not math.isfinite(mean):
                    raise TrainingError(f"the training loss is {mean} within steps {watched + 1} to {self.step}")
                now = time.monotonic()
                self._log_progress(mean, (self.step - watched) / max(now - looked, 1e-9))
                sum_loss.zero_()
                watched = self.step
                if measuring:
                    self._measure()
                looked = now = time.monotonic()
                if self._all_agree(now - last_saved >= self.job.checkpoint_seconds) and self.step < self.last:
                    self.seconds += now - started
                    self._save_checkpoint()
                    started = last_saved = looked = time.monotonic()
        self.seconds += time.monotonic() - started

    def _log_progress(self, loss: float, steps_per_second: float) -> None:
        """Add to the live log of the run."""
        if self._live is not None:
            tokens = self.step * self.batch * self.context
            speed = steps_per_second * self.batch * self.context
            self._live.write_step(self.step, tokens, loss, self.lr[self.step], speed)

    def _backward(self) -> torch.Tensor:
        """Accumulate the gradient of one step over its micro-batches; return the mean loss of this process."""
        part = self.accelerator.process_index
        mine = slice(part, None, self.accelerator.num_processes)
        rows = self._read(mine)
        pieces = rows.split(self.micro)
        total = torch.zeros((), device=rows.device)
        for index, piece in enumerate(pieces):
            last = index + 1 == len(pieces)
            with contextlib.nullcontext() if last or self._alone else parallel.without_sync(self.model):
                with self.precision():
                    loss = self.score(self.model, piece)
                    if len(pieces) > 1:
                        # The last piece may be shorter: weighted by its rows, the gradient is that of the whole batch.
                        loss = loss * (len(piece) / len(rows))
                # Called on the tensor: accelerate's wrapper looks for installed libraries at every step, which with
                # planning the mix step by step had cost 7 % of a step of a 30K model, and costs under 3 % now.
                loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
            total += loss.detach()
        return total

    def _read(self, mine: slice) -> torch.Tensor:
        """Return the windows of this process in this step, (b, c + 1), on the device."""
        place = (self.step - self.first) % PLAN_STEPS
        if place == 0 or self._plan is None:
            # The mix of many steps at once: for one step alone it would cost a tenth of a small model's step.
            begin = self.step - place
            row = np.arange(begin * self.batch, (begin + PLAN_STEPS) * self.batch, dtype=np.int64)
            self._plan = tuple(one.reshape(PLAN_STEPS, self.batch) for one in self.mix.rows(row))
        part, window = (one[place, mine] for one in self._plan)
        if len(self.texts) == 1:
            one = self.texts[0][window]
        else:
            one = np.empty((len(part), self.context + 1), dtype=np.int64)
            for index, text in enumerate(self.texts):
                of_text = part == index
                one[of_text] = text[window[of_text]]
        return torch.from_numpy(one).to(self.accelerator.device, non_blocking=True)

    # Measurements

    def _measure(self) -> None:
        self.model.eval()
        fresh = self._losses()
        self.rows += fresh
        if self._between is not None and self.step > self.first:
            for weight in self.job.definition["merge"]:
                with self._between.at(weight):
                    self.rows += [{**row, "merge_weight": weight} for row in self._losses()]
        self.model.train()
        if self._live is not None:
            self._live.write_losses(fresh)
        if saved_models.is_kept(self.job, self.rows, self.step):
            self._keep_model()

    def _losses(self) -> list[MeasuredRow]:
        """Return a row for each validation set, with the weights as they are."""
        tokens = self.step * self.batch * self.context
        result: list[MeasuredRow] = []
        for entry in self.evals:
            loss = entry.loss(self.score, self.model, self.accelerator, self.micro, self.precision)
            if not math.isfinite(loss):
                raise TrainingError(f"the loss on {entry.name} is {loss} at step {self.step}")
            result.append(
                {
                    "eval": entry.name,
                    "domain": entry.domain,
                    "loss": loss,
                    "step": self.step,
                    "tokens": tokens,
                    "lr": self.lr[self.step],
                }
            )
        if self.shard:
            parallel.drop_gathered(self.bare)
        return result

    def _keep_model(self) -> None:
        """Keep the model as it is now, as a folder that transformers reads."""
        local = self._checkpoints.scratch()
        main = self.accelerator.is_main_process
        saved_models.save_model(self.bare, local, main=main)
        if main:
            saved_models.finish_folder(local, self.job, self.store, self.step, self.rows)
            self.store.put_folder(local, saved_models.folder_of(self.job.id, self.step))
            if self.job.definition["kept"] == "best":
                for step in saved_models.kept_steps(self.store, self.job.id):
                    if step != self.step:
                        self.store.remove(saved_models.folder_of(self.job.id, step))
        self.accelerator.wait_for_everyone()

    # What stays

    def _all_agree(self, decision: bool) -> bool:
        """Return what the first process decided, so that all processes save together."""
        if self._alone:
            return decision
        flag = torch.tensor(float(decision and self.accelerator.is_main_process), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def _save_checkpoint(self) -> None:
        notes = {
            "step": self.step,
            "tokens": (self.step - self.first) * self.batch * self.context,
            "seconds": self.seconds,
            "rows": list(self.rows),
        }
        self._checkpoints.save(self.bare, self.optimizer, notes)

    def keep(self) -> None:
        """Keep what later jobs start from."""
        self._checkpoints.finish()
        kept = self.job.definition["keep"]
        if not kept:
            return
        local = self._checkpoints.scratch()
        if "state" in kept:
            self._checkpoints.state_of(self.bare, self.optimizer, local)()
        if "weights" in kept:
            saved_models.save_model(self.bare, local, main=self.accelerator.is_main_process)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self.store.put_folder(local, f"models/{self.job.id}")

    def close(self) -> None:
        """End what goes on beside the training."""
        try:
            self._checkpoints.wait()
        finally:
            if self._live is not None:
                self._live.close()

    def report(self) -> JobReport:
        """Return how the job went: counts exact, seconds as measured."""
        before, after = (self.mix.counts(step * self.batch) for step in (self.first, self.last))
        seen = Counter[str]()  # two names may stand for one text
        for part, begun, ended in zip(self.mix.parts, before, after, strict=True):
            seen[part.text] += (ended - begun) * self.context
        trained = (self.last - self.first) * self.batch * self.context
        return {
            "name": self.job.name,
            "kind": self.job.kind,
            "tokens": trained,
            "tokens_by_text": dict(seen),
            "epochs_by_text": {part.text: count / part.size for part, count in zip(self.mix.parts, after, strict=True)},
            "seconds": self.seconds,
            "tokens_per_second": trained / self.seconds if self.seconds else None,
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
        }


def train(job: Job, store: Store, cache: Path) -> tuple[list[MeasuredRow], JobReport]:
    """Train one job from its last checkpoint, or from its start.

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
        try:
            training.run()
            training.keep()
        finally:
            training.close()
        return training.rows, training.report()
