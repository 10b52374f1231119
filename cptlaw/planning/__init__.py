"""Planning: what to train on, one file per question."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cptlaw.plugins import PLANS, load, plugin_entries

if TYPE_CHECKING:  # each under its own name once more, so that type checkers take it for public
    from cptlaw.planning.corpora.mix import mix as mix
    from cptlaw.planning.corpora.result import CorporaPlan as CorporaPlan
    from cptlaw.planning.mixes.allocate import AllocatePlan as AllocatePlan
    from cptlaw.planning.mixes.allocate import ComputeOptimal as ComputeOptimal
    from cptlaw.planning.mixes.allocate import allocate as allocate
    from cptlaw.planning.mixes.allocate import compute_optimal as compute_optimal
    from cptlaw.planning.mixes.limited_data import LimitedDataPlan as LimitedDataPlan
    from cptlaw.planning.mixes.limited_data import limited_data as limited_data
    from cptlaw.planning.mixes.min_tokens import MinTokensPlan as MinTokensPlan
    from cptlaw.planning.mixes.min_tokens import min_tokens as min_tokens
    from cptlaw.planning.mixes.pareto import ParetoPlan as ParetoPlan
    from cptlaw.planning.mixes.pareto import ParetoPoint as ParetoPoint
    from cptlaw.planning.mixes.pareto import pareto as pareto
    from cptlaw.planning.mixes.trade_off import TradeOffPlan as TradeOffPlan
    from cptlaw.planning.mixes.trade_off import crossing as crossing
    from cptlaw.planning.mixes.trade_off import trade_off as trade_off
    from cptlaw.planning.next_runs.suggest import suggest as suggest
    from cptlaw.planning.next_runs.suggestion import Cell as Cell
    from cptlaw.planning.next_runs.suggestion import Suggestion as Suggestion
    from cptlaw.planning.result import MixPlan as MixPlan
    from cptlaw.planning.result import Plan as Plan
    from cptlaw_curves.planning.schedule import schedule as schedule
    from cptlaw_curves.planning.schedule_plan import SchedulePlan as SchedulePlan
    from cptlaw_curves.planning.turning import CriticalPlan as CriticalPlan
    from cptlaw_curves.planning.turning import TurningPlan as TurningPlan
    from cptlaw_curves.planning.turning import critical_point as critical_point
    from cptlaw_curves.planning.turning import turning_length as turning_length
    from cptlaw_curves.planning.whole_schedule import WholePlan as WholePlan
    from cptlaw_curves.planning.whole_schedule import whole_schedule as whole_schedule

# File -> public names that live there. Loaded on first use: the command line reads the scenarios and answers --help at
# once.
_NAMES = {
    "corpora.mix": "mix",
    "corpora.result": "CorporaPlan",
    "mixes.allocate": "AllocatePlan ComputeOptimal allocate compute_optimal",
    "mixes.limited_data": "LimitedDataPlan limited_data",
    "mixes.min_tokens": "MinTokensPlan min_tokens",
    "mixes.pareto": "ParetoPlan ParetoPoint pareto",
    "mixes.trade_off": "TradeOffPlan crossing trade_off",
    "next_runs.suggest": "suggest",
    "next_runs.suggestion": "Cell Suggestion",
    "result": "MixPlan Plan",
}
_HOMES = {name: f"cptlaw.planning.{home}" for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif not name.startswith("_") and name in (beside := plugin_entries(PLANS)):
        value = load(beside[name], f"cptlaw.plan.{name}")
    else:
        raise AttributeError(f"module 'cptlaw.planning' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *plugin_entries(PLANS)})
