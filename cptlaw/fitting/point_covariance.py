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
from cptlaw.fitting.cached import cached
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.checking.distance import directions_of, scaled
from cptlaw.fitting.curvature import SHARED_ERROR, covariance
from cptlaw.fitting.doubt import LEAST_WEIGHT, slopes_at
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows, Columns

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit

ONE_SD = float(special.erf(np.sqrt(0.5)))  # coverage of one standard deviation to either side
# E-folds over which what a form misses changes: in the laboratory's one model they hardly mattered (studies/bench.md).
ALIKE_OVER = 2.5
MOST_RUNS = 12  # whose changes say how far this study is from the usual one
PARTS = ("parameters", "form", "base", "noise")


def covariance_parts(fit: Fit, rows: AnyRows, last: int | None = None) -> dict[str, Array]:
    """Return the covariance of log losses at points by its parts, (n, n) each.

    Parameters
    ----------
    fit
        The laws.
    rows
        The points, as `Fit.asked` returns them.
    last
        With how many of the last points the covariance is asked for, (n, last) each; with all where not given.
    """
    n = len(rows)
    across = slice(0 if last is None else n - last, n)
    eye = np.eye(n)[:, across] if last is None else np.eye(n, last, last - n)
    if fit.data.empty:  # parameters that were given: nothing says how sure they are
        nothing = np.zeros_like(eye)
        return dict.fromkeys(PARTS, nothing) | {"parameters": np.full_like(nothing, np.inf)}
    forms, parameters, beyond, noise = fit.half_widths(rows, ONE_SD)
    scatter = np.outer(noise, noise[across])
    same_base = _same_base(rows, across) if set(KEYS) <= set(rows.columns) else eye.astype(bool)
    shared = SHARED_ERROR if "ptpp" in fit.data.columns else 0.0

    def scaled_to(loadings: Array, spread: Array) -> Array:
        return _correlations(loadings, across, eye) * np.outer(spread, spread[across])

    return {
        "parameters": scaled_to(_parameter_loadings(fit, rows), parameters),
        "form": scaled_to(_forms_apart(fit, rows), forms) + _missed(fit, rows, beyond, across),
        "base": shared * scatter * same_base,
        "noise": (1.0 - shared) * scatter * eye,
    }


def moments(fit: Fit, rows: AnyRows, last: int) -> tuple[Array, Array, Array]:
    """Return mean, (n,), variance, (n,), and covariance with the last points, (n, last), of the log losses at points.

    What a measurement and the base model add is left out, as in `Fit.posterior` of the losses themselves.
    """
    forms, parameters, beyond, _ = fit.half_widths(rows, ONE_SD)
    parts = covariance_parts(fit, rows, last)
    return np.log(fit.predict(rows)), forms**2 + parameters**2 + beyond**2, parts["parameters"] + parts["form"]


def _forms_apart(fit: Fit, rows: AnyRows) -> Array:
    """Return where the laws lie about their mean, by their weights, (n, laws)."""
    share, centres, _ = fit.weighted_centres(rows)
    return np.asarray(np.sqrt(share) * (centres - np.sum(share * centres, axis=1)[:, None]))


def _parameter_loadings(fit: Fit, rows: AnyRows) -> Array:
    """Return what the parameters of all laws move points by, in standard deviations, by their weights, (n, causes)."""
    share, _, readable = fit.weighted_centres(rows)
    causes = [np.zeros((len(rows), 0))]
    for j, (one, read) in enumerate(zip(fit.fits, readable, strict=True)):
        counted = np.flatnonzero(share[:, j] >= LEAST_WEIGHT)  # a law may be infinite where it does not count
        if read is None or not len(one.optima) or not len(counted):
            continue
        of_counted = slopes_at(one, read.take(counted))
        slopes = np.zeros((len(rows), of_counted.shape[1]))
        slopes[counted] = of_counted
        slopes = np.where(np.isfinite(slopes), slopes, 0.0) * np.sqrt(share[:, j])[:, None]
        causes.append(slopes @ _root(covariance(one)))
    return np.hstack(causes)


