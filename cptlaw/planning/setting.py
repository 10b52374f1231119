"""What the questions have in common: fits, model, reference for forgetting, and the range of replay to search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cptlaw.errors import UsageError
from cptlaw.findings import Finding
from cptlaw.planning import asked
from cptlaw.planning.limits import MEASURES, Forgetting, Limit, build_limits
from cptlaw.planning.reference import REFERENCES, find_reference
from cptlaw.planning.side import Side, check_pair
from cptlaw.units import format_percent


@dataclass(frozen=True)
class Setting:
    """The model that is planned for and what is known about it.

    Attributes
    ----------
    target, source
        The fits at the model's size and budget.
    forgetting
        How forgetting counts; ``None`` where there is no source fit or no reference.
    low, high
        Range of replay to search.
    fitted_low, fitted_high
        Range of replay that the fits have seen, apart from runs on the source corpus alone.
    given_low, given_high
        Whether the user set the ends of the range.
    limits
        The limits that were given.
    risk, interval
        Probability with which limits must hold, and coverage of the losses' intervals; ``None`` for neither.
    findings
        What is to be said whatever the answer.
    """

    target: Side
    source: Side | None
    forgetting: Forgetting | None
    low: float
    high: float
    fitted_low: float
    fitted_high: float
    given_low: bool
    given_high: bool
    limits: tuple[Limit, ...]
    risk: float | None
    interval: float | None
    findings: tuple[Finding, ...]

    @property
    def sides(self) -> tuple[Side, ...]:
        """The fits that there are, the target first."""
        return (self.target,) if self.source is None else (self.target, self.source)

    @property
    def n_params(self) -> float:
        """Parameters of the model."""
        return self.target.n_params

    @property
    def reads_replay(self) -> bool:
        """Whether any of the laws depends on replay."""
        return any(side.reads_replay for side in self.sides)

    @property
    def smallest_fitted_tokens(self) -> float:
        """Tokens below which one of the fits has seen nothing."""
        return max(side.fitted_tokens[0] for side in self.sides)

    @property
    def largest_fitted_tokens(self) -> float:
        """Tokens beyond which none of the fits has seen anything."""
        return max(side.fitted_tokens[1] for side in self.sides)


def build_setting(
    target: Any,
    source: Any,
    *,
    n_params: Any,
    ptpp: Any = None,
    max_forgetting: Any = None,
    max_target_loss: Any = None,
    max_source_loss: Any = None,
    base_source_loss: Any = None,
    reference: str = "measured",
    base_law: Any = None,
    forgetting: str = "relative",
    min_replay: Any = None,
    max_replay: Any = None,
    risk: Any = None,
    interval: Any = 0.9,
) -> Setting:
    """Read and check what the questions share; the arguments are those of `min_tokens`.

    Raises
    ------
    UsageError, DataError
        If an argument is unusable, fits cannot serve together, or the reference that a limit needs cannot be had.
    """
    size = asked.positive(n_params, "n_params", "8.1B")
    budget = None if ptpp is None else asked.positive(ptpp, "ptpp", "279")
    target_side = Side.build(target, "target", size, budget)
    source_side = None if source is None else Side.build(source, "source", size, budget)
    check_pair(target_side, source_side)
    most_forgotten = None if max_forgetting is None else asked.quantity(max_forgetting, "max_forgetting")
    highest_target = None if max_target_loss is None else asked.positive(max_target_loss, "max_target_loss", "1.8")
    highest_source = None if max_source_loss is None else asked.positive(max_source_loss, "max_source_loss", "2.1")
    chance = None if risk is None else asked.probability(risk, "risk")
    if chance is not None and chance < 0.5:
        raise UsageError(
            f"{asked.label('risk')}: {risk!r} lets a limit fail more often than it holds. Expected the probability "
            f"with which limits hold, from 0.5 to below 1, such as 0.9."
        )
    coverage = None if interval is None else asked.probability(interval, "interval")
    measure = asked.one_of(forgetting, "forgetting", MEASURES)
    kind = asked.one_of(reference, "reference", REFERENCES)
    base_loss = None if base_source_loss is None else asked.positive(base_source_loss, "base_source_loss", "2.1")
    found: list[Finding] = []
    how = None
    wanted = most_forgotten is not None or base_loss is not None or base_law is not None or kind != "measured"
    if source_side is None:
        if wanted:
            raise UsageError("forgetting needs source= (--source), a fit of the source loss.")
    else:
        try:
            how = Forgetting(find_reference(source_side, kind, base_loss, base_law), measure)
            found += how.reference.findings
        except UsageError as error:
            if wanted:
                raise
            # Nobody asked for forgetting: the plan stands without it, and says so.
            found.append(Finding("info", "no-reference", f"forgetting is not reported: {error}"))
    if most_forgotten is not None and measure == "relative" and most_forgotten >= 1:
        found.append(
            Finding(
                "warning",
                "large-forgetting",
                f"max_forgetting is {format_percent(most_forgotten)} of the base model's source loss.",
                f"Write {most_forgotten:g}% if that was meant, or forgetting='absolute' for nats per token.",
            )
        )
    sides = [target_side, *([source_side] if source_side else [])]
    fitted = _fitted_replay(sides)
    low = fitted[0] if min_replay is None else asked.share(min_replay, "min_replay")
    high = fitted[1] if max_replay is None else asked.share(max_replay, "max_replay")
    if low > high:
        raise UsageError(
            f"replay from {format_percent(low)} to {format_percent(high)}: nothing lies between. The fits have seen "
            f"{format_percent(fitted[0])} to {format_percent(fitted[1])}; give min_replay= and max_replay= in order."
        )
    limits = build_limits(
        target_side,
        source_side,
        how,
        max_forgetting=most_forgotten,
        max_target_loss=highest_target,
        max_source_loss=highest_source,
        risk=chance,
    )
    return Setting(
        target=target_side,
        source=source_side,
        forgetting=how,
        low=low,
        high=high,
        fitted_low=fitted[0],
        fitted_high=fitted[1],
        given_low=min_replay is not None,
        given_high=max_replay is not None,
        limits=limits,
        risk=chance,
        interval=coverage,
        findings=tuple(found),
    )


def _fitted_replay(sides: list[Side]) -> tuple[float, float]:
    """Return the range of replay that all fits have seen, without runs on the source corpus alone."""
    lows, highs = [], []
    for side in sides:
        levels = side.fitted_replay
        if len(levels):
            mixed = levels[levels < 1] if np.any(levels < 1) and not side.fit.data.empty else levels
            lows.append(float(mixed[0]))
            highs.append(float(mixed[-1]))
    if not lows:
        return 0.0, 0.0
    if max(lows) > min(highs):
        ranges = [f"{format_percent(low)} to {format_percent(high)}" for low, high in zip(lows, highs, strict=True)]
        raise UsageError(
            f"the target fit and the source fit share no replay ({' and '.join(ranges)}). Give min_replay= and "
            f"max_replay=, or fit both on the same runs."
        )
    return max(lows), min(highs)
