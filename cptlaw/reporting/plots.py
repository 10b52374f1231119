"""`cptlaw.plot`: the figure that shows a result best, by the kind of the result.

Results know nothing of drawing, which stands above them; `cptlaw.figures` has every figure with all of its options.
"""

from __future__ import annotations

from collections.abc import Callable

from cptlaw.errors import UsageError
from cptlaw.fitting.auto.average import Average
from cptlaw.fitting.fit import Fit
from cptlaw.fitting.uncertainty.answers import Forecast, ForecastFrame
from cptlaw.forecasting.backtest.comparison import Comparison, ComparisonFrame
from cptlaw.forecasting.sealing import Scores
from cptlaw.planning import (
    AllocatePlan,
    MinTokensPlan,
    MixPlan,
    ParetoPlan,
    SchedulePlan,
    Suggestion,
    WholePlan,
)
from cptlaw.reporting.figures.budget_split import budget_split
from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.figures.forecast_points import forecast_points
from cptlaw.reporting.figures.forgetting_and_gain import forgetting_and_gain
from cptlaw.reporting.figures.forgetting_map import map_of_plan
from cptlaw.reporting.figures.law_scores import law_scores
from cptlaw.reporting.figures.losses_by_replay import losses_by_replay
from cptlaw.reporting.figures.observed_fitted import observed_fitted
from cptlaw.reporting.figures.pareto_front import pareto_front
from cptlaw.reporting.figures.schedule_rates import schedule_rates
from cptlaw.reporting.figures.sealed_scores import sealed_scores
from cptlaw.reporting.figures.suggested_cells import suggested_cells

# The first kind that fits decides: a plan of the fewest tokens is a plan of a mix too.
FIGURES: tuple[tuple[tuple[type, ...], Callable[..., Figure]], ...] = (
    ((Fit, Average), observed_fitted),
    ((ForecastFrame,), forecast_points),
    ((ComparisonFrame,), law_scores),
    ((MinTokensPlan,), map_of_plan),
    ((MixPlan,), losses_by_replay),
    ((ParetoPlan,), pareto_front),
    ((Suggestion,), suggested_cells),
    ((SchedulePlan, WholePlan), schedule_rates),
    ((AllocatePlan,), budget_split),
    ((Scores,), sealed_scores),
)


def plot(result: object) -> Figure:
    """Return the figure that shows a result best. Needs the extra ``report``.

    Parameters
    ----------
    result
        A fit, a forecast, a comparison, a plan, an answer, a suggestion, or scores of sealed forecasts.

    Returns
    -------
    Figure
        Shown by a notebook; ``.save("figure.svg")`` writes it, ``.drawing`` is Plotly's own figure.

    Raises
    ------
    UsageError
        If this kind of result has no figure, or Plotly is not installed.

    Examples
    --------
    >>> import cptlaw as cl
    >>> fit = cl.fit("ptpp-floor", cl.examples.load("en-fr-pilot"), on="target")
    >>> cl.plot(fit).save("fit.svg")  # doctest: +SKIP
    """
    if isinstance(result, Forecast | Comparison):
        result = result.frame
    if getattr(result, "along_replay", None) is not None:  # an answer without runs, behind which there is no plan
        return forgetting_and_gain(result)
    drawn = getattr(result, "plan", None) or result  # an answer is drawn as the plan behind it
    for kinds, figure in FIGURES:
        if isinstance(drawn, kinds):
            return figure(drawn)
    raise UsageError(
        f"there is no figure of a {type(result).__name__}. Fits, forecasts, comparisons, plans, answers, "
        f"suggestions and scores of sealed forecasts have one; cl.figures lists all."
    )
