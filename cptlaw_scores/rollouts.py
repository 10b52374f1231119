"""Rollouts of scores: fit the lower models of a table, losses and links both, and forecast the higher ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import CptlawError
from cptlaw.fitting.doubt import away_from_data, beyond_the_data, parameter_doubt
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.fit_rows import fit_rows
from cptlaw.fitting.solving.training_rows import TrainingRows
from cptlaw.runs.schema import mix_columns
from cptlaw_scores.joint import LEAST_ROWS, Joint
from cptlaw_scores.laws.score_law import Array
from cptlaw_scores.members import PlannedMember

Mask = NDArray[np.bool_]

ALONG: dict[str, tuple[str, ...]] = {
    "compute": ("n_params", "tokens"),
    "parameters": ("n_params",),
    "budget": ("ptpp",),
}
SHARES = (0.5, 0.67, 0.8)  # of the models that a rollout fits
MOST = 5
OF_MIXES = 0.67  # of the models, by the share of one corpus, in tables of k corpora
MOST_OF_MIXES = 3
STARTS = 4
ONE_DEVIATION = 0.6827  # coverage of one standard deviation to both sides


@dataclass(frozen=True, eq=False)
class ModelCut:
    """One cut of the models.

    Parameters
    ----------
    direction
        Along what.
    columns, highest
        The product of which columns, and its highest value among the fitted models; no columns where the models are cut
        along their losses, of which the carrying ones then count as known.
    fit, test
        Masks of the joint rows, (n,).
    reach
        E-folds by which each row lies above the fitted ones, (n,).
    """

    direction: str
    columns: tuple[str, ...]
    highest: float
    fit: Mask
    test: Mask
    reach: Array

    @property
    def label(self) -> str:
        """What the higher models are, in words."""
        return f"{self.direction} {'above' if self.columns else 'below'} {self.highest:.3g}"

    def below(self, frame: pd.DataFrame) -> Mask:
        """Return which rows of another frame belong to the fitted models, (n,)."""
        mask: Mask = product(frame, self.columns) <= self.highest * (1.0 + 1e-9)
        return mask


def product(frame: pd.DataFrame, columns: Sequence[str]) -> Array:
    """Return the product of some columns, (n,)."""
    values = np.ones(len(frame))
    for name in columns:
        values = values * frame[name].to_numpy(dtype=float)
    return values


def folds_of(joint: Joint) -> list[ModelCut]:
    """Cut the models of a table into lower and higher ones, a few times."""
    every = [one for direction, columns in ALONG.items() for one in _cut(joint, direction, columns, SHARES)]
    # Each of them is a fit of all losses and links anew.
    cuts = _distinct(every)[:MOST]
    # Without these members that ignore the mix would be judged by scale alone, and where that is one, not at all.
    of_mixes = [one for name in mix_columns(joint.frame.columns) for one in _cut(joint, name, (name,), (OF_MIXES,))]
    return _distinct([*cuts, *of_mixes])[: len(cuts) + MOST_OF_MIXES] or _along_losses(joint)


def _distinct(cuts: Sequence[ModelCut]) -> list[ModelCut]:
    """Return the first of all cuts that fit the same models."""
    first: dict[bytes, ModelCut] = {}
    for one in cuts:
        first.setdefault(one.fit.tobytes(), one)
    return list(first.values())


def _scored(joint: Joint) -> Mask:
    # Losses are often measured all along a run, and scores at its end.
    mask: Mask = np.any(np.isfinite([joint.values(task) for task in joint.tasks]), axis=0)
    return mask


def _along_losses(joint: Joint) -> list[ModelCut]:
    """Cut models that differ in no input along each of their losses, so that links and carriers are weighed at all."""
    cuts: list[ModelCut] = []
    scored = _scored(joint)
    for share in SHARES:
        for name in joint.losses:
            level = np.where(scored, joint.values(name), np.nan)
            known = np.isfinite(level)
            if known.sum() <= LEAST_ROWS:
                continue
            lowest = float(np.quantile(level[known], 1.0 - share))
            fit, test = known & (level >= lowest), known & (level < lowest)
            if fit.sum() >= LEAST_ROWS and test.any():
                reach = np.where(test, np.log(lowest / np.where(known, level, lowest)), 0.0)
                cuts.append(ModelCut(f"{name} loss", (), lowest, fit, test, reach))
    return _distinct(cuts)[:MOST]


def _cut(joint: Joint, direction: str, columns: tuple[str, ...], shares: Sequence[float]) -> Iterator[ModelCut]:
    """Yield the cuts along one direction at shares of the models with scores."""
    if not set(columns) <= set(joint.frame.columns):
        return
    level = product(joint.frame, columns)
    scored = _scored(joint) & np.isfinite(level)
    edges = np.unique(level[scored & (level > 0)])
    # Two levels leave nothing to see a slope in.
    for share in shares if len(edges) > 2 else ():
        highest = float(np.quantile(level[scored], share))
        fit = np.isfinite(level) & (level <= highest * (1 + 1e-9))
        test = np.isfinite(level) & ~fit
        enough = (fit & scored).sum() >= LEAST_ROWS and (test & scored).any()
        top = float(level[fit].max()) if enough else 0.0
        if top > 0:
            with np.errstate(divide="ignore"):
                reach = np.maximum(np.log(np.maximum(level, 1e-300) / top), 0.0)
            yield ModelCut(direction, columns, top, fit, test, np.nan_to_num(reach))


@dataclass(frozen=True, eq=False)
class Rolled:
    """What one member forecast in one rollout.

    Parameters
    ----------
    scores, variance
        Of each task at each model, (tasks, n), and the variance that the doubt about the link gives them.
    counts
        Where a forecast was measured later, (tasks, n).
    rho
        Correlation of the items of a run, (tasks,).
    rows
        The places of these tasks among all of the table.
    """

    scores: Array
    variance: Array
    counts: Mask
    rho: Array
    rows: list[int]


def forecast_members(
    plans: Sequence[PlannedMember], joint: Joint, fold: ModelCut, forecast: Mapping[str, Carried | None]
) -> Iterator[Rolled | None]:
    """Fit every member to the lower models, forecast the higher ones, losses included; None where that fails."""
    for plan in plans:
        needed = set(plan.carriers.values())
        carried = {name: one for name in needed if (one := forecast[name]) is not None}
        if len(carried) < len(needed):
            yield None
            continue
        # Lower models have the loss that was measured, higher ones the loss that the lower ones forecast.
        known: dict[str, Array] = {}
        for name in needed:
            values, guessed = joint.values(name), carried[name].losses
            known[name] = np.where(fold.fit & np.isfinite(values), values, guessed)
        # The units of a law are taken from the lower models alone: those of all would let the higher ones in.
        again = plan.in_units_of(joint.frame[fold.fit], {name: values[fold.fit] for name, values in known.items()})
        pooled = again.fitted(joint, known, fold.fit)
        everywhere = again.tasks_in(joint, known)
        rows = [list(joint.tasks).index(task) for task in plan.tasks]
        p, slopes = plan.law.score_and_slopes(pooled.posterior.theta, everywhere.x, everywhere.chance)
        shape = everywhere.y.shape
        p, slopes = np.broadcast_to(p, shape), np.broadcast_to(slopes, (*shape, slopes.shape[-1]))
        variance = np.einsum("snk,skl,snl->sn", slopes, pooled.posterior.covariance, slopes)
        yield Rolled(p, variance, (everywhere.items > 0) & fold.test, pooled.rho, rows)


@dataclass(frozen=True, eq=False)
class Carried:
    """A carrier's losses at all models, forecast from the lower ones alone.

    Parameters
    ----------
    losses
        Nats per token, (n,).
    missed
        Log errors of the forecasts of higher models in units of the doubt that was stated, (m,).
    """

    losses: Array
    missed: Array


def carrier_in(fit: Fit, joint: Joint, fold: ModelCut) -> Carried | None:
    """Forecast a carrier's losses from the lower models alone; None where that cannot be done."""
    if not fold.columns:
        return Carried(joint.values(fit.on), np.zeros(0))
    lead = fit.leading
    if not set(fold.columns) <= set(lead.data.columns):
        return None
    below = lead.data[fold.below(lead.data)]
    try:
        training = TrainingRows(lead.law, below, lead.role, lead.on, schedules=lead.schedules)
        # The lower models may have one level of an input: what the checks of a design would say is of no interest here.
        with np.errstate(invalid="ignore", divide="ignore"):
            again = fit_rows(training, replace(lead.options, starts=min(lead.options.starts, STARTS)))
        values = np.full(len(joint.frame), np.nan)
        good = joint.frame[[name for name in again.law.inputs if name in joint.frame.columns]].notna().all(axis=1)
        rows = joint.frame[good]
        if "tokens" in again.law.diverges_at_zero:
            rows = rows[rows["tokens"] > 0]
        values[rows.index.to_numpy()] = again.predict(rows)
        test = np.flatnonzero(fold.test & np.isfinite(values) & np.isfinite(joint.values(lead.on)))
        if not len(test):
            return Carried(values, np.zeros(0))
        asked = again.completed(joint.frame.iloc[test])
        # Without the noise of one measurement, which is the carrier's own and not a matter of distance.
        beyond = beyond_the_data(again, away_from_data(again, asked), ONE_DEVIATION)
        stated = np.hypot(parameter_doubt(again, asked), beyond)
        residuals = np.log(values[test] / joint.values(lead.on)[test])
        return Carried(values, np.abs(residuals) / np.maximum(stated, 1e-4))
    except (CptlawError, np.linalg.LinAlgError):
        return None
