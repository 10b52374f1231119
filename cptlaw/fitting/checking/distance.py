"""How far points lie outside fitted rows, in the joint space that a law sees: sizes, tokens, their ratio, compute, ...

A point may lie within the range of every single input and still be far from every run: fitted up to 40 tokens per
parameter and asked at 320, with sizes and tokens both inside. Every direction is measured in e-folds (a factor of 2.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.fitting.cached import cached_stat
from cptlaw.laws.calculus import Array
from cptlaw.laws.combined_law import AnyLaw
from cptlaw.laws.inputs import AnyRows, Columns

REPLAY_OFFSET = 0.05  # log(replay + this) is the scale of replay: 0, 0.1, 0.25, 0.5 and 1 are about one e-fold apart
NOTHING = 2.0  # e-folds below the lowest positive value at which 0 counts
AREAS = ("s1", "s1_pretrain", "s1_cpt")  # learning-rate areas of curve laws; they stand for tokens


@dataclass(frozen=True)
class Direction:
    """One direction of the joint space: a product of powers of columns.

    Parameters
    ----------
    name
        Short name, as learned numbers are kept by.
    powers
        Exponent by column.
    words
        What a reader calls it.
    """

    name: str
    powers: tuple[tuple[str, float], ...]
    words: str


DIRECTIONS = (
    Direction("n_params", (("n_params", 1.0),), "parameters"),
    Direction("tokens", (("tokens", 1.0),), "tokens"),
    Direction("tokens_per_param", (("tokens", 1.0), ("n_params", -1.0)), "tokens per parameter"),
    Direction("flops", (("tokens", 1.0), ("n_params", 1.0)), "compute (parameters x tokens)"),
    Direction("ptpp", (("ptpp", 1.0),), "pre-training tokens per parameter"),
    Direction("pretraining_tokens", (("ptpp", 1.0), ("n_params", 1.0)), "pre-training tokens"),
    Direction("replay", (("replay", 1.0),), "replay"),
    Direction("lr_peak", (("lr_peak", 1.0),), "peak learning rate"),
    *(Direction(name, ((name, 1.0),), f"learning-rate area {name}") for name in AREAS),
)


def levels(rows: pd.DataFrame, name: str) -> Array:
    """Return the levels of a column, sorted, missing ones left out."""
    return cached_stat(rows, ("levels", name), lambda: np.unique(rows[name].dropna().to_numpy(dtype=float)))


def directions_of(columns: Iterable[str]) -> tuple[Direction, ...]:
    """Return the directions that a set of inputs spans."""
    known = set(columns)
    return tuple(direction for direction in DIRECTIONS if all(name in known for name, _ in direction.powers))


def seen(law: AnyLaw, data: pd.DataFrame) -> tuple[Direction, ...]:
    """Return the directions that a law reads."""
    return directions_of(name for name in law.inputs if name in data.columns)


def unseen(law: AnyLaw, data: pd.DataFrame) -> tuple[Direction, ...]:
    """Return single inputs that the rows know and the law does not read, directly or through schedules."""
    through: tuple[str, ...] = ()
    if law.needs_schedules:
        # A schedule holds both: the area is the rate summed over steps.
        through = ("tokens", "lr_peak")
    if "s1_pretrain" in law.inputs:  # the forward area of pre-training stands for its tokens
        through = (*through, "ptpp")
    return tuple(
        direction
        for direction in DIRECTIONS
        if len(direction.powers) == 1
        and direction.name in data.columns
        and direction.name not in law.inputs
        and direction.name not in AREAS
        and direction.name not in through
        and len(levels(data, direction.name)) > 0
    )


def columns_along(rows: pd.DataFrame, directions: Iterable[Direction]) -> Columns:
    """Return the columns of rows that directions are made of: parts of these cost less than parts of a table."""
    names = dict.fromkeys(name for direction in directions for name, _ in direction.powers if name in rows.columns)
    return Columns({name: rows[name].to_numpy(dtype=float) for name in names}, np.arange(len(rows)))


def scaled(fitted: AnyRows, rows: AnyRows | Mapping[str, Array], direction: Direction) -> Array:
    """Return where rows, or columns of numbers, lie along a direction, in e-folds, (n,); nan where one is missing."""
    total: Array = np.zeros(1)
    for name, power in direction.powers:
        values = np.asarray(rows[name], dtype=float)
        if name == "replay":
            total = total + power * np.log(values + REPLAY_OFFSET)
            continue
        # Zero has no logarithm, and base models have zero tokens: they lie a fixed way below the lowest that was
        # trained.
        total = total + power * np.log(np.maximum(values, _lowest(fitted, name) * np.exp(-NOTHING)))
    return total


def _lowest(fitted: AnyRows, name: str) -> float:
    """Return the lowest positive value of a column; 1 where there is none."""

    def read() -> float:
        own = np.asarray(fitted[name], dtype=float)
        return float(own[own > 0].min(initial=np.inf)) if (own > 0).any() else 1.0

    return cached_stat(fitted, ("lowest", name), read)


def reach(fitted: AnyRows, direction: Direction) -> tuple[float, float] | None:
    """Return the lowest and highest place of fitted rows along a direction, in e-folds; None where none is known."""

    def read() -> tuple[float, float] | None:
        known = scaled(fitted, fitted, direction)
        known = known[np.isfinite(known)]
        return (float(known.min()), float(known.max())) if len(known) else None

    return cached_stat(fitted, ("reach", direction), read)


def outside(fitted: AnyRows, rows: AnyRows | Mapping[str, Array], directions: Iterable[Direction]) -> Array:
    """Return how many e-folds rows, or columns of numbers, lie outside the fitted range, shape (n, directions).

    Negative below the range, positive above it, zero within; a value that is missing counts as within.
    """
    result, directions = [], tuple(directions)
    n = len(next(iter(rows.values()), ())) if isinstance(rows, Mapping) else len(rows)
    names = {name for direction in directions for name, _ in direction.powers if name in rows}
    columns = {name: np.asarray(rows[name], dtype=float) for name in names}
    for direction in directions:
        ends = reach(fitted, direction)
        if ends is None or any(name not in columns for name, _ in direction.powers):
            result.append(np.zeros(n))
            continue
        at = scaled(fitted, columns, direction)
        beyond = np.maximum(at - ends[1], 0.0) - np.maximum(ends[0] - at, 0.0)
        # The largest fitted size, written with fewer digits, is not outside.
        result.append(np.where(np.isfinite(beyond) & (np.abs(beyond) > 1e-6), beyond, 0.0))
    return np.column_stack(result) if result else np.zeros((n, 0))


def worst(fitted: pd.DataFrame, frame: pd.DataFrame, directions: Iterable[Direction]) -> Array:
    """Return the e-folds outside along the worst direction, (n,)."""
    values: Array = np.abs(outside(fitted, frame, directions)).max(axis=1, initial=0.0)
    return values
