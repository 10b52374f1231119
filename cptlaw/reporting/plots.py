"""What `plot()` of an answer draws: the figure that shows it best, as Plotly has it.

An answer does not know how it is drawn; `Result.plot` asks here, by the kind of the answer. The functions of
`cptlaw.reporting.figures` draw more, and give captions and data along with the drawing.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from cptlaw.auto.auto_fit import AutoFit
from cptlaw.auto.check_auto import AutoCheck
from cptlaw.comparing.comparison import Comparison
from cptlaw.curves.run_forecast import RunForecast
from cptlaw.errors import UsageError
from cptlaw.fitting import Fit
from cptlaw.planning import (
    AllocatePlan,
    CriticalPlan,
    MinTokensPlan,
    MixPlan,
    ParetoPlan,
    SchedulePlan,
    Suggestion,
    TurningPlan,
    WholePlan,
)
from cptlaw.reporting.figures.budget_split import budget_split
from cptlaw.reporting.figures.determined import determined
from cptlaw.reporting.figures.figure import Figure
from cptlaw.reporting.figures.forecast_points import forecast_points
from cptlaw.reporting.figures.forgetting_map import draw_map, edges_of, map_grid
from cptlaw.reporting.figures.law_scores import law_scores
from cptlaw.reporting.figures.losses_by_replay import losses_by_replay
from cptlaw.reporting.figures.observed_fitted import observed_fitted
from cptlaw.reporting.figures.pareto_front import pareto_front
from cptlaw.reporting.figures.return_to_start import return_to_start
from cptlaw.reporting.figures.run_ends import run_ends
from cptlaw.reporting.figures.schedule_rates import schedule_rates
from cptlaw.reporting.figures.sealed_points import sealed_points
from cptlaw.reporting.figures.sealed_scores import sealed_scores
from cptlaw.reporting.figures.suggested_cells import suggested_cells
from cptlaw.result import Result
from cptlaw.sealing import Scores, Seal
from cptlaw.uncertainty.answers import Forecast
from cptlaw.verbs.check_runs import Check

ROOM = 40  # pixels that the title takes


def plot(answer: Result, **options: Any) -> Any:
    """Return the figure of an answer as Plotly's own, with its title.

    Parameters
    ----------
    answer
        A fit, a forecast (of unfinished runs too), a check, a comparison, a plan, a suggestion, a sealed forecast or
        the scores of sealed ones.
    **options
        Those of the figure that is drawn.

    Raises
    ------
    UsageError
        If this kind of answer has no figure, or Plotly is not installed.
    """
    try:
        figure = figure_of(answer, **options)
    except TypeError as error:
        if options:
            raise UsageError(f"plot: {', '.join(options)} cannot be used for this figure ({error}).") from None
        raise
    drawing = figure.drawing
    # Figures of a page have their title in its heading; alone they need room for one.
    top = (drawing.layout.margin.t or 0) + ROOM
    height = None if drawing.layout.height is None else drawing.layout.height + ROOM
    title = {"text": figure.title, "x": 0, "xref": "container", "xanchor": "left", "pad": {"l": 12}}
    drawing.update_layout(title=title | {"font": {"size": 14}, "y": 0.98, "yanchor": "top"}, height=height)
    drawing.update_layout(margin={"t": top})
    return drawing


@singledispatch
def figure_of(answer: Any, **options: Any) -> Figure:
    """Return the figure that shows an answer best."""
    raise UsageError(
        f"there is no figure of a {type(answer).__name__}. Fits, forecasts, checks, comparisons, plans, suggestions, "
        f"sealed forecasts and their scores have one; cl.figures draws others."
    )


@figure_of.register
def _(answer: Fit, **options: Any) -> Figure:
    return observed_fitted(answer, **options)


@figure_of.register
def _(answer: AutoFit, **options: Any) -> Figure:
    one: Any = answer  # an average has what the figure asks of a fit
    return observed_fitted(one, **options)


@figure_of.register
def _(answer: Forecast, **options: Any) -> Figure:
    return forecast_points(answer.frame, **options)


@figure_of.register
def _(answer: Comparison, **options: Any) -> Figure:
    scores: Any = answer.frame
    return law_scores(scores, **options)


@figure_of.register
def _(answer: MixPlan, **options: Any) -> Figure:
    mix = answer.mix
    if mix is None:
        raise UsageError("this plan does not know its fits, as one read from a file: ask for it again to draw it.")
    if not isinstance(answer, MinTokensPlan) or mix.source is None or mix.forgetting is None:
        return losses_by_replay(answer, **options)
    tokens, replay = map_grid(mix, answer)
    risks = () if answer.risk is None else (answer.risk,)
    edges = edges_of(mix, answer, tokens, replay, risks) if risks else {}
    return draw_map(mix, answer, tokens, replay, edges, **options)


@figure_of.register
def _(answer: ParetoPlan, **options: Any) -> Figure:
    return pareto_front(answer, **options)


@figure_of.register
def _(answer: Suggestion, **options: Any) -> Figure:
    return suggested_cells(answer, **options)


@figure_of.register
def _(answer: SchedulePlan, **options: Any) -> Figure:
    return schedule_rates(answer, **options)


@figure_of.register
def _(answer: WholePlan, **options: Any) -> Figure:
    return schedule_rates(answer, **options)


@figure_of.register
def _(answer: AllocatePlan, **options: Any) -> Figure:
    return budget_split(answer, **options)


@figure_of.register
def _(answer: Scores, **options: Any) -> Figure:
    return sealed_scores(answer, **options)


@figure_of.register
def _(answer: Seal, **options: Any) -> Figure:
    return sealed_points(answer, **options)


@figure_of.register
def _(answer: RunForecast, **options: Any) -> Figure:
    return run_ends(answer, **options)


@figure_of.register
def _(answer: TurningPlan, **options: Any) -> Figure:
    return return_to_start(answer, **options)


@figure_of.register
def _(answer: CriticalPlan, **options: Any) -> Figure:
    return return_to_start(answer, **options)


@figure_of.register
def _(answer: Check, **options: Any) -> Figure:
    return determined(answer, **options)


@figure_of.register
def _(answer: AutoCheck, **options: Any) -> Figure:
    return determined(answer, **options)
