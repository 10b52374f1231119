"""What a report is about: runs, their fits, the plan, and the mix that matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cptlaw.errors import UsageError, require_type
from cptlaw.fitting.fit import Fit
from cptlaw.planning import MinTokensPlan, MixPlan, min_tokens
from cptlaw.planning.report_scenario import Page, ReportOfRuns
from cptlaw.planning.result import flops_of
from cptlaw.planning.scenario import options_of
from cptlaw.reporting.points import IN_POINTS, LIMITS_IN_POINTS, limits_in_points
from cptlaw.runs import Runs
from cptlaw.runs.points import point
from cptlaw.runs.schema import mix_columns
from cptlaw.units import parse_quantity

if TYPE_CHECKING:
    from cptlaw_scores import ScoreFit

MODEL = ("n_params", "ptpp")


@dataclass(frozen=True)
class Subject:
    """What a report is about.

    Attributes
    ----------
    table
        The runs.
    fits
        Fits of the losses, the target first.
    scores
        Fits of the scores by eval.
    plan
        The plan, where limits were given.
    mix
        The mix that the report is about, by the inputs of the laws.
    model
        Size and pre-training budget that were asked for; ``None`` where they were not.
    limits
        What was asked of the plan, as it was given.
    interval
        Coverage of all intervals.
    """

    table: Runs
    fits: tuple[Fit, ...]
    scores: Mapping[str, ScoreFit]
    plan: MixPlan | None
    mix: Mapping[str, Any]
    model: Mapping[str, Any]
    limits: Mapping[str, Any]
    interval: float

    @classmethod
    def of(
        cls,
        table: Runs,
        fits: tuple[Fit, ...],
        scores: Mapping[str, ScoreFit],
        given: Mapping[str, Any],
        *,
        interval: float,
        plan: MixPlan | None = None,
    ) -> Subject:
        """Plan where there is a limit, and choose the mix that matters.

        Raises
        ------
        UsageError
            If limits lack the model, or what belongs to a plan lacks a limit.
        """
        asked = read_at(given.get("at"))
        model = {name: given.get(name, asked.get(name)) for name in MODEL}
        limits = limits_of(given)
        plan = plan or _plan(fits, scores, model, limits, interval)
        mix = _where_it_matters((*fits, *scores.values()), asked, model, plan)
        return cls(table, fits, scores, plan, mix, model, limits, interval)

    @property
    def flops(self) -> float | None:
        """Compute of the mix that matters, 6 N D, where the laws read both."""
        known = {"n_params", "tokens"} <= set(self.mix)
        active = self.limits.get("n_active")
        size = float(self.mix["n_params"]) if active is None else parse_quantity(active, "n_active")
        return flops_of(size, float(self.mix["tokens"])) if known else None


def limits_of(given: Mapping[str, object]) -> dict[str, object]:
    """Return what of the question of a report is about its plan."""
    return {name: value for name, value in given.items() if name not in (*MODEL, *options_of(Page))}


def read_at(at: str | Mapping[str, object] | None) -> dict[str, object]:
    """Return the inputs at a point, read from ``"n_params=8.1B,tokens=72B"`` or a mapping."""
    if at is None:
        return {}
    require_type(at, (str, Mapping), "at (--at)", "inputs by name, as in n_params=8.1B,tokens=72B")
    frame = point(at if isinstance(at, str) else ",".join(f"{name}={value}" for name, value in at.items()))
    return {str(name): value for name, value in frame.iloc[0].items()}


def _plan(
    fits: tuple[Fit, ...],
    scores: Mapping[str, ScoreFit],
    model: Mapping[str, Any],
    limits: Mapping[str, Any],
    interval: float,
) -> MinTokensPlan | None:
    """Return the fewest tokens under the limits; None where there is no limit."""
    of_losses = [name for name, option in options_of(ReportOfRuns).items() if option.limit]
    if not any(limits.get(name) for name in (*of_losses, *LIMITS_IN_POINTS)):
        homeless = [name for name in limits if name not in IN_POINTS]
        if homeless:
            raise UsageError(
                f"{', '.join(homeless)}: these belong to a plan, and a plan needs a limit: max_forgetting "
                f"(--max-forgetting), max_target_loss (--max-target-loss), max_source_loss (--max-source-loss), "
                f"min_score (--min) or max_drop (--max-drop)."
            )
        return None
    if model["n_params"] is None:
        raise UsageError(
            "a plan needs n_params (--n-params), the parameters of the model that is planned for, such as 8.1B."
        )
    asked = {**model, **limits, **({"scores": scores} if limits_in_points(limits) else {})}
    # Which next runs would pay for themselves is asked for by suggest_budget: it takes longer than all the rest.
    return min_tokens(*fits, **asked, interval=interval)


def _best_mix(fit: Fit | ScoreFit, given: Mapping[str, object]) -> dict[str, float]:
    """Return the shares of the fitted mix of k corpora with the lowest loss, where none were given."""
    names = [name for name in fit.law.inputs if name in mix_columns(fit.data.columns)]
    if not names or any(name in given for name in names):
        return {}
    best = fit.data.iloc[int(fit.data["loss"].argmin())]
    return {name: float(best[name]) for name in names}


def _where_it_matters(
    fits: tuple[Fit | ScoreFit, ...], given: Mapping[str, Any], model: Mapping[str, object], plan: MixPlan | None
) -> dict[str, object]:
    """Return the point of the forecasts: what was given, then the plan's mix, then the largest that was fitted."""
    mix: dict[str, Any] = _best_mix(fits[0], given)
    # What a plan took to be so, such as a rate, holds for all that the page says of it.
    known = {} if plan is None or plan.mix is None else dict((plan.mix.source or plan.mix.target).known)
    mix |= {name: given.get(name, value) for name, value in known.items()}
    for name in dict.fromkeys(name for fit in fits for name in fit.law.inputs):
        planned = None if plan is None else getattr(plan, name, None)
        asked = model.get(name)
        seen = pd.concat([fit.data[name] for fit in fits if name in fit.data.columns]).astype(float)
        if name in given:
            mix[name] = given[name]
        elif name in mix:  # known to the plan, or a share of the best mix that was run
            continue
        elif planned is not None:
            mix[name] = planned
        elif asked is not None:
            mix[name] = parse_quantity(asked, name)
        else:
            levels = np.sort(seen.unique())
            mix[name] = float(levels[len(levels) // 2] if name == "replay" else levels[-1])
    if model.get("ptpp") is not None and "ptpp" not in mix:
        mix["ptpp"] = parse_quantity(model["ptpp"], "ptpp")
    return mix
