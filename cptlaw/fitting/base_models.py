"""What the measured losses of base models say: of base models near them, and of the runs that start from them.

A law errs in a base model's own loss, and its error changes slowly with size and budget. So what it misses of measured
ones is carried to others, in full at a measured one and the less the farther from all, without a step anywhere.

Base models err as one: where the source loss of a base model lies above what a law says of it, so do the losses of the
runs that start from it, the source loss by about half as much and the target loss by three tenths. What counts is by
how much more it lies above than those of the fitted base models do, for a law may err at the jump from base model to
CPT and yet be right of the runs. That jump grows with the budget: CPT raises the rate again to which the base model was
annealed, and what annealing had gained of the source loss is lost to its runs. ``python -m studies cpt_forecasts`` says
what all this is worth. What is missed of the target loss of a base model, which has hardly read the target corpus, says
nothing of its runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from cptlaw.errors import CptlawError
from cptlaw.fitting.forecaster import Forecaster
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows, Columns

SHARE, OF_TARGET = 0.5, 0.3  # of what is missed of a base model's source loss that its runs' two losses have too
# By how much lower base models lie than laws say, in log loss per e-fold of budget, and the source losses of their runs
# do not. It and `SHARE` lose least over five tables and four corpora of others, all of which were seen: left out one by
# one, the others choose more, and err more (studies/bench.md).
ANNEALED = -0.006
MEASURED = 0.05  # within this of one in size and budget a base model counts as measured
KEYS = ("n_params", "ptpp")
LOSS = "base_loss"  # column of a point whose base model's source loss is given with it
MOST_ASKED = 100  # sets of base models of which the answer is kept
LEAST = 1e-6  # of the variance: keeps two base models at one place from being a singular matrix

# E-folds of size and of budget over which an error fades, as that of runs does.
_FADES = np.array([1.0, 2.0])


def coordinates(frame: pd.DataFrame) -> Array:
    """Return where base models lie, (n, 2): logs of size and of budget."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(frame[list(KEYS)].to_numpy(dtype=float)), dtype=float)


def distance_between(one: Array, other: Array) -> Array:
    """Return how far base models lie apart, (n, m), in the e-folds within which errors fade."""
    return np.asarray(np.abs((one[:, None] - other[None]) / _FADES).sum(axis=2), dtype=float)


def nearness(at: Array, others: Array) -> Array:
    """Return 1 at others, falling to 0 where size or budget differs by `MEASURED`, (n, m)."""
    away = np.abs(at[:, None] - others[None]).max(axis=2) / MEASURED
    return np.asarray(np.clip(1.0 - away, 0.0, 1.0), dtype=float)


def _nearest(at: Array, others: Array) -> Array:
    """Return how near the nearest of others is, (n,)."""
    return np.asarray(nearness(at, others).max(axis=1, initial=0.0), dtype=float)


def interpolate_residuals(at: Array, known: Array, errors: Array) -> tuple[Array, Array]:
    """Return errors carried to other base models, (n,), and the share of their variance that is left, (n,).

    Parameters
    ----------
    at, known
        Where they lie, (n, 2), and where the measured ones do, (m, 2).
    errors
        Of the measured ones, (m,).
    """
    if not len(known):
        return np.zeros(len(at)), np.ones(len(at))
    within = np.exp(-distance_between(known, known)) + LEAST * np.eye(len(known))
    toward = np.exp(-distance_between(at, known))
    weights = np.linalg.solve(within, toward.T).T
    return weights @ errors, np.clip(1.0 - np.sum(weights * toward, axis=1), 0.0, 1.0)


def measured_bases(base: pd.DataFrame) -> pd.DataFrame:
    """Return size, budget and mean loss of each measured base model whose size and budget are known."""
    if not {*KEYS, "loss"} <= set(base.columns):
        return pd.DataFrame(columns=[*KEYS, "loss"], dtype=float)
    known = base[[*KEYS, "loss"]].astype(float).dropna()
    return known.groupby(list(KEYS))["loss"].mean().reset_index()


