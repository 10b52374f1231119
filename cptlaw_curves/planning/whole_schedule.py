"""A whole learning-rate schedule, step by step: never rising, from a highest rate down to a floor.

The unknowns are boxes: x_k is the part of the rate that lasts until step k, so eta_j = floor + sum over k >= j of x_k,
x >= 0, and the sum of x is at most the highest rate less the floor. That set is a simplex, on which a projected
gradient with spectral steps (Birgin, Martinez and Raydan 2000) descends from the best schedule with a name. Slopes of
the loss by the rate of each step are exact and cost O(T).

Axes: ``n`` = steps of CPT, from its first update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import FitLike
from cptlaw.planning.result import Plan, number_text, quantity_text
from cptlaw.planning.scenario import documented, read_scenario
from cptlaw.result import Line
from cptlaw.runs.metrics import USUAL_UNIT, unit_of
from cptlaw.schedules import Phase, Schedule, areas, effective_lr
from cptlaw.units import format_percent
from cptlaw.writing import RATES, write_to_edit
from cptlaw_curves.laws.curve_law import CurveLaw
from cptlaw_curves.planning.curve_loss import CurveLoss
from cptlaw_curves.planning.scenario import WholeSchedule
from cptlaw_curves.planning.space import build_space

ITERATIONS = 400
MEMORY = 8  # of the nonmonotone line search
ENOUGH = 1e-8  # nats over the last iterations that end the descent
NAMED = ("constant", "linear", "cosine", "wsd", "wsd-1-sqrt")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CLIFF = 0.5  # share of the highest rate whose loss within one percent of the steps is a cliff


@dataclass(frozen=True, repr=False)
class WholePlan(Plan):
    """Answer of `whole_schedule`.

    Attributes
    ----------
    weight_source, steps, highest, floor, replay
        The question.
    lr
        Learning rate of each step of CPT, from the first update on.
    loss, target_loss, source_loss
        The weighted loss that is minimised, and the two losses, nats per token; ``None`` without a fit.
    simple, simple_loss
        The nearest schedule with a name, as a phase of a schedules file, and its weighted loss.
    gap
        By how much it is worse, nats.
    iterations
        Of the descent.
    findings
        The worst first.
    unit
        Of the losses.
    """

    weight_source: float
    steps: int
    highest: float
    floor: float
    replay: float | None
    lr: tuple[float, ...]
    loss: float
    target_loss: float | None
    source_loss: float | None
    simple: Mapping[str, Any]
    simple_loss: float
    gap: float
    iterations: int
    findings: tuple[Finding, ...] = ()
    unit: str = USUAL_UNIT

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write steps and rates as CSV, as ``file:`` takes it, and return where: beside other rates without `force`."""
        rows = "".join(f"{step},{rate!r}\n" for step, rate in enumerate(self.lr, 1))
        return write_to_edit(path, f"step,lr\n{rows}", RATES, force)

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return (
            f"Schedule of {quantity_text(self.steps)} CPT steps, step by step, for "
            f"{format_percent(self.weight_source)} source + {format_percent(1 - self.weight_source)} target loss"
        )

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        at = np.unique(np.linspace(0, self.steps - 1, 9).round().astype(int))
        rates = ", ".join(f"{self.lr[k]:.3g}" for k in at)
        lines = [
            ("weighted loss", f"{self.loss:.5f} {self.unit}"),
            *((name.replace("_", " "), f"{getattr(self, name):.5f}") for name in ("target_loss", "source_loss")
              if getattr(self, name) is not None),
            (f"rate at {len(at)} steps", f"{rates} (evenly spaced, first to last)"),
            ("simple", f"{_describe(self.simple)}: {self.simple_loss:.5f}, worse by {self.gap:.2g}"),
        ]  # fmt: skip
        return lines


def _describe(phase: Mapping[str, Any]) -> str:
    text = f"{phase['schedule']}, peak {number_text(phase['peak'])}"
    if phase.get("decay"):
        text += f", the last {format_percent(phase['decay'] / phase['steps'])} decaying"
    return text


