"""A small sweep on text of our own: sentences over a small vocabulary in two invented languages."""

import json
import random


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

    def finished(self, job):
        self.done.append(job.name)

    def failed(self, job, reason):
        self.failures[job.name] = reason

    def tick(self, running):
        pass
