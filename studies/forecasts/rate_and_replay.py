"""How replay and the rate of CPT trade off in what the source forgets and in what the target gains, as trained.

    python -m studies rate_and_replay             # the tables; two minutes of CPU
    python -m studies rate_and_replay --write     # and into studies/bench.md

Runs: studies/measured/rate_and_replay.csv (recipes `rate_and_replay`, `rate_and_replay_371k`), four replays at three
peak rates over a decade, constant, two shifts. Forgetting is the rise of the source loss over the base model's, the gain
the fall of the target loss. Ranges are 90 % of a bootstrap over runs: the losses of one run are not independent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cptlaw as cl
from cptlaw.fitting.learned import leaving_out
from studies.harness import HOME, MEASURED, progress, show, write_result

Array = NDArray[np.float64]

TABLE = MEASURED / "rate_and_replay.csv"
SEALED = HOME / "sealed"
LARGEST = 3e5  # parameters; above stand the runs that were forecast first
FIRST = 2.0  # tokens per parameter from which on no run is in its warm-up
LAST = 16.0
LEAST = 0.02  # nats: a smaller rise is noise in logs
DRAWS = 500
LAW = "shared-tokens:rate=progress,mix=rehearsal"
LAWS = {LAW: "rate on the pace", "shared-tokens:rate=amplitude,mix=rehearsal": "rate on the height", "auto": "auto"}
OUTCOMES = {"rise": "forgetting", "gain": "gain"}


def runs() -> pd.DataFrame:
    """Return the rows of the table."""
    return cl.read_runs(TABLE, n_params_kind="total").frame


def outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and tokens: both losses, the rise of the one over the base model and the gain of the other."""
    base = frame[frame["tokens"] == 0]
    of_source = base[base["eval"] == "source"].groupby("base")["loss"].first()
    of_target = base[base["eval"] == "target"].groupby(["base", "domain"])["loss"].first()
    keys = ["run", "base", "domain", "n_params", "ptpp", "replay", "lr_peak", "tokens"]
    wide = frame[frame["tokens"] > 0].pivot_table(index=keys, columns="eval", values="loss", observed=True).reset_index()
    pairs = pd.MultiIndex.from_frame(wide[["base", "domain"]])
    return wide.assign(
        rise=wide["source"] - wide["base"].map(of_source).to_numpy(dtype=float),
        gain=of_target.reindex(pairs).to_numpy(dtype=float) - wide["target"],
        per=wide["tokens"] / wide["n_params"],
        middle=wide.groupby(["n_params", "domain"])["lr_peak"].transform(lambda each: np.median(each.unique())),
    )


def size_of(n_params: float) -> str:
    """Return a size as tables have it."""
    return f"{n_params / 1e3:.0f}K"


def cells(found: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the runs of each size and shift, and then each shift over all sizes."""
    for (size, shift), part in found.groupby(["n_params", "domain"], observed=True):
        yield size_of(float(size)), str(shift), part
    for shift, part in found.groupby("domain", observed=True):
        yield "all", str(shift), part


def over_runs(rows: pd.DataFrame, estimate: Callable[[pd.DataFrame], Array], seed: int = 0) -> tuple[Array, Array, Array]:
    """Return an estimate with the ends of 90 % of its bootstrap over runs."""
    rng = np.random.default_rng(seed)
    parts = [part for _, part in rows.groupby("run", observed=True)]
    drawn = [
        estimate(pd.concat([parts[i] for i in rng.integers(len(parts), size=len(parts))])) for _ in range(DRAWS)
    ]
    low, high = np.nanquantile(np.array(drawn), [0.05, 0.95], axis=0)
    return estimate(rows), low, high
