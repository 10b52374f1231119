"""What studies of others say of forgetting and gain, as a prior for forecasts from few runs.

Laws that are fitted to few runs leave the change from the base model open at budgets that were not run, where studies
of continual pre-training have seen it. Both are normal in log losses: a forecast is what the laws say of a point, its
base model and the runs, given that the changes from the base model are what the studies expect them to be, with what
all points of one study share. So the runs also say how far this study is from the usual one.

Axes: n = points, k = runs, u = base models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cptlaw.fitting.base_models import KEYS, LOSS, coordinates, measured_bases, nearness
from cptlaw.fitting.cached import cached
from cptlaw.fitting.learned.forgetting_and_gain import UNLIKE, Doubt, Outcome, changes
from cptlaw.fitting.point_covariance import ONE_SD, last_points, moments, usual_inputs
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows, Columns

if TYPE_CHECKING:
    from cptlaw.fitting.auto.average import Average
    from cptlaw.fitting.fit import Fit

# The variance of what the studies say grows as 1 + (runs / RUNS)^4: laws were ahead of it wherever runs were many. From
# MANY runs on it would move nothing that is printed, and is left out. That of laws grows as 1 + (RUNS / runs)^2, less
# towards MANY; fewer than LEAST count as so many, for what laws say of one run they say by their priors, and more than
# MOST as so many, for most of them start from base models that others start from too (`python -m studies few_runs`).
RUNS, MANY, LEAST, MOST = 12.0, 30, 5.0, 8.0
MOST_AMPLITUDE = 10.0  # of a study, times the usual one
CHUNK = 100  # base models whose points are computed side by side
SAME = 1e-6  # relative difference up to which two sizes or budgets are one
# By how much a law's own loss without tokens misses the base model's, as a standard deviation in logs: a base model
# whose rate was annealed lies below what its runs say. `python -m studies guessed_bases`: 0.3 to 4.4 % of the loss on
# twelve of thirteen tables where no base model was measured; 1.4 % over 35 base models beside others that were.
GUESS_SPREAD, GUESS_SPREAD_WITH_BASES = 0.035, 0.015
MEASURED = 0.003  # of a measured base loss: what two seeds differ by
OPEN = 0.01  # variance of a base loss that no law reads, of which a measured one counts by half
JITTER = 1e-8
NO_WORD = 1e6  # variance of a change of which nothing is said: a base model's own


@dataclass(frozen=True)
class StudyPrior:
    """What is known of a study beside its runs.

    Parameters
    ----------
    shift
        Kind of new domain, one of `cptlaw.fitting.learned.forgetting_and_gain.SHIFTS`; None where it was not told.
    lr_pretrain
        Peak rate of pre-training; None where it is not known.
    novelty
        Log of the base model's target loss over its source loss; None where both are not known.
    unread
        Whether the base model has never read the replayed corpus.
    """

    shift: str | None = None
    lr_pretrain: float | None = None
    novelty: float | None = None
    unread: bool = False

    def changes(self, role: Role, rows: AnyRows, amplitude: float = 1.0) -> tuple[Array, Array, Doubt]:
        """Return mean, slope in the log amplitude, (n,) each, and doubt of changes of a log loss at trained rows.

        `cptlaw.fitting.learned.forgetting_and_gain.changes` says what they are.
        """
        outcome: Outcome = "forgetting" if role == "source" else "gain"
        return changes(outcome, self.frame(rows), shift_given=self.shift is not None, amplitude=amplitude)

    def frame(self, rows: AnyRows) -> Columns:
        """Return points as `cptlaw.fitting.learned.forgetting_and_gain` takes them."""

        def column(name: str, instead: float | None) -> Array:
            values = np.asarray(rows[name], dtype=float) if name in rows.columns else np.full(len(rows), np.nan)
            return np.where(np.isnan(values), np.nan if instead is None else instead, values)

        known = {name: np.asarray(rows[name], dtype=float) for name in ("n_params", "ptpp", "tokens")}
        known |= {"replay": column("replay", 0.0), "lr_peak": column("lr_peak", None)}
        known["lr_pretrain"] = column("lr_pretrain", self.lr_pretrain)
        novelty = np.nan if self.novelty is None else self.novelty
        points = Columns(known, np.arange(len(rows)))
        return points.assign(shift=self.shift or UNLIKE, novelty=novelty, unread=float(self.unread))

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> StudyPrior:
        """Return what `to_dict` wrote."""
        number = {name: None if saved[name] is None else float(saved[name]) for name in ("lr_pretrain", "novelty")}
        shift = None if saved["shift"] is None else str(saved["shift"])
        return cls(shift=shift, unread=bool(saved["unread"]), **number)


class ByStudies(NamedTuple):
    """What studies make of the forecasts of laws at points, (n,) each.

    Parameters
    ----------
    added
        To log losses.
    left
        A factor on the standard deviation of log losses.
    of_change
        The standard deviation of the log of a loss over its base model's, relative to that of the log loss.
    noise, noise_of_change
        Factors on what measuring a loss adds, to its interval and to that of the change: studies speak of measured
        losses, and where they alone are sure of one, what runs scatter about laws adds nothing.
    """

    added: Array
    left: Array
    of_change: Array
    noise: Array
    noise_of_change: Array


def with_studies(fit: Average, prior: StudyPrior, rows: Columns) -> ByStudies:
    """Return what studies make of the forecasts of laws.

    Parameters
    ----------
    fit
        The laws, fitted to the runs alone.
    rows
        Points, as `Fit.prepare_points` returns them.
    """
    result = ByStudies(np.zeros(len(rows)), *np.ones((4, len(rows))))
    model = base_model_of(rows)
    # What is said of a point does not depend on what else is asked: a loss that is given with it, or that of a base
    # model near its own, is no word on points of other base models.
    given = np.nan_to_num(np.asarray(rows[LOSS], dtype=float)) if LOSS in rows.columns else np.zeros(len(rows))
    models = rows.take(np.unique(model, return_index=True)[1]).to_pandas()
    near = nearness(coordinates(models), _measured_bases_of(fit)[0]).max(axis=1, initial=0.0)
    alone = (given > 0.0) | ((near > 0.0) & (near < 1.0))[model]
    parts = np.where(alone, -1 - np.unique(model + 1j * given, return_inverse=True)[1].ravel(), model // CHUNK)
    for part in np.unique(parts):
        places = np.flatnonzero(parts == part)
        for whole, of_part in zip(result, _conditioned(fit, prior, rows.take(places)), strict=True):
            whole[places] = of_part
    return result


def base_model_of(rows: AnyRows) -> Array:
    """Return which base model each row starts from, (n,), counted from 0."""
    size, budget = (np.round(np.log(np.asarray(rows[name], dtype=float)) / SAME).astype(np.int64) for name in KEYS)
    # Complex numbers are sorted as pairs are, at a tenth of the time.
    return np.asarray(np.unique(size + 1j * budget, return_inverse=True)[1].ravel())


def inflation(n_runs: int) -> float:
    """Return by what factor the variance of what the studies say grows with the runs."""
    return 1.0 + (n_runs / RUNS) ** 4


def widening(n_runs: ArrayLike) -> Array:
    """Return by what factor the variance of laws grows: how sure they are of what few runs leave open is hardly known.

    It falls with the runs, to 1 where there are MANY.
    """
    runs = np.asarray(n_runs, dtype=float)
    towards_many = np.clip((runs - MOST) / (MANY - MOST), 0.0, 1.0)
    return np.asarray(1.0 + (RUNS / np.clip(runs, LEAST, MOST)) ** 2 * (1.0 - towards_many**4))


def guessed_spread(base: pd.DataFrame) -> float:
    """Return by how much a law's own loss without tokens misses a base model's, beside those that were measured."""
    return GUESS_SPREAD if base.empty else GUESS_SPREAD_WITH_BASES


@dataclass(frozen=True, eq=False)
class WithBases:
    """Rows without gaps, and base models: those that rows start from, and those that were measured.

    Parameters
    ----------
    rows
        The rows, as fitted laws read them.
    bases
        The base models.
    model
        Which of them each row starts from, and which were measured, (n + m,).
    losses, near
        Their log losses, and by how much these were measured, 0 to 1, (u,) each.
    """

    rows: Columns
    bases: Columns
    model: NDArray[np.intp]
    losses: Array
    near: Array

    @classmethod
    def of(cls, fit: Fit, *parts: AnyRows) -> WithBases:
        """Fill in what rows, one part below the other, leave open: as is usual in the runs."""
        usual, at = usual_inputs(fit), _measured_bases_of(fit)[0]
        measured = Columns(dict(zip(KEYS, np.exp(at).T, strict=True)), np.arange(len(at)))
        n, m = sum(map(len, parts)), len(measured)

        def column(name: str) -> Array:
            columns = [one[name] if name in one.columns else np.full(len(one), np.nan) for one in (*parts, measured)]
            values = np.concatenate([np.asarray(column, dtype=float) for column in columns])
            return np.where(np.isnan(values), usual[name], values) if name in usual else values

        whole = Columns({name: column(name) for name in (*last_points(fit).columns, LOSS)}, np.arange(n + m))
        model = base_model_of(whole)
        # A base model has neither mix nor rate: any of those that were run will do, the same for all.
        bases = whole.take(np.unique(model, return_index=True)[1]).assign(tokens=0.0, **usual)
        return cls(whole.take(np.arange(n)), bases, np.asarray(model, dtype=np.intp), *base_losses(fit, bases))

    def prepare_points(self, fit: Fit) -> pd.DataFrame:
        """Return the rows and the base models below them, as the laws read them."""
        columns = {name: np.r_[self.rows[name], self.bases[name]] for name in last_points(fit).columns}
        return fit.prepare_points(Columns(columns, np.arange(len(self.rows) + len(self.bases))))

    def own_covariance(self, unread: NDArray[np.bool_]) -> Array:
        """Return the covariance of the log losses of base models beside that by the laws, (u, u).

        Parameters
        ----------
        unread
            Whether no law reads it, so that what was measured is all that is known, (u,).
        """
        at = np.log(np.column_stack([self.bases[name] for name in KEYS]))
        of_laws = (
            GUESS_SPREAD**2
            - GUESS_SPREAD_WITH_BASES**2
            + GUESS_SPREAD_WITH_BASES**2 * np.minimum(2.0 * nearness(at, at), 1.0)
        )
        alone = OPEN * (1.0 - self.near) / np.maximum(self.near, JITTER) + MEASURED**2
        return np.asarray(of_laws * ~(unread[:, None] | unread) + np.diag(np.where(unread, alone, 0.0)))


def bases_inform_runs(fit: Fit) -> bool:
    """Say whether a measured base loss says what laws miss of runs.

    That on the target corpus, which a base model has hardly read, does not: it is known, and that is all.
    """
    return fit.role == "source"


def noise_of_base(near: ArrayLike, variance: ArrayLike) -> Array:
    """Return the variance of a measured base loss about that of one that it counts as by so much, 0 to 1."""
    near = np.asarray(near, dtype=float)
    return np.asarray(MEASURED**2 + np.asarray(variance) * (1.0 - near) / np.maximum(near, JITTER))


def of_measured(doubt: Doubt, near: Array) -> Doubt:
    """Return the doubt of changes from base models that were measured, by so much, 0 to 1, (n,).

    What measuring a base model adds is in what studies differ by in each change; here all runs of one share it.
    """
    return replace(doubt, own=np.maximum(doubt.own - MEASURED**2 * near, 0.0))


@dataclass(frozen=True, eq=False)
class _ByLaws:
    """What laws and measured base models say of log losses: of points, runs and base models, one below the other.

    Parameters
    ----------
    known
        Points, runs and base models.
    by_laws
        Variance as the laws have it.
    mean, variance, together
        With base models: mean, variance, and covariance with runs and base models.
    """

    known: WithBases
    by_laws: Array
    mean: Array
    variance: Array
    together: Array

    @classmethod
    def of(cls, fit: Average, *points: Columns) -> _ByLaws:
        """Ask the laws, with the last points of the runs below those that are asked."""
        runs = last_points(fit)
        known = WithBases.of(fit, *points, runs)
        n, k = len(known.rows) - len(runs), len(runs)
        # Of points only what goes with the runs and the base models is asked for, never what goes with one another.
        mean, by_laws, together = moments(fit, known.prepare_points(fit), k + len(known.bases))
        bases, unread, wider = slice(n + k, None), ~np.isfinite(mean[n + k :]), widening(fit.n_runs)
        variance, together = by_laws * wider, together * wider
        together[bases][unread], variance[bases][unread] = 0.0, 0.0
        together[:, k + np.flatnonzero(unread)] = 0.0
        own = known.own_covariance(unread)
        variance[bases] += np.diag(own)
        together[bases, k:] += own
        if bases_inform_runs(fit):
            measured = np.flatnonzero((known.near > 0.0) & ~unread)
            with_measured, of_measured = together[:, k + measured], together[n + k + measured]
            among = of_measured[:, k + measured]
            noise = noise_of_base(known.near[measured], np.diag(among))
            gain = np.linalg.solve(among + np.diag(noise), with_measured.T)
            # Only the doubt: the mean has what they say of their runs already, less what annealing gained the base
            # models alone (`cptlaw.fitting.base_models`).
            variance, together = variance - np.sum(gain * with_measured.T, axis=0), together - gain.T @ of_measured
        else:
            left = np.where(unread, 1.0, 1.0 - known.near)
            together[bases] *= left[:, None]
            together[:, k:] *= left
            more = np.where(unread, 0.0, known.near) * MEASURED**2
            together[bases, k:] += np.diag(more)
            variance[bases] = left**2 * variance[bases] + more
        mean[bases] = np.where(unread, known.losses, known.near * known.losses + (1.0 - known.near) * mean[bases])
        return cls(known, by_laws, mean, variance, together)


@cached
def amplitude(fit: Average, prior: StudyPrior) -> float:
    """Return how large the changes of this study are, times the usual ones, at least 1: by the runs and what laws say.

    The logs of changes are normal, and a log loss is not their sum: where runs show three times the usual gain, what is
    in doubt of it is three times what it usually is. Where they show less, what does not grow with it stays.
    """
    laws, k = _ByLaws.of(fit), len(last_points(fit))
    model = laws.known.model[:k]
    expected, slope, doubt = prior.changes(fit.role, laws.known.rows)
    doubt = of_measured(doubt, laws.known.near[model])
    of_base = laws.together[:, :k] - laws.together[:, k + model]
    of_change = of_base[:k] - of_base[k + model]
    by_laws = laws.mean[:k] - laws.mean[k + model]
    by_studies = inflation(fit.n_runs) * doubt.matrix + JITTER * np.eye(k)
    found = by_laws + of_change @ np.linalg.solve(of_change + by_studies, expected - by_laws)
    more = float(slope @ (found - expected)) / max(float(slope @ slope), 1e-12)
    return float(np.clip(1.0 + more, 1.0, MOST_AMPLITUDE))


def _conditioned(fit: Average, prior: StudyPrior, points: Columns) -> ByStudies:
    laws = _ByLaws.of(fit, points)
    n, k, both = len(points), len(last_points(fit)), laws.known.rows
    mean, variance, together = laws.mean, laws.variance, laws.together
    model, silent = laws.known.model[: n + k], both["tokens"] <= 0
    # Changes from the base model: what the laws say of them, and what the studies do.
    base, of_run = n + k + model, k + model[n:]  # row of the base model of each point and run; column of each run's
    trained = both.assign(tokens=np.where(silent, 1.0, both["tokens"]))
    expected, _, doubt = prior.changes(fit.role, trained, amplitude(fit, prior))
    surprise = expected - (mean[: n + k] - mean[base])
    doubt = of_measured(doubt.at_trained(~silent), laws.known.near[model])
    grown = inflation(fit.n_runs)
    turned = together[:, :k] - together[:, of_run]
    of_runs = (turned[: n + k] - turned[base]) + grown * doubt.shared_with(slice(n, None))
    among = of_runs[n:] + np.diag(grown * doubt.own[n:] + JITTER)
    with_base, at_base = together[np.arange(n), k + model[:n]], together[base[:n], k + model[:n]]
    by_studies = np.where(silent[:n], NO_WORD, grown * doubt.variance[:n])
    of_change = variance[:n] - 2.0 * with_base + at_base
    of_both = of_change + by_studies + JITTER
    # Each point with the runs: what is said of a point does not depend on what else is asked.
    matrix = np.empty((n, k + 1, k + 1))
    matrix[:, 0, 0], matrix[:, 0, 1:], matrix[:, 1:, 0], matrix[:, 1:, 1:] = of_both, of_runs[:n], of_runs[:n], among
    own = np.where(silent[:n], base[:n], np.arange(n))
    reach = np.column_stack([np.where(silent[:n], with_base, variance[:n]) - np.where(silent[:n], at_base, with_base),
                             turned[own]])  # fmt: skip
    # A loss and its base model's are in doubt together: their difference has less of it than each.
    reach_of_change = np.column_stack([of_change, turned[:n] - turned[base[:n]]])
    found = np.column_stack([surprise[:n], np.tile(surprise[n:], (n, 1))])
    asked = np.broadcast_to(np.eye(k + 1)[0], found.shape)
    pull = np.linalg.solve(matrix, np.stack([found, reach, reach_of_change, asked], axis=2))
    kept = np.maximum(variance[own] - np.einsum("np,np->n", reach, pull[:, :, 1]), 0.0)
    of_change = np.maximum(of_change - np.einsum("np,np->n", reach_of_change, pull[:, :, 2]), 0.0)
    left = np.sqrt(kept / np.maximum(laws.by_laws[own], 1e-12))
    # A point without tokens is its base model, and a measured one is what was measured, not what the laws say.
    centre = np.where(silent[:n] & np.isfinite(mean[:n]), mean[base[:n]], mean[:n])
    added = centre - mean[:n] + np.einsum("np,np->n", reach, pull[:, :, 0])
    # With the noise of a measurement in what laws say of the point, and not of its base model: how much more is left.
    scattered = 1.0 / np.sqrt(1.0 + fit.scatter(ONE_SD) ** 2 * pull[:, 0, 3])
    noise, noise_of_change = (np.where(silent[:n], 1.0, (1.0 - pull[:, 0, i]) * scattered) for i in (1, 2))
    return ByStudies(added, left, np.sqrt(of_change / np.maximum(kept, 1e-12)), noise, noise_of_change)


def base_losses(fit: Fit, models: Columns) -> tuple[Array, Array]:
    """Return log losses of base models that were given or measured, and by how much they count as these, 0 to 1.

    Whoever types 8B and 1,875 means the base model that was measured as 8.03B and 1,868.
    """
    at, losses = _measured_bases_of(fit)
    near = nearness(np.log(np.column_stack([models[name] for name in KEYS])), at)
    known = losses[near.argmax(axis=1)] if len(at) else np.zeros(len(models))
    given = models[LOSS] if fit.role == "source" else np.full(len(models), np.nan)
    is_given = np.isfinite(given)
    counts = np.where(is_given, 1.0, np.minimum(2.0 * near.max(axis=1, initial=0.0), 1.0))
    return np.where(is_given, np.log(np.where(is_given, given, 1.0)), known), counts


@cached
def _measured_bases_of(fit: Fit) -> tuple[Array, Array]:
    """Return where the measured base models lie, (m, 2), and their log losses, (m,)."""
    base = measured_bases(fit.base)
    return coordinates(base), np.log(base["loss"].to_numpy(dtype=float))
