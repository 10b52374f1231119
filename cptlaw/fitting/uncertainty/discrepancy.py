"""How far a law errs beyond its data because its form is wrong: a rate per e-fold, learned from other studies.

The log error at a point that lies d e-folds outside the fitted rows is taken as Student's t around 0 with the scale

    hypot(c s, v, rate D),    D = (sum over directions of (w d)^2)^(p/2)

s being the spread of the fit's residuals, v the doubt about its parameters. Weights w, power p, c and the degrees of
freedom are common to all studies. The rate of a fit is log-normal over studies, its median growing with s; what the law
errs by in rollouts inside its own rows moves it, so that a law that goes wrong within the data is trusted less beyond
it. The numbers come from rolling laws through the tables of other studies (``python -m studies learn``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from cptlaw.fitting.cached import cached
from cptlaw.fitting.checking.cuts import trained_rows
from cptlaw.fitting.checking.distance import levels, outside, seen, unseen
from cptlaw.fitting.learned import left_out, numbers
from cptlaw.fitting.solving.law_on_rows import LawOnRows
from cptlaw.fitting.uncertainty.inner_rollouts import InnerRollouts, inner_rollouts
from cptlaw.fitting.uncertainty.profile import noise
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows

RATES = np.geomspace(5e-4, 0.6, 23)  # log error per e-fold
REFERENCE = 0.01  # spread of the residuals at which the median rate is stated
# Learning-rate areas stand for tokens.
STANDS_FOR = {"s1": "tokens", "s1_cpt": "tokens", "s1_pretrain": "pretraining_tokens"}
BISECTIONS = 50


@dataclass(frozen=True, eq=False)
class Scale:
    """What the error of a law is scaled by; see the module.

    Parameters
    ----------
    weights
        Of an e-fold along each direction, by name; size has 1.
    rate, rate_sd, rate_power
        Median rate at the reference spread, its spread over studies on the log scale, and the power of the residual
        spread that it grows with.
    freedom
        Degrees of freedom of the errors.
    inside
        What a rollout inside the fitted rows counts beside one observation of the rate.
    power
        Of the distance.
    noise
        c, on the residual spread.
    """

    weights: dict[str, float]
    rate: float
    rate_sd: float
    rate_power: float
    freedom: float
    inside: float
    power: float
    noise: float

    @classmethod
    def learned(cls) -> Scale:
        """Return what was learned, without the study that is left out."""
        known: dict[str, Any] = numbers()["discrepancy"]
        without = left_out()
        return cls(**(known["all"] if without is None else known["without"].get(without, known["all"])))

    def reach(self, distance: Array, names: tuple[str, ...]) -> Array:
        """Return D of points by their e-folds outside along the named directions, (n,)."""
        weight = np.array([self.weights.get(STANDS_FOR.get(name, name), 1.0) for name in names])
        square: Array = np.sum((np.abs(distance) * weight) ** 2, axis=1)
        return square ** (0.5 * self.power)

    def rates(self, spread: float, inner: InnerRollouts) -> Array:
        """Return the probability of each of `RATES`, given residuals and rollouts inside the fitted rows."""
        # A law that misses its own rows by more goes wrong faster beyond them: over studies the rate grows with the
        # residuals.
        median = np.log(self.rate) + self.rate_power * np.log(spread / REFERENCE)
        log_share = -0.5 * ((np.log(RATES) - median) / self.rate_sd) ** 2
        if len(inner.error):
            beyond = self.reach(inner.distance, inner.names)
            # What a rollout misses is part noise, whatever its distance.
            scale = np.hypot(self.noise * spread, beyond[:, None] * RATES)
            # Rows of one rollout err together: it counts once, however many it forecasts.
            weight = 1.0 / np.bincount(inner.group)[inner.group]
            log_share += self.inside * np.sum(
                weight[:, None] * (_log_density(inner.error[:, None] / scale, self.freedom) - np.log(scale)), axis=0
            )
        share = np.exp(log_share - log_share.max())
        values: Array = share / share.sum()
        return values

    def quantile(self, share: Array, coverage: float) -> float:
        """Return the half-width at D = 1 of the central interval, over all rates."""
        # By bisection: the mixture over rates has no quantile in closed form, and is monotone.
        low, high = 0.0, 100.0 * float(RATES[-1])
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            held = float(share @ (2.0 * special.stdtr(self.freedom, middle / RATES) - 1.0))
            low, high = (middle, high) if held < coverage else (low, middle)
        return high


def _log_density(z: Array, freedom: float) -> Array:
    """Return the log density of Student's t, up to a constant."""
    values: Array = -0.5 * (freedom + 1.0) * np.log1p(z * z / freedom)
    return values


