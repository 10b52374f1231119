"""What a report is asked: a plan of a mix or a forecast, and how its page is made."""

from typing import Annotated

from cptlaw.planning.options import Entry, amount, as_given
from cptlaw.planning.scenario import (
    Experts,
    Hardware,
    Intervals,
    Limits,
    Mix,
    Quantity,
    Range,
    ScoreLimits,
    Supply,
    TargetLimit,
)


class Page(Intervals, Hardware, total=False):
    """What is said of a report besides its plan."""

    at: Annotated[
        object, Entry(as_given, "The forecast that matters, as for forecast --at. [default: the plan]", "K=V,..")
    ]
    test_where: Annotated[
        str | None, Entry(as_given, "Rows that were held out of the fits, to judge calibration on.", "Q")
    ]
    schedules: Annotated[object, Entry(as_given, "Schedules file, for the loss curves.", "F")]
    suggest_budget: Annotated[Quantity, Entry(as_given, "Suggest next runs for this compute, as in 1e20.", "FLOPS")]
    title: Annotated[str | None, Entry(as_given, "Title of the page.", "TEXT")]


class ReportOfRuns(Mix, Experts, Limits, ScoreLimits, TargetLimit, Range, Supply, Page, total=False):
    """The question of `report`: a plan under limits, or without them a forecast."""

    n_params: Annotated[Quantity, amount("8.1B", "Parameters of the model, as in 8.1B.", "N", law_input=True)]
