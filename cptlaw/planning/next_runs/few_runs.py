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
from cptlaw.fitting.base_models import LOSS
from cptlaw.fitting.point_covariance import last_points, moments
from cptlaw.fitting.study_prior import (
    JITTER,
    MEASURED,
    WithBases,
    amplitude,
    bases_inform_runs,
    inflation,
    noise_of_base,
    widening,
)
from cptlaw.laws.calculus import Array

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FewRuns:
    """The doubt about a forecast from few runs, and what candidates would leave of it.

    Parameters
    ----------
    by_laws
        Covariance of the log losses by the laws: of the asked point, the candidates, the runs, the base models.
    of_bases
        Covariance of the log losses of base models beside that by the laws, (u, u).
    by_studies, of_each
        Covariance of the changes from the base model as the studies have them, of all but the base models, and how much
        of its diagonal each change has of its own.
    base
        The place of each one's base model.
    near
        By how much base models were measured, 0 to 1, (u,).
    bases_inform_runs
        Whether that says what the laws miss of runs; else it is known, and that is all.
    n_candidates, n_runs
        How many of the rows are candidates, and of how many runs the table is; the others are those of its runs.
    noise
        Variance of the log of one measured loss.
    of_change
        Whether the loss over that of its base model is asked, as long as that is a guess, or the loss itself.
    """

    by_laws: Array
    of_bases: Array
    by_studies: Array
    of_each: Array
    base: Places
    near: Array
    bases_inform_runs: bool
    n_candidates: int
    n_runs: int
    noise: float
    of_change: bool = False
    places: Places = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    measured_already: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        fit: Average,
        asked: pd.DataFrame,
        candidates: pd.DataFrame,
        *,
        noise: float,
        of_change: bool = False,
    ) -> FewRuns:
        """Compute the doubt of a fit to few runs, with a row for each candidate.

        Parameters
        ----------
        noise
            Variance of the log of one measured loss.
        of_change
            Whether the loss over that of its base model is asked.
        """
        assert fit.study_prior is not None
        alone = fit.of_runs_alone()
        # The loss that is given is that of the asked base model alone.
        known = WithBases.of(alone, asked, candidates.drop(columns=LOSS, errors="ignore"), last_points(alone))
        n, u = len(known.rows), len(known.bases)
        mean, _, by_laws = moments(alone, known.prepare_points(alone), n + u)
        unread = ~np.isfinite(mean)  # by any law: all that is known of such a base model is what was measured
        by_laws[unread], by_laws[:, unread] = 0.0, 0.0
        # Of base models from which only candidates start none is measured yet, however near it lies to one that was.
        read = np.isin(np.arange(u), np.delete(known.model, 1 + np.arange(len(candidates)))) & ~unread[n:]
        doubt = fit.study_prior.changes(fit.role, known.rows, amplitude(alone, fit.study_prior))[2]
        return cls(
            by_laws,
            known.own_covariance(unread[n:]),
            doubt.matrix,
            doubt.own,
            np.asarray(n + known.model[:n], dtype=np.intp),
            np.where(read, known.near, 0.0),
            bases_inform_runs(fit),
            len(candidates),
            fit.n_runs,
            noise,
            of_change,
            np.arange(len(candidates), dtype=np.intp),
        )

    def take(self, places: Places) -> FewRuns:
        """Return the forecast with some of the candidates."""
        return replace(self, places=self.places[places])

    def measured(self, candidate: int) -> FewRuns:
        """Return the same after one candidate was measured."""
        return replace(self, measured_already=(*self.measured_already, int(self.places[candidate])))

    def with_base(self) -> FewRuns:
        """Return the same after the base model of the asked point was measured."""
        asked = np.arange(len(self.near)) == self.base[0] - len(self.base)
        return replace(self, near=np.where(asked, 1.0, self.near), of_change=False)

    @property
    def variance(self) -> float:
        """Variance of the forecast of a measured loss."""
        return float(self._left(np.zeros((1, 0), dtype=np.intp))[0])

    def width(self, variance: Array | float) -> Array:
        """Return what the width of the interval is proportional to, at other variances of the forecast."""
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)), dtype=float)

    def reductions(self, rows: Places) -> Array:
        """Return by how much each of some candidates would reduce the variance, alone, (rows,)."""
        return np.asarray(np.maximum(self.variance - self._left(self.places[rows][:, None]), 0.0), dtype=float)

    def _left(self, more: Places) -> Array:
        """Return the variance that is left of the asked point once more candidates are measured, (c,) of (c, more)."""
        c, n = len(more), len(self.base)
        taken = 1 + np.array(self.measured_already, dtype=np.intp)
        new = np.hstack([np.tile(taken, (c, 1)), 1 + more]).astype(np.intp)
        own = np.hstack([np.zeros((c, 1), dtype=np.intp), new, np.tile(np.arange(1 + self.n_candidates, n), (c, 1))])
        m, of = own.shape[1], np.hstack([own, self.base[own]])
        count = self.n_runs + new.shape[1]
        # Whoever trains a run measures its base model. What all candidates have in common is measured first.
        near = self.near.copy()
        near[self.base[taken] - n] = 1.0
        # The doubt of laws is widened after a fit: what the noise of one loss leaves open at it is too.
        wider = float(widening(count))
        everything, noise_of_loss = wider * self.by_laws, wider * self.noise
        everything[n:, n:] += self.of_bases
        measured = np.flatnonzero(near) if self.bases_inform_runs else np.zeros(0, dtype=np.intp)
        places = np.r_[n + measured, taken].astype(np.intp)
        among = everything[np.ix_(places, places)]
        of_bases = noise_of_base(near[measured], np.diag(among)[: len(measured)])
        root = np.linalg.cholesky(among + np.diag(np.r_[of_bases, np.full(len(taken), noise_of_loss)]))
        told = np.linalg.solve(root, everything[places])[:, of].transpose(1, 2, 0)
        laws = everything[of[:, :, None], of[:, None, :]] - told @ told.transpose(0, 2, 1)
        for place in range(1 + len(taken), 1 + new.shape[1]):
            known = near[self.base[own[:, place]] - n] if self.bases_inform_runs else np.ones(c)
            for at, noise in ((m + place, np.where(known > 0.0, np.inf, MEASURED**2)), (place, noise_of_loss)):
                moved = laws[:, :, at]
                laws = laws - moved[:, :, None] * moved[:, None, :] / (moved[:, at] + noise)[:, None, None]
        bases = self.base[own]
        near = np.where((bases[:, :, None] == self.base[new][:, None, :]).any(axis=2), 1.0, near[bases - n])
        if not self.bases_inform_runs:
            left = np.hstack([np.ones((c, m)), 1.0 - near])
            laws = laws * left[:, :, None] * left[:, None, :]
            same = bases[:, :, None] == bases[:, None, :]
            laws[:, m:, m:] += np.where(same, MEASURED**2 * near[:, :, None], 0.0)
        to_change = laws[:, :, :m] - laws[:, :, m:]
        change = to_change[:, :m] - to_change[:, m:]
        # What measuring a base model adds is in what each change has of its own, and all runs of one share it.
        shared = np.minimum(self.of_each[own], MEASURED**2 * near)
        studies = self.by_studies[own[:, :, None], own[:, None, :]] - shared[:, :, None] * np.eye(m)
        matrix = change + inflation(count) * studies + JITTER * np.eye(m)
        # Above a base model that is measured, the loss is as much in doubt as how far it lies above.
        of_change = self.of_change & (self.base[new] != self.base[0]).all(axis=1)[:, None]
        reach = np.where(of_change, change[:, 0], to_change[:, 0])
        before = np.where(of_change[:, 0], change[:, 0, 0], laws[:, 0, 0])
        # Of what measuring the asked loss adds the studies know too, and no base model's loss has a part in it.
        matrix[:, 0, 0] += self.noise
        reach[:, 0] += self.noise
        before = before + self.noise
        pull = np.linalg.solve(matrix, reach[:, :, None])[:, :, 0]
        return np.asarray(np.maximum(before - np.sum(reach * pull, axis=1), 0.0), dtype=float)
