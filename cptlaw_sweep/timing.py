"""The speed of a model's training step on this machine."""

from __future__ import annotations

import time

import torch

from cptlaw_sweep import models
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.loop import optimizer_for
from cptlaw_sweep.models import mean_loss

MEASURED_SECONDS = 0.5


def tokens_per_second(job: Job) -> float:
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
            mean_loss(model, ids).backward()  # type: ignore[no-untyped-call, unused-ignore]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        if device.type == "cuda":
            torch.cuda.synchronize()
        return float((steps - 1) * ids.shape[0] * definition["context"] / (time.perf_counter() - started))
    finally:
        torch.set_num_threads(threads)
