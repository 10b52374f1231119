"""Planning: what to train on, one file per question."""

from cptlaw.planning.compute_allocation import AllocatePlan, ComputeOptimal, allocate, compute_optimal
from cptlaw.planning.fewest_tokens import MinTokensPlan, min_tokens
from cptlaw.planning.limited_target_data import LimitedDataPlan, limited_data
from cptlaw.planning.pareto_front import ParetoPlan, ParetoPoint, pareto
from cptlaw.planning.replay_trade_off import TradeOffPlan, crossing, trade_off
from cptlaw.planning.result import MixPlan, Plan
from cptlaw.planning.suggest_next import Cell, Suggestion, suggest

__all__ = [
    "AllocatePlan",
    "Cell",
    "ComputeOptimal",
    "LimitedDataPlan",
    "MinTokensPlan",
    "MixPlan",
    "ParetoPlan",
    "ParetoPoint",
    "Plan",
    "Suggestion",
    "TradeOffPlan",
    "allocate",
    "compute_optimal",
    "crossing",
    "limited_data",
    "min_tokens",
    "pareto",
    "suggest",
    "trade_off",
]
