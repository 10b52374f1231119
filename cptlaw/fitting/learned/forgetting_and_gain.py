"""What the studies of continual pre-training that can be read say before anything has been run.

Forgetting (the relative rise of the source loss) and gain (log of the base model's target loss over the target loss)
are two curves of one family. With replay r and a reach x of the run,

    forgetting = a (log((1 + x) / (1 + r y)) - k r y / (1 + r y)) - s p x / (1 + x)
    gain       = a log(1 + (1 - r) x)                                      y = ((1 + x)^c - 1) / c

Replay acts through a logarithm whose cut-off is 1 / y: no pole at no replay, and nothing at all at no tokens or no
rate. c below 1 is that replay does not keep pace with the run: at any mix a longer run, or one at a higher rate,
forgets more. k is what a little replay wins back at once (the replayed text is never quite what the source loss is
measured on), and s p is further pre-training: the replay adds tokens to those of a base model with p left to learn. A
base model that has never read the replayed corpus learns it besides, by the gain of as many tokens of a new text near
the old. Amplitude a and reach x are log-linear in what is asked: kind of shift (partially pooled), size (a random walk
over decades, so that models of 100 thousand parameters hardly say anything of 8 billion), tokens, budget of
pre-training, rate relative to the peak of pre-training (the gain by a share of it that falls to nothing at low rates),
that peak, and how new the text is to the base model: the log of its target loss over its source loss.
Each study has an amplitude, a reach and a k of its own; how much they differ is the doubt of a study that nobody has
made yet. `python -m studies learn_studies` learns the numbers beside this file; no rows of others' tables are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.fitting.learned import document
from cptlaw.laws.calculus import Array
from cptlaw.laws.inputs import AnyRows

Outcome = Literal["forgetting", "gain"]
SHIFTS = ("language", "domain", "code", "near")
UNLIKE = "domain"  # where no kind of shift was given: studies of it differ most
DECADES = (5, 6, 7, 8, 9, 10, 11)  # knots of the walk over log10 parameters; it starts at 9
SIZES = tuple(f"size_1e{decade}" for decade in DECADES if decade != 9)
AMPLITUDE = ("one", *SHIFTS, *SIZES, "budget", "relative_rate", "low_rate", "novelty")
REACH = ("one", "tokens", "size", "relative_rate", "rate", "budget")
FEATURES = (*(f"amplitude_{name}" for name in AMPLITUDE), *(f"reach_{name}" for name in REACH), "cutoff")
TYPICAL_RATE = 0.3  # of the peak of pre-training: the middle, in logs, of published practice (a tenth to the whole)
HALF_GAIN_RATE = 0.02  # of the peak of pre-training: the rate at which half of the gain is learned
RATE_SPREAD = 0.8  # of the log of that ratio over published runs, where a run does not say
PEAK_SPREAD = 0.5  # of the log of a peak of pre-training about `typical_peak`
TYPICAL_NOVELTY = 0.3  # log of a base model's target loss over its source loss: the mean over studies that print both
NOVELTY_SPREAD = 0.3  # and its standard deviation over them
# Of the log amplitude between kinds of shift, about that of `UNLIKE`: what is not known where no kind was told.
SHIFT_SPREAD: dict[Outcome, float] = {"forgetting": 0.45, "gain": 0.9}
LEFT_EXPONENT = 0.35  # exponent of what a base model of so many tokens per parameter has left to learn
# E-folds of size, budget, tokens, replay (from its first twentieth on) and rate over which what is peculiar to a study
# fades: it is never the same curve times a number. Of 4, 10, 20, 40 and no end 4 has the least interval score over
# forecasts from few runs (`python -m studies few_runs`), on five tables of ours and on public ones of 20M to 150M.
SIMILARITY_EFOLDS, REPLAY_OFFSET = 4.0, 0.05
FLOOR = 0.004  # standard deviation of one outcome, at most a quarter of it: seeds, and two printed decimals of a loss


@dataclass(frozen=True)
class Learned:
    """One outcome's numbers, as learned from the studies.

    Parameters
    ----------
    mean, covariance
        Of the coefficients of log amplitude and log reach, and of c, in the order of `FEATURES`: (22,) and (22, 22).
    back, back_tiny
        k, of models from 10M parameters on, and what is added to it below 1M; zero for the gain.
    own_gain
        s; zero for the gain.
    undecayed
        Added to forgetting where the rate is not decayed at the end, times the rate over the peak of pre-training.
    between_amplitude, between_reach, between_back
        Standard deviations between studies of log amplitude, log reach and k.
    noise
        Relative standard deviation of one measured outcome.
    studies
        What was learned from: name, kind, source, rows.
    """

    mean: Array
    covariance: Array
    back: float
    back_tiny: float
    own_gain: float
    undecayed: float
    between_amplitude: float
    between_reach: float
    between_back: float
    noise: float
    studies: tuple[Mapping[str, Any], ...]

    def joint(self, outcome: Outcome, frame: AnyRows) -> Array:
        """Return the covariance (n, n) of the logs of the first part of an outcome, at rows of one new study."""
        at = _Curve.of(self, outcome, frame)
        places = coordinates_of(frame)
        between = self.between_amplitude**2 + self.between_reach**2 * np.outer(at.slope, at.slope)
        everywhere = at.gradient @ self.covariance @ at.gradient.T
        return np.asarray(everywhere + between * similarity(places, places) + self.noise**2 * np.eye(len(frame)))


@cache
def learned(outcome: Outcome) -> Learned:
    """Return what was learned about an outcome; the file is part of the package."""
    return from_json(document("studies.json")[outcome])


def from_json(saved: Mapping[str, Any]) -> Learned:
    """Return an outcome's numbers from their JSON."""
    scalars = {name: saved[name] for name in SCALARS}
    return Learned(
        mean=np.array([saved["coefficients"][name] for name in FEATURES]),
        covariance=np.array(saved["covariance"]),
        studies=tuple(saved["studies"]),
        **scalars,
    )


