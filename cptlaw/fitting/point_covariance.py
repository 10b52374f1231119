"""How the errors of forecasts at several points go together: the covariance of their log losses, by its parts.

    parameters    what the doubt about the parameters moves them by, together
    form          how far the laws lie apart, and what laws err by outside their data: alike at points that are near
    base          the error that all runs of one base model share
    noise         of one measurement

The difference of two forecasts, such as a loss above its base model's, has a doubt of its own that only this tells.

Axes: n = points, v = free coordinates of a law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.fitting.base_models import KEYS
from cptlaw.fitting.checking.distance import directions_of, scaled
from cptlaw.fitting.curvature import SHARED_ERROR, covariance
from cptlaw.fitting.doubt import LEAST_WEIGHT
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.laws.calculus import Array

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit

ONE_SD = float(special.erf(np.sqrt(0.5)))  # coverage of one standard deviation to either side
# E-folds over which what a form misses changes: in the laboratory's one model they hardly mattered (studies/bench.md).
ALIKE_OVER = 2.5
PARTS = ("parameters", "form", "base", "noise")


def covariance_parts(fit: Fit, rows: pd.DataFrame) -> dict[str, Array]:
    """Return the covariance of log losses at points by its parts, (n, n) each.

    Parameters
    ----------
    fit
        The laws.
    rows
        The points, as `Fit.asked` returns them.
    """
    if fit.data.empty:  # parameters that were given: nothing says how sure they are
        nothing = np.zeros((len(rows), len(rows)))
        return dict.fromkeys(PARTS, nothing) | {"parameters": np.full_like(nothing, np.inf)}
    forms, parameters, beyond, noise = fit.half_widths(rows, ONE_SD)
    apart = _forms_apart(fit, rows)
    alike = np.exp(-_distances(fit, rows))
    scatter = float(noise[0]) ** 2 if len(noise) else 0.0
    same_base = _same_base(rows) if set(KEYS) <= set(rows.columns) else np.eye(len(rows), dtype=bool)
    shared = SHARED_ERROR if "ptpp" in fit.data.columns else 0.0
    return {
        "parameters": _correlations(_of_parameters(fit, rows)) * np.outer(parameters, parameters),
        "form": _correlations(apart) * np.outer(forms, forms) + alike * np.outer(beyond, beyond),
        "base": shared * scatter * same_base,
        "noise": (1.0 - shared) * scatter * np.eye(len(rows)),
    }


def _forms_apart(fit: Fit, rows: pd.DataFrame) -> Array:
    """Return the covariance of where the laws lie about their mean, (n, n)."""
    share, centres, _ = fit.weighted_centres(rows)
    away = np.sqrt(share) * (centres - np.sum(share * centres, axis=1)[:, None])
    return np.asarray(away @ away.T)


def _of_parameters(fit: Fit, rows: pd.DataFrame) -> Array:
    """Return the covariance that the parameters of all laws give, by their weights, (n, n)."""
    share, _, readable = fit.weighted_centres(rows)
    total = np.zeros((len(rows), len(rows)))
    for j, (one, read) in enumerate(zip(fit.fits, readable, strict=True)):
        counted = np.flatnonzero(share[:, j] >= LEAST_WEIGHT)  # a law may be infinite where it does not count
        problem = one.problem()
        if read is None or not problem.size or not len(one.optima) or not len(counted):
            continue
        start, k = one.optima[0], problem.k
        slopes = np.zeros((len(rows), problem.size))
        slopes[counted] = jacobian(problem, start[:k], start[k:], at=one.law.bind(read.iloc[counted], one.role))
        slopes = np.where(np.isfinite(slopes), slopes, 0.0) * np.sqrt(share[:, j])[:, None]
        total += slopes @ covariance(one) @ slopes.T
    return total


def _correlations(together: Array) -> Array:
    """Return the correlations of a covariance, (n, n); points without any doubt go with themselves alone."""
    spread = np.sqrt(np.maximum(np.diag(together), 0.0))
    known = spread > 0
    result = np.eye(len(spread))
    scale = np.where(known, spread, 1.0)
    both = np.outer(known, known)
    result[both] = np.clip(together / np.outer(scale, scale), -1.0, 1.0)[both]
    return result


def _distances(fit: Fit, rows: pd.DataFrame) -> Array:
    """Return how far points lie from each other, (n, n), in lengths over which what a form misses changes."""
    names = [name for name in ("n_params", "tokens", "ptpp", "replay", "lr_peak") if name in fit.data.columns]
    single = [one for one in directions_of(names) if len(one.powers) == 1 and one.name in rows.columns]
    if not single:
        return np.zeros((len(rows), len(rows)))
    at = np.nan_to_num(np.column_stack([scaled(fit.data, rows, one) for one in single])) / ALIKE_OVER
    return np.asarray(np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2)))


def _same_base(rows: pd.DataFrame) -> Array:
    """Return whether two points are of one base model, (n, n)."""
    at = rows[list(KEYS)].to_numpy(dtype=float)
    return np.asarray(np.isclose(at[:, None], at[None], rtol=1e-6, atol=0.0).all(axis=2), dtype=float)
