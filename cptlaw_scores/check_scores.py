"""Which benchmarks of a table carry signal at these scales, and which do not: before anything is fitted to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cptlaw.errors import join_names
from cptlaw.findings import Finding, by_severity
from cptlaw.result import Line, Result, Table
from cptlaw.runs import Runs
from cptlaw.units import format_percent
from cptlaw_scores.joint import BELOW, Joint, join, rank_correlation
from cptlaw_scores.laws.score_law import Array

MONOTONE = 0.6  # rank correlation of a score with its loss, below which it does not follow the loss
ABOVE = 2.0  # standard errors above chance that the best models must reach
SIGNAL = 2.0  # range of the scores along the loss over their scatter around it
BEST = 0.25  # share of the models that count as the best: those of the lowest loss
FEW = 6  # models below which no judgement is made


@dataclass(frozen=True)
class Judged:
    """One benchmark as the runs show it.

    Parameters
    ----------
    name, metric
        The eval and what its score is.
    loss
        The eval whose loss goes best with it; ``None`` where it was compared with compute.
    n_models, n_items, chance
        Measured models, questions behind a score, score of guessing.
    lowest, highest
        Scores measured.
    monotone
        Rank correlation of the score with minus that loss.
    above_chance
        Standard errors by which the mean of the best models lies above chance.
    signal
        Range of the score along the loss over its scatter around it.
    carries
        Whether a forecast can be made of more than the mean.
    """

    name: str
    metric: str
    loss: str | None
    n_models: int
    n_items: float
    chance: float
    lowest: float
    highest: float
    monotone: float
    above_chance: float
    signal: float
    carries: bool

    @property
    def verdict(self) -> str:
        """Why it carries signal, or why not, in words."""
        if self.n_models < FEW:
            return "too few models to tell"
        if self.carries:
            return "carries signal"
        reasons = []
        if self.above_chance < ABOVE:
            reasons.append("at chance" if self.above_chance > -BELOW else "below chance")
        if self.monotone < MONOTONE:
            reasons.append("does not follow the loss")
        if self.signal < SIGNAL:
            reasons.append("noise as large as its range")
        return ", ".join(reasons)


@dataclass(frozen=True, repr=False, eq=False)
class ScoreCheck(Result):
    """What the scores of a table can tell.

    Attributes
    ----------
    on
        The score that was asked for.
    tasks
        The benchmarks, those that carry signal first.
    findings
        The worst first.
    """

    on: str
    tasks: tuple[Judged, ...]
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """How many benchmarks carry signal."""
        good = sum(one.carries for one in self.tasks)
        return f"{good} of {len(self.tasks)} scores carry signal at these scales"

    @property
    def fittable(self) -> str | None:
        """What to fit: the score that was asked for, or the loss beside it where it carries no signal."""
        asked = next((one for one in self.tasks if one.name == self.on), None)
        return self.on if asked is None or asked.carries else asked.loss

    @property
    def lines(self) -> list[Line]:
        """Which ones do, and which do not."""
        good = [one.name for one in self.tasks if one.carries]
        bad = [f"{one.name} ({one.verdict})" for one in self.tasks if not one.carries]
        result = [("carry signal", join_names(good))] if good else []
        result += [("do not", join_names(bad))] if bad else []
        losses = dict.fromkeys(one.loss or "compute" for one in self.tasks)
        return [*result, ("compared with", ", ".join(losses))]

    @property
    def tables(self) -> list[Table]:
        """One row per benchmark."""
        rows = [
            {
                "score": one.name,
                "measured": f"{format_percent(one.lowest)} to {format_percent(one.highest)}",
                "chance": format_percent(one.chance),
                "items": f"{one.n_items:g}",
                "loss": one.loss or "compute",
                "monotone": f"{one.monotone:.2f}",
                "above chance": f"{one.above_chance:.1f}",
                "signal": f"{one.signal:.1f}",
                "verdict": one.verdict,
            }
            for one in self.tasks
        ]
        note = (
            "monotone: rank correlation with the falling loss; above chance: standard errors of the best models; "
            "signal: range along the loss over the scatter around it"
        )
        return [Table.of(pd.DataFrame(rows), note=note)]


def check_scores(runs: Runs, on: str, where: str | None = None) -> ScoreCheck:
    """Judge all scores of a table, of which one was asked for."""
    joint = join(runs if where is None else runs.where(where))
    judged = sorted((_judge(joint, name) for name in joint.tasks), key=lambda one: (not one.carries, -one.signal))
    findings = [*joint.findings]
    silent = [one for one in judged if not one.carries and one.n_models >= FEW]
    if silent:
        listed = "; ".join(f"{one.name}: {one.verdict}" for one in silent[:4])
        more = f"; and {len(silent) - 4} more" if len(silent) > 4 else ""
        findings.append(
            Finding(
                "warning",
                "no-signal",
                f"{len(silent)} of {len(judged)} scores will not carry a forecast at these scales: {listed}{more}.",
                "Forecast the loss for these, or measure larger models; a mean over tasks should leave them out.",
            )
        )
    return ScoreCheck(on, tuple(judged), by_severity(findings))


def _judge(joint: Joint, name: str) -> Judged:
    task = joint.tasks[name]
    y = joint.values(name)
    carrier = _carrier(joint, name)
    x = _axis(joint, carrier)
    good = np.isfinite(y) & np.isfinite(x)
    order = np.flatnonzero(good)[np.argsort(x[good], kind="stable")]
    y, x, items = y[order], x[order], task.items[order]
    count = len(y)
    monotone = rank_correlation(x, y)
    # The best few models and not the best one: the maximum of noisy scores lies above chance by itself.
    best = max(int(np.ceil(BEST * count)), 2)
    p = float(np.clip(y[-best:].mean(), 1e-4, 1 - 1e-4))
    # Around the smooth curve, so that a score that moves is not taken for one that scatters.
    scatter = _scatter(x, y)
    # The larger of the two: questions that are asked of all models err together, and models differ beyond them.
    error = np.sqrt(max(p * (1 - p) / items[-best:].sum(), scatter**2 / best))
    above = (float(y[-best:].mean()) - task.chance) / error
    # A parabola where there are points for it: scores leave chance late and flatten early.
    smooth = np.polyval(np.polyfit(x, y, 2 if count > 5 else 1), x)
    signal = float(np.ptp(smooth) / max(scatter, np.sqrt(p * (1 - p) / float(np.median(items)))))
    carries = count >= FEW and monotone >= MONOTONE and above >= ABOVE and signal >= SIGNAL
    return Judged(
        name=name,
        metric=task.metric,
        loss=carrier,
        n_models=count,
        n_items=float(np.median(items)),
        chance=task.chance,
        lowest=float(y.min()),
        highest=float(y.max()),
        monotone=monotone,
        above_chance=float(above),
        signal=signal,
        carries=bool(carries),
    )


def _axis(joint: Joint, carrier: str | None) -> Array:
    """Return what scores are compared with, rising with the quality of a model, (n,)."""
    if carrier is not None:
        return -joint.values(carrier)
    if "flops" in joint.frame.columns:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(joint.frame["flops"].to_numpy(dtype=float)))
    return np.full(len(joint.frame), np.nan)


def _carrier(joint: Joint, task: str) -> str | None:
    """Return the loss that goes best with a score."""
    rated = [(agree, name) for name in joint.losses if (agree := joint.agreement(task, name)) is not None]
    return max(rated)[1] if rated else None


def _scatter(x: Array, y: Array) -> float:
    """Return the standard deviation of scores around a smooth curve, from second differences of neighbours."""
    if len(y) < 4:
        return float(np.std(y))
    left, right = x[1:-1] - x[:-2], x[2:] - x[1:-1]
    width = np.maximum(left + right, 1e-12)
    between = (right * y[:-2] + left * y[2:]) / width
    factor = 1.0 + (right / width) ** 2 + (left / width) ** 2
    return float(np.sqrt(np.mean((y[1:-1] - between) ** 2 / factor)))
