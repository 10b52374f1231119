"""Learn how fast laws err with the distance from their data; `uncertainty.discrepancy` describes what is learned.

Every study counts the same, every series of a study, every law of a series, and every rollout of a law. What is
maximised is the predictive density of held-out errors, given residuals and rollouts inside the fitted rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import optimize, special

from cptlaw.fitting.uncertainty.discrepancy import RATES, REFERENCE, Scale
from studies.harness import Array
from studies.learning.learn_rollouts import Roll

NAMES = ("n_params", "tokens", "tokens_per_param", "flops", "ptpp", "pretraining_tokens", "replay", "lr_peak")
MOST_OUTSIDE, MOST_INSIDE = 10, 48  # points of a rollout that are looked at, and of the rollouts inside it
STEPS, STEPS_WITHOUT = 25, 8
# Where the search starts: logs of the weights after the first, then log rate, log sd of the rate, power of the spread,
# log (freedom - 2), log weight of inner rollouts, logit of the power of the distance, log of the factor on the noise.
START = np.array([0, 0, -1.5, 0, 0, 0, 0, np.log(0.015), np.log(0.6), 0.3, np.log(3), np.log(0.3), 2.0, 0.0])
# Standard deviations of weak priors around the start: what no study says stays there.
SPREAD = np.array([1.8] * 7 + [20.0, 0.9, 20.0, 2.2, 2.2, 2.2, 0.5])
LOG_RATES = np.log(RATES)


class Points:
    """All rollouts as flat arrays."""

    def __init__(self, rolls: list[Roll]) -> None:
        self.rolls = rolls
        outside = [_few(len(roll.error), MOST_OUTSIDE) for roll in rolls]
        inside = [_few(len(roll.inner.error), MOST_INSIDE) for roll in rolls]
        self.of = np.repeat(np.arange(len(rolls)), [len(rows) for rows in outside])
        self.inner_of = np.repeat(np.arange(len(rolls)), [len(rows) for rows in inside])
        pairs = list(zip(rolls, outside, strict=True))
        self.error = np.concatenate([roll.error[rows] for roll, rows in pairs])
        self.doubt = np.concatenate([roll.doubt[rows] for roll, rows in pairs])
        self.distance = np.concatenate([_wide(roll.names, roll.distance[rows]) for roll, rows in pairs])
        pairs = list(zip(rolls, inside, strict=True))
        self.inner_error = np.concatenate([roll.inner.error[rows] for roll, rows in pairs])
        self.inner_distance = np.concatenate(
            [_wide(roll.inner.names, roll.inner.distance[rows]) for roll, rows in pairs]
        )
        groups = [roll.inner.group[rows] for roll, rows in pairs]
        self.inner_weight = np.concatenate([1.0 / np.bincount(group)[group] for group in groups])
        self.spread = np.array([roll.spread for roll in rolls])
        self.study = np.array([roll.study for roll in rolls])
        keys = [(roll.study, roll.series, roll.law) for roll in rolls]
        per_law = Counter(keys)
        laws = Counter(key[:2] for key in set(keys))
        series = Counter(study for study, _ in {key[:2] for key in keys})
        weight = np.array([1.0 / series[key[0]] / laws[key[:2]] / per_law[key] for key in keys])
        self.weight = (weight / np.bincount(self.of, minlength=len(rolls)))[self.of]


def _few(count: int, most: int) -> Any:
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)) if count else np.zeros(0, int)


def _wide(names: tuple[str, ...], distance: Array) -> Array:
    found = np.zeros((len(distance), len(NAMES)))
    for i, name in enumerate(names):
        found[:, NAMES.index(name)] = np.abs(distance[:, i])
    return found


def scale_of(at: Array) -> Scale:
    """Return the numbers at a place of the search."""
    weights = np.exp(np.concatenate([[0.0], at[:7]]))
    return Scale(
        weights={name: float(weight) for name, weight in zip(NAMES, weights, strict=True)},
        rate=float(np.exp(at[7])),
        rate_sd=float(np.exp(at[8])),
        rate_power=float(at[9]),
        freedom=float(2.0 + np.exp(at[10])),
        inside=float(np.exp(at[11])),
        power=float(special.expit(at[12])),
        noise=float(np.exp(at[13])),
    )


def shares(points: Points, scale: Scale) -> Array:
    """Return the probability of each rate, (rollouts, rates): `Scale.rates` of all rollouts at once."""
    median = np.log(scale.rate) + scale.rate_power * np.log(points.spread / REFERENCE)
    found = -0.5 * ((LOG_RATES - median[:, None]) / scale.rate_sd) ** 2
    beyond = scale.reach(points.inner_distance, NAMES)
    size = np.hypot((scale.noise * points.spread)[points.inner_of][:, None], beyond[:, None] * RATES)
    density = _log_density(points.inner_error[:, None] / size, scale.freedom) - np.log(size)
    total = np.zeros_like(found)
    np.add.at(total, points.inner_of, points.inner_weight[:, None] * density)
    found += scale.inside * total
    found = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _log_density(z: Array, freedom: float) -> Array:
    norm = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi)
    found: Array = norm - (freedom + 1) / 2 * np.log1p(z * z / freedom)
    return found


def surprise(points: Points, at: Array, belief: tuple[Array, Array] = (START, SPREAD)) -> float:
    """Return minus the weighted log predictive density of the held-out errors, with the priors of the search.

    Parameters
    ----------
    points, at
        The rollouts, and a place of the search.
    belief
        Where the search is held, and the standard deviations around it.
    """
    centre, sd = belief
    scale = scale_of(at)
    own = np.hypot((scale.noise * points.spread)[points.of], points.doubt)
    size = np.hypot(own[:, None], scale.reach(points.distance, NAMES)[:, None] * RATES)
    density = np.exp(_log_density(points.error[:, None] / size, scale.freedom)) / size
    held = np.sum(shares(points, scale)[points.of] * density, axis=1)
    found = -points.weight @ np.log(np.maximum(held, 1e-300)) + 0.5 * np.sum(((at - centre) / sd) ** 2)
    return float(found)


def learn(
    points: Points, start: Array = START, steps: int = STEPS, belief: tuple[Array, Array] = (START, SPREAD)
) -> Array:
    """Search for the numbers that forecast held-out errors best; `belief` as for `surprise`."""
    found = optimize.minimize(
        lambda at: surprise(points, at, belief), start, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-7}
    )
    return np.asarray(found.x)


def half_widths(points: Points, scale: Scale, coverage: float) -> Array:
    """Return the half-width of the interval at each held-out point, as a forecast would have it, (n,)."""
    quantiles = np.array([scale.quantile(share, coverage) for share in shares(points, scale)])
    normal = float(special.stdtrit(10.0, 0.5 + 0.5 * coverage))
    own = normal * np.hypot(points.spread[points.of], points.doubt)
    return np.asarray(np.hypot(own, quantiles[points.of] * scale.reach(points.distance, NAMES)))


def rounded(scale: Scale) -> dict[str, Any]:
    """Return the numbers with the digits that they are worth."""
    plain = asdict(scale)
    plain["weights"] = {name: float(f"{value:.3g}") for name, value in plain["weights"].items()}
    return {name: value if isinstance(value, dict) else float(f"{value:.4g}") for name, value in plain.items()}
