"""What the next runs would save: tokens of a robust plan that pay for nothing but doubt.

A plan under risk costs more tokens than the point plan. Some of that price can be spent on small runs instead, which
narrow the intervals, so that the limits need less room. Here the price itself is the budget of those runs: what they
cost must come out of what they save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.fitting import Fit
from cptlaw.planning.limits import Limit
from cptlaw.planning.next_runs.cells import Bases, CandidateRun, candidates
from cptlaw.planning.next_runs.open_forecast import MOST_CELLS, open_forecast
from cptlaw.planning.next_runs.suggestion import Cell
from cptlaw.planning.result import flops_of

FIRST = (1, 2, 4, 8, 16, 24)  # so many of the suggested cells are tried
Solve = Callable[[tuple[Limit, ...]], float]


@dataclass(frozen=True)
class Saving:
    """Runs to make before the plan is carried out, and what the plan is expected to cost after them.

    Attributes
    ----------
    cells
        The runs, as `cptlaw.suggest` gives them; empty where none within the budget saves more than it costs.
    budget
        FLOPs that they may cost: the price of doubt.
    flops
        FLOPs that they do cost.
    tokens
        Tokens of the plan after them, if their losses come out as the fits forecast.
    saved_tokens, saved_flops
        By how much the plan becomes cheaper; `flops` is not taken off.
    """

    cells: tuple[Cell, ...]
    budget: float
    flops: float
    tokens: float
    saved_tokens: float
    saved_flops: float


def saving(
    limits: tuple[Limit, ...], mix: tuple[float, float], price: float, coverage: float, solve: Solve
) -> Saving | None:
    """Return what next runs would save of a plan under risk; ``None`` where there is no doubt to pay for.

    Parameters
    ----------
    limits
        The limits, as settled at the plan.
    mix
        Replay and tokens of the plan.
    price
        Its price of doubt, tokens.
    coverage
        Of the intervals that keep the limits.
    solve
        Maps limits to the tokens of the plan that keeps them.
    """
    doubtful = [limit for limit in limits if limit.margin is not None]
    if price <= 0 or not doubtful or any(not isinstance(limit.loss.fit, Fit) for limit in doubtful):
        return None
    replay, tokens = mix
    size = doubtful[0].loss.n_params
    budget = flops_of(size, price)
    losses = {limit.loss.role: limit.loss for limit in doubtful}
    asked = {role: open_forecast(loss.fit, loss.frame(replay, tokens), coverage) for role, loss in losses.items()}
    # What is saved is expected, not promised: the new losses are taken to come out as the fits forecast them.
    bought: list[Saving] = []
    for role, loss in losses.items():
        # Base models too, for next runs may start from any that is there.
        frame = pd.concat([loss.fit.data, loss.fit.base], ignore_index=True)
        found = candidates(loss.fit, frame, asked[role].asked.iloc[0])
        cells = asked[role].answer(found, Bases.of(frame), budget, MOST_CELLS).cells
        # The cells stand in the order of what they are worth, so the cheapest whole is one of the first few of them.
        for first in (cells[:count] for count in FIRST if count <= len(cells)):
            runs = [
                CandidateRun(cell.n_params, cell.ptpp, cell.replay, cell.tokens, cell.checkpoints) for cell in first
            ]
            # A run measures both losses.
            shares = {name: other.share_after(runs) for name, other in asked.items()}
            after = solve(tuple(_narrower(limit, shares) for limit in limits))
            spent, saved = sum(cell.flops for cell in first), tokens - after
            # Only what pays for itself in full: the saving is an expectation, and what the runs cost is certain.
            if np.isfinite(after) and flops_of(size, saved) > spent:
                bought.append(Saving(first, budget, spent, after, saved, flops_of(size, saved)))
    nothing = Saving((), budget, 0.0, tokens, 0.0, 0.0)
    return min(bought, key=lambda one: flops_of(size, one.tokens) + one.flops, default=nothing)


def _narrower(limit: Limit, shares: Mapping[Any, float]) -> Limit:
    """Return the limit with its doubt about the fitted loss scaled down."""
    if limit.margin is None:
        return limit
    return replace(limit, margin=replace(limit.margin, share=shares.get(limit.loss.role, 1.0)))
