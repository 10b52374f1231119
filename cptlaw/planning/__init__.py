"""Planning: what to train on, one file per question."""

from cptlaw.planning.best_schedule import schedule
from cptlaw.planning.compute_allocation import AllocatePlan, ComputeOptimal, allocate, compute_optimal
from cptlaw.planning.fewest_tokens import MinTokensPlan, min_tokens
from cptlaw.planning.limited_target_data import LimitedDataPlan, limited_data
from cptlaw.planning.pareto_front import ParetoPlan, ParetoPoint, pareto
from cptlaw.planning.replay_trade_off import TradeOffPlan, crossing, trade_off
from cptlaw.planning.result import MixPlan, Plan
from cptlaw.planning.schedule_plan import SchedulePlan
from cptlaw.planning.suggest_next import Cell, Suggestion, suggest
from cptlaw.planning.turning import CriticalPlan, TurningPlan, critical_point, turning_length
from cptlaw.planning.whole_schedule import WholePlan, whole_schedule

__all__ = [
    "AllocatePlan",
    "Cell",
    "ComputeOptimal",
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
    "pareto",
    "schedule",
    "suggest",
    "trade_off",
    "turning_length",
    "whole_schedule",
]
