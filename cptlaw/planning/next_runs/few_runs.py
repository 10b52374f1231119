"""What next runs take off the doubt where studies of others speak beside few runs: by the posterior that forecasts.

A run that was measured counts twice there: it narrows what the laws say, and it says how far this study is from the
usual one (`cptlaw.fitting.study_prior`). With each candidate measured, its base model too, the doubt about the asked
point is computed as that posterior would have it.

Axes: c = candidates, m = the asked point, runs that are taken as measured, and those of the table; u = base models.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.point_covariance import moments
from cptlaw.fitting.study_prior import (
    JITTER,
    base_loss,
    base_model_of,
    doubt_of_base,
    inflation,
    last_points,
    usual_inputs,
    widening,
)
from cptlaw.laws.calculus import Array


@dataclass(frozen=True, eq=False)
class FewRuns:
    """The doubt about a forecast from few runs, and what candidates would leave of it.

    Parameters
    ----------
    by_laws
        Covariance of the log losses by the laws: of the asked point, the candidates, the runs, their base models.
    by_studies
        Covariance of the changes from the base model as the studies have them, of all but the base models.
    base
        The place of each one's base model.
    kept, guess
        What is left of the laws' doubt about a base model's loss, as a factor, and the variance beside it, (u,) each.
    trained
        The same variance where the base model was measured, as that of a candidate is, (u,).
    n_candidates, n_runs
        How many of the rows are candidates, and of how many runs the table is; the others are those of its runs.
    noise
        Variance of the log of one measured loss.
    floor
        Variance of measuring one loss, which stays in the interval whatever is run; in units of the forecast's.
    """

    by_laws: Array
    by_studies: Array
    base: NDArray[np.intp]
    kept: Array
    guess: Array
    trained: Array
    n_candidates: int
    n_runs: int
    noise: float
    floor: float = 0.0
    places: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    measured_already: tuple[int, ...] = ()

    @classmethod
    def of(cls, fit: Average, asked: pd.DataFrame, candidates: pd.DataFrame, noise: float, floor: float) -> FewRuns:
        """Compute the doubt of a fit to few runs, with a row for each candidate.

        Parameters
        ----------
        noise
            Variance of the log of one measured loss.
        floor
            What measuring one loss adds to the squared interval, as a share of what is in doubt of the forecast.
        """
        assert fit.study_prior is not None
        alone = replace(fit, study_prior=None, _cache={})
        runs = last_points(alone)
        usual = usual_inputs(alone)
        rows = pd.concat([asked, candidates, runs], ignore_index=True)[list(runs.columns)].fillna(usual)
        model = base_model_of(rows)
        bases = rows.iloc[np.unique(model, return_index=True)[1]].assign(tokens=0.0, **usual)
        every = alone.prepare_points(pd.concat([rows, bases], ignore_index=True))
        mean, _, by_laws = moments(alone, every, len(every))
        near = np.array([base_loss(alone, one)[1] for _, one in bases.iterrows()])
        unread = ~np.isfinite(mean)  # by any law: all that is known of such a base model is what was measured
        by_laws[unread], by_laws[:, unread] = 0.0, 0.0
        by_studies = fit.study_prior.changes(fit.role, rows)[1].matrix
        count = int(fit.data["run"].nunique())
        base, of_bases = np.asarray(len(rows) + model, dtype=np.intp), unread[len(rows) :]
        guess, trained = (doubt_of_base(fit, one, of_bases) for one in (near, np.ones(len(near))))
        whole = cls(by_laws, by_studies, base, 1.0 - near, guess, trained, len(candidates), count, noise)
        return replace(whole, floor=floor * whole.variance, places=np.arange(len(candidates), dtype=np.intp))

    def take(self, places: NDArray[np.intp]) -> FewRuns:
        """Return the forecast with some of the candidates."""
        return replace(self, places=self.places[places])

    def measured(self, candidate: int) -> FewRuns:
        """Return the same after one candidate was measured."""
        return replace(self, measured_already=(*self.measured_already, int(self.places[candidate])))

    @property
    def variance(self) -> float:
        """Variance of the forecast."""
        return float(self._left(np.zeros((1, 0), dtype=np.intp))[0])

    def width(self, variance: Array | float) -> Array:
        """Return what the width of the interval is proportional to, at other variances of the forecast."""
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) + self.floor), dtype=float)

    def reductions(self, rows: NDArray[np.intp]) -> Array:
        """Return by how much each of some candidates would reduce the variance, alone, (rows,)."""
        return np.asarray(np.maximum(self.variance - self._left(self.places[rows][:, None]), 0.0), dtype=float)

    def _left(self, more: NDArray[np.intp]) -> Array:
        """Return the variance that is left of the asked point once more candidates are measured, (c,) of (c, more)."""
        c, taken = len(more), np.array(self.measured_already, dtype=np.intp)
        new = 1 + np.hstack([np.tile(taken, (c, 1)), more]).astype(np.intp)
        first, last = 1 + self.n_candidates, len(self.by_studies)
        own = np.hstack([np.zeros((c, 1), dtype=np.intp), new, np.tile(np.arange(first, last), (c, 1))])
        m, base = own.shape[1], self.base[own]
        of = np.hstack([own, base])
        count = self.n_runs + new.shape[1]
        laws = widening(count) * self.by_laws[of[:, :, None], of[:, None, :]]
        for place in range(1, 1 + new.shape[1]):
            moved = laws[:, :, place]
            laws = laws - moved[:, :, None] * moved[:, None, :] / (moved[:, place] + self.noise)[:, None, None]
        # Whoever trains a run measures its base model.
        u = base - last
        with_new = (base[:, :, None] == base[:, None, 1 : 1 + new.shape[1]]).any(axis=2)
        kept = np.hstack([np.ones((c, m)), np.where(with_new, 0.0, self.kept[u])])
        laws = laws * kept[:, :, None] * kept[:, None, :]
        guess = np.where(with_new, self.trained[u], self.guess[u])
        laws[:, m:, m:] += np.where(base[:, :, None] == base[:, None, :], guess[:, :, None], 0.0)
        to_change = laws[:, :, :m] - laws[:, :, m:]
        change = to_change[:, :m] - to_change[:, m:]
        studies = inflation(count) * self.by_studies[own[:, :, None], own[:, None, :]]
        matrix = change + studies + JITTER * np.eye(m)
        reach = to_change[:, 0]
        pull = np.linalg.solve(matrix, reach[:, :, None])[:, :, 0]
        return np.asarray(np.maximum(laws[:, 0, 0] - np.sum(reach * pull, axis=1), 0.0), dtype=float)
