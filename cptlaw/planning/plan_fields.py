"""What a plan holds, field by field: its label for people and how its value is printed.

Plans, answers, their tables and the report read labels and formats from here, so that a field is called and printed
alike wherever it stands. JSON has the keys and the plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cptlaw.planning.cost import money, rounded
from cptlaw.result import Line, Table
from cptlaw.units import format_percent, format_quantity, short_percent


@dataclass(frozen=True)
class PlanField:
    """One field of a plan.

    Parameters
    ----------
    label
        What it is called at the left of its line.
    text
        Prints its value.
    head
        What it is called above a column, where that is shorter.
    """

    label: str
    text: Callable[..., str]
    head: str = ""


def _quantity(value: float) -> str:
    return format_quantity(value, 3)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def chance(value: float) -> str:
    """Return a probability to the whole percent; ends are never certain."""
    return "<1%" if value < 0.01 else ">99%" if value > 0.99 else f"{100 * value:.0f}%"


PLAN_FIELDS: Mapping[str, PlanField] = {
    "n_params": PlanField("parameters", lambda value: format_quantity(value, 4)),
    "ptpp": PlanField("pre-training tokens per parameter", _count),
    "replay": PlanField("share of old data (replay)", format_percent, "replay"),
    "lr_peak": PlanField("peak rate", lambda value: f"{value:.3g}"),
    "batch_tokens": PlanField("tokens of a step", _quantity, "batch"),
    "tokens": PlanField("tokens", _quantity),
    "atpp": PlanField("tokens per parameter", lambda value: f"{value:.3g}"),
    "steps": PlanField("steps", _count),
    "epochs": PlanField("times the new text is read", lambda value: f"{value:.3g}", "epochs"),
    "flops": PlanField("FLOPs", lambda value: f"{value:.2g}"),
    "gpu_hours": PlanField("GPU hours", rounded),
    "days": PlanField("days", lambda value: f"{value:.2g}"),
    "cost": PlanField("cost", money),
    "target_loss": PlanField("target loss", lambda value: f"{value:.4g}"),
    "source_loss": PlanField("source loss", lambda value: f"{value:.4g}"),
    "forgetting": PlanField("forgetting", short_percent),
    "target_gain": PlanField("target loss falls by", short_percent),
    "probability": PlanField("limits hold", chance),
}


def field_line(key: str, value: object) -> Line:
    """Return a field of a plan as a line: its label, and its value as people read it."""
    return PLAN_FIELDS[key].label, PLAN_FIELDS[key].text(value)


def field_table(rows: Iterable[Mapping[str, object]], keys: Iterable[str], fields: Mapping[str, PlanField]) -> Table:
    """Return plans as a table, one a row; columns that no plan fills are left out.

    Parameters
    ----------
    rows
        Plans by the keys of their fields.
    keys
        The columns, in order.
    fields
        Labels and formats: `PLAN_FIELDS`, or others where a column shows more than its own number.
    """
    listed = [*rows]
    shown = [key for key in keys if any(row.get(key) is not None for row in listed)]
    cells = tuple(tuple("-" if row.get(key) is None else fields[key].text(row[key]) for key in shown) for row in listed)
    return Table(tuple(fields[key].head or fields[key].label for key in shown), cells)