def check_shift(shift: str | None) -> str | None:
    """Return a kind of shift that studies are known of, or None where none was told.

    Raises
    ------
    UsageError
        If there is no such kind.
    """
    if shift is None or shift in SHIFTS:
        return shift
    raise UsageError(f"shift (--shift): {shift!r}. Expected {', '.join(SHIFTS)}.{did_you_mean(str(shift), SHIFTS)}")


SCALARS = ("back", "back_tiny", "own_gain", "undecayed", "between_amplitude", "between_reach", "between_back", "noise")


def typical_peak(n_params: ArrayLike) -> Array:
    """Return the peak rate that a model of this size is usually pre-trained with."""
    return np.asarray(3e-4 * (np.asarray(n_params, dtype=float) / 1e9) ** -0.2)


def features(frame: AnyRows) -> tuple[Array, Array]:
    """Return the columns of log amplitude, shape (n, 15), and of log reach, shape (n, 6).

    Parameters
    ----------
    frame
        Rows with n_params, tokens, replay, ptpp, ``shift``, ``lr_peak``, ``lr_pretrain`` and ``novelty``; rates and
        novelty (see the head of this file) may be NaN.
    """
    shift = np.asarray(frame["shift"], dtype=str)
    for kind in sorted(set(shift)):
        check_shift(kind)
    n, tokens, ptpp = (np.asarray(frame[name], dtype=float) for name in ("n_params", "tokens", "ptpp"))
    one = np.ones(len(frame))
    knots = np.eye(len(DECADES))
    walk = [np.interp(np.log10(n), DECADES, knots[place]) for place, decade in enumerate(DECADES) if decade != 9]
    budget = -np.log1p(200.0 / ptpp)  # levels off: bases of some hundred tokens per parameter hardly differ
    peak, pretrain = _rates(frame)
    relative = np.log(peak / pretrain / TYPICAL_RATE)
    low = np.log1p(HALF_GAIN_RATE / TYPICAL_RATE) - np.log1p(HALF_GAIN_RATE * pretrain / peak)
    novelty = np.nan_to_num(np.asarray(frame["novelty"], dtype=float) - TYPICAL_NOVELTY)
    kinds = [(shift == name).astype(float) for name in SHIFTS]
    reach = [one, np.log(tokens / n / 10.0), np.log(n / 1e9), relative, np.log(pretrain / 3e-4), budget]
    return np.column_stack([one, *kinds, *walk, budget, relative, low, novelty]), np.column_stack(reach)


def _rates(frame: AnyRows) -> tuple[Array, Array]:
    pretrain = np.asarray(frame["lr_pretrain"], dtype=float)
    pretrain = np.where(np.isnan(pretrain), typical_peak(frame["n_params"]), pretrain)
    peak = np.asarray(frame["lr_peak"], dtype=float)
    return np.where(np.isnan(peak), TYPICAL_RATE * pretrain, peak), pretrain


