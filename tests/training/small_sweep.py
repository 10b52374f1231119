"""A small sweep on text of our own: sentences over a small vocabulary in two invented languages."""

import json
import random

from cptlaw_sweep.engines.base import Queue
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.prepare import prepare
from cptlaw_sweep.store import Store
from cptlaw_sweep.worker import run_job


def write_language(path, words, seed, documents=120):
    draw = random.Random(seed)
    with path.open("w") as file:
        for _ in range(documents):
            sentences = [" ".join(draw.choices(words, k=draw.randint(4, 9))) + "." for _ in range(30)]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")


RECIPE = {
    "text": {
        "old": {"files": "old.jsonl", "validation": "10%"},
        "new": {"files": "new.jsonl", "validation": "10%"},
    },
    "context": 32,
    "batch": 4,
    "eval_sequences": 8,
    "models": {"2k": {"width": 12, "layers": 1, "heads": 2}},
    "pretrain": {"text": "old", "ptpp": [4, 8], "peak": 1e-2, "warmup": 10},
    "adapt": {
        "source": "old",
        "target": "new",
        "replay": [0, 0.25],
        "tokens_per_param": 2,
        "first_tokens_per_param": 0.5,
        "schedules": {"schedule": "constant", "peak": 5e-3, "warmup": 5},
    },
}


class Silent:
    """Progress that only remembers."""

    def __init__(self):
        self.done, self.failures = [], {}

    def count_finished(self, job):
        self.done.append(job.name)

    def count_failed(self, job, reason):
        self.failures[job.name] = reason

    def tick(self, running):
        pass


def train_here(sweep, store, retry_failed=False):
    """Run the jobs of a sweep in this process, as an engine does, and return what its progress was told."""
    progress = Silent()
    queue = Queue(sweep, store, retry_failed=retry_failed, progress=progress)
    while ready := queue.ready():
        queue.start(ready[0])
        run_job(json.loads(json.dumps(ready[0].to_dict())), store.url)
        queue.settle(ready[0])
    return progress


def prepared(path, place):
    """Return a sweep and its store, texts prepared."""
    sweep, store = load_sweep(path), Store(place)
    prepare(sweep.texts, store, lambda text: None)
    return sweep, store


def results(sweep, store):
    """Return the measured rows of each job, as they lie in the store."""
    return {job.name: store.read(f"results/{job.id}.jsonl") for job in sweep.jobs}
