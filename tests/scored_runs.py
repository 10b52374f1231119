"""Simulated runs with losses and the scores that follow them."""

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


def losses(n, tokens, replay):
    """Source and target loss of an adapted model: more replay keeps the one and holds up the other."""
    spent = np.log1p(tokens / 1e8)
    size = 300 / n**0.34
    return 2.0 + size + 0.09 * spent * (1 - replay) ** 2, 2.6 + size - 0.22 * spent * (1 - 0.6 * replay**2)


def mmlu(source):
    return 0.25 + 0.7 / (1 + np.exp(3.0 * (source - 2.3)))


def gsm8k(target):
    return 0.9 / (1 + np.exp(5.0 * (target - 2.0)))


def runs_with_two_scores(items=4000):
    """Return runs of three sizes, three mixes and three lengths, and base models: both losses, mmlu and gsm8k."""
    random = np.random.default_rng(3)
    rows = []

    def add(run, n, tokens, replay):
        known = {"run": run, "n_params": n, "tokens": tokens, "replay": replay, "ptpp": 100.0}
        source, target = losses(n, tokens, np.nan_to_num(replay))
        for name, value in (("source", source), ("target", target)):
            rows.append({**known, "eval": name, "loss": value * np.exp(0.001 * random.standard_normal())})
        for name, share_of, chance in (("mmlu", mmlu(source), 0.25), ("gsm8k", gsm8k(target), 0.0)):
            score = random.binomial(items, share_of) / items
            rows.append(
                {**known, "eval": name, "loss": score, "metric": "accuracy", "n_items": items, "chance": chance}
            )

    for n in (1e8, 3e8, 1e9):
        add(f"base-{n:g}", n, 0.0, np.nan)
        for replay in (0.05, 0.25, 0.5):
            for tokens in (2e8, 1e9, 5e9):
                add(f"{n:g}-{replay}", n, tokens, replay)
    return cl.read_runs(pd.DataFrame(rows))