def whole_schedule(target: FitLike, source: FitLike | None = None, **scenario: Unpack[WholeSchedule]) -> WholePlan:
    """Find the rate of every CPT step that minimises the weighted loss at the end, never rising.

    Parameters
    ----------
    target, source
        Fits of curve laws, or their files. A single multi-power fit is the problem of Luo et al. 2025, sec. 5
        (arXiv:2503.12811).
    **scenario
        The weight lambda_1 of the source loss, steps, highest and lowest rate, and what is known of the run.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable or missing.

    Notes
    -----
    Under a law whose annealing area is linear in the rates (lr-annealing, cpt-dynamics) the best schedule is always a
    constant rate and then a sudden drop: momentum goes on paying at a rate of zero. This is a defect of these laws, not
    a recommendation, and a finding says so; cpt-dynamics-weighted and multi-power lack it.
    """
    given = read_scenario(WholeSchedule, scenario, "whole-schedule")
    losses = [CurveLoss.build(target, "target", given.n_params)]
    if source is not None:
        losses.append(CurveLoss.build(source, "source", given.n_params))
    weight, top, low = given.weight_source, given.highest, given.floor
    if weight and source is None:
        raise UsageError("a weight of the source loss needs source= (--source), a fit of the source loss.")
    space = build_space(losses, given)
    base, count = space.base, space.cpt.steps
    if top is None:
        top = max([phase.peak for phase in base if phase.peak] or [space.cpt.peak or 0.0])
    if not low < top:
        raise UsageError(f"floor {low:g} and highest {top:g}: expected a floor below the highest rate.")
    weights = {"target": 1.0 - weight, "source": weight}
    parts = [(weights[loss.role], loss) for loss in losses if weights[loss.role] > 0]

    def goal(lr: Array) -> tuple[float, Array]:
        total, slopes = 0.0, np.zeros(len(lr))
        for share, part in parts:
            loss, by_rate = loss_and_slopes(part, base, lr, space.replay)
            total, slopes = total + share * loss, slopes + share * by_rate
        return total, slopes

    simple, simple_loss = _best_named(goal, count, top, low)
    lr, value, iterations = _descend(goal, np.maximum(simple.rates()[1:], low), top, low)
    whole = _with_rates(base, lr)
    ends = {loss.role: float(loss.curve(whole, space.replay, [whole.n_steps])[0]) for loss in losses}
    return WholePlan(
        weight_source=weight,
        steps=count,
        highest=top,
        floor=low,
        replay=space.replay,
        lr=tuple(map(float, lr)),
        loss=value,
        target_loss=ends.get("target"),
        source_loss=ends.get("source"),
        simple=simple.to_dict(),
        simple_loss=simple_loss,
        gap=simple_loss - value,
        iterations=iterations,
        findings=tuple(_cliff(lr, top, [part for _, part in parts])),
        unit=unit_of(*(loss.fit for loss in losses)),
        _fits=tuple(loss.fit for loss in losses),
    )


def _with_rates(base: tuple[Phase, ...], lr: Array) -> Schedule:
    steps = np.arange(1.0, len(lr) + 1.0)
    return Schedule((*base, Phase("cpt", len(lr), "file", points=(steps, lr))))


def _best_named(
    goal: Callable[[Array], tuple[float, Array]], count: int, top: float, low: float
) -> tuple[Phase, float]:
    """Return the best schedule with a name, over shapes, shares of decay and peaks."""
    best: tuple[float, Phase] | None = None
    # The descent is local and schedules have several valleys, so that it starts from the best of what people run.
    for peak in top * np.array([1.0, 0.7, 0.5, 0.35, 0.25, 0.12, 0.06, 0.03]):
        for shape in NAMED:
            for share in SHARES if shape.startswith("wsd") else (None,):
                last = 0 if share is None else max(1, round(share * count))
                phase = Phase("cpt", count, shape, peak=float(peak), decay=last)
                loss = goal(np.maximum(phase.rates()[1:], low))[0]
                if best is None or loss < best[0]:
                    best = (loss, phase)
    assert best is not None
    return best[1], best[0]


