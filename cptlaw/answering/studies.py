"""What the studies of continual pre-training that can be read say before anything has been run.

Forgetting (the relative rise of the source loss) and gain (log of the base model's target loss over the target loss)
of all rows of all studies are one hierarchical regression:

    log(outcome + offset) = x beta + (u0 + u1 m + u2 log(tokens per parameter)) of the study
                            + v of the base model + e

where m is what the mix does: -log of the share of the corpus whose loss it is, source or target. Every study has
effects of its own, whose spread between studies is learned, so that a study nobody has made yet gets an interval as
wide as studies differ. A few pilot runs tell the effects of one's own study: `narrowed` conditions on them.
`python -m studies learn_studies` rebuilds the numbers beside this file; no rows of others' tables are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import special

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.laws.calculus import Array

Outcome = Literal["forgetting", "gain"]
SHIFTS = ("language", "domain", "code", "near")
FEATURES = ("one", "mix", "tokens", "budget", "rate", "near", "mix_x_budget")
EFFECTS = ("one", "mix", "tokens")  # what differs between studies
SHARE_SCALE = 0.02  # added to a share, so that none at all is finite: the first percent of replay does most
SELF_EXPONENT = 0.12  # of the source loss in the tokens that the replay adds to those of pre-training
TRANSFER = 0.05  # spread per e-fold of tokens between a pilot and what is asked, as between studies' token effects
RATE = 1.0  # of the highest rate of pre-training, where nothing is known of the rate


@dataclass(frozen=True)
class Learned:
    """One outcome's regression, as learned from the studies.

    Parameters
    ----------
    offset
        Added to the outcome before its logarithm is taken.
    mean, covariance
        Of the coefficients, in the order of `FEATURES`, shapes (7,) and (7, 7).
    between
        Standard deviations between studies, in the order of `EFFECTS`.
    of_base, noise
        Standard deviations between base models of a study, and of one measured outcome.
    studies
        What was learned from: name, kind, source, rows.
    """

    offset: float
    mean: Array
    covariance: Array
    between: Array
    of_base: float
    noise: float
    studies: tuple[Mapping[str, Any], ...]

    def to_axis(self, outcome: Any) -> Array:
        """Return the outcome on the axis of the regression."""
        return np.asarray(np.log(np.maximum(np.asarray(outcome, dtype=float) + self.offset, 1e-3)))

    def from_axis(self, value: Any) -> Array:
        """Return the outcome from its place on the axis."""
        return np.asarray(np.exp(value) - self.offset)

    def joint(self, outcome: Outcome, frame: pd.DataFrame, noisy: bool = True) -> tuple[Array, Array]:
        """Return mean (n,) and covariance (n, n) on the axis, of rows of one new study.

        Parameters
        ----------
        frame
            Rows with n_params, tokens, replay, ptpp, ``shift`` and, where known, ``rate``.
        noisy
            Whether the noise of a measurement counts.
        """
        x, z = features(outcome, frame), effects(outcome, frame)
        spread = x @ self.covariance @ x.T + (z * self.between**2) @ z.T
        bases = frame[["n_params", "ptpp"]].astype(float).to_numpy()
        spread += self.of_base**2 * (bases[:, None] == bases[None]).all(axis=2)
        return x @ self.mean, spread + (self.noise**2 if noisy else 0.0) * np.eye(len(frame))


@cache
def learned(outcome: Outcome) -> Learned:
    """Return what was learned about an outcome; the file is part of the package."""
    found = json.loads(resources.files("cptlaw.answering").joinpath("studies.json").read_text(encoding="utf-8"))
    return from_json(found[outcome])


def from_json(found: Mapping[str, Any]) -> Learned:
    """Return a regression from its JSON."""
    return Learned(
        offset=found["offset"],
        mean=np.array([found["coefficients"][name] for name in FEATURES]),
        covariance=np.array(found["covariance"]),
        between=np.array([found["between_studies"][name] for name in EFFECTS]),
        of_base=found["between_base_models"],
        noise=found["noise"],
        studies=tuple(found["studies"]),
    )


def features(outcome: Outcome, frame: pd.DataFrame) -> Array:
    """Return the columns of the regression, shape (n, features)."""
    shift = frame["shift"].astype(str)
    unknown = [name for name in shift.unique() if name not in SHIFTS]
    if unknown:
        raise UsageError(
            f"shift (--shift): {unknown[0]!r}. Expected {', '.join(SHIFTS)}.{did_you_mean(unknown[0], SHIFTS)}"
        )
    mix, tokens = _mix_and_tokens(outcome, frame)
    budget = np.log(frame["ptpp"].to_numpy(dtype=float) / 200.0)
    rate = frame["rate"].to_numpy(dtype=float) if "rate" in frame.columns else np.full(len(frame), RATE)
    rate = np.log(np.where(np.isfinite(rate), rate, RATE))
    near = (shift == "near").to_numpy(dtype=float)
    return np.column_stack([np.ones(len(frame)), mix, tokens, budget, rate, near, mix * budget])


def effects(outcome: Outcome, frame: pd.DataFrame) -> Array:
    """Return the columns of what differs between studies, shape (n, effects)."""
    mix, tokens = _mix_and_tokens(outcome, frame)
    return np.column_stack([np.ones(len(frame)), mix, tokens])


def _mix_and_tokens(outcome: Outcome, frame: pd.DataFrame) -> tuple[Array, Array]:
    replay = frame["replay"].to_numpy(dtype=float)
    share = replay if outcome == "forgetting" else 1.0 - replay
    per_parameter = frame["tokens"].to_numpy(dtype=float) / frame["n_params"].to_numpy(dtype=float)
    return -np.log((share + SHARE_SCALE) / (1.0 + SHARE_SCALE)), np.log(per_parameter / 10.0)


def own_gain(frame: pd.DataFrame) -> Array:
    """Return the relative fall of the source loss by training on with source text alone, shape (n,).

    Replay is more pre-training: it adds replay x tokens to those that the base model has seen. What is left of the
    forgetting is the shift, which the regression describes; this part would turn its sign at small budgets.
    """
    replay, tokens, n, budget = (frame[name].to_numpy(dtype=float) for name in ("replay", "tokens", "n_params", "ptpp"))
    return np.asarray(1.0 - (1.0 + replay * tokens / (n * budget)) ** -SELF_EXPONENT)


@dataclass(frozen=True)
class Outlook:
    """An outcome at some rows before anything was run, or after pilots.

    Parameters
    ----------
    law
        The regression.
    centre, spread
        On its axis, shapes (n,).
    own
        What replay adds as more pre-training (`own_gain`); zero for the gain of the target.
    """

    law: Learned
    centre: Array
    spread: Array
    own: Array

    def quantile(self, probability: float) -> Array:
        """Return the outcome that is not exceeded with this probability, shape (n,)."""
        far = float(special.ndtri(probability))
        return self.law.from_axis(self.centre + far * self.spread) - self.own

    def fall(self, probability: float) -> Array:
        """Return, for the gain, the relative fall of the loss that is not exceeded with this probability."""
        return np.asarray(-np.expm1(-self.quantile(probability)))

    def probability_below(self, limit: float) -> Array:
        """Return the probability that the outcome is at most a limit, shape (n,)."""
        far = (self.law.to_axis(limit + self.own) - self.centre) / self.spread
        return np.asarray(special.ndtr(far))


def expected(outcome: Outcome, frame: pd.DataFrame, law: Learned | None = None) -> Outlook:
    """Return an outcome at rows of a study that nobody has made yet."""
    chosen = law or learned(outcome)
    centre, spread = chosen.joint(outcome, frame)
    return Outlook(chosen, centre, np.sqrt(np.diag(spread)), _own(outcome, frame))


def narrowed(outcome: Outcome, frame: pd.DataFrame, pilots: pd.DataFrame, law: Learned | None = None) -> Array:
    """Return the spread at rows once pilots have been measured, whatever they will say, shape (n,).

    In a Gaussian model what is measured moves the centre; how much it narrows is known beforehand.
    """
    chosen = law or learned(outcome)
    every = pd.concat([frame, pilots], ignore_index=True)
    n = len(frame)
    _, spread = chosen.joint(outcome, every)
    gained = spread[:n, n:] @ np.linalg.solve(spread[n:, n:], spread[n:, :n])
    # A short run tells less of a long one than the studies' own rows do, which are of one length mostly.
    apart = np.log(frame["tokens"].to_numpy(dtype=float) / pilots["tokens"].max())
    left = np.diag(spread[:n, :n] - gained) + (TRANSFER * apart) ** 2
    return np.asarray(np.sqrt(np.clip(left, chosen.noise**2, np.diag(spread[:n, :n]))))


def _own(outcome: Outcome, frame: pd.DataFrame) -> Array:
    return own_gain(frame) if outcome == "forgetting" else np.zeros(len(frame))


def rows_of(shift: str, n_params: float, ptpp: float, mixes: Sequence[tuple[float, float]]) -> pd.DataFrame:
    """Return rows of one model at several mixes, given as (replay, tokens)."""
    return pd.DataFrame(
        {
            "shift": shift,
            "n_params": n_params,
            "ptpp": ptpp,
            "replay": [replay for replay, _ in mixes],
            "tokens": [tokens for _, tokens in mixes],
        }
    )
