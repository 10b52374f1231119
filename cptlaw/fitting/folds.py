"""Splits of runs into what is fitted and what is forecast. Folds hold whole levels of a column, so whole runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.findings import Finding
from cptlaw.fitting.solving.blocks import trainings
from cptlaw.runs.schema import canonical_name

KINDS = ("leave-one-out", "k-fold", "leave-p-out", "rollout")
FORMS = "leave-one-out:COLUMN, k-fold:COLUMN:K, leave-p-out:COLUMN:P or rollout:COLUMN"
MAX_FOLDS = 2_000


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit on and rows to forecast, as masks of shape (n,), with the levels that are held out.

    Anchors are rows beside them that join a fit, of the part that is forecast.
    """

    label: str
    fit: NDArray[np.bool_]
    test: NDArray[np.bool_]
    anchors: NDArray[np.bool_] | bool = False


def split(frame: pd.DataFrame, text: str) -> tuple[list[Fold], tuple[Finding, ...]]:
    """Cut rows into folds.

    Parameters
    ----------
    frame
        Rows of one eval.
    text
        ``leave-one-out:COLUMN``, one level of the column per fold; ``k-fold:COLUMN:K``, contiguous groups of its sorted
        levels; ``leave-p-out:COLUMN:P``, every choice of P levels; or ``rollout:COLUMN``, fit on the smaller levels and
        test on the next one up.

    Returns
    -------
    folds
        In order.
    findings
        A warning where the column varies within runs, so that folds cut runs into contiguous pieces.

    Raises
    ------
    UsageError
        If the text cannot be read, the column is missing, or it has too few levels.
    """
    kind, column, number = _read(text, frame)
    # Merges of one run in both parts of a fold would be that run forecast from itself.
    of_rows = pd.Series(trainings(frame), frame.index) if column == "run" else frame[column]
    levels = sorted(of_rows.dropna().unique().tolist())
    if len(levels) < 2:
        raise UsageError(f"--cv {text}: column {column} has {len(levels)} level; a split needs at least two.")
    codes = pd.Categorical(of_rows, categories=levels).codes
    n = len(levels)
    for needs, letter, least, most in (("k-fold", "K", 2, n), ("leave-p-out", "P", 1, n - 1)):
        if kind == needs and not least <= number <= most:
            raise UsageError(f"--cv {text}: {column} has {n} levels, so {letter} must lie in {least}..{most}.")
    if kind == "k-fold":
        held = [part.tolist() for part in np.array_split(np.arange(n), number)]
    else:
        held = [list(choice) for choice in combinations(range(n), number)]
    # A rollout is of the next level up and no further: it is how far a study usually goes beyond the last one.
    rolls = kind == "rollout"
    groups = [([i for i in range(n) if i not in out and (i < out[0] or not rolls)], out) for out in held[rolls:]]
    if len(groups) > MAX_FOLDS:
        raise UsageError(f"--cv {text}: that makes {len(groups)} folds, more than {MAX_FOLDS}. Use k-fold:{column}:K.")
    folds = [Fold(f"{column} {_name(levels, test)}", np.isin(codes, fit), np.isin(codes, test)) for fit, test in groups]
    # Said and not refused: rolling along tokens is a fair question, and only its errors look small.
    of_run = frame.groupby("run", observed=True)[column] if column != "run" and "run" in frame.columns else None
    cut = 0 if of_run is None else int((of_run.nunique() > 1).sum())
    if not cut:
        return folds, ()
    message = (
        f"{column} varies within {cut} runs, so folds of {column} cut them into pieces: test points neighbour fitted "
        f"points of the same run, and errors look smaller than for a new run."
    )
    advice = "To judge new runs, use a column that is constant within runs: run, n_params, replay or ptpp."
    return folds, (Finding("warning", "cuts-runs", message, advice),)


def go_with(rows: pd.DataFrame, fitted: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows belong to those that are fitted, (n,): their other evals and base models.

    Rows of CPT belong together by run and tokens, those of base models by size and budget.

    Parameters
    ----------
    rows
        The whole table, (n,).
    fitted
        Rows of one eval of it.
    """
    of_base = (rows["tokens"] == 0).to_numpy()
    result = np.zeros(len(rows), dtype=bool)
    # Base models of a held-out budget stay out with it: their loss alone would tell most of the forecast.
    for part, names in ((~of_base, ("run", "tokens")), (of_base, ("n_params", "ptpp"))):
        if known := [name for name in names if name in rows.columns and name in fitted.columns]:
            both = pd.concat([fitted[known], rows[known]], ignore_index=True)
            code = both.groupby(known, dropna=False, observed=True).ngroup().to_numpy()
            result |= part & np.isin(code[len(fitted) :], code[: len(fitted)])
    return result


def _read(text: str, frame: pd.DataFrame) -> tuple[str, str, int]:
    kind, *rest = text.split(":")
    if kind not in KINDS:
        raise UsageError(f"--cv {text!r}: unknown split {kind!r}.{did_you_mean(kind, KINDS)} Expected {FORMS}.")
    wanted = 2 if kind in ("k-fold", "leave-p-out") else 1
    if len(rest) != wanted or not all(rest):
        raise UsageError(f"--cv {text!r}: expected {FORMS}.")
    column = rest[0] if rest[0] in frame.columns else canonical_name(rest[0]) or rest[0]
    if column not in frame.columns:
        known = [str(name) for name in frame.columns]
        raise UsageError(
            f"--cv {text!r}: no column {column!r}.{did_you_mean(column, known)} Columns: {', '.join(known)}."
        )
    number = rest[1] if wanted == 2 else "1"  # leaving one out is leaving p out
    if not number.isdigit():
        raise UsageError(f"--cv {text!r}: {number!r} is not a whole number. Expected {FORMS}.")
    return kind, column, int(number)


def _name(levels: list[object], chosen: list[int]) -> str:
    shown = [f"{levels[i]:g}" if isinstance(levels[i], float) else str(levels[i]) for i in chosen]
    return shown[0] if len(shown) == 1 else f"{shown[0]}..{shown[-1]}" if len(shown) > 3 else ", ".join(shown)
