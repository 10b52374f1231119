"""The two areas of a learning-rate schedule that loss-curve laws read: the forward area S1 and the annealing area S2.

    S1(t) = sum_{i<=t} eta_i
    m_i   = lambda m_{i-1} + (eta_{i-1} - eta_i),  m_0 = 0,     S2(t) = sum_{i<=t} m_i

(Tissue et al. 2024, arXiv:2408.11029, eq. 1; split at the start of CPT as in Wang et al. 2025, arXiv:2505.07796.)
Each costs O(T): m is a linear recursion, S1 and S2 are running sums. S1 includes eta_0, as the reference code does.

Axis: ``n`` = steps from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.schedules.schedule import Schedule
from cptlaw.schedules.shapes import Array

# The decay of the momentum m per optimiser step, fixed by the papers.
LAMBDA = 0.999

Warmup = Literal["peak", "actual"]
Boundary = Literal["origin", "carry", "reset_jump", "reset"]
DecayUnit = Literal["step", "tokens"]


@dataclass(frozen=True)
class Areas:
    """Areas at each step, (n,), split by phase.

    Attributes
    ----------
    s1_pretrain, s1_cpt
        Forward areas, learning rate x steps. That of pre-training stays constant in CPT; that of CPT is 0 before.
    s2_pretrain, s2_cpt
        Annealing areas, learning rate x steps; negative after a re-warm-up.
    """

    s1_pretrain: Array
    s1_cpt: Array
    s2_pretrain: Array
    s2_cpt: Array

    @property
    def s1(self) -> Array:
        """Forward area of both phases."""
        return self.s1_pretrain + self.s1_cpt

    @property
    def s2(self) -> Array:
        """Annealing area of both phases."""
        return self.s2_pretrain + self.s2_cpt

    def at(self, steps: NDArray[np.intp]) -> Areas:
        """Return the areas at some steps, counted from 0 across the phases."""
        return Areas(*(part[steps] for part in (self.s1_pretrain, self.s1_cpt, self.s2_pretrain, self.s2_cpt)))


def areas(
    schedule: Schedule,
    decay: float = LAMBDA,
    warmup: Warmup = "peak",
    boundary: Boundary = "origin",
    *,
    decay_unit: DecayUnit = "step",
    lr_power: float = 0.0,
) -> Areas:
    """Return the areas of a schedule at each of its steps.

    Parameters
    ----------
    schedule
        The learning rate of a run.
    decay
        lambda, the momentum's decay per step, in [0, 1].
    warmup
        ``"peak"``: the warm-up of pre-training counts as if it had run at the peak, as in the reference code, so that
        it adds no negative decrement. ``"actual"``: as it ran. A warm-up in CPT always counts as it ran.
    boundary
        What becomes of the momentum where CPT begins, which the paper does not say:

        - ``"origin"`` splits S2 by the phase in which each decrement arose: that of pre-training keeps growing after
          its end, and CPT begins with the difference between the two rates. With C1 = C2 and no shift, Eq. 4 is then
          exactly the law of one run on the concatenated schedule.
        - ``"carry"`` freezes S2 of pre-training and hands its momentum to CPT.
        - ``"reset_jump"`` freezes it and drops the momentum; CPT begins with the difference between the rates.
        - ``"reset"`` drops both.
    decay_unit
        ``"tokens"``: lambda holds per step of the first phase, and is rescaled where a phase has other tokens per step:
        ``lambda^(ratio)``. Not published; the natural choice.
    lr_power
        e of S2 = sum_i m_i eta_i^e (arXiv:2505.07796, eq. 9); 0 is the plain area.

    Raises
    ------
    UsageError
        If an option is unknown, or ``decay_unit="tokens"`` lacks tokens per step.

    Examples
    --------
    >>> from cptlaw.schedules import Phase, Schedule
    >>> toy = Schedule.from_lr([0, 1, 2, 3, 4], [1, 1, .5, .25, .25], phase="pretrain")
    >>> areas(toy, decay=0.9).s2.round(2)
    array([0.  , 0.  , 0.5 , 1.2 , 1.83])
    """
    _check(decay, warmup, boundary, decay_unit)
    lr = effective_lr(schedule, warmup)
    end = schedule.n_pretrain
    decays = [
        (decay ** _steps_ratio(schedule, k, decay_unit), low, high)
        for k, (_, low, high) in enumerate(schedule.segments)
    ]
    # A drop counts above zero, as in the papers; what `momentum` holds is turned from drops into momenta in place.
    momentum = np.concatenate([[0.0], lr[:-1] - lr[1:]])
    if end < schedule.n_steps:  # from the rates themselves: a warm-up that counts at its peak is no drop
        momentum[end + 1] = 0.0 if boundary == "reset" else schedule.lr[end] - schedule.lr[end + 1]
    for factor, low, high in decays:
        # Only carry hands over the momentum of pre-training; origin leaves it to the tail below, which keeps it apart.
        fresh = low == end + 1 and boundary != "carry"
        state = 0.0 if fresh else factor * momentum[low - 1]
        momentum[low : high + 1] = _recursion(momentum[low : high + 1], factor, state)
    tail = np.zeros_like(lr[end:])
    if boundary == "origin" and end:
        # What pre-training's drops still pay during CPT: no new drop joins, the momentum fades by lambda a step.
        tail[0] = momentum[end]
        for factor, low, high in decays:
            if low > end:
                here = slice(low - end, high - end + 1)
                tail[here] = _recursion(tail[here], factor, factor * tail[low - end - 1])
    if lr_power:
        weight = lr**lr_power
        momentum, tail = momentum * weight, tail * weight[end:]
    s1_pretrain, s1_cpt, s2_pretrain, s2_cpt = (np.zeros_like(lr) for _ in range(4))
    if end:
        s1_pretrain[: end + 1] = np.cumsum(lr[: end + 1])
        # Training of the one phase is over: its area stands still while the other grows.
        s1_pretrain[end + 1 :] = s1_pretrain[end]
        s2_pretrain[: end + 1] = np.cumsum(momentum[: end + 1])
        s2_pretrain[end + 1 :] = s2_pretrain[end] + np.cumsum(tail[1:])
    # Entry 0 of a schedule without pre-training is the base model's rate: nothing has been trained there.
    s1_cpt[end + 1 :] = np.cumsum(lr[end + 1 :])
    s2_cpt[end + 1 :] = np.cumsum(momentum[end + 1 :])
    return Areas(s1_pretrain, s1_cpt, s2_pretrain, s2_cpt)


def effective_lr(schedule: Schedule, warmup: Warmup = "peak") -> Array:
    """Return the learning rate that the areas count at each step, (n,).

    With ``warmup="peak"`` the steps of a warm-up of pre-training have the rate at its end.
    """
    first = schedule.phases[0]
    if warmup == "actual" or first.phase != "pretrain" or not first.warmup:
        return schedule.lr
    lr = schedule.lr.copy()
    # The laws have nothing for a model whose weights are still at random; a warm-up of CPT counts as it ran.
    lr[: first.warmup] = lr[first.warmup]
    return lr


def _recursion(drops: Array, decay: float, state: float) -> Array:
    """Return m_i = lambda m_{i-1} + d_i along the steps, (n,), from lambda m_0 = state."""
    from scipy.signal import lfilter  # late: a third of the start of every command

    momentum: Array = lfilter([1.0], [1.0, -decay], drops, zi=[state])[0]
    return momentum


def _steps_ratio(schedule: Schedule, k: int, decay_unit: DecayUnit) -> float:
    """Return how many steps of the first phase one step of phase k is worth."""
    if decay_unit == "step":
        return 1.0
    # lambda is per optimiser step in the papers. Rescaled to tokens, a batch twice as large forgets twice as fast; that
    # is our choice, and no paper's.
    tokens = [phase.tokens_per_step for phase in schedule.phases]
    here, first = tokens[k], tokens[0]
    if here is None or first is None:
        raise UsageError("decay_unit='tokens' needs tokens_per_step in every phase of the schedule.")
    return here / first


def _check(decay: float, warmup: str, boundary: str, decay_unit: str) -> None:
    if not 0 <= decay <= 1:
        raise UsageError(f"decay={decay}: expected lambda, from 0 to 1; the papers have 0.999.")
    options = (("warmup", warmup, Warmup), ("boundary", boundary, Boundary), ("decay_unit", decay_unit, DecayUnit))
    for name, value, words in options:
        known = get_args(words)
        if value not in known:
            raise UsageError(
                f"{name}={value!r} is unknown. Expected {', '.join(known)}.{did_you_mean(str(value), known)}"
            )