def discrepancy(fit: LawOnRows, frame: AnyRows, coverages: list[float]) -> Array:
    """Return the half-widths in log loss that the law's form calls for, shape (coverages, n); zero inside the data."""
    return half_widths_at(fit, distances(fit, frame), coverages)


def distances(fit: LawOnRows, frame: AnyRows) -> tuple[Array, Array]:
    """Return how far rows lie from the fitted ones, by what the law errs with: D, and what it does not read, (n,)."""
    directions = seen(fit.law, fit.data)
    away = outside(trained_rows(fit), frame, directions)
    return Scale.learned().reach(away, tuple(direction.name for direction in directions)), _blind(fit, frame)


def half_widths_at(fit: LawOnRows, at: tuple[Array, Array], coverages: list[float]) -> Array:
    """Return what `discrepancy` does at rows that lie so far from the fitted ones."""
    reach, blind = at
    half = np.array([_half_width(fit, left_out(), coverage) for coverage in coverages])
    of_blind = special.stdtrit(Scale.learned().freedom, 0.5 + 0.5 * np.asarray(coverages))
    # Two causes that know nothing of each other: the form along what the law reads, and what it does not read at all.
    return np.hypot(half[:, None] * reach, of_blind[:, None] * blind)


@cached
def _half_width(fit: LawOnRows, without: str | None, coverage: float) -> float:
    """Return the half-width at D = 1 of a fit, without the study that is left out."""
    return Scale.learned().quantile(_rates(fit, without), coverage)


def usual_rate(fit: LawOnRows) -> float:
    """Return the median rate of a fit, per cent of the loss per e-fold of size."""
    share = _rates(fit, left_out())
    return 100.0 * float(RATES[np.searchsorted(np.cumsum(share), 0.5)])


@cached
def _rates(fit: LawOnRows, without: str | None) -> Array:
    """Return the shares of the rates of a fit, without the study that is left out."""
    return Scale.learned().rates(noise(fit).spread, inner_rollouts(fit))


def _blind(fit: LawOnRows, frame: AnyRows) -> Array:
    """Return by how much inputs that the law does not read usually move the log loss from the fitted levels, (n,)."""
    known: dict[str, dict[str, float]] = numbers()["blind"]
    directions = tuple(d for d in unseen(fit.law, fit.data) if d.name in known and d.name in frame.columns)
    distance = np.abs(outside(trained_rows(fit), frame, directions))
    moved = distance * np.array([_usual_slope(known[direction.name]) for direction in directions])
    values: Array = np.sqrt(np.sum(moved**2, axis=1)) if len(directions) else np.zeros(len(frame))
    return values


def unvaried(fit: LawOnRows, frame: AnyRows) -> Array:
    """Return by how much inputs that the law reads, and the fitted rows have at one level, move the log loss, (n,).

    What the law makes of them is its priors', which say no more than studies agree on.
    """
    rows, spread = trained_rows(fit), _spreads(left_out())
    held = [one for one in seen(fit.law, fit.data) if one.name in spread and len(levels(rows, one.name)) == 1]
    moved = outside(rows, frame, held) * np.array([spread[one.name] for one in held])
    return np.asarray(np.linalg.norm(moved, axis=1))


@cache
def _spreads(without: str | None) -> dict[str, float]:
    """Return how far the slopes of inputs lie apart over studies, without the one that is left out."""
    slopes = {name: _slopes(known) for name, known in numbers()["blind"].items()}
    return {name: float(np.std(known, ddof=1)) for name, known in slopes.items() if len(known) > 1}


def _usual_slope(of_studies: dict[str, float]) -> float:
    """Return the root mean square over studies of what an e-fold of an input moves the log loss by."""
    return float(np.sqrt(np.mean(np.square(_slopes(of_studies)))))


def _slopes(of_studies: dict[str, float]) -> list[float]:
    """Return the slopes of the studies that are not left out; all where it is the only one."""
    return [slope for study, slope in of_studies.items() if study != left_out()] or list(of_studies.values())
