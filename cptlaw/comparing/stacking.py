"""Weights for averaging laws, from their errors on rows that they were not fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np

from cptlaw.laws.calculus import Array

RESAMPLES = 200
SUM_TO_ONE = 1e3  # weight of the row that makes weights sum to one, beside errors of size one


def stacking_weights(errors: Array, clusters: Any, seed: int = 0) -> Array:
    """Return the weights whose average of log forecasts errs least, as a mean over resampled clusters.

    The best weights for one set of errors are all or nothing between laws that err alike. So the clusters, whose points
    err together, are reweighted at random (exponential weights, the Bayesian bootstrap of Rubin 1981) and the weights
    averaged: laws that the errors cannot tell apart then share.

    Parameters
    ----------
    errors
        Log forecast minus log loss on held-out rows, (n, laws).
    clusters
        Label of the run or level of each row, (n,).
    seed
        Of the resampling.

    Returns
    -------
    array
        Weights, (laws,), non-negative, with sum one. Yao, Vehtari, Simpson and Gelman 2018 (arXiv:1704.02030) stack
        densities in the same way.

    Examples
    --------
    >>> stacking_weights(np.array([[0.01, 0.2], [-0.01, 0.1], [0.02, 0.3]]), ["a", "b", "c"]).round(1).tolist()
    [1.0, 0.0]
    """
    laws = errors.shape[1]
    if laws < 2 or not np.any(errors):  # also without any law: scipy's nnls then corrupts memory
        return np.full(laws, 1.0 / max(laws, 1))
    from scipy.optimize import nnls

    scale = float(np.sqrt(np.mean(errors**2)))
    _, label = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    rng = np.random.default_rng([seed, 4])
    found = np.zeros(laws)
    one, most = np.full((1, laws), SUM_TO_ONE), np.append(np.zeros(len(errors)), SUM_TO_ONE)
    for weight in rng.exponential(size=(RESAMPLES, int(label.max()) + 1)):
        # Weighted least squares by multiplying rows with the roots of their weights.
        rows = errors / scale * np.sqrt(weight[label])[:, None]
        found += nnls(np.concatenate([rows, one]), most)[0]
    share: Array = found / found.sum()
    return share


def mean_and_error(values: Array, *groupings: Any) -> tuple[float, float]:
    """Return a mean and its standard error, rows of one group erring together; the largest over the groupings.

    Groupings with fewer than three groups say nothing and are passed over; the error is nan where none is left.
    """
    errors = []
    for labels in groupings:
        _, label = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        count = int(label.max()) + 1
        # Two groups have one difference, of which no spread can be told.
        if count < 3:
            continue
        sums = np.bincount(label, weights=values - values.mean())
        errors.append(float(np.sqrt(np.sum(sums**2) * count / (count - 1))) / len(values))
    return float(values.mean()), max(errors, default=float("nan"))
