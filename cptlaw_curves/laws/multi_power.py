"""The multi-power law of loss curves (Luo et al. 2025, arXiv:2503.12811)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import DataError
from cptlaw.laws.base import Amplitude, Role, Shape
from cptlaw.laws.calculus import Array, Computed, Jet, Letters, Number, Value, exp, log
from cptlaw.schedules import LAMBDA, Schedule, effective_lr
from cptlaw_curves.laws.annealing import ANNEALED, CURVE_EXPONENT
from cptlaw_curves.laws.curve_law import SKIP_STEPS, WARMUP, CurveLaw
from cptlaw_curves.laws.lr_drops import Drops, drops_of

# Where the authors' protocol starts, and near which its early stop leaves the three that may be held.
POWER = Shape(0.02, 20.0, start=(0.3, 0.9), usual=(0.5, 0.15))
FACTOR = Shape(1e-3, 1e4, start=(0.5, 5.0), usual=(1.0, 0.5))


class MultiPower(CurveLaw):
    """L(t) = L0 + A S1^-alpha - B sum of the drops of the learning rate, each taking effect by a power law.

    A drop from eta_{k-1} to eta_k lowers the loss by B (eta_{k-1} - eta_k) (1 - (1 + C eta_k^-gamma S_k)^-beta), S_k
    being the forward area since. Rises raise it in the same way. The published coefficients count the warm-up with all
    its steps, rises included, as the authors' code does (the paper's formula starts after it); so ``warmup=actual`` is
    the default here, and leaving the warm-up out with these coefficients misses by 0.11 nats.
    """

    name = "multi-power"
    right = "One training from scratch under schedules of several shapes; the effect of each drop of the rate in time."
    wrong = "A change of corpus. Few curves: hold C, beta and gamma."
    measured = (
        "Public curves of 25M to 210M parameters: 0.004 to 0.014 nats on schedules that were not fitted "
        "(studies/dynamics.md)."
    )
    order = 60
    equation = (
        "L = L0 + A S1^-alpha - B sum_k (eta_{k-1} - eta_k) (1 - (1 + C eta_k^-gamma S_k)^-beta),  "
        "S_k = sum_{i=k..t} eta_i"
    )
    source = "Luo et al. 2025, arXiv:2503.12811, and the authors' code"
    inputs = ("s1",)
    areas_read = ("s1",)
    amplitudes = (
        Amplitude("L0", plausible=(2.0, 3.5), usual=(0.85, 0.15, "share")),
        Amplitude("A", usual=(0.1, 0.8, "share")),
        Amplitude("B", plausible=(50.0, 500.0), usual=ANNEALED),
    )
    shapes = {"alpha": replace(CURVE_EXPONENT, usual=(0.5, 0.1)), "C": FACTOR, "beta": POWER, "gamma": POWER}
    decreasing = ("s1",)
    vanishing = {"s1": ("A",)}
    diverges_at_zero = ("s1",)
    starts = 4  # each costs a sum over the schedule at every point; on the public curves 64 of 64 agree
    choices = {"warmup": replace(WARMUP, default="actual"), "skip_steps": SKIP_STEPS}
    decay, boundary, decay_unit = LAMBDA, "origin", "step"  # it reads no annealing areas

    def configure(self) -> None:
        """Read the changes of the learning rate beside the area."""
        self.objects = ("lr_drops",)

    def read(self, schedule: Schedule, at: NDArray[np.intp]) -> dict[str, Array]:
        """Return S1 and the nodes of the sum at steps counted across the phases."""
        lr = effective_lr(schedule, self.warmup)
        rows = np.empty(len(at), dtype=object)
        rows[:] = drops_of(lr, at)
        return {"s1": np.cumsum(lr)[at], "lr_drops": rows}

    def bind(self, frame: pd.DataFrame, role: Role | None = None) -> Letters:
        """Turn rows into the law's inputs."""
        x = super(CurveLaw, self).bind(frame, role)
        if "lr_drops" not in frame.columns:
            raise DataError(
                f"law {self.name} reads each change of the learning rate: rows get them by law.attach(rows, schedules)."
            )
        x.lr_drops = Drops.of_rows(list(frame["lr_drops"]))
        return x

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the constant, the forward term and the sum over all changes."""
        return 1.0, x.S1**-p.alpha, effect(vars(x)["lr_drops"], p.C, p.beta, p.gamma)


def effect(nodes: Drops, factor: Value, bend: Value, power: Value) -> Computed:
    """Return the sum of (eta_k - eta_{k-1}) (1 - (1 + C eta_k^-gamma S_k)^-beta) by row, (s, n) or (n,).

    Parameters
    ----------
    factor, bend, power
        C, beta and gamma: numbers, or arrays or Jets of shape (s, 1). One parameter vector is worked on at a time, as
        each has some hundred nodes per row.
    """
    given = (factor, bend, power)
    count = max(len(np.atleast_1d(np.asarray(value.value if isinstance(value, Jet) else value))) for value in given)
    sums = [_effect_of_one(nodes, *(_pick(value, i) for value in given)) for i in range(count)]
    jets = [one for one in sums if isinstance(one, Jet)]
    if not jets:
        several = any(np.ndim(np.asarray(value)) for value in given)
        return np.stack([np.asarray(one) for one in sums]) if several else sums[0]
    slopes: dict[int, Number] = {i: np.stack([one.slopes[i] for one in jets]) for i in jets[0].slopes}
    curves: dict[tuple[int, int], Number] | None = None
    if jets[0].curves is not None:
        curves = {pair: np.stack([(one.curves or {})[pair] for one in jets]) for pair in jets[0].curves}
    return Jet(np.stack([one.value for one in jets]), slopes, curves)


def _effect_of_one(nodes: Drops, factor: Value, bend: Value, power: Value) -> Computed:
    # In logarithms: where a schedule comes down to zero eta^-gamma is beyond all floats.
    u = log(factor) - power * nodes.log_rate + nodes.log_area
    effect = 1.0 - exp(-bend * _softplus(u))
    if not isinstance(effect, Jet):
        return nodes.sum(effect)
    curves: dict[tuple[int, int], Number] | None = None
    if effect.curves is not None:
        curves = {pair: nodes.sum(part) for pair, part in effect.curves.items()}
    return Jet(nodes.sum(effect.value), {i: nodes.sum(part) for i, part in effect.slopes.items()}, curves)


def _softplus(u: Computed) -> Computed:
    """Return log(1 + e^u), which is log(1 + C eta^-gamma S)."""
    value = u.value if isinstance(u, Jet) else u
    # Beyond the clip a change has had its whole effect. No log1p: 1e-16 of the effect is enough, and log is far faster.
    one_more = 1.0 + np.exp(np.minimum(value, 700.0))
    if not isinstance(u, Jet):
        return np.log(one_more)
    rest = 1.0 / one_more
    return u.chain(np.log(one_more), 1.0 - rest, None if u.curves is None else rest - rest * rest)


def _pick(value: Value, i: int) -> Value:
    """Return one of s parameter vectors, as a number or a Jet of numbers."""
    if not isinstance(value, Jet):
        numbers = np.ravel(np.asarray(value))
        return value if not np.ndim(np.asarray(value)) else float(numbers[min(i, len(numbers) - 1)])

    def one(part: Number) -> Number:
        return np.float64(np.ravel(part)[min(i, np.size(part) - 1)])

    curves = None if value.curves is None else {pair: one(part) for pair, part in value.curves.items()}
    return Jet(one(value.value), {j: one(part) for j, part in value.slopes.items()}, curves)
