"""All best compromises between target and source loss within a compute budget."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError
from cptlaw.findings import Finding, by_severity
from cptlaw.laws.calculus import Array
from cptlaw.planning import asked
from cptlaw.planning.expected import below_fitted_tokens
from cptlaw.planning.result import FLOPS_PER_PARAMETER_TOKEN, Plan, number_text, quantity_text
from cptlaw.planning.setting import build_setting
from cptlaw.planning.side import Side
from cptlaw.result import Line
from cptlaw.units import format_percent, format_quantity

FINE = 2001  # replays that are compared, of which the points are a selection
SHOWN = 12  # rows of the printed table
ANCHORS = 7  # points of the front whose interval is computed


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


@dataclass(frozen=True, repr=False)
class ParetoPlan(Plan):
    """Answer of `pareto`.

    Attributes
    ----------
    n_params, ptpp, budget
        The model and the FLOPs.
    points
        The compromises, by rising replay.
    forgetting_measure, base_source_loss, reference
        How forgetting counts; ``None`` where there is no reference.
    interval
        Coverage of the losses' intervals.
    findings
        The worst first.
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

    def to_frame(self) -> pd.DataFrame:
        """Return the points as a table, one row each."""
        return pd.DataFrame([asdict(point) for point in self.points])

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        model = f"n_params {format_quantity(self.n_params, 4)}"
        if self.ptpp is not None:
            model += f", ptpp {self.ptpp:g}"
        tokens = f"{quantity_text(self.points[0].tokens)} tokens"
        return f"{len(self.points)} best compromises within {quantity_text(self.budget)} FLOP ({tokens}) for {model}"

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line."""
        chosen = np.unique(np.linspace(0, len(self.points) - 1, SHOWN).round().astype(int))
        lines = []
        for point in (self.points[i] for i in chosen):
            text = f"target loss {number_text(point.target_loss)}, source loss {number_text(point.source_loss)}"
            if point.forgetting is not None:
                relative = self.forgetting_measure == "relative"
                text += f", forgetting {(format_percent if relative else number_text)(point.forgetting)}"
            lines.append((f"replay {format_percent(point.replay)}", text))
        return lines


def pareto(
    target: Any,
    source: Any,
    *,
    n_params: Any,
    budget: Any,
    ptpp: Any = None,
    points: int = 20,
    base_source_loss: Any = None,
    reference: str = "measured",
    base_law: Any = None,
    forgetting: str = "relative",
    min_replay: Any = None,
    max_replay: Any = None,
    interval: Any = 0.9,
) -> ParetoPlan:
    """Find the mixes within a compute budget that no other beats in both losses.

    Both losses fall with tokens, so a mix that leaves budget unspent is beaten by the same mix that spends it: the
    front runs over replay, at the tokens that the budget pays for.

    Parameters
    ----------
    target, source
        Fits of the two losses, or their files.
    n_params, ptpp
        The model.
    budget
        FLOPs, 6 n_params tokens.
    points
        Most points to return, spread evenly over the front in replay.
    base_source_loss, reference, base_law, forgetting
        As for `min_tokens`; forgetting is left out where the reference cannot be had and none of these was given.
    min_replay, max_replay
        Range of replay; the fitted one where absent.
    interval
        Coverage of the losses' intervals; ``None`` for none. They are computed at seven points of the front, between
        which their width relative to the loss is interpolated. An interval is what doubt means here: there is no limit
        that could hold with a probability, and which mix beats which is decided by the point forecasts.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable.
    """
    if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 2:
        raise UsageError(f"points={points!r}: expected a whole number of at least 2.")
    if source is None:
        raise UsageError("pareto weighs the target loss against the source loss: give source= (--source), a fit.")
    flops = asked.positive(budget, "budget", "5e19")
    setting = build_setting(
        target,
        source,
        n_params=n_params,
        ptpp=ptpp,
        base_source_loss=base_source_loss,
        reference=reference,
        base_law=base_law,
        forgetting=forgetting,
        min_replay=min_replay,
        max_replay=max_replay,
        interval=interval,
    )
    for side in setting.sides:
        side.must_fall_with_tokens()
    if not setting.reads_replay:
        raise UsageError("pareto varies replay, which neither law reads. Fit laws that do, such as dcpt-l3.")
    tokens = flops / FLOPS_PER_PARAMETER_TOKEN / setting.n_params
    shares = np.linspace(setting.low, setting.high, FINE)
    front = shares[_undominated(*(side.losses(shares, tokens) for side in setting.sides))]
    chosen = front[np.unique(np.linspace(0, len(front) - 1, points).round().astype(int))]
    found = [*setting.findings, *below_fitted_tokens(setting, tokens)]
    columns: dict[str, Any] = {"replay": [float(share) for share in chosen]}
    for side in setting.sides:
        losses, found_there = _along(side, chosen, tokens, setting.interval)
        columns |= losses
        found += found_there
    if len(front) == 1:
        found.append(
            Finding(
                "warning",
                "no-compromise",
                f"replay {format_percent(float(front[0]))} is best for both losses at once: the laws see no trade-off.",
                "The target law should rise with replay; compare with ratio_of=own or a dcpt law.",
            )
        )
    how = setting.forgetting
    columns["forgetting"] = [None if how is None else how.of(loss) for loss in columns["source_loss"]]
    fixed: dict[str, Any] = {"tokens": tokens, "atpp": tokens / setting.n_params, "flops": flops}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return ParetoPlan(
        n_params=setting.n_params,
        ptpp=setting.target.ptpp if np.isfinite(setting.target.ptpp) else None,
        budget=flops,
        points=tuple(ParetoPoint(**fixed, **row) for row in rows),
        forgetting_measure="relative" if how is None else how.measure,
        base_source_loss=None if how is None else how.reference.loss,
        reference=None if how is None else how.reference.kind,
        interval=setting.interval,
        findings=by_severity(found),
    )


def _undominated(target: Array, source: Array) -> Array:
    """Return the indices, rising, of the points that no other beats in one loss and matches in the other, (n,)."""
    order = np.lexsort((source, target))
    lowest = np.minimum.accumulate(source[order])
    better = np.concatenate([[True], source[order][1:] < lowest[:-1]])
    return np.sort(order[better])


def _along(
    side: Side, shares: Array, tokens: float, interval: float | None
) -> tuple[dict[str, list[float | None]], tuple[Finding, ...]]:
    """Return the columns of one side's loss along the front, and findings about it."""
    anchors = np.unique(np.linspace(0, len(shares) - 1, ANCHORS).round().astype(int))
    expected = side.forecast(shares[anchors], tokens, interval)
    loss = side.losses(shares, tokens)
    columns: dict[str, list[float | None]] = {f"{side.role}_loss": [float(value) for value in loss]}
    for end in ("_lo", "_hi"):
        at_anchors = np.array([np.nan if value is None else value for value in expected.losses[end]])
        width = np.interp(shares, shares[anchors], np.log(at_anchors / loss[anchors]))
        columns[f"{side.role}_loss{end}"] = [
            float(value) if np.isfinite(value) else None for value in loss * np.exp(width)
        ]
    return columns, expected.findings
