"""What the residuals of a fit say: patterns that the law does not have, and runs that decide the fit alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.findings import Finding, Remedy
from cptlaw.fitting.solving.blocks import run_codes
from cptlaw.fitting.solving.components import orthonormal
from cptlaw.fitting.solving.student import t_quantile
from cptlaw.laws.calculus import Array
from cptlaw.units import format_percent, format_quantity

FACTORS = ("n_params", "tokens", "tokens per parameter", "replay", "ptpp", "lr", "lr_schedule", "seed", "domain")
LEVELS = 8  # more levels than this are cut into four groups of equal size
LEAST_RUNS = 3
CHANCE = 0.01  # that a fit of a true law shows any pattern at all
SHARE = 0.5  # of the root mean square residual, from which a pattern is worth a word
INFLUENCE = 1.0  # Cook's distance of a run
ALONE = 0.2  # share of the loss by which a fit moves without a run, from which the rest does not determine it
LEAST_SHARE = 5.0  # and times that of the median run


def check_residuals(frame: pd.DataFrame, residual: Array, matrix: Array, delta: float) -> tuple[Finding, ...]:
    """Look at the residuals of a fit.

    Parameters
    ----------
    frame
        The fitted rows, with run and whatever factors they have.
    residual
        log(predicted) - log(observed), (n,).
    matrix
        Jacobian of the log losses at the fit, (n, free parameters).
    delta
        Huber threshold of the fit.
    """
    runs, names = run_codes(frame)
    return (
        *_patterns(frame, runs, len(names), residual),
        *_influence((runs, names), residual, matrix, delta),
    )


def _patterns(frame: pd.DataFrame, runs: NDArray[np.intp], n_runs: int, residual: Array) -> Iterator[Finding]:
    """Say at which levels of a factor the fit lies to one side, by more than chance, runs counted as one."""
    spread = float(np.sqrt(np.mean(residual**2)))
    if spread < 1e-9 or n_runs < LEAST_RUNS:
        return
    levels = {name: groups for name in FACTORS if len(groups := _levels(frame, name)) > 1}
    # Bonferroni: with forty levels looked at, one lies off by two standard errors for no reason.
    tests = sum(len(findings) for findings in levels.values())
    for name, groups in levels.items():
        worst: tuple[str, float, int] | None = None
        for label, inside in groups:
            rows = np.bincount(runs[inside])
            # By run first: a hundred points of two runs are two observations of a level.
            means = np.bincount(runs[inside], residual[inside])[rows > 0] / rows[rows > 0]
            if len(means) < LEAST_RUNS:
                continue
            mean, error = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means))
            bound = t_quantile(1.0 - CHANCE / max(tests, 1), len(means) - 1)
            if abs(mean) > max(SHARE * spread, bound * max(error, 1e-12), abs(worst[1]) if worst else 0.0):
                worst = (label, mean, len(means))
        if worst is not None:
            label, mean, count = worst
            yield Finding(
                "warning",
                "residual-pattern",
                f"at {name} {label} the fit lies {abs(math.expm1(mean)):.2%} {'above' if mean > 0 else 'below'} "
                f"the losses ({count} runs, root mean square of all residuals {spread:.2%}).",
                "The law does not have the shape that the data has there: forecasts beyond it are off the same "
                "way. Compare with another law, or leave those rows out.",
            )


def _levels(frame: pd.DataFrame, name: str) -> list[tuple[str, Array]]:
    """Return the groups of rows by one factor: label and mask; none where the rows do not have it."""
    if name == "tokens per parameter":
        if not {"tokens", "n_params"} <= set(frame.columns):
            return []
        numbers = frame["tokens"].to_numpy(dtype=float) / frame["n_params"].to_numpy(dtype=float)
    elif name not in frame.columns:
        return []
    elif pd.api.types.is_numeric_dtype(frame[name]):
        numbers = frame[name].to_numpy(dtype=float, na_value=np.nan)
    else:
        codes, words = pd.factorize(frame[name], sort=True)
        return [(repr(str(word)), codes == code) for code, word in enumerate(words[: 4 * LEVELS])] * (len(words) > 1)
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if len(distinct) < 2:
        return []
    show = format_percent if name == "replay" else format_quantity
    if len(distinct) <= LEVELS:
        return [(show(float(level)), numbers == level) for level in distinct]
    # Quarters of equal counts where there are too many levels to look at each.
    cuts = np.unique(np.quantile(numbers[~np.isnan(numbers)], [0.0, 0.25, 0.5, 0.75, 1.0]))
    return [
        (f"{show(float(low))} to {show(float(high))}", (numbers >= low) & (numbers <= high))
        for low, high in pairwise(cuts)
    ]


def _influence(
    coded: tuple[NDArray[np.intp], NDArray[np.str_]], residual: Array, matrix: Array, delta: float
) -> Iterator[Finding]:
    """Say which runs move the whole fit: Cook's distance of a run left out, to first order."""
    run, labels = coded
    rows = orthonormal(matrix)
    size = rows.shape[1]
    if len(labels) < 2 * LEAST_RUNS or len(residual) <= size:
        return
    psi = np.clip(residual, -delta, delta)
    variance = float(np.sum(psi**2)) / (len(residual) - size)
    shifts = _shifts(rows, run, psi, len(labels))
    # The columns of `rows` are orthonormal, so that a move is as long as the change of all fitted losses.
    distances = np.sum(shifts**2, axis=1) / max(size * variance, 1e-300)
    usual = float(np.median(distances))
    far = max(INFLUENCE, LEAST_SHARE * usual)
    for r in [int(i) for i in np.argsort(-distances)[:3] if distances[i] > far]:
        shift = float(np.abs(rows @ shifts[r]).max())
        # To first order; where a run has a direction to itself, the number says nothing but that.
        much = (
            f"decides much alone: without it fitted losses move by up to {shift:.2%} (Cook's distance "
            f"{distances[r]:.2g}, median {usual:.2g})."
            if shift < ALONE
            else "decides a part of the law alone: what the other runs say of it is next to nothing."
        )
        yield Finding(
            "info",
            "influential-run",
            f"run {str(labels[r])!r} {much}",
            "See whether the forecast stands without it.",
            data={"run": str(labels[r])},
            remedy=Remedy("where", f'run != "{labels[r]}"'),
        )