def _descend(
    goal: Callable[[Array], tuple[float, Array]], start: Array, top: float, low: float
) -> tuple[Array, float, int]:
    """Minimise over never-rising rates by spectral projected gradients."""
    budget = top - low

    def rates(x: Array) -> Array:
        return low + np.cumsum(x[::-1])[::-1]

    def at(x: Array) -> tuple[float, Array]:
        loss, slopes = goal(rates(x))
        return loss, np.cumsum(slopes)

    # The coordinates are the drops from step to step: never rising means that they are not negative, and their sum is
    # top - low, a simplex. Under laws that are linear in the rates the optimum is one of its corners.
    x = _onto_simplex(-np.diff(start, append=low), budget)
    loss, slope = at(x)
    history, best = [loss], (loss, x)
    step = 0.1 * budget / max(float(np.abs(slope).max()), 1e-300)
    iterations = 0
    while iterations < ITERATIONS:
        iterations += 1
        direction = _onto_simplex(x - step * slope, budget) - x
        falls = float(slope @ direction)
        if falls > -1e-12:
            break
        # Not monotone: the loss may rise for a step or two, without which spectral steps lose their speed (Birgin,
        # Martinez and Raydan 2000).
        length, ceiling = 1.0, max(history[-MEMORY:])
        while True:
            moved = x + length * direction
            new_loss, new_slope = at(moved)
            if new_loss <= ceiling + 1e-4 * length * falls or length < 1e-8:
                break
            length *= 0.5
        change, bend = moved - x, new_slope - slope
        curvature = float(change @ bend)
        # Barzilai and Borwein's length: the secant's guess at the inverse curvature, for the price of two products.
        step = float(change @ change) / curvature if curvature > 0 else 10.0 * step
        x, loss, slope = moved, new_loss, new_slope
        history.append(loss)
        if loss < best[0]:
            best = (loss, x)
        if len(history) > 40 and max(history[-40:]) - min(history[-40:]) < ENOUGH:
            break
    return rates(best[1]), best[0], iterations


def _onto_simplex(x: Array, budget: float) -> Array:
    """Return the nearest point with x >= 0 and sum(x) <= budget."""
    positive = np.maximum(x, 0.0)
    if positive.sum() <= budget:
        return positive
    ordered = np.sort(x)[::-1]
    excess = (np.cumsum(ordered) - budget) / np.arange(1, len(x) + 1)
    # The projection takes the same amount off all that stays positive; sorted, the last one for which it does decides
    # how many these are.
    last = int(np.flatnonzero(ordered > excess)[-1])
    nearest: Array = np.maximum(x - excess[last], 0.0)
    return nearest


def loss_and_slopes(loss: CurveLoss, base: tuple[Phase, ...], lr: Array, replay: float | None) -> tuple[float, Array]:
    """Return the loss at the end of CPT and its slope by the rate of each CPT step, (n,).

    Parameters
    ----------
    base
        Phases of pre-training.
    lr
        Rates of the CPT steps, (n,), above 0.
    replay
        The mix.
    """
    whole = _with_rates(base, lr)
    if loss.law.objects:
        return _multi_power(loss, whole)
    own = loss.law
    read = areas(whole, float(own.decay), lr_power=own.lr_power, **own.area_options)
    last = whole.n_steps
    columns = {name: getattr(read, name)[[last]] for name in own.areas_read}
    named = [name for name in ("s1", "s2", "s1_cpt", "s2_cpt", "s2_pretrain") if name in own.areas_read]
    jet = own.partials(loss.params, loss.frame(columns, replay), named, loss.role)
    by_area = {name: float(np.ravel(jet.slopes.get(i, 0.0))[0]) for i, name in enumerate(named)}
    n, first = len(lr), whole.n_pretrain + 1
    slopes = np.full(n, by_area.get("s1_cpt", by_area.get("s1", 0.0)))
    by_s2 = by_area.get("s2_cpt", by_area.get("s2", 0.0))
    slopes = slopes + by_s2 * _slopes_of_s2(lr, np.diff(read.s2_cpt)[first - 1 :], own)
    if own.lr_power and "s2_pretrain" in by_area and own.area_options["boundary"] == "origin":
        tail = np.diff(read.s2_pretrain)[first - 1 :]
        slopes = slopes + by_area["s2_pretrain"] * own.lr_power * tail / lr
    return float(np.ravel(jet.value)[0]), slopes