def left_to_learn(frame: AnyRows) -> Array:
    """Return p, what the replay brings as further pre-training, before its factor s, shape (n,)."""
    names = "replay", "tokens", "n_params", "ptpp"
    replay, tokens, n, ptpp = (np.asarray(frame[name], dtype=float) for name in names)
    return np.asarray((ptpp / 100.0) ** -LEFT_EXPONENT * (1.0 - (1.0 + replay * tokens / n / ptpp) ** -LEFT_EXPONENT))


def undecayed(frame: AnyRows) -> Array:
    """Return the rate over the peak of pre-training where it is not decayed at the end, else 0, shape (n,)."""
    peak, pretrain = _rates(frame)
    return np.asarray(np.asarray(frame["constant"], dtype=float) * peak / pretrain)


def learned_of_replay(frame: AnyRows, gain: Learned) -> tuple[Array, Array]:
    """Return the gain on a replayed corpus that the base model has never read, as of a new text near the old one.

    Parameters
    ----------
    frame
        As `features` takes it, with ``unread``: 1 where the corpus was not read, else 0.
    gain
        The numbers of the gain.

    Returns
    -------
    tuple of arrays
        The median, and the standard deviation of its log; both of shape (n,).
    """
    replay, tokens = (np.asarray(frame[name], dtype=float) for name in ("replay", "tokens"))
    unread = (np.asarray(frame["unread"]) > 0) & (replay > 0)
    if not unread.any():
        return np.zeros(len(frame)), np.zeros(len(frame))
    read = frame.assign(shift="near", novelty=np.nan, tokens=np.maximum(tokens * replay, 1.0))
    outlook = expected("gain", read.assign(replay=0.0), gain)
    return outlook.shift_part * unread, outlook.spread


def tiny_share(n_params: ArrayLike) -> Array:
    """Return 1 for models up to 1M parameters, 0 from 10M on."""
    return np.asarray(np.clip(7.0 - np.log10(np.asarray(n_params, dtype=float)), 0.0, 1.0))


@dataclass(frozen=True)
class CurveShape:
    """An outcome without its amplitude, at some rows; arrays of shape (n,).

    Parameters
    ----------
    log, regained
        The logarithm that the amplitude multiplies, and r y / (1 + r y), zero for the gain.
    log_by_reach, regained_by_reach, log_by_cutoff, regained_by_cutoff
        Their derivatives, in log reach and in c.
    """

    log: Array
    regained: Array
    log_by_reach: Array
    regained_by_reach: Array
    log_by_cutoff: Array
    regained_by_cutoff: Array

    @classmethod
    def of(cls, outcome: Outcome, replay: Array, reach: Array, cutoff: float) -> CurveShape:
        """Return the shape of an outcome at replays and reaches, (n,)."""
        if outcome == "gain":
            read, none = (1.0 - replay) * reach, np.zeros(len(reach))
            return cls(np.log1p(read), none, read / (1.0 + read), none, none, none)
        grown = (1.0 + reach) ** cutoff
        held = (grown - 1.0) / cutoff
        by_reach = reach * grown / (1.0 + reach)
        by_cutoff = (grown * np.log1p(reach) - held) / cutoff
        share = replay / (1.0 + replay * held)
        return cls(
            np.log1p(reach) - np.log1p(replay * held),
            share * held,
            reach / (1.0 + reach) - share * by_reach,
            share * by_reach / (1.0 + replay * held),
            -share * by_cutoff,
            share * by_cutoff / (1.0 + replay * held),
        )


