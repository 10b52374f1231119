"""The answer to the question of the best schedule: a frozen value that prints well and goes to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cptlaw.planning.result import LimitedPlan, number_text, quantity_text
from cptlaw.result import Line
from cptlaw.runs.metrics import USUAL_UNIT
from cptlaw.units import format_percent, format_quantity, format_span

NEAR = 1e-3  # nats by which a schedule may be worse than the best and still count as near it


@dataclass(frozen=True, repr=False, kw_only=True)
class SchedulePlan(LimitedPlan):
    """Answer of `schedule`. See `cptlaw.planning.result.LimitedPlan` for what plans under limits share.

    Attributes
    ----------
    goal
        What was minimised: the weighted loss, the target loss, the source loss, or steps.
    weight_source
        Weight of the source loss, lambda_1 of Wang et al. 2025, eq. 5 (arXiv:2505.07796); ``None`` without one.
    vary
        What could be chosen, each with its best value; `near_best` has the range over which the goal stays within
        0.001 nats of the best (for steps: the least steps alone), the others held.
    phases
        The whole schedule, as a schedules file has it, or ``None`` where no plan keeps the limits (as all below).
    peak, end, warmup, decay, steps, replay, tokens
        The CPT phase: learning rates, optimiser steps, the mix, and tokens where their number per step is known.
    loss_potential
        The base model's last learning rate over its peak; ``None`` where its schedule is not known.
    target_loss, source_loss
        Nats per token at the last step, each with ``_lo`` and ``_hi`` where the fit has an interval.
    base_target_loss, base_source_loss
        Where CPT starts.
    weighted_loss, weighted_change
        The weighted loss, and by how much CPT changes it: lambda_1 dL_source + lambda_2 dL_target, both as signed
        changes.
    forgetting
        Against `base_source_loss`.
    unit
        Of the losses.
    """

    goal: str
    weight_source: float | None
    vary: Mapping[str, float] | None = None
    near_best: Mapping[str, tuple[float, float]] | None = None
    phases: tuple[Mapping[str, Any], ...] | None = None
    peak: float | None = None
    end: float | None = None
    warmup: int | None = None
    decay: int | None = None
    steps: int | None = None
    replay: float | None = None
    tokens: float | None = None
    loss_potential: float | None = None
    target_loss: float | None = None
    target_loss_lo: float | None = None
    target_loss_hi: float | None = None
    source_loss: float | None = None
    source_loss_lo: float | None = None
    source_loss_hi: float | None = None
    base_target_loss: float | None = None
    base_source_loss: float | None = None
    weighted_loss: float | None = None
    weighted_change: float | None = None
    forgetting: float | None = None
    unit: str = USUAL_UNIT

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        what = {
            "weighted": f"lowest {format_percent(self.weight_source or 0.0)} source + "
            f"{format_percent(1 - (self.weight_source or 0.0))} target loss",
            "target": "lowest target loss",
            "source": "lowest source loss",
            "steps": "fewest steps",
        }
        return f"Schedule of CPT with the {what[self.goal]}"

    def _expected(self) -> list[Line]:
        near = self.near_best or {}

        def within(name: str) -> str:
            if name not in near:
                return ""
            low, high = (show_choice(name, value) for value in near[name])
            return f"  (within {NEAR:g} nats: {low} to {high})"

        shape = (self.phases or ({},))[-1].get("schedule", "")
        lines = [("schedule", f"{shape}, {quantity_text(self.steps)} steps{within('steps')}")]
        lines.append(("peak", f"{number_text(self.peak)}{within('peak')}, end {number_text(self.end)}{within('end')}"))
        lines.append(("warm-up", f"{self.warmup} steps{within('rewarmup')}"))
        if self.decay:
            lines.append(("decay", f"{self.decay} steps{within('decay')}"))
        if self.replay is not None:
            lines.append(("replay", f"{format_percent(self.replay)}{within('replay')}"))
        if self.loss_potential is not None:
            lines.append(("loss potential", f"{format_percent(self.loss_potential)}{within('loss-potential')}"))
        if self.tokens is not None:
            lines.append(("tokens", quantity_text(self.tokens)))
        lines += [(f"{role} loss", self._loss(f"{role}_loss")) for role in self._roles]
        if self.forgetting is not None:
            lines.append(("forgetting", self._amount("forgetting", self.forgetting)))
        if self.weighted_change is not None:
            text = f"{number_text(self.weighted_loss)}, changed by {self.weighted_change:+.4f}"
            lines.append(("weighted loss", text))
        return lines

    def _price(self, value: float) -> str:
        unit = "steps" if self.goal == "steps" else f"{self.unit.split()[0]} of {self.goal} loss"
        return f"{number_text(value)} {unit}"

    @property
    def _roles(self) -> list[str]:
        return [role for role in ("target", "source") if getattr(self, f"{role}_loss") is not None]

    def _loss(self, name: str) -> str:
        text = format_span(*(getattr(self, part) for part in (name, f"{name}_lo", f"{name}_hi")))
        return f"{text} {self.unit}, from {number_text(getattr(self, f'base_{name}'))}"


def show_choice(name: str, value: float) -> str:
    """Print a value of what may be chosen."""
    if name == "steps":
        return format_quantity(value, 4)
    return f"{value:.3g}" if name == "peak" else format_percent(value)
