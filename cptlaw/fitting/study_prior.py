"""What studies of others say of forgetting and gain, as a prior for forecasts from few runs.

Laws that are fitted to few runs leave the change from the base model open at budgets that were not run, where studies
of continual pre-training have seen it. Both are normal in log losses: a forecast is what the laws say of a point, its
base model and the runs, given that the changes from the base model are what the studies expect them to be, with what
all points of one study share. So the runs also say how far this study is from the usual one.

Axes: n = points, k = runs, u = base models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cptlaw.fitting.base_models import KEYS, LOSS, coordinates, measured_bases, nearness
from cptlaw.fitting.cached import cached
from cptlaw.fitting.checking.cuts import trained
from cptlaw.fitting.learned.forgetting_and_gain import UNLIKE, Doubt, Outcome, changes
from cptlaw.fitting.point_covariance import moments
from cptlaw.laws.base import Role
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows, Columns

if TYPE_CHECKING:
    from cptlaw.fitting.fit import Fit

MOST_RUNS = 12  # whose changes say how far this study is from the usual one
# The variance of what the studies say grows as 1 + (runs / RUNS)^4: laws were ahead of it wherever runs were many. From
# MANY runs on it would move nothing that is printed, and is left out. That of laws grows as 1 + (RUNS / runs)^2, and
# fewer than LEAST count as so many: what laws say of one run they say by their priors (`python -m studies few_runs`).
RUNS, MANY, LEAST = 12.0, 30, 5.0
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

    def changes(self, role: Role, rows: AnyRows) -> tuple[Array, Doubt]:
        """Return the mean, (n,), and the doubt of the log of a loss over the base model's, at trained rows."""
        outcome: Outcome = "forgetting" if role == "source" else "gain"
        return changes(outcome, self.frame(rows), shift_given=self.shift is not None)

    def frame(self, rows: AnyRows) -> pd.DataFrame:
        """Return points as `cptlaw.fitting.learned.forgetting_and_gain` takes them."""

        def column(name: str, instead: float) -> Array | float:
            if name not in rows.columns:
                return instead
            values = np.asarray(rows[name], dtype=float)
            return np.where(np.isnan(values), instead, values)

        return pd.DataFrame(
            {
                "shift": self.shift or UNLIKE,
                **{name: np.asarray(rows[name], dtype=float) for name in ("n_params", "ptpp", "tokens")},
                "replay": column("replay", 0.0),
                "lr_peak": column("lr_peak", np.nan),
                "lr_pretrain": column("lr_pretrain", np.nan if self.lr_pretrain is None else self.lr_pretrain),
                "novelty": np.nan if self.novelty is None else self.novelty,
                "unread": float(self.unread),
            },
            index=rows.index,
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> StudyPrior:
        """Return what `to_dict` wrote."""
        number = {name: None if saved[name] is None else float(saved[name]) for name in ("lr_pretrain", "novelty")}
        shift = None if saved["shift"] is None else str(saved["shift"])
        return cls(shift=shift, unread=bool(saved["unread"]), **number)


def with_studies(fit: Fit, prior: StudyPrior, rows: Columns) -> tuple[Array, Array, Array]:
    """Return what studies add to log losses, a factor on their standard deviation, and that of changes, (n,) each.

    The last is the standard deviation of the log of a loss over its base model's, relative to that of the log loss.

    Parameters
    ----------
    fit
        The laws, fitted to the runs alone.
    rows
        Points, as `Fit.prepare_points` returns them.
    """
    runs, model = last_points(fit), base_model_of(rows)
    added, left, of_change = np.zeros(len(rows)), np.ones(len(rows)), np.ones(len(rows))
    for first in range(0, int(model.max(initial=-1)) + 1, CHUNK):
        part = np.flatnonzero((first <= model) & (model < first + CHUNK))
        added[part], left[part], of_change[part] = _conditioned(fit, prior, rows.take(part), runs)
    return added, left, of_change


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

    It falls with the runs.
    """
    return np.asarray(1.0 + (RUNS / np.maximum(np.asarray(n_runs, dtype=float), LEAST)) ** 2)


def guessed_spread(base: pd.DataFrame) -> float:
    """Return by how much a law's own loss without tokens misses a base model's, beside those that were measured."""
    return GUESS_SPREAD if base.empty else GUESS_SPREAD_WITH_BASES


def doubt_of_base(fit: Fit, near: ArrayLike, unread: ArrayLike) -> Array:
    """Return the variance of a base model's log loss beside that by the laws, in the shape of the arguments.

    Parameters
    ----------
    near
        By how much it was measured, 0 to 1, as `base_loss` returns it.
    unread
        Whether no law reads base models.
    """
    near = np.asarray(near, dtype=float)
    guess = near * MEASURED**2 + (1.0 - near) * guessed_spread(fit.base) ** 2
    return np.where(unread, OPEN * (1.0 - near) / np.maximum(near, JITTER) + MEASURED**2, guess)


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


def _conditioned(fit: Fit, prior: StudyPrior, points: Columns, runs: pd.DataFrame) -> tuple[Array, Array, Array]:
    n, k, usual = len(points), len(runs), usual_inputs(fit)
    given = {name: points[name] if name in points else np.full(n, np.nan) for name in (*runs.columns, LOSS)}
    found_in_runs = {name: runs[name] if name in runs.columns else np.full(k, np.nan) for name in given}
    both = Columns({name: np.r_[given[name], found_in_runs[name]] for name in given}, np.arange(n + k))
    both = both.assign(**{name: np.where(np.isnan(both[name]), instead, both[name]) for name, instead in usual.items()})
    silent = both["tokens"] <= 0
    model = base_model_of(both)
    # A base model has neither mix nor rate: any of those that were run will do, the same for all.
    first = np.unique(model, return_index=True)[1]
    models = both.take(first).assign(tokens=0.0, **usual)
    bases, u = models.to_pandas(), len(first)
    # Of points only what goes with the runs and the base models is asked for, never what goes with one another.
    joint = Columns({name: np.r_[both[name], models[name]] for name in runs.columns}, np.arange(n + k + u))
    mean, by_laws, together = moments(fit, fit.prepare_points(joint), k + u)
    count = int(fit.data["run"].nunique())
    wider = widening(count)
    variance, together = by_laws * wider, together * wider
    for one in range(u):
        row, column = n + k + one, k + one
        known, near = base_loss(fit, bases.iloc[one])
        unread = not np.isfinite(mean[row])  # all that is known of this one is what was measured
        # What was measured does not err with the laws.
        left = 0.0 if unread else 1.0 - near
        mean[row] = known if unread else near * known + left * mean[row]
        variance[row], together[row, :] = left**2 * variance[row], left * together[row, :]
        together[:, column] *= left
        more = doubt_of_base(fit, near, unread)
        variance[row] += more
        together[row, column] += more
    # Changes from the base model: what the laws say of them, and what the studies do.
    base, of_run = n + k + model, k + model[n:]  # row of the base model of each point and run; column of each run's
    expected, doubt = prior.changes(fit.role, both.assign(tokens=np.where(silent, 1.0, both["tokens"])))
    surprise = expected - (mean[: n + k] - mean[base])
    doubt = doubt.at_trained(~silent)
    grown = inflation(count)
    turned = together[:, :k] - together[:, of_run]
    of_runs = (turned[: n + k] - turned[base]) + grown * doubt.shared_with(slice(n, None))
    among = of_runs[n:] + np.diag(grown * doubt.own[n:] + JITTER)
    with_base, at_base = together[np.arange(n), k + model[:n]], together[base[:n], k + model[:n]]
    by_studies = np.where(silent[:n], NO_WORD, grown * doubt.variance[:n])
    of_change = variance[:n] - 2.0 * with_base + at_base
    alone = of_change + by_studies + JITTER
    # Each point with the runs: what is said of a point does not depend on what else is asked.
    matrix = np.empty((n, k + 1, k + 1))
    matrix[:, 0, 0], matrix[:, 0, 1:], matrix[:, 1:, 0], matrix[:, 1:, 1:] = alone, of_runs[:n], of_runs[:n], among
    own = np.where(silent[:n], base[:n], np.arange(n))
    reach = np.column_stack([np.where(silent[:n], with_base, variance[:n]) - np.where(silent[:n], at_base, with_base),
                             turned[own]])  # fmt: skip
    # A loss and its base model's are in doubt together: their difference has less of it than each.
    reach_of_change = np.column_stack([of_change, turned[:n] - turned[base[:n]]])
    found = np.column_stack([surprise[:n], np.tile(surprise[n:], (n, 1))])
    pull = np.linalg.solve(matrix, np.stack([found, reach, reach_of_change], axis=2))
    kept = np.maximum(variance[own] - np.einsum("np,np->n", reach, pull[:, :, 1]), 0.0)
    of_change = np.maximum(of_change - np.einsum("np,np->n", reach_of_change, pull[:, :, 2]), 0.0)
    left = np.sqrt(kept / np.maximum(by_laws[own], 1e-12))
    # A point without tokens is its base model, and a measured one is what was measured, not what the laws say.
    to_base = np.where(silent[:n] & np.isfinite(mean[:n]), mean[base[:n]] - mean[:n], 0.0)
    added = to_base + np.einsum("np,np->n", reach, pull[:, :, 0])
    return added, left, np.sqrt(of_change / np.maximum(kept, 1e-12))


def base_loss(fit: Fit, model: pd.Series[Any]) -> tuple[float, float]:
    """Return the log loss of a base model that was given or measured, and by how much it counts as this one, 0 to 1.

    Whoever types 8B and 1,875 means the base model that was measured as 8.03B and 1,868.
    """
    if fit.role == "source" and LOSS in model.index and np.isfinite(model[LOSS]):
        return float(np.log(model[LOSS])), 1.0
    at, losses = _measured_bases_of(fit)
    if not len(at):
        return 0.0, 0.0
    near = nearness(np.log(model[list(KEYS)].to_numpy(dtype=float))[None], at)[0]
    nearest = int(np.argmax(near))
    return float(losses[nearest]), float(np.minimum(2.0 * near[nearest], 1.0))


@cached
def _measured_bases_of(fit: Fit) -> tuple[Array, Array]:
    """Return where the measured base models lie, (m, 2), and their log losses, (m,)."""
    base = measured_bases(fit.base)
    return coordinates(base), np.log(base["loss"].to_numpy(dtype=float))
