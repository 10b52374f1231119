"""All best compromises between target and source loss within a compute budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array
from cptlaw.planning.loss import FitLike
from cptlaw.planning.mixes.expected import below_fitted_tokens, fixed_fields, out_of_reach
from cptlaw.planning.mixes.mix import FittedMix, build_mixes
from cptlaw.planning.points import score_fields
from cptlaw.planning.result import (
    FLOPS_PER_PARAMETER_TOKEN,
    Plan,
    forgetting_text,
    model_text,
    quantity_text,
    risk_lines,
    weights_text,
)
from cptlaw.planning.scenario import Pareto, documented, read_scenario
from cptlaw.result import Line, Table
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_span

FINE = 2001  # replays that are compared, of which the points are a selection
SHOWN = 12  # rows of the printed table


@dataclass(frozen=True)
class ParetoPoint:
    """One compromise: no other mix within the budget has both losses lower."""

    replay: float
    tokens: float
    atpp: float
    flops: float
    target_loss: float
    target_loss_lo: float | None
    target_loss_hi: float | None
    source_loss: float
    source_loss_lo: float | None
    source_loss_hi: float | None
    forgetting: float | None
    scores: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class ParetoPlan(Plan):
    """Answer of `pareto`.

    Attributes
    ----------
    n_params, ptpp, lr_peak, merge_weight, lora_rank, budget
        The model, the peak rate, merge weight and rank where a law reads them, and the FLOPs.
    points
        The compromises, by rising replay; none where no mix within the budget keeps the limits in points.
    forgetting_measure, base_source_loss, reference
        How forgetting counts; ``None`` where there is no reference.
    interval
        Coverage of the losses' intervals.
    findings
        The worst first.
    unit
        Of the losses.
    blocking
        Where no mix keeps the limits in points: those that no compromise keeps, or all where none alone blocks.
    risk
        Probability with which each of them holds; ``None`` for the forecast itself.
    """

    n_params: float
    ptpp: float | None
    budget: float
    points: tuple[ParetoPoint, ...]
    forgetting_measure: str
    base_source_loss: float | None
    reference: str | None
    interval: float | None
    findings: tuple[Finding, ...]
    lr_peak: float | None = None
    merge_weight: float | None = None
    lora_rank: float | None = None
    unit: str = USUAL_UNIT
    blocking: tuple[str, ...] = ()
    risk: float | None = None

    @property
    def feasible(self) -> bool:
        """Whether any mix within the budget keeps the limits."""
        return bool(self.points)

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a table, one row each; scores in columns of their own, such as ``gsm8k_score_lo``."""
        rows = []
        for point in self.points:
            row = asdict(point)
            scores = row.pop("scores")
            rows.append(row | {f"{name}_{key}": value for name, of in scores.items() for key, value in of.items()})
        return pd.DataFrame(rows)

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        model = model_text(self)
        if not self.points:
            return f"No mix within {quantity_text(self.budget)} FLOP keeps the limits for {model}"
        tokens = f"{quantity_text(self.points[0].tokens)} tokens"
        return f"{len(self.points)} best compromises within {quantity_text(self.budget)} FLOP ({tokens}) for {model}"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        if not self.points:
            return [("feasible", "no"), ("blocking", ", ".join(self.blocking))]
        weights = weights_text(self)
        return ([("weights", weights)] if weights else []) + risk_lines(self.risk, self.findings)

    @property
    def tables(self) -> list[Table]:
        """Some of the compromises, by rising replay."""
        if not self.points:
            return []
        chosen = np.unique(np.linspace(0, len(self.points) - 1, SHOWN).round().astype(int))
        rows = []
        for point in (self.points[i] for i in chosen):
            row = {
                "replay": format_percent(point.replay),
                "target loss": format_span(point.target_loss, point.target_loss_lo, point.target_loss_hi),
                "source loss": format_span(point.source_loss, point.source_loss_lo, point.source_loss_hi),
            }
            if point.forgetting is not None:
                relative = self.forgetting_measure == "relative"
                row["forgetting"] = forgetting_text(point.forgetting, None, None, relative)
            rows.append(row | {name: format_percent(of["score"] or 0.0) for name, of in point.scores.items()})
        return [Table(tuple(rows[0]), tuple(tuple(row.values()) for row in rows), close=True)]


