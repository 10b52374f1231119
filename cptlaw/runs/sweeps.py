"""Sweeps of rate and batch: which run of each cell is the best, and which were tuned worse."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.findings import Finding, Remedy
from cptlaw.runs.convert import hashable, row_codes
from cptlaw.runs.schema import COLUMNS, mix_columns
from cptlaw.runs.table import Runs
from cptlaw.runs.within import rounded

# What is tuned, by column and by the words of others: laws of size, tokens and mix hold for runs that are.
TUNED = ("lr", "lr_end", "warmup", "batch_tokens")
TUNED_FROM_SCRATCH = ("lr_peak",)  # which laws of continual pre-training read
WORDS = frozenset("lr rate batch bs bsz gbs beta beta1 beta2 wd momentum decay".split())
OUTCOMES = frozenset("run eval loss step lr flops seed samples n_items chance n_params_kind from_loss metric".split())


def mistuned_runs(runs: Runs, where: str | None = None) -> tuple[frozenset[str], list[str]]:
    """Return the runs that another of their cell beats at another rate or batch, and the columns that were tuned.

    A cell is runs alike in all that laws read. The target loss decides, or all losses where no eval is the target;
    runs that differ in their seed alone stay together.

    Examples
    --------
    >>> from cptlaw.runs import read_runs
    >>> table = pd.DataFrame({"run": list("abc"), "N": "1B", "D": ["1B", "1B", "2B"], "lr_peak": [1e-4, 3e-4, 1e-4]})
    >>> mistuned_runs(read_runs(table.assign(loss=[2.6, 2.5, 2.4])))
    (frozenset({'a'}), ['lr_peak'])
    """
    rows = (runs if where is None else runs.where(where)).frame
    rows = rows[~rows["eval"].isin(list(runs.scores))]
    rows = rows[rows["tokens"] > 0] if "tokens" in rows.columns else rows.iloc[:0]
    if rows.empty:
        return frozenset(), []
    judged = [name for name in rows["eval"].cat.categories if runs.role(str(name)) == "target"]
    rows = rows[rows["eval"].isin(judged or rows["eval"].cat.categories)]
    rows = rows.sort_values("tokens", kind="stable").reset_index(drop=True)  # evals of one line share its number
    ends = rows[~rows.duplicated(["run", "eval"], keep="last")]
    tuned = _tuned(rows, ends)
    if not tuned:
        return frozenset(), []
    known = [name for name in COLUMNS if name in ends.columns and name not in {*OUTCOMES, *TUNED, *tuned, "tokens"}]
    cell = row_codes(ends[[*known, *mix_columns(ends.columns), "eval"]].assign(at=rounded(ends["tokens"])))
    setting = row_codes(ends[tuned].assign(cell=cell))
    mean = pd.Series(np.log(ends["loss"].to_numpy(dtype=float))).groupby(setting).transform("mean")
    worse = (mean > mean.groupby(cell).transform("min")).to_numpy()
    # Of several evals without a target one loss alone decides nothing.
    lost = pd.Series(worse).groupby(ends["run"].astype(str).to_numpy()).all()
    varied = [name for name in tuned if ends[name].groupby(cell).nunique().max() > 1]
    # The rate of each run is its peak, and is named once.
    return frozenset(lost.index[lost]), [name for name in varied if name != "lr" or "lr_peak" not in varied]


def mistuned(runs: Runs, names: frozenset[str], tuned: list[str]) -> Finding:
    """Say which runs of a sweep are left out."""
    first = join_names(sorted(names), 3)
    return Finding(
        "info",
        "mistuned-runs",
        f"{len(names)} of {runs.frame['run'].nunique()} runs are left out, for another one of the same size, tokens "
        f"and mix is better at another {join_names(tuned)}: {first}. Laws are fitted to the best of each.",
        "To fit all of them, ask for all runs.",
        data={"runs": len(names), "tuned": list(tuned)},
        remedy=Remedy("all_runs", True),
    )


def _tuned(rows: pd.DataFrame, ends: pd.DataFrame) -> list[str]:
    """Return the columns of rate, batch and the like that hold one value in each run and vary over runs."""
    is_cpt = any(name in rows.columns and rows[name].notna().any() for name in ("replay", "ptpp"))
    names = [name for name in (*TUNED, *(() if is_cpt else TUNED_FROM_SCRATCH)) if name in rows.columns]
    names += [
        str(name)
        for name in rows.columns
        if name not in COLUMNS and WORDS & set(re.findall("[a-z0-9]+", str(name).lower().replace("_", " ")))
    ]
    run = rows["run"].cat.codes.to_numpy()
    result = []
    for name in names:
        codes = pd.Series(pd.factorize(hashable(rows[name].astype(object)))[0])
        levels = len(np.unique(codes[codes >= 0]))
        if 1 < levels <= max(2, ends["run"].nunique() / 2) and codes.groupby(run).nunique().max() == 1:
            result.append(name)
    return result