def _slopes_of_s2(lr: Array, gains: Array, law: CurveLaw) -> Array:
    """Return dS2/d eta_j of S2 = sum m_i eta_i^e over CPT, (n,); `gains` are its summands m_i eta_i^e."""
    power, decay = law.lr_power, float(law.decay)
    weight = lr**power
    # What a decrement at step j adds: sum over i >= j of lambda^(i-j) eta_i^e.
    from scipy.signal import lfilter

    reach = lfilter([1.0], [1.0, -decay], weight[::-1])[::-1]
    # A rate stands in two drops: it ends the one before it and begins the one after.
    result = -reach
    result[:-1] += reach[1:]
    if law.area_options["boundary"] == "reset":
        result[0] += reach[0]
    return np.asarray(result + (power * gains / lr if power else 0.0))


def _multi_power(loss: CurveLoss, whole: Schedule) -> tuple[float, Array]:
    """Return loss and slopes of L0 + A s^-alpha + B sum_k g_k (1 - (1 + C eta_k^-gamma r_k)^-beta)."""
    p = loss.params
    lr = effective_lr(whole, loss.law.area_options["warmup"])
    total = float(lr.sum())
    gains = np.diff(lr, prepend=lr[0])
    left = np.cumsum(lr[::-1])[::-1]  # r_k, the area from step k on
    positive = np.maximum(lr, 1e-300)
    u = p["C"] * positive ** -p["gamma"] * left
    log_u = np.log1p(u)
    effect = -np.expm1(-p["beta"] * log_u)
    bend = gains * p["beta"] * np.exp(-(p["beta"] + 1.0) * log_u)
    value = p["L0"] + p["A"] * total ** -p["alpha"] + p["B"] * float(gains @ effect)
    slopes = effect - np.append(effect[1:], 0.0)
    slopes[0] = -effect[1] if len(effect) > 1 else 0.0
    slopes = slopes + np.cumsum(bend * p["C"] * positive ** -p["gamma"]) - bend * p["gamma"] * u / positive
    slopes = p["B"] * slopes - p["alpha"] * p["A"] * total ** (-p["alpha"] - 1.0)
    return float(value), slopes[whole.n_pretrain + 1 :]


def _cliff(lr: Array, top: float, losses: list[CurveLoss]) -> list[Finding]:
    """Say where the best schedule is one that nobody should run."""
    within = max(1, len(lr) // 100)
    # Over a hundredth of the run: no one step need be steep for the whole to be a cliff.
    drop = float(np.max(lr[:-within] - lr[within:], initial=0.0))
    linear = [loss.law.name for loss in losses if not loss.law.lr_power and not loss.law.objects]
    if drop < CLIFF * top or not linear:
        return []
    where = int(np.argmax(lr[:-within] - lr[within:])) + 1
    return [
        Finding(
            "warning",
            "sudden-drop",
            f"the best schedule drops by {drop:.2g} near step {where} of {len(lr)} and trains at the floor from there: "
            f"law {linear[0]} lets the annealing area grow while the rate is zero. That is a defect of the law.",
            "Take the simple schedule that is named, or plan with cpt-dynamics-weighted or multi-power.",
        )
    ]


documented(whole_schedule, WholeSchedule)
