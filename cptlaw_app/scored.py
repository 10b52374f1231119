"""Scores in the app: fields for their limits, what to expect of each under the plan, and how one follows its loss."""

from __future__ import annotations

from typing import Any

from cptlaw.errors import CptlawError, UsageError
from cptlaw.planning.options import points
from cptlaw.planning.result import MixPlan
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.score_link import score_link
from cptlaw.reporting.points import expected_scores, format_chance
from cptlaw.result import Table
from cptlaw.units import format_percent
from cptlaw_app import shown
from cptlaw_app.fitted import Fitted
from cptlaw_app.layout import BLANK
from cptlaw_app.moves import COVERAGE, row_of
from cptlaw_app.opening import session_of
from cptlaw_app.scenario import Scenario
from cptlaw_app.sentences import in_app, in_points, score_text
from cptlaw_app.session import Session, Sessions

# Of each score three fields, in this order wherever they go together.
FIELDS = {"min_score": "at least", "max_drop": "may fall by", "base_score": "base model"}
EMPTY = {"min_score": "no limit", "max_drop": "no limit", "base_score": "measured"}
HEIGHT = 330  # pixels of the curve
FEW = 4  # scores whose fields stand open


def register(app: Any, sessions: Sessions) -> None:
    """Give the page what is about scores."""
    from dash import ALL, ClientsideFunction, Input, Output, State, no_update

    # What was typed goes through one store: a callback of the answer then has one input, whatever the scores.
    app.clientside_callback(
        ClientsideFunction("cptlaw", "limits"),
        Output("score-limits", "data"),
        *(Input({"type": name, "on": ALL}, "value") for name in FIELDS),
        State({"type": next(iter(FIELDS)), "on": ALL}, "id"),
        State("score-limits", "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("scores-table", "children"),
        Output("scores-table", "className"),
        Output("score-curve", "figure"),
        Output("score-title", "children"),
        Input("sure", "data"),
        Input("score-shown", "value"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_scores(sure: Any, on: Any, key: str) -> Any:
        """Show what to expect of the scores under the plan that stands with its doubt, unless it has moved on."""
        session = session_of(sessions, key)
        if session is None or session.fitted is None or session.answered is None or session.answered[0] != sure:
            return (no_update,) * 4
        if not session.fitted.scores:
            return None, "", BLANK, None
        return (*_expected(session.fitted, *session.answered[1:]), *_curve(session, on))


def _expected(fitted: Fitted, scenario: Scenario, plan: MixPlan) -> tuple[Any, str]:
    from dash import html

    if not plan.feasible:
        return html.P("No mix, no scores: loosen a limit first.", className="quiet"), ""
    try:
        return shown.table(table_of(fitted, scenario, plan), f"with {COVERAGE:.0%} intervals of a measured score"), ""
    except CptlawError as error:
        return html.P(in_app(str(error)), className="problem"), ""


def table_of(fitted: Fitted, scenario: Scenario, plan: MixPlan) -> Table:
    """Return what to expect of each score under a plan, those with limits first."""
    limits = {"min_score": dict(scenario.min_score), "max_drop": dict(scenario.max_drop)}
    limited = scenario.limited_scores
    fits = {name: fitted.planned_scores[name] for name in dict.fromkeys((*limited, *fitted.scores))}
    here = {str(name): value for name, value in row_of(scenario, plan).iloc[0].items()}
    found = expected_scores(fits, plan, here, {name: value for name, value in limits.items() if value}, COVERAGE)
    rows = []
    for row in found.to_dict("records"):
        fields = {"score": row["score"], "score_lo": row["lo"], "score_hi": row["hi"]}
        chance = fitted.scores[row["on"]].chance
        limit = row["limit"] if row["limited"] else f"above the {format_percent(chance)} of guessing"
        # Where guessing scores nothing, that a score lies above it says nothing.
        tells = row["limited"] or chance > 0
        held = (limit, format_chance(row["probability"])) if tells else ("none", "-")
        rows.append((str(row["on"]), score_text(fields), *held))
    return Table(("score", "forecast", "limit", "holds with"), tuple(rows))


def curve_of(fitted: Fitted, on: str, scenario: Scenario, plan: MixPlan) -> Figure | None:
    """Return how a score follows the loss that carries it, with the plan on it; ``None`` where it follows none."""
    fit = fitted.planned_scores.get(on)
    if fit is None or all(way.carrier is None for way in fit.ways):
        return None
    figure = score_link(fit, row_of(scenario, plan) if plan.feasible else None, COVERAGE)
    figure.drawing.update_layout({"height": HEIGHT, "uirevision": on}, overwrite=True)
    return figure


def _curve(session: Session, on: Any) -> tuple[Any, Any]:
    assert session.fitted is not None
    assert session.answered is not None
    figure = curve_of(session.fitted, str(on), *session.answered[1:])
    if figure is None:
        return BLANK, "No loss of this table carries this score: it is forecast from size and tokens."
    return figure.drawing, figure.title


# -- the fields ------------------------------------------------------------------------------------------------------


def texts(fitted: Fitted, scenario: Scenario) -> dict[str, list[str]]:
    """Return what stands in the fields of each score: least, fall and base model's."""
    return {
        on: [
            in_points(scenario.min_score[on]) if on in scenario.min_score else "",
            f"{100 * scenario.max_drop[on]:.3g}pt" if on in scenario.max_drop else "",
            in_points(scenario.base_score[on]) if on in scenario.base_score else "",
        ]
        for on in fitted.scores
    }


def fields(fitted: Fitted, scenario: Scenario) -> Any:
    """Return the fields of all scores, empty where there are none."""
    from dash import dcc, html

    rows = []
    for on, words in texts(fitted, scenario).items():
        cells = [
            html.Label(
                [
                    html.Span([label, html.Span(f", {on}", className="unseen")]),
                    dcc.Input(
                        id={"type": name, "on": on}, type="text", value=text, debounce=0.6,
                        placeholder=EMPTY[name], autoComplete="off",
                    ),
                ]
            )
            for (name, label), text in zip(FIELDS.items(), words, strict=True)
        ]  # fmt: skip
        rows.append(
            html.Div([html.Span(on, className="label"), html.Div(cells, className="points")], className="field")
        )
    if not rows:
        return None
    many = f"{len(rows)} scores" if len(rows) > 1 else "one score"
    return html.Details(
        [html.Summary(f"limits on {many}"), html.Div(rows)], open=len(rows) <= FEW, className="of-scores"
    )


def read(fitted: Fitted, typed: Any) -> dict[str, dict[str, float]]:
    """Return the limits that the fields ask, by option and eval; what a page says is not taken on trust.

    Raises
    ------
    UsageError
        If one of them cannot be read.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in FIELDS}
    for on, given in (typed if isinstance(typed, dict) else {}).items():
        if on not in fitted.scores or not isinstance(given, list) or len(given) != len(FIELDS):
            continue
        for name, text in zip(FIELDS, given, strict=True):
            if isinstance(text, str) and text.strip():
                found[name][on] = _share(on, name, text.strip())
    return found


def _share(on: str, name: str, text: str) -> float:
    try:
        return points({on: _with_unit(name, text)}, name)[on]
    except UsageError:
        wanted = "points from 0 to 100, such as 1" if name == "max_drop" else "a score from 0 to 100%, such as 60%"
        raise UsageError(f"{on}, {FIELDS[name]}: {text!r} cannot be used. Expected {wanted}.") from None


def _with_unit(name: str, text: str) -> str:
    """Return what was typed with the unit of its field: a fall of 1 is one point, a score of 60 is 60 %."""
    try:
        number = float(text)
    except ValueError:
        return text
    if name == "max_drop":
        return f"{text}pt"
    return f"{text}%" if number > 1 else text