@dataclass(frozen=True)
class _Curve:
    """The parts of an outcome at some rows: each of shape (n,) but the gradient, (n, features).

    Parameters
    ----------
    amplitude, reach
        a and x.
    log
        The logarithm that a multiplies.
    slope
        Derivative of log(log) in log reach.
    regained
        r y / (1 + r y), zero for the gain.
    gradient
        Of the log of the first part, in the coefficients.
    """

    amplitude: Array
    reach: Array
    log: Array
    slope: Array
    regained: Array
    gradient: Array

    @property
    def noise_floor(self) -> Array:
        """Standard deviation of one outcome by seeds and printed decimals, (n,)."""
        return np.asarray(np.minimum(FLOOR, 0.25 * self.amplitude * self.log))

    @classmethod
    def of(cls, law: Learned, outcome: Outcome, frame: AnyRows) -> _Curve:
        amplitude, reach = features(frame)
        split = len(AMPLITUDE)
        x = np.exp(reach @ law.mean[split:-1])
        at = CurveShape.of(outcome, np.asarray(frame["replay"], dtype=float), x, law.mean[-1])
        ones, some = np.ones(len(frame)), at.log > 1e-12
        slope = np.divide(at.log_by_reach, at.log, out=ones, where=some)
        bend = np.divide(at.log_by_cutoff, at.log, out=0.0 * ones, where=some)
        gradient = np.column_stack([amplitude, slope[:, None] * reach, bend])
        return cls(np.exp(amplitude @ law.mean[:split]), x, at.log, slope, at.regained, gradient)