def pareto(target: FitLike, source: FitLike, **scenario: Unpack[Pareto]) -> ParetoPlan:
    """Find the mixes within a compute budget that no other beats in both losses.

    The front runs over replay, at the tokens that the budget pays for: where both losses fall with tokens, a mix that
    leaves budget unspent is beaten by the same mix that spends it. Which mix beats which is decided by the point
    forecasts; doubt means the intervals.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files.
    **scenario
        The model and the budget; limits in points (``scores``, ``min_score``, ``max_drop``, ``risk``), which leave out
        what breaks them. Forgetting is left out where its reference cannot be had and none was asked for.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.
    """
    given = read_scenario(Pareto, scenario, "pareto")
    if source is None:
        raise UsageError("pareto weighs the target loss against the source loss: give source= (--source), a fit.")
    fronts = [_front(mix) for mix in build_mixes(given, target, source)]
    # Of several measured levels the one whose front reaches the lowest target loss.
    return min(fronts, key=lambda front: min((point.target_loss for point in front.points), default=np.inf))


def _front(mix: FittedMix) -> ParetoPlan:
    given, how = mix.given, mix.forgetting
    if not mix.reads_replay:
        raise UsageError("pareto asks for mixes, but neither law reads replay. Fit laws that do, such as dcpt-l3.")
    tokens = given.budget / FLOPS_PER_PARAMETER_TOKEN / given.trained
    shares = np.linspace(mix.low, mix.high, FINE)
    # Both losses at the whole budget: what leaves some of it unspent is beaten by the same mix that spends it.
    front = shares[_undominated(*(loss.at(shares, tokens) for loss in mix.losses))]
    if mix.limits:
        points = {"replay": front, "tokens": np.full(len(front), tokens)}
        kept = {limit.name: limit.excess(points) <= 0 for limit in mix.limits}
        within = front[np.logical_and.reduce(list(kept.values()))]
        if not len(within):
            never = tuple(name for name, good in kept.items() if not good.any())
            return replace(_plan(mix, (), mix.findings), blocking=never or tuple(kept))
        front = within
    chosen = front[np.unique(np.linspace(0, len(front) - 1, given.points).round().astype(int))]
    findings = [*mix.findings, *below_fitted_tokens(mix, tokens), *out_of_reach(mix.tokens_in_reach, tokens)]
    columns: dict[str, Any] = {"replay": [float(share) for share in chosen]}
    for loss in mix.losses:
        expected = loss.forecast({"replay": chosen, "tokens": tokens}, given.interval)
        columns |= {f"{loss.role}_loss{end}": values for end, values in expected.losses.items()}
        findings += expected.findings
    if len(front) == 1:
        findings.append(
            Finding(
                "warning",
                "no-compromise",
                f"replay {format_percent(float(front[0]))} is best for both losses at once: the laws see no trade-off.",
                "The target law should rise with replay; compare with ratio_of=own or a dcpt law.",
            )
        )
    columns["forgetting"] = [None if how is None else how.of(loss) for loss in columns["source_loss"]]
    if mix.scores:
        mixes = [{"replay": share, "tokens": tokens} for share in chosen]
        columns["scores"] = [score_fields(mix.scores, mix.limits, each, given.interval) for each in mixes]
    fixed: dict[str, Any] = {"tokens": tokens, "atpp": tokens / mix.n_params, "flops": given.budget}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return _plan(mix, tuple(ParetoPoint(**fixed, **row) for row in rows), findings)


def _plan(mix: FittedMix, points: tuple[ParetoPoint, ...], findings: Iterable[Finding]) -> ParetoPlan:
    noticed = tuple(findings)
    return ParetoPlan(budget=mix.given.budget, points=points, findings=noticed, unit=mix.unit, **fixed_fields(mix))


def _undominated(target: Array, source: Array) -> Array:
    """Return the indices, rising, of the points that no other beats in one loss and matches in the other, (n,)."""
    # Sorted by the one loss, a point is beaten exactly if one before it has a lower other loss: one pass instead of all
    # pairs.
    order = np.lexsort((source, target))
    lowest = np.minimum.accumulate(source[order])
    better = np.concatenate([[True], source[order][1:] < lowest[:-1]])
    return np.sort(order[better])


documented(pareto, Pareto)
