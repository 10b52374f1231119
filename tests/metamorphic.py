"""What does not change the question must not change the answer: fits to tables changed in ways that mean nothing.

    python tests/metamorphic.py --n 1000 --seed 0           # ends with 1 if any case failed
    python tests/metamorphic.py --n 1000 --first 340        # the rest of a run that was ended
    python tests/metamorphic.py --seed 0 --only 123         # one case again

Every case is made from the seed and its number alone: a law and an example table (`PAIRS`, all in turn: the laws that
`auto` offers and those of the papers, on each table that has what they read), an eval, some of its budgets and runs,
points, and one of the changes of `TOLERANCE`. Cases that follow each other ask one question, whose answer to the
unchanged rows is found once.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.errors import FitError, UsageError
from cptlaw.schedules import read_schedules

LADDERS = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
FROM_SCRATCH = ("chinchilla", "chinchilla:bend=1.5", "chinchilla:bend=2", "kaplan", "over-training")
SHARED = (
    "shared-tokens:mix=rehearsal:transfer=true",
    "shared-tokens:bend=1.5:mix=rehearsal",
    "shared-tokens:rate=progress:transfer=true",
)
DCPT = tuple(f"dcpt-l{number}" for number in range(1, 8))
# Learned from one short run of each domain, of the smallest model at even shares.
PROBE = "k1_tokens=60K:k2_tokens=120K:k3_tokens=240K:probe_n_params=30352:probe_replay=0.5"
CROSS = tuple(f"dcpt-cross-k{number}:{PROBE}" for number in range(1, 5))
PTPP = ("ptpp-floor", "ptpp-gate", "ptpp-gated-floor", "ptpp-blind", "ptpp-nearest")
CURVES = (
    "lr-annealing",
    "lr-annealing:warmup=peak:fading=true",
    "multi-power",
    "cpt-dynamics",
    "cpt-dynamics-size",
    "cpt-dynamics-replay",
    "cpt-dynamics-weighted",
    "cpt-dynamics-power",
    "cpt-dynamics-joint",
)
MIXES = ("mix-additive", "mix-joint", "mix-exponential", "bimix")
# Dear ones last: the first cases are those of continuous integration.
PAIRS = [
    *((law, table) for law in (*SHARED[:1], *PTPP, *DCPT, *FROM_SCRATCH, *SHARED[1:]) for table in LADDERS),
    *((law, table) for law in ("transfer", "rectified", "two-stage") for table in LADDERS),
    *((law, "domains") for law in (*DCPT, *CROSS, *SHARED, "ptpp-blind", *FROM_SCRATCH)),
    *((law, "watts-sizes") for law in (*SHARED, *FROM_SCRATCH, "transfer", "rectified")),
    *((law, "delphi-midtrain") for law in ("ptpp-blind", "ptpp-floor", "dcpt-l3", *FROM_SCRATCH)),
    *((law, "three-corpora") for law in MIXES),
    *((law, table) for law in CURVES for table in LADDERS[1:3]),
    *(("auto", table) for table in (*LADDERS, "domains", "watts-sizes", "delphi-midtrain", "three-corpora")),
]
CONSTANT = "lr_schedule == 'constant' and atpp >= 2 and tokens > 0"
ROWS = {
    **dict.fromkeys(
        LADDERS, "replay in (0.05, 0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 2 and tokens > 0"
    ),
    "domains": "lr_schedule == 'constant' and atpp >= 2 and tokens > 0",
    "three-corpora": "lr_schedule == 'constant' and atpp >= 2 and tokens > 0",
    "watts-sizes": "tokens > 0",
    "delphi-midtrain": "tokens > 0",
}
EVALS = {"three-corpora": ("english", "french", "python"), "delphi-midtrain": ("math_val_raw", "math_val_decon_j090")}
INPUTS = ("n_params", "tokens", "replay", "ptpp", "lr_peak", "lr_pretrain")
RUNS, CURVE_RUNS = 16, 6
CHANGES = 4  # of one question
# By how much a loss and its ends may move, as a share.
TOLERANCE = {"noise": 1e-6, "unit": 1e-6, "names": 1e-9, "order": 1e-9, "json lines": 1e-9, "doubled": 1e-9}

Schedules = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A law, the rows that it is fitted to, and the points that it is asked about."""

    law: str
    table: str
    on: str
    rows: pd.DataFrame
    points: pd.DataFrame
    schedules: Schedules | None
    kinds: tuple[str, ...]

    @staticmethod
    def drawn(law: str, table: str, draw: random.Random) -> Question:
        """Return a question about a part of a table, drawn, so that tables differ and a case takes a second."""
        curve, cross = law in CURVES, law in CROSS
        on = "target" if cross else draw.choice(EVALS.get(table, ("source", "target")))
        query = "tokens > 0 and replay in (0.1, 0.25, 0.5)" if curve else "tokens >= 0" if cross else ROWS[table]
        every = cl.examples.load(table).on(on).where(query).frame.assign(eval=on)
        every["run"] = every["run"].astype(str)
        if "domain" in every and not cross:
            every = every[every["domain"] == draw.choice(sorted(every["domain"].unique()))]
        if table in LADDERS:
            levels = sorted(every["ptpp"].unique())
            every = every[every["ptpp"].isin(draw.sample(levels, min(3, len(levels))))]
        names = sorted(every["run"].unique())
        chosen = draw.sample(names, min(CURVE_RUNS if curve else RUNS, len(names)))
        if cross:
            known = (every["tokens"] == 0) | (every["n_params"] == 30352) & (every["replay"] == 0.5)
            chosen += sorted(every.loc[known, "run"].unique())
        rows = every[every["run"].isin(chosen)].reset_index(drop=True)
        kinds = tuple(draw.sample(list(TOLERANCE), CHANGES))
        points, schedules = _points(rows, draw.randrange(3)), None
        if curve:
            known = _schedules(table)
            schedules = {name: known[name] for name in chosen}
            ends = rows.groupby("run")["step"].max()
            points = pd.DataFrame({"run": chosen[:2], "step": [round(0.7 * float(ends[name])) for name in chosen[:2]]})
            of_runs = rows.drop_duplicates("run").set_index("run")
            for name in ("n_params", "replay", "ptpp"):
                points[name] = of_runs.loc[chosen[:2], name].to_numpy()
        return Question(law, table, on, rows, points, schedules, kinds)


