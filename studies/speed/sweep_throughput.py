"""The sweep's training loop beside the bare training step of the same model, and tiny models packed on cores.

    python -m studies sweep_throughput            # about two minutes of CPU
    python -m studies sweep_throughput --quick    # says nothing about speed

The bare step is what nobody can leave out: forward, backward, clip, AdamW, on rows that lie in memory. Blocks of both
alternate, so that what else the machine does falls on both alike; ratios are of medians of CPU time.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from cptlaw.units import parse_quantity
from cptlaw_sweep import models
from cptlaw_sweep.engines.local import LocalEngine
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.loop import Training, accelerator_for, loss_of, optimizer_for
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.progress import SweepProgress
from cptlaw_sweep.store import Store
from studies.harness import Clock

SIZES = ("30K", "100K", "300K", "1M", "3M")


def recipe(folder: Path, sizes: tuple[str, ...], seeds: int, tokens: float) -> Path:
    """Write a recipe over random text, and return its path."""
    import json

    draw = random.Random(0)
    for name in ("old", "new"):
        with (folder / f"{name}.jsonl").open("w") as file:
            for _ in range(200):
                text = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz ", k=10_000))
                file.write(json.dumps({"text": text}) + "\n")
    path = folder / "sweep.yaml"
    settings: dict[str, Any] = {
        "text": {name: {"files": f"{name}.jsonl", "validation": "5%"} for name in ("old", "new")},
        "context": 128,
        "batch": 8,
        "eval_sequences": 8,
        "models": {size: {"n_params": size, "seeds": list(range(seeds))} for size in sizes},
        "pretrain": {"text": "old", "ptpp": tokens, "peak": 1e-3, "warmup": 1},
        "adapt": {
            "source": "old",
            "target": "new",
            "replay": 0.25,
            "tokens_per_param": tokens,
            "schedules": {"schedule": "constant", "peak": 1e-3, "warmup": 1},
        },
    }
    path.write_text(yaml.safe_dump(settings))
    return path


class Bare:
    """The bare training step of a job's model."""

    def __init__(self, job: Job):
        definition = job.definition
        self.model = models.build(definition["model"], 0).train()
        self.optimizer = optimizer_for(self.model, definition["optimizer"])
        self.rows = torch.randint(256, (definition["batch"], definition["context"] + 1))

    def run(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            loss_of(self.model, self.rows).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


def peak_flops() -> float:
    """Return the FLOP per second of one thread in a large matrix product."""
    a = torch.randn(1024, 1024)
    best = 0.0
    for _ in range(10):
        clock = Clock()
        with clock.running():
            torch.mm(a, a)
        best = max(best, 2 * 1024**3 / clock.cpu)
    return best


def compare(folder: Path, size: str, blocks: int, block_seconds: float) -> str:
    """Return one row of the table: the loop of the sweep beside the bare step."""
    # Long enough for all blocks, whatever the size.
    sweep = load_sweep(recipe(folder, (size,), 1, 1024 * 20_000 / parse_quantity(size)))
    store = Store(folder / "out")
    prepare(sweep.texts, store, lambda _: None)
    job = next(job for job in sweep.jobs if job.kind == "adapt")
    job = Job.from_dict(
        {
            **job.to_dict(),
            "checkpoint_seconds": 1e9,
            "definition": {**job.definition, "measure_at": [], "start": {"seed": 0}},
        }
    )
    times: dict[str, list[float]] = {"sweep": [], "bare": []}
    with accelerator_for("fp32", on_cpu=True) as accelerator:
        training, bare = Training(job, store, accelerator, folder), Bare(job)
        clock = Clock()
        with clock.running():
            bare.run(5)
        steps = max(5, int(block_seconds / (clock.cpu / 5)))
        for _ in range(blocks):
            for name in ("sweep", "bare"):
                clock = Clock()
                with clock.running():
                    if name == "bare":
                        bare.run(steps)
                    else:
                        training.last = training.step + steps
                        training.run()
                times[name].append(clock.cpu / steps)
    took = {name: statistics.median(values) for name, values in times.items()}
    ratios = sorted(a / b for a, b in zip(times["sweep"], times["bare"], strict=True))
    n_params = job.columns["n_params"]
    speed = 8 * 128 / took["sweep"]
    share = 6 * n_params * speed / peak_flops()
    spread = f"{ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f}"
    return (
        f"| {n_params:,} | {1e3 * took['bare']:.2f} ms | {1e3 * took['sweep']:.2f} ms | "
        f"{took['sweep'] / took['bare']:.3f} ({spread}) | {speed / 1e3:.1f}k | {share:.0%} |"
    )


def pack(folder: Path, workers: int, seeds: int, tokens: float) -> tuple[float, float]:
    """Return tokens per wall second of a sweep of tiny models on some processes, and its wall seconds."""
    sweep = load_sweep(recipe(folder, ("30K",), seeds, tokens))
    store = Store(folder / f"packed-{workers}")
    prepare(sweep.texts, store, lambda _: None)
    with open(os.devnull, "w") as nowhere:
        progress = SweepProgress(sweep, store, nowhere)
        started = time.perf_counter()
        LocalEngine(workers).run(sweep, store.url, retry_failed=False, progress=progress)
    seconds = time.perf_counter() - started
    assert not progress.failures, progress.failures
    return sweep.tokens / seconds, seconds


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small model, few steps")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sizes, blocks, seconds = (("30K",), 3, 0.05) if asked.quick else (SIZES, 11, 0.4)
    print(
        "| parameters | bare step, CPU | sweep's step, CPU | ratio (quartiles of blocks) | tokens/s | share of peak |"
    )
    print("|---:|---:|---:|---:|---:|---:|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            print(compare(Path(folder), size, blocks, seconds), flush=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print("\n| processes | jobs | tokens/s, start and evaluation included | against one process |")
    print("|---:|---:|---:|---:|")
    seeds, tokens = (1, 2.0) if asked.quick else (2 * cores, 40.0)
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder), 1, 1, 2.0)  # so that loading torch counts for neither
    alone = None
    for workers in (1, cores):
        with tempfile.TemporaryDirectory() as folder:
            speed, _ = pack(Path(folder), workers, seeds, tokens)
        alone = alone or speed
        print(f"| {workers} | {3 * seeds} | {speed / 1e3:.1f}k | {speed / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
