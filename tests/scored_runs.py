"""Simulated runs with a target loss and a score that follows it."""

import numpy as np
import pandas as pd

import cptlaw as cl

ITEMS = 3000


def target_loss(n, tokens, replay):
    return 2.6 + 300 / n**0.34 - 0.22 * np.log1p(tokens / 1e8) * (1 - 0.6 * replay**2)


def share(loss):
    return 0.9 / (1 + np.exp(5.0 * (loss - 2.0)))


def scored_runs():
    """Return runs of three sizes, three mixes and three lengths, with a target loss and gsm8k."""
    random = np.random.default_rng(5)
    rows = []
    for n in (1e8, 3e8, 1e9):
        for replay in (0.05, 0.25, 0.5):
            for tokens in (2e8, 1e9, 5e9):
                known = {"run": f"{n:g}-{replay}", "n_params": n, "tokens": tokens, "replay": replay, "ptpp": 100.0}
                loss = target_loss(n, tokens, replay)
                rows.append({**known, "eval": "target", "loss": loss * np.exp(0.001 * random.standard_normal())})
                score = random.binomial(ITEMS, share(loss)) / ITEMS
                rows.append({**known, "eval": "gsm8k", "loss": score, "metric": "exact_match", "n_items": ITEMS})
    return cl.read_runs(pd.DataFrame(rows))
