"""What the laws miss of one base model: it is missed in all its runs, and in part in those of base models like it.

A law is never quite right, and how it errs changes slowly with size and pre-training. Half of what laws miss of CPT
runs is an offset that all runs of one base model share. So the mean residual of each base model is carried to points
near it, the less the farther they lie. A model from scratch is its own base model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.fitting.checking.distance import DIRECTIONS, Direction, scaled
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows

AREA = "s1"  # the forward area of loss curves, along which rollouts are cut and distance is measured
# Chosen by rollouts inside seventeen tables, none of which errs more for it (studies/bench.md).
E_FOLDS = {"n_params": 1.0, "pretraining_tokens": 2.0, "tokens": 2.0}  # over which an error fades
OWN = 0.1  # variance of what a base model does not share with those like it, beside the variance of what it shares
FAR = 2.0  # spreads of the residuals from which on one says no more
LEAST_SPREAD = 0.001  # of log residuals, below which all count in full
TO_SPREAD = 1.4826  # standard deviation over median absolute deviation of normal errors
SAME = 0.02  # e-folds within which base models are one
MOST = 300  # base models that are told apart


@dataclass(frozen=True)
class UndertrainedBase:
    """A base model that had only begun and is left out of the fit, and what the fit misses of its runs.

    Its error has a cause of its own, so that it is no other base model's.

    Attributes
    ----------
    n_params, ptpp
        Which one.
    missed
        log(predicted) - log(observed), the mean over its runs.
    """

    n_params: float
    ptpp: float
    missed: float


def undertrained_bases(rows: pd.DataFrame, predicted: Array) -> tuple[UndertrainedBase, ...]:
    """Return what is missed of base models whose runs are left out, given the forecasts of their rows, (n,)."""
    residuals = rows[["n_params", "ptpp"]].assign(missed=np.log(predicted) - np.log(rows["loss"].to_numpy(dtype=float)))
    means = residuals.groupby(["n_params", "ptpp"], as_index=False).mean()
    return tuple(UndertrainedBase(*map(float, row)) for row in means.itertuples(index=False))


def _residuals_of(undertrained: Sequence[UndertrainedBase], frame: AnyRows) -> Array:
    """Return what is missed at points of base models that are left out, log loss, (n,); 0 at all others."""
    values = np.zeros(len(frame))
    if undertrained and {"n_params", "ptpp"} <= set(frame.columns):
        size, budget = (np.asarray(frame[name], dtype=float) for name in ("n_params", "ptpp"))
        for one in undertrained:
            values[np.isclose(size, one.n_params, rtol=SAME) & np.isclose(budget, one.ptpp, rtol=SAME)] = one.missed
    return values


@dataclass(frozen=True, eq=False)
class SharedError:
    """What is missed of each base model, carried over to points.

    Attributes
    ----------
    rows
        The fitted rows.
    along
        What tells base models apart.
    places
        Of the base models, (models, directions), in the lengths over which an error fades.
    pull
        What each adds at its own place, log loss, (models,).
    undertrained
        Base models that are left out.
    """

    rows: pd.DataFrame
    along: tuple[Direction, ...]
    places: Array
    pull: Array
    undertrained: Sequence[UndertrainedBase] = ()

    @classmethod
    def of(cls, rows: pd.DataFrame, residual: Array, undertrained: Sequence[UndertrainedBase] = ()) -> SharedError:
        """Read it off the residuals of an average of laws.

        Parameters
        ----------
        rows
            The fitted rows: inputs in raw units.
        residual
            log(predicted) - log(observed), (n,).
        undertrained
            Base models whose rows are not among them.
        """
        along = _tells_apart(rows)
        if not along:
            return cls(rows, (), np.zeros((0, 0)), np.zeros(0), undertrained)
        spread = TO_SPREAD * float(np.median(np.abs(residual))) + LEAST_SPREAD
        place = _places(rows, rows, along)
        model = _models(place)
        count = np.bincount(model)
        residuals = np.bincount(model, np.clip(residual, -FAR * spread, FAR * spread)) / count
        middle = np.column_stack([np.bincount(model, axis) / count for axis in place.T])
        pull = np.asarray(np.linalg.solve(_alike(middle, middle) + OWN * np.eye(len(count)), residuals), dtype=float)
        return cls(rows, along, middle, pull, undertrained)

    def at(self, frame: AnyRows) -> Array:
        """Return what the laws' average is taken to miss at points, log loss, (n,); 0 where they have no place."""
        names = {name for direction in self.along for name, _ in direction.powers}
        own = _residuals_of(self.undertrained, frame)
        if not self.along or not names <= set(frame.columns):
            return own
        values: Array = _alike(_places(frame, self.rows, self.along), self.places) @ self.pull
        return own + np.where(np.isfinite(values), values, 0.0)


def _tells_apart(rows: pd.DataFrame) -> tuple[Direction, ...]:
    """Return along which directions base models differ: size and pre-training; none for loss curves."""
    known = [name for name in rows.columns if rows[name].notna().all()]
    if AREA in known or rows.empty:
        return ()
    if "ptpp" in known:
        names = ["n_params", "pretraining_tokens"]
    else:  # tokens are those of pre-training, unless there is replay or a budget that is not known of all rows
        names = ["n_params"] if {"replay", "ptpp"} & set(rows.columns) else ["n_params", "tokens"]
    result = [one for one in DIRECTIONS if one.name in names]
    return tuple(one for one in result if {name for name, _ in one.powers} <= set(known))


def _places(frame: AnyRows, rows: pd.DataFrame, along: tuple[Direction, ...]) -> Array:
    """Return where base models of rows lie, in the lengths over which an error fades, (n, directions)."""
    return np.column_stack([scaled(rows, frame, one) / E_FOLDS[one.name] for one in along])


def _models(place: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the base model of each row, (n,), numbered from 0; neighbours count as one where there are too many."""
    width = SAME
    while True:
        values = np.unique(np.round(place / width), axis=0, return_inverse=True)[1].ravel()
        if values.max() < MOST:
            return values
        width *= 2.0


def _alike(one: Array, other: Array) -> Array:
    """Return how far the errors at two sets of places are one, (n, m): smooth, so that a forecast has no kinks."""
    # The covariance of Matern with 3/2 (Rasmussen and Williams 2006, eq. 4.17).
    away = np.sqrt(3.0) * np.sqrt(np.sum((one[:, None] - other[None]) ** 2, axis=2))
    values: Array = (1.0 + away) * np.exp(-away)
    return values
