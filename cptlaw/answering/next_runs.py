"""The runs worth buying next, after an answer: those that narrow its most doubtful loss for the least compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cptlaw.answering.steps import NEXT_RUNS
from cptlaw.errors import CptlawError
from cptlaw.findings import Finding
from cptlaw.planning.limits import AboveBase
from cptlaw.planning.next_runs.cells import Bases, Offer, candidates
from cptlaw.planning.next_runs.open_forecast import open_forecast
from cptlaw.planning.next_runs.suggestion import Cell, Suggestion
from cptlaw.result import plain
from cptlaw.runs import Runs
from cptlaw.units import format_percent

SHARES = (0.05, 0.2, 0.5)  # of the plan's compute: the first for which a run is worth its cost
INTERVAL = 0.9


def next_runs(
    runs: Runs, fitted: Any, row: pd.DataFrame, flops: float, n_active: float | None, above: AboveBase | None = None
) -> tuple[tuple[Mapping[str, object], ...], list[Finding], float | None]:
    """Return the runs to buy next, why there are none, and the compute that was offered for those that there are.

    The first is one of no tokens where an evaluation of the base model narrows the answer.

    Parameters
    ----------
    runs
        The table.
    fitted
        The loss that matters, an average of laws.
    row
        The planned run, one row; runs that could be next share what they do not choose, such as a mix of k corpora.
    flops
        Compute of the plan.
    n_active
        Parameters that a token trains, where they are not all.
    above
        How the loss lies above its base model's, where forgetting is what matters.
    """
    leading = fitted.members[0].fit  # the doubt of an average is mostly that of the law which counts most
    what = f"the {fitted.on} loss" if above is None else "forgetting"
    noise: Finding | None = None
    base: tuple[Mapping[str, object], ...] = ()
    try:
        cells = candidates(leading, runs.frame, row.iloc[0], n_active=n_active)
        forecast = open_forecast(leading, row, INTERVAL, Offer(cells, Bases.of(runs.frame)), fitted, above)
        for budget in (share * flops for share in SHARES):
            suggestion = forecast.answer(budget, NEXT_RUNS)
            told = {one.code for one in suggestion.findings}
            base = _with_shares(suggestion, what, row)
            if suggestion.cells and "little-to-gain" not in told:
                return base, [], budget
            base = base[: bool(suggestion.base_gain)]
            noise = next((one for one in suggestion.findings if one.code == "noise-binds"), None)
    except CptlawError as error:
        return (), [Finding("info", "no-suggestion", f"which runs to buy next cannot be said: {error}")], None
    most = format_percent(SHARES[-1])
    none = f"no run for up to {most} of the plan's compute narrows {what} by a twentieth"
    if noise is None:
        advice = "Only runs as large as the plan would narrow it further."
        return base, [Finding("info", "no-suggestion", f"{none}.", advice)], None
    return base, [Finding("info", "no-suggestion", f"{none}: {noise.message}", noise.advice)], None


def _with_shares(suggestion: Suggestion, what: str, row: pd.DataFrame) -> tuple[Mapping[str, object], ...]:
    """Return the runs, each with the share by which it narrows the interval after those before it.

    An open end counts as in the gains.
    """
    low, high = (
        end if end is not None else suggestion.loss * factor
        for end, factor in zip(suggestion.interval_before, (np.exp(-1.0), np.exp(1.0)), strict=True)
    )
    left, result = high - low, []
    at = row.iloc[0]
    rate = float(at["lr_peak"]) if "lr_peak" in row else None
    base = Cell(float(at["n_params"]), at.get("ptpp"), None, 0.0, 0.0, suggestion.base_gain, 0.0, 0.0, (0.0,))
    for cell in [*([base] if suggestion.base_gain else []), *suggestion.cells]:
        chosen: dict[str, object] = plain(cell)
        if cell.tokens:
            chosen["lr_peak"] = cell.lr_peak or rate
        result.append({**chosen, "narrows": {"of": what, "by": float(cell.gain / left)}})
        left -= cell.gain
    return tuple(result)
