"""Planning: what to train on, one file per question."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cptlaw.planning.corpora.mix import mix
    from cptlaw.planning.corpora.result import CorporaPlan
    from cptlaw.planning.mixes.allocate import AllocatePlan, ComputeOptimal, allocate, compute_optimal
    from cptlaw.planning.mixes.limited_data import LimitedDataPlan, limited_data
    from cptlaw.planning.mixes.min_tokens import MinTokensPlan, min_tokens
    from cptlaw.planning.mixes.pareto import ParetoPlan, ParetoPoint, pareto
    from cptlaw.planning.mixes.trade_off import TradeOffPlan, crossing, trade_off
    from cptlaw.planning.next_runs.suggest import suggest
    from cptlaw.planning.next_runs.suggestion import Cell, Suggestion
    from cptlaw.planning.result import MixPlan, Plan
    from cptlaw.planning.schedules.schedule import schedule
    from cptlaw.planning.schedules.schedule_plan import SchedulePlan
    from cptlaw.planning.schedules.turning import CriticalPlan, TurningPlan, critical_point, turning_length
    from cptlaw.planning.schedules.whole_schedule import WholePlan, whole_schedule

# Name -> where it lives. Loaded on first use: the command line reads the scenarios and answers --help at once.
_HOMES = {
    **dict.fromkeys(("AllocatePlan", "ComputeOptimal", "allocate", "compute_optimal"), "mixes.allocate"),
    **dict.fromkeys(("LimitedDataPlan", "limited_data"), "mixes.limited_data"),
    **dict.fromkeys(("MinTokensPlan", "min_tokens"), "mixes.min_tokens"),
    **dict.fromkeys(("ParetoPlan", "ParetoPoint", "pareto"), "mixes.pareto"),
    **dict.fromkeys(("TradeOffPlan", "crossing", "trade_off"), "mixes.trade_off"),
    **dict.fromkeys(("MixPlan", "Plan"), "result"),
    "CorporaPlan": "corpora.result",
    "mix": "corpora.mix",
    "schedule": "schedules.schedule",
    "SchedulePlan": "schedules.schedule_plan",
    **dict.fromkeys(("CriticalPlan", "TurningPlan", "critical_point", "turning_length"), "schedules.turning"),
    **dict.fromkeys(("WholePlan", "whole_schedule"), "schedules.whole_schedule"),
    "suggest": "next_runs.suggest",
    **dict.fromkeys(("Cell", "Suggestion"), "next_runs.suggestion"),
}

__all__ = [
    "AllocatePlan",
    "Cell",
    "ComputeOptimal",
    "CorporaPlan",
    "CriticalPlan",
    "LimitedDataPlan",
    "MinTokensPlan",
    "MixPlan",
    "ParetoPlan",
    "ParetoPoint",
    "Plan",
    "SchedulePlan",
    "Suggestion",
    "TradeOffPlan",
    "TurningPlan",
    "WholePlan",
    "allocate",
    "compute_optimal",
    "critical_point",
    "crossing",
    "limited_data",
    "min_tokens",
    "mix",
    "pareto",
    "schedule",
    "suggest",
    "trade_off",
    "turning_length",
    "whole_schedule",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cptlaw.planning' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cptlaw.planning.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