def _shifts(rows: Array, run: NDArray[np.intp], psi: Array, n_runs: int) -> Array:
    """Return how the fit moves without each run, in the coordinates of the orthonormal columns `rows`: (runs, k).

    Without the rows V of a run it moves by (1 - V'V)^-1 V' psi, to first order.
    """
    size = rows.shape[1]
    weighted = np.column_stack([np.bincount(run, column * psi, n_runs) for column in rows.T])
    counts = np.bincount(run, minlength=n_runs)
    shifts = np.zeros((n_runs, size))
    # Of a run of one row the inverse is known; it is most of the work where there are many runs.
    alone = counts == 1
    lever = np.bincount(run, np.sum(rows**2, axis=1), n_runs)
    kept = alone & (1.0 - lever > 1e-6)  # a row that decides a direction by itself moves nothing that others see
    shifts[kept] = weighted[kept] / (1.0 - lever[kept, None])
    several = np.flatnonzero(~alone)
    if len(several):
        gram = np.empty((n_runs, size, size))
        for i in range(size):
            for j in range(i + 1):
                gram[:, i, j] = gram[:, j, i] = np.bincount(run, rows[:, i] * rows[:, j], n_runs)
        without = np.linalg.pinv(np.eye(size) - gram[several], rcond=1e-6, hermitian=True)
        shifts[several] = np.einsum("rij,rj->ri", without, weighted[several])
    return shifts
