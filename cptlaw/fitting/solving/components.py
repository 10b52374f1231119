"""Which rows err together, and how much: the base model, then the run, then the point.

All CPT runs of one base model inherit what its own training did by chance. Such an offset is no noise that more runs of
the same base model would average out, so forecasts are less sure than as many independent runs would make them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.laws.calculus import Array

Labels = NDArray[Any]

# Shares of the residual variance of two studies of CPT on budgets of 30 and more tokens per parameter; what a table of
# one's own says counts the more the more base models and runs it has.
USUAL_SHARES = {"base": 0.5, "run": 0.1}
USUAL_COUNT = 4.0  # base models or runs that the usual shares count as


def base_models(data: pd.DataFrame) -> Labels | None:
    """Return the number of the base model of each row, (n,), or None where no base model has several runs.

    A base model is what the column ``base`` names; without it, a size and a pre-training budget, and a seed where the
    table has that column.
    """
    if {"base", "run"} <= set(data.columns) and not data.empty and bool(data["base"].notna().all()):
        named: Labels = np.unique(data["base"].astype(str), return_inverse=True)[1].reshape(-1)
        return _several(named, data)
    if not {"n_params", "ptpp", "run"} <= set(data.columns) or data["ptpp"].isna().any() or data.empty:
        return None
    names = [name for name in ("n_params", "ptpp", "seed") if name in data.columns]
    labels: Labels = np.asarray(data.groupby(names, dropna=False, sort=True, observed=True).ngroup(), dtype=int)
    return _several(labels, data)


def _several(labels: Labels, data: pd.DataFrame) -> Labels | None:
    runs = data.groupby(labels)["run"].nunique()
    return labels if len(runs) > 1 and int(runs.max()) > 1 else None


def orthonormal(matrix: Array) -> Array:
    """Return an orthonormal basis of what a fit with this Jacobian can follow, (n, rank)."""
    lengths = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    rows, singular, _ = np.linalg.svd(matrix / lengths, full_matrices=False)
    values: Array = rows[:, singular > 1e-4 * singular[0]]
    return values


@dataclass(frozen=True, eq=False)
class Components:
    """Variances of the log residuals by level, those that err together first, and the rows' labels.

    Attributes
    ----------
    names
        ``"base"``, ``"run"``, as far as the rows have them, then ``"point"``.
    labels
        Number of the group of each row at all levels but the last.
    variances
        By level.
    """

    names: tuple[str, ...]
    labels: tuple[Labels, ...]
    variances: Array

    @property
    def freedoms(self) -> Array:
        """Degrees of freedom by level: groups less those of the level above."""
        counts = [1, *(int(label.max()) + 1 for label in self.labels)]
        points = len(self.labels[0]) if self.labels else counts[0] + 1
        steps = np.diff([*counts, points]).astype(float)
        values: Array = np.maximum(steps, 1.0)
        return values


def components(residual: Array, basis: Array, levels: Sequence[tuple[str, Labels]]) -> Components:
    """Estimate the variances by level.

    Quadratic forms of the residuals are set equal to what they are expected to be, given that the fit bends towards
    what the rows of a group have in common (MINQUE, Rao 1971), and drawn towards the usual shares where groups are few.

    Parameters
    ----------
    residual
        Log residuals of the fit, (n,).
    basis
        Orthonormal basis of what the fit can follow, (n, rank).
    levels
        Names and labels, the widest groups first. A level whose groups are single rows, or those of the level
        before, is passed over.
    """
    kept: list[tuple[str, Labels]] = []
    for name, label in levels:
        groups = len(np.unique(label))
        if groups < len(label) and not any(groups == len(np.unique(other)) for _, other in kept):
            kept.append((name, np.unique(label, return_inverse=True)[1].reshape(-1)))
    n, rank = basis.shape
    sums = [_sums(label, basis) for _, label in kept]
    count = len(kept) + 1
    expected, seen = np.zeros((count, count)), np.zeros(count)
    for i, (_, first) in enumerate(kept):
        seen[i] = float(np.sum(np.bincount(first, weights=residual) ** 2))
        for j, (_, second) in enumerate(kept):
            # E of a quadratic form is the trace of its matrix times the covariance; for groups that is a sum over cells
            # of how many rows two groups share, less what the fit takes up of them.
            cross = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
            np.add.at(cross, (first, second), 1.0)
            expected[i, j] = float(np.sum((cross - sums[i] @ sums[j].T) ** 2))
        own = float(n - np.sum(sums[i] ** 2))
        expected[i, -1] = expected[-1, i] = own
    expected[-1, -1] = max(n - rank, 1)
    seen[-1] = float(residual @ residual)
    # Levels are brought to one size before they are solved for: sums over a base model grow with the square of its
    # rows.
    scale = np.sqrt(np.maximum(np.diag(expected), 1e-300))
    matrix = expected / scale[:, None] / scale[None, :]
    # Not below zero: the moment estimate of a small variance is negative about every other time, which no interval can
    # use.
    result = non_negative_solution(matrix, seen / scale) / scale if np.any(seen > 0) else np.zeros(count)
    names = (*(name for name, _ in kept), "point")
    first_guess = Components(names, tuple(label for _, label in kept), result)
    return Components(names, first_guess.labels, _shrunk(first_guess))


def non_negative_solution(matrix: Array, values: Array) -> Array:
    """Return what solves few linear equations best, by least squares, with no unknown below zero, (unknowns,)."""
    # As `scipy.optimize.nnls` does, which takes longer to load than a forecast to make: of two or three unknowns every
    # choice of those that are zero is tried, the fewest first.
    count = matrix.shape[1]
    best, least = np.zeros(count), float(values @ values)
    for size in range(count, 0, -1):
        for some in combinations(range(count), size):
            trial = np.zeros(count)
            trial[list(some)] = np.linalg.lstsq(matrix[:, some], values, rcond=None)[0]
            missed = float(np.sum((matrix @ trial - values) ** 2))
            if (trial >= 0).all() and missed < least:
                best, least = trial, missed
        if size == count and (best > 0).all():
            break  # nothing is below zero without the bound
    return best


def _shrunk(result: Components) -> Array:
    """Draw the shares of base models and runs towards the usual ones, the total staying what it is."""
    total = float(result.variances.sum())
    if total <= 0 or "base" not in result.names:
        return result.variances
    usual = np.array([USUAL_SHARES.get(name, 0.0) for name in result.names])
    usual[-1] = 1.0 - usual.sum()
    # As if so many further base models or runs had been seen, with the usual shares.
    weight = result.freedoms / (result.freedoms + USUAL_COUNT)
    shares = weight * result.variances / total + (1.0 - weight) * usual
    drawn: Array = total * shares / shares.sum()
    return drawn


def _sums(label: Labels, basis: Array) -> Array:
    """Return the sums of a basis over groups, (groups, rank)."""
    values = np.zeros((int(label.max()) + 1, basis.shape[1]))
    np.add.at(values, label, basis)
    return values


def variance_by_level(levels: Components, basis: Array, directions: Array) -> Array:
    """Return the variance of linear functions of the fit that each level makes, (levels, q).

    Parameters
    ----------
    levels
        The variances by level.
    basis
        Orthonormal basis of what the fit can follow, (n, rank).
    directions
        The functions in that basis, (q, rank).
    """
    parts = [
        variance * np.sum((directions @ _sums(label, basis).T) ** 2, axis=1)
        for variance, label in zip(levels.variances[:-1], levels.labels, strict=True)
    ]
    return np.stack([*parts, levels.variances[-1] * np.sum(directions**2, axis=1)])
