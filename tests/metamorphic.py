"""What does not change the question must not change the answer: fits to tables changed in ways that mean nothing.

    python tests/metamorphic.py --n 1000 --seed 0           # ends with 1 if any case failed
    python tests/metamorphic.py --n 1000 --first 340        # the rest of a run that was ended
    python tests/metamorphic.py --seed 0 --only 123         # one case again

Every case is made from the seed and its number alone: a law, an example table, an eval, some of its budgets, a point,
and one of the changes of `TOLERANCE`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl

LAWS = (
    "ptpp-floor",
    "ptpp-gate",
    "ptpp-gated-floor",
    "ptpp-blind",
    "dcpt-l1",
    "dcpt-l3",
    "shared-tokens",
    "chinchilla",
)
TABLES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
ROWS = "replay in (0.05, 0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 2 and tokens > 0"
RUNS = 16
# By how much a loss and its ends may move, as a share. Doubled rows count beside priors as more than they did: the loss
# may move within the interval that was said, as a share of its half width.
TOLERANCE = {"noise": 1e-6, "unit": 1e-6, "names": 1e-9, "order": 1e-9, "json lines": 1e-9, "doubled": 1.0}


def changed(rows: pd.DataFrame, kind: str, folder: Path, seed: int = 0) -> pd.DataFrame | Path:
    """Return rows changed in a way that means nothing."""
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rows.assign(loss=rows["loss"] * (1 + 1e-9 * rng.standard_normal(len(rows))))
    if kind == "unit":
        return rows.assign(loss=rows["loss"] / np.log(2))
    if kind == "names":
        names = rng.permutation(rows["run"].unique())
        return rows.assign(run=rows["run"].map({name: f"x{i:03d}" for i, name in enumerate(names)}))
    if kind == "order":
        return rows.sample(frac=1, random_state=seed + 1)
    if kind == "doubled":
        return pd.concat([rows, rows.assign(run=rows["run"] + "-again")])
    path = folder / "runs.jsonl"
    rows.to_json(path, orient="records", lines=True, double_precision=15)
    return path


def asked(law: str, rows: pd.DataFrame | Path, on: str, points: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Return loss, lo, hi at points, (n, 3)."""
    found: np.ndarray[Any, Any] = cl.fit(law, rows, on).forecast(points)[["loss", "lo", "hi"]].to_numpy(dtype=float)
    return found


def difference(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], kind: str) -> float:
    """Return the largest change as `TOLERANCE` counts it, infinite where an end is there before or after alone."""
    after = after * np.log(2) if kind == "unit" else after
    if not np.array_equal(np.isfinite(before), np.isfinite(after)):
        return np.inf
    there = np.isfinite(before)
    if kind == "doubled":
        half = np.log(before[:, 2] / before[:, 1]) / 2
        return float(np.nanmax(np.abs(np.log(after[:, 0] / before[:, 0])) / half, initial=0.0))
    return float(np.abs(after[there] / before[there] - 1).max(initial=0.0))


@dataclass(frozen=True)
class Case:
    """One question and one change."""

    number: int
    law: str
    table: str
    on: str
    budgets: tuple[float, ...]
    kind: str
    moved: float

    @property
    def fails(self) -> bool:
        """Whether the answer moved by more than it may."""
        return not self.moved <= TOLERANCE[self.kind]


def cases(numbers: Iterable[int], seed: int) -> Iterator[Case]:
    """Yield what each case moved."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            draw = random.Random(f"{seed}-{number}")
            law, table, on = draw.choice(LAWS), draw.choice(TABLES), draw.choice(["source", "target"])
            kind, place = draw.choice(list(TOLERANCE)), draw.randrange(3)
            every = cl.examples.load(table).on(on).where(ROWS).frame
            levels = sorted(every["ptpp"].unique())
            budgets = tuple(sorted(draw.sample(levels, min(3, len(levels)))))
            rows = every[every["ptpp"].isin(budgets)].assign(eval=on, run=lambda frame: frame["run"].astype(str))
            # A part of the runs, drawn, so that tables differ and a case takes a second.
            chosen = draw.sample(sorted(rows["run"].unique()), min(RUNS, rows["run"].nunique()))
            rows = rows[rows["run"].isin(chosen)].reset_index(drop=True)
            size = float(rows["n_params"].max())
            points = pd.DataFrame(
                {"n_params": size * [1, 1, 4][place], "tokens": size * np.array([4.0, 8.0]), "replay": 0.25,
                 "ptpp": [budgets[-1] * [1, 3, 1][place], budgets[0]], "lr_peak": float(rows["lr_peak"].median())}
            )  # fmt: skip
            before = asked(law, rows, on, points)
            after = asked(law, changed(rows, kind, Path(folder), number), on, points)
            yield Case(number, law, table, on, budgets, kind, difference(before, after, kind))


def main() -> int:
    """Run the cases that the command line asks for; return 1 if any failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", type=int, help="the number of one case")
    given = parser.parse_args()
    begun, done, failed = time.process_time(), 0, 0
    numbers = range(given.first, given.n) if given.only is None else [given.only]
    for case in cases(numbers, given.seed):
        done, failed = done + 1, failed + case.fails
        if case.fails or given.only is not None:
            print(case, flush=True)
        if done % 100 == 0:
            print(
                f"{case.number + 1} cases, {failed} failed, {time.process_time() - begun:.0f} s of CPU", file=sys.stderr
            )
    print(f"{done} cases, {failed} failed, {time.process_time() - begun:.0f} s of CPU")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