@lru_cache(maxsize=4)
def _schedules(table: str) -> Schedules:
    return read_schedules(cl.examples.schedules(table))


def _points(rows: pd.DataFrame, place: int) -> pd.DataFrame:
    """Return two points: at the largest model, or a larger one, or one of more pre-training; and at the least of it."""
    values = {name: 2 * [float(rows[name].median())] for name in INPUTS if name in rows}
    values["n_params"] = 2 * [float(rows["n_params"].max()) * (1, 1, 4)[place]]
    values["tokens"] = [float(rows["tokens"].median()), float(rows["tokens"].max())]
    if "ptpp" in rows:
        values["ptpp"] = [float(rows["ptpp"].max()) * (1, 3, 1)[place], float(rows["ptpp"].min())]
    shares = rows[[name for name in rows if str(name).startswith("mix_")]].median()
    return pd.DataFrame(values).assign(**(shares / shares.sum()).to_dict())


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
    # All digits: pandas writes 15, which makes another number of a third.
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_dict("records")))
    return path


def asked(question: Question, rows: pd.DataFrame | Path) -> np.ndarray[Any, Any]:
    """Return loss, lo, hi at the points of a question, (n, 3); of a fit to rows that may be its own, changed."""
    points, schedules = question.points, question.schedules
    if schedules is not None and isinstance(rows, pd.DataFrame):
        # Runs that were renamed take their schedules along.
        stands = rows["run"].str.removesuffix("-again")
        if not set(stands) <= set(schedules):
            stands = pd.Series(question.rows["run"].to_numpy(), index=rows.index)
        names = dict(zip(rows["run"], stands, strict=True))
        schedules = {name: schedules[stand] for name, stand in names.items()}
        back = {stand: name for name, stand in reversed(names.items())}
        points = points.assign(run=points["run"].map(back))
    if question.law in CROSS:
        # How learnable a domain is follows from its losses, in their unit.
        learned = cl.law(question.law).learnability(rows if isinstance(rows, pd.DataFrame) else question.rows).iloc[0]
        points = points.assign(**{name: learned[name] for name in ("k1", "k2", "k3") if name in learned.index})
    how = {} if schedules is None else {"schedules": schedules}
    fit = cl.fit(question.law, rows, question.on, **how)
    if schedules is not None:
        fit = fit.with_schedules(schedules)
    found: np.ndarray[Any, Any] = fit.forecast(points)[["loss", "lo", "hi"]].to_numpy(dtype=float)
    return found


