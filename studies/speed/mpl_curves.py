"""The schedules of the public curves of Luo et al. (25M and 100M under nine schedules), step by step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cptlaw.schedules import Schedule

WARMUP, PEAK, END, DROP, DECAY_FROM = 2160, 3e-4, 3e-5, 8000, 20_000


def mpl_schedules(table: pd.DataFrame) -> dict[str, Schedule]:
    """Return the schedule of each run of ``mpl_lr_curves.csv``, as the authors' 0-based arrays have it."""
    shapes = table.groupby("run").agg(schedule=("schedule", "first"), last=("step", "max"))
    return {str(run): schedule(row.schedule, int(row["last"])) for run, row in shapes.iterrows()}


def schedule(name: str, last: int) -> Schedule:
    """Return one schedule from its name; those that drop to a constant rate end with their last row."""
    kind, *numbers = name.split("_")
    total = last if kind == "wsdcon" else int(numbers[-1])
    k = np.arange(WARMUP, total + 1)
    tail = {
        "constant": lambda: np.full(len(k), PEAK),
        "cosine": lambda: END + 0.5 * (PEAK - END) * (1 + np.cos(np.pi * (k - WARMUP) / (total - WARMUP))),
        "wsdcon": lambda: np.where(k < DROP, PEAK, int(numbers[0]) * 1e-5),
        "wsdld": lambda: np.interp(k, [DECAY_FROM, total], [PEAK, END]),
        "wsd": lambda: PEAK * (END / PEAK) ** (np.maximum(k - DECAY_FROM, 0) / (total - DECAY_FROM)),
    }[kind]()
    lr = np.concatenate([np.linspace(0.0, PEAK, WARMUP), tail])
    return Schedule.from_lr(np.arange(total + 1), lr, phase="pretrain")