@dataclass(frozen=True)
class Outlook:
    """An outcome at some rows before anything was run; arrays of shape (n,).

    Parameters
    ----------
    shift_part, spread
        The part that the shift to the new text causes, and the standard deviation of its log.
    added, added_spread
        What is added to it, and the standard deviation of that.
    replay_gain, replay_gain_spread
        The gain of the replayed corpus, taken from it (`learned_of_replay`), and the standard deviation of its log.
    """

    shift_part: Array
    spread: Array
    added: Array
    added_spread: Array
    replay_gain: Array | float = 0.0
    replay_gain_spread: Array | float = 0.0

    def quantile(self, probability: ArrayLike) -> Array:
        """Return the outcome that is not exceeded with this probability, shape (n,).

        The distances from the median of all parts are added in quadrature, each end by itself.
        """
        far = special.ndtri(np.asarray(probability, dtype=float))
        away = np.hypot(self.shift_part * np.expm1(far * self.spread), far * self.added_spread)
        away = np.hypot(away, self.replay_gain * np.expm1(-far * self.replay_gain_spread))
        return np.asarray(self.shift_part + self.added - self.replay_gain + np.sign(far) * away)

    def fall(self, probability: float) -> Array:
        """Return, for the gain, the relative fall of the loss that is not exceeded with this probability."""
        return np.asarray(-np.expm1(-self.quantile(probability)))

    def probability_below(self, limit: float) -> Array:
        """Return the probability that the outcome is at most a limit, shape (n,): quantiles, inverted by bisection."""
        low, high = np.full(len(self.shift_part), -8.0), np.full(len(self.shift_part), 8.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self.quantile(special.ndtr(middle)) <= limit
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(special.ndtr(0.5 * (low + high)))


def _missing_input_spreads(law: Learned, at: _Curve, frame: AnyRows) -> list[Array]:
    """Return the standard deviations of the log of the first part that follow from inputs left out, (n,) each.

    Novelty, peak rate and peak of pre-training are one unknown number each, the same for all rows.
    """
    peak, pretrain = _rates(frame)
    coefficient = dict(zip(FEATURES, law.mean, strict=True))
    # Derivatives in the logs of the relative rate and of the peak of pre-training.
    relative = at.slope * coefficient["reach_relative_rate"] + coefficient["amplitude_relative_rate"]
    relative = relative + coefficient["amplitude_low_rate"] * HALF_GAIN_RATE / (HALF_GAIN_RATE + peak / pretrain)
    absolute = at.slope * coefficient["reach_rate"]
    no_peak, no_pretrain, no_losses = (
        np.isnan(np.asarray(frame[name], dtype=float)) * 1.0 for name in ("lr_peak", "lr_pretrain", "novelty")
    )
    return [
        no_losses * coefficient["amplitude_novelty"] * NOVELTY_SPREAD,
        no_peak * relative * RATE_SPREAD,
        # Where the rate is known and that of pre-training is not, both the ratio and the peak are in doubt.
        no_pretrain * (absolute - (1.0 - no_peak) * relative) * PEAK_SPREAD,
    ]


def expected(outcome: Outcome, frame: AnyRows, law: Learned | None = None, gain: Learned | None = None) -> Outlook:
    """Return an outcome at rows of a study that nobody has made yet.

    Parameters
    ----------
    frame
        As `features` takes it, and where known ``constant``: 1 where the rate is not decayed at the end, ``unread``: 1
        where the base model has never read the replayed corpus.
    law, gain
        Other numbers than those of the package: of the outcome, and of the gain.
    """
    chosen = law or learned(outcome)
    at = _Curve.of(chosen, outcome, frame)
    return _outlook(chosen, outcome, at, frame, _missing_input_spreads(chosen, at, frame), gain)


def _outlook(
    chosen: Learned, outcome: Outcome, at: _Curve, frame: AnyRows, missing: list[Array], gain: Learned | None = None
) -> Outlook:
    variance = np.einsum("ij,jk,ik->i", at.gradient, chosen.covariance, at.gradient) + chosen.noise**2
    variance += chosen.between_amplitude**2 + (at.slope * chosen.between_reach) ** 2
    for cause in missing:
        variance += cause**2
    back = chosen.back + chosen.back_tiny * tiny_share(frame["n_params"])
    added = -at.amplitude * back * at.regained
    if outcome == "forgetting":
        added = added - chosen.own_gain * left_to_learn(frame) * at.reach / (1.0 + at.reach)
    replay_gain: tuple[Array | float, Array | float] = (0.0, 0.0)
    if outcome == "forgetting" and "unread" in frame.columns:
        replay_gain = learned_of_replay(frame, gain or learned("gain"))
    if "constant" in frame.columns:
        added = added + chosen.undecayed * undecayed(frame)
    wide = np.hypot(chosen.between_back * at.amplitude * at.regained, at.noise_floor)
    return Outlook(at.amplitude * at.log, np.sqrt(variance), added, wide, *replay_gain)


@dataclass(frozen=True)
class Doubt:
    """Covariance of n rows: by what nobody knows anywhere, what is peculiar to a study, and what each has of its own.

    The second is shared the less the farther rows lie apart: a study is never the usual curve times a number.
    """

    everywhere: Array  # loadings, (n, causes)
    peculiar: Array  # the same, (n, causes)
    own: Array  # (n,)
    places: Array  # (n, 5), as `coordinates_of` returns them

    def shared_with(self, some: slice) -> Array:
        """Return the covariance of what all rows share with some of them, (n, m)."""
        peculiar = self.peculiar @ self.peculiar[some].T * similarity(self.places, self.places[some])
        return np.asarray(self.everywhere @ self.everywhere[some].T + peculiar)

    @property
    def variance(self) -> Array:
        """The variance of each row, (n,)."""
        return np.asarray(np.sum(self.everywhere**2, axis=1) + np.sum(self.peculiar**2, axis=1) + self.own)

    def at_trained(self, trained: NDArray[np.bool_]) -> Doubt:
        """Return the same where rows are trained, and no doubt that is shared where they are not, (n,)."""
        at = trained[:, None]
        return replace(self, everywhere=np.where(at, self.everywhere, 0.0), peculiar=np.where(at, self.peculiar, 0.0))

    @property
    def matrix(self) -> Array:
        """The covariance, (n, n)."""
        return self.shared_with(slice(None)) + np.diag(self.own)


def coordinates_of(frame: AnyRows) -> Array:
    """Return where rows lie: logs of size, budget, tokens, replay and peak rate, (n, 5)."""
    columns = [np.asarray(frame[name], dtype=float) for name in ("n_params", "ptpp", "tokens")]
    replay, peak = np.asarray(frame["replay"], dtype=float) + REPLAY_OFFSET, _rates(frame)[0]
    return np.asarray(np.log(np.column_stack([*columns, replay, peak])), dtype=float)


def similarity(at: Array, others: Array) -> Array:
    """Return how far what is peculiar to a study is the same at places and others, (n, m): 1 at one, 0 far apart."""
    return np.asarray(np.exp(-np.abs(at[:, None] - others[None]).sum(axis=2) / SIMILARITY_EFOLDS))


def changes(
    outcome: Outcome, frame: AnyRows, *, shift_given: bool = True, amplitude: float = 1.0
) -> tuple[Array, Array, Doubt]:
    """Return the log of a loss over the base model's at rows of one new study: mean, slope, (n,) each, and doubt.

    Medians of `expected`, and the sum of `doubt_of_changes`, which says what the arguments are. The slope is that of
    the change in the log amplitude.

    Parameters
    ----------
    amplitude
        Times the usual one, about which the logs are taken for straight: the mean is that of a study with the usual
        one still, the slope and the doubt are those of a study with this one.
    """
    median, slope, doubts = _median_and_doubts(outcome, frame, shift_given, amplitude)
    centre, parts = -median if outcome == "gain" else np.log1p(median), doubts.values()
    everywhere, peculiar = (np.hstack([getattr(one, name) for one in parts]) for name in ("everywhere", "peculiar"))
    doubt = Doubt(everywhere, peculiar, np.sum([one.own for one in parts], axis=0), coordinates_of(frame))
    return centre - np.log(amplitude) * slope, slope, doubt


def doubt_of_changes(outcome: Outcome, frame: AnyRows, shift_given: bool = True) -> dict[str, Doubt]:
    """Return the doubt of the log of a loss over the base model's by its parts, for small changes.

    ``parameters``: of the coefficients, and of what all rows of a study share and nobody gave, such as rates. ``form``:
    by what studies differ. ``noise``: of one measured outcome.

    Parameters
    ----------
    frame
        As `expected` takes it; all rows trained.
    shift_given
        Whether the kind of shift was told; else the spread between kinds is added.
    """
    return _median_and_doubts(outcome, frame, shift_given)[2]


def _median_and_doubts(
    outcome: Outcome, frame: AnyRows, shift_given: bool, amplitude: float = 1.0
) -> tuple[Array, Array, dict[str, Doubt]]:
    chosen = learned(outcome)
    at = _Curve.of(chosen, outcome, frame)
    at = replace(at, amplitude=amplitude * at.amplitude)
    missing = _missing_input_spreads(chosen, at, frame)
    outlook = _outlook(chosen, outcome, at, frame, missing)
    between = [np.full(len(frame), chosen.between_amplitude), at.slope * chosen.between_reach]
    of_shift = np.full(len(frame), 0.0 if shift_given else SHIFT_SPREAD[outcome])
    median = outlook.shift_part + outlook.added - outlook.replay_gain
    scale = np.ones(len(frame)) if outcome == "gain" else 1.0 / (1.0 + median)
    of_shift_part = scale * outlook.shift_part
    coefficients = at.gradient @ np.linalg.cholesky(chosen.covariance)
    regained = scale * chosen.between_back * at.amplitude * at.regained
    replay_gain = scale * outlook.replay_gain * outlook.replay_gain_spread
    floor = scale * at.noise_floor
    none, no_cause, places = np.zeros(len(frame)), np.zeros((len(frame), 0)), coordinates_of(frame)
    peculiar = np.column_stack([*(of_shift_part * one for one in between), regained])
    of_study = np.column_stack([of_shift_part * of_shift, replay_gain])
    slope = -of_shift_part if outcome == "gain" else of_shift_part
    parts = {
        "parameters": Doubt(of_shift_part[:, None] * np.column_stack([coefficients, *missing]), no_cause, none, places),
        "form": Doubt(of_study, peculiar, none, places),
        "noise": Doubt(no_cause, no_cause, (of_shift_part * chosen.noise) ** 2 + floor**2, places),
    }
    return median, slope, parts


def posterior_spread(joint: Array, asked: int, pilots: Sequence[int]) -> Array:
    """Return the spread at rows once pilots have been measured, whatever they will say.

    In a Gaussian model what is measured moves the centre; how much it narrows is known beforehand.

    Parameters
    ----------
    joint
        Covariance of `Learned.joint`, those rows first.
    asked, pilots
        How many rows they are, and the places of the pilots.
    """
    across = joint[:asked][:, pilots]
    gained = across @ np.linalg.solve(joint[np.ix_(pilots, pilots)], across.T)
    return np.asarray(np.sqrt(np.diag(joint[:asked, :asked] - gained)))


def rows_of(
    shift: str,
    n_params: float,
    ptpp: float,
    mixes: Sequence[tuple[float, float]],
    lr_peak: float | None = None,
    lr_pretrain: float | None = None,
    *,
    novelty: float | None = None,
    unread: bool = False,
) -> pd.DataFrame:
    """Return rows of one model at several mixes, given as (replay, tokens)."""
    return pd.DataFrame(
        {
            "shift": shift,
            "n_params": float(n_params),
            "ptpp": float(ptpp),
            "replay": [float(replay) for replay, _ in mixes],
            "tokens": [float(tokens) for _, tokens in mixes],
            "lr_peak": np.nan if lr_peak is None else float(lr_peak),
            "lr_pretrain": np.nan if lr_pretrain is None else float(lr_pretrain),
            "novelty": np.nan if novelty is None else float(novelty),
            "unread": float(unread),
        }
    )