class BaseErrors:
    """What is missed of measured base models, for the forecasts of runs that start from them.

    Parameters
    ----------
    fit
        The fitted source loss: its rows, its base models.
    predict
        Its forecasts without what is said here.
    share
        Of what is missed that the runs have too.
    annealed
        The part of it per e-fold of budget that they do not have.
    """

    def __init__(
        self,
        fit: Forecaster,
        predict: Callable[[AnyRows], Array],
        share: float = SHARE,
        annealed: float = ANNEALED,
    ) -> None:
        rows, base = fit.data, measured_bases(fit.base)
        self._predict, self._share, self._annealed, self.usual = predict, share, annealed, 0.0
        self._given: dict[str, float] = {}
        self._asked: dict[bytes, tuple[Array, Array]] = {}
        self._known, self._residuals, self._run = np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2))
        self._budget = 0.0  # the log budget of the fitted runs
        self.applies = fit.role == "source" and {*KEYS, "tokens"} <= set(rows.columns)
        if not self.applies:
            return
        adapted = rows[rows["tokens"] > 0]
        self._run = np.unique(coordinates(adapted), axis=0)
        self._budget = float(self._run[:, 1].mean()) if len(self._run) else 0.0
        # A base model has neither mix nor rate; any of those fitted will do.
        names = ("replay", "lr_peak", "lr_pretrain")
        self._given = {name: float(adapted[name].median()) for name in names if name in adapted}
        residuals = self.missed(base[list(KEYS)], base["loss"].to_numpy(dtype=float))
        finite = np.isfinite(residuals)
        self._known = coordinates(base)[finite]
        has_runs = _nearest(self._known, self._run) >= 1.0 - LEAST
        self.usual = float(np.median(residuals[finite][has_runs])) if has_runs.any() else 0.0
        self._residuals = residuals[finite] - self.usual

    def missed(self, models: AnyRows, losses: Array) -> Array:
        """Return the log of measured losses of base models over what the law says, less what is usual there, (n,)."""
        if not len(models):
            return np.zeros(0)
        try:
            with np.errstate(all="ignore"):
                annealed = self._annealed * (np.log(np.asarray(models["ptpp"], dtype=float)) - self._budget)
                forecast = self._predict(models.assign(tokens=0.0, **self._given))
                return np.asarray(np.log(losses / forecast) - annealed - self.usual)
        except CptlawError:  # no law of it reads a base model
            return np.full(len(models), np.nan)

    def _residuals_of_models(self, models: Array) -> tuple[Array, Array]:
        """Return the interpolated residuals of base models, (u,), and their nearness to fitted runs, 0 to 1, (u,)."""
        key = models.tobytes()
        result = self._asked.get(key)
        if result is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                at = np.log(models)
            result = interpolate_residuals(at, self._known, self._residuals)[0], _nearest(at, self._run)
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked[key] = result
        return result

    def at(self, frame: AnyRows) -> Array:
        """Return the correction of log forecasts of runs, (n,); 0 for base models themselves.

        It is 0 too where runs of the same base model were fitted: they say more of it than its own loss does.
        """
        if not self.applies or not {*KEYS, "tokens"} <= set(frame.columns):
            return np.zeros(len(frame))
        frame = Columns.of(frame)
        keys = np.column_stack([np.asarray(frame[name], dtype=float) for name in KEYS])
        one = len(keys) > 0 and bool((keys == keys[0]).all())  # as in every plan
        models, model_of_row = (
            (keys[:1], np.zeros(len(keys), dtype=int)) if one else np.unique(keys, axis=0, return_inverse=True)
        )
        model_residuals, near = self._residuals_of_models(models)
        residuals = model_residuals[model_of_row]
        if LOSS in frame.columns:
            given = np.asarray(frame[LOSS], dtype=float)
            measured = np.isfinite(given)
            if measured.any():
                residual_given = self.missed(
                    Columns({name: frame[name] for name in KEYS}, frame.index).take(measured), given[measured]
                )
                residuals[measured] = np.where(np.isfinite(residual_given), residual_given, 0.0)
        alone = 1.0 - near[model_of_row]
        values = np.where(np.asarray(frame["tokens"], dtype=float) > 0, self._share * alone * residuals, 0.0)
        return np.asarray(np.nan_to_num(values), dtype=float)