def difference(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any], kind: str) -> float:
    """Return the largest change as `TOLERANCE` counts it, infinite where an end is there before or after alone."""
    after = after * np.log(2) if kind == "unit" else after
    if not np.array_equal(np.isfinite(before), np.isfinite(after)):
        return np.inf
    there = np.isfinite(before)
    return float(np.abs(after[there] / before[there] - 1).max(initial=0.0))


@dataclass(frozen=True)
class Case:
    """One question and one change; `moved` is ``None`` where the rows cannot determine the law, before and after."""

    number: int
    law: str
    table: str
    on: str
    kind: str
    moved: float | None
    error: str = ""

    @property
    def fails(self) -> bool:
        """Whether the answer moved by more than it may."""
        return self.moved is not None and not self.moved <= TOLERANCE[self.kind]


def cases(numbers: Iterable[int], seed: int) -> Iterator[Case]:
    """Yield what each case moved."""
    with tempfile.TemporaryDirectory() as folder:
        for place, group in groupby(numbers, lambda number: number // CHANGES):
            law, table = PAIRS[place % len(PAIRS)]
            question = Question.drawn(law, table, random.Random(f"{seed}-{place}"))
            before, error = _answer(question, question.rows)
            for number in group:
                kind = question.kinds[number % CHANGES]
                after, other = _answer(question, changed(question.rows, kind, Path(folder), number))
                if before is None or after is None:
                    moved = None if before is after and not error + other else np.inf
                else:
                    moved = difference(before, after, kind)
                yield Case(number, law, table, question.on, kind, moved, error or other)


def _answer(question: Question, rows: pd.DataFrame | Path) -> tuple[np.ndarray[Any, Any] | None, str]:
    """Return the answer, and what went wrong where it is none and the law was not refused."""
    try:
        return asked(question, rows), ""
    except (FitError, UsageError):  # these rows do not determine this law, or it needs a role: changed ones neither
        return None, ""
    except Exception as error:  # noqa: BLE001  a defect, whatever it is, and the others are run too
        return None, f"{type(error).__name__}: {error}"[:200]


def main() -> int:
    """Run the cases that the command line asks for; return 1 if any failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", type=int, help="the number of one case")
    given = parser.parse_args()
    begun, done, failed, refused = time.process_time(), 0, 0, 0
    numbers = range(given.first, given.n) if given.only is None else [given.only]
    for case in cases(numbers, given.seed):
        done, failed, refused = done + 1, failed + case.fails, refused + (case.moved is None)
        if case.fails or given.only is not None:
            print(case, flush=True)
        if done % 100 == 0:
            print(
                f"{case.number + 1} cases, {failed} failed, {refused} refused before and after, "
                f"{time.process_time() - begun:.0f} s of CPU",
                file=sys.stderr,
            )
    print(f"{done} cases, {failed} failed, {refused} refused, {time.process_time() - begun:.0f} s of CPU")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