def _root(matrix: Array) -> Array:
    """Return a matrix whose product with its transpose is this covariance."""
    value, vector = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray(vector * np.sqrt(np.maximum(value, 0.0)))


def _correlations(loadings: Array, across: slice, eye: Array) -> Array:
    """Return the correlations of points that have these loadings; points without any go with themselves alone."""
    spread = np.linalg.norm(loadings, axis=1)
    known = spread > 0
    unit = loadings / np.where(known, spread, 1.0)[:, None]
    both = np.outer(known, known[across])
    return np.where(both, np.clip(unit @ unit[across].T, -1.0, 1.0), eye)


def _missed(fit: Fit, rows: AnyRows, beyond: Array, across: slice) -> Array:
    """Return the covariance of what a form misses at points with that at some of them, (n, last).

    What it misses of a base model is missed of the runs that start from it too, and the rest comes on top.
    """
    names = [name for name in ("n_params", "ptpp", "tokens", "replay", "lr_peak") if name in fit.data.columns]
    single = [one for one in directions_of(names) if len(one.powers) == 1 and one.name in rows.columns]
    of_base, of_rest = np.zeros((len(rows), 0)), np.zeros((len(rows), 0))
    for one in single:
        at = (np.nan_to_num(scaled(fit.data, rows, one)) / ALIKE_OVER)[:, None]
        of_base, of_rest = (
            (np.hstack([of_base, at]), of_rest) if one.name in KEYS else (of_base, np.hstack([of_rest, at]))
        )

    def alike(at: Array) -> Array:
        return np.asarray(np.exp(-np.sqrt(((at[:, None] - at[None, across]) ** 2).sum(axis=2))))

    base = _beyond_of_bases(fit, rows, beyond)
    rest = np.sqrt(np.maximum(beyond**2 - base**2, 0.0))
    with_rest = alike(np.hstack([of_base, of_rest])) * np.outer(rest, rest[across])
    return np.asarray(alike(of_base) * np.outer(base, base[across]) + with_rest)


def _beyond_of_bases(fit: Fit, rows: AnyRows, beyond: Array) -> Array:
    """Return how much of what a form misses at points is missed of all that starts from their base models, (n,).

    That is what it misses of a usual run from there: what no tokens add is missed of the base model alone.
    """
    if not {*KEYS, "tokens"} <= set(rows.columns) or "tokens" not in fit.data.columns:
        return np.zeros(len(rows))
    models, back = np.unique(
        np.column_stack([np.asarray(rows[name], dtype=float) for name in KEYS]), axis=0, return_inverse=True
    )
    runs = Columns(dict(zip(KEYS, models.T, strict=True)), np.arange(len(models))).assign(
        tokens=float(last_points(fit)["tokens"].median()), **usual_inputs(fit)
    )
    return np.minimum(beyond, fit.half_widths(runs, ONE_SD)[2][back.ravel()])


@cached
def last_points(fit: Fit) -> pd.DataFrame:
    """Return the last points of some of the runs, without their losses."""
    rows = fit.data[trained(fit.data)]
    last = rows.loc[rows.groupby("run", sort=False)["tokens"].idxmax()].drop(columns=["run", "loss"])
    return last.iloc[np.unique(np.linspace(0, len(last) - 1, min(len(last), MOST_RUNS)).round().astype(int))]


@cached
def usual_inputs(fit: Fit) -> dict[str, float]:
    """Return what a point leaves open, as the only mix that was run: the medians of the runs."""
    runs = last_points(fit)
    return {str(name): float(runs[name].median()) for name in runs.columns if name not in (*KEYS, "tokens")}


def _same_base(rows: AnyRows, across: slice) -> Array:
    """Return whether points are of one base model with some of them."""
    at = np.column_stack([np.asarray(rows[name], dtype=float) for name in KEYS])
    return np.asarray(np.isclose(at[:, None], at[None, across], rtol=1e-6, atol=0.0).all(axis=2), dtype=float)
