"""What the drawers do: fit with other laws, suggest runs, make the report, hand over files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cptlaw.errors import CptlawError
from cptlaw.verbs import check
from cptlaw_app import jobs, shown
from cptlaw_app.layout import AUTO, ROLES
from cptlaw_app.moving import places, scenario_of
from cptlaw_app.opening import begin_fit, session_of
from cptlaw_app.sentences import in_app
from cptlaw_app.session import Sessions

NOT_YET = "There is no fit yet: wait for it."


def register(app: Any, sessions: Sessions) -> None:
    """Give the drawers their callbacks."""
    _fitting(app, sessions)
    _jobs(app, sessions)
    _downloads(app, sessions)


def _fitting(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    @app.callback(
        *(Output(f"about-law-{role}", "children") for role in ROLES),
        *(Input(f"law-{role}", "value") for role in ROLES),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def explain(target: str, source: str, key: str) -> Any:
        """Say in a line what each law is, and whether the rows can determine it."""
        session = session_of(sessions, key)
        said = []
        for role, name in zip(ROLES, (target, source), strict=True):
            try:
                text = shown.law_line(name)
                if session is not None and session.loaded is not None and name != AUTO:
                    found = check(name, session.loaded.runs, role, session.loaded.where or None)
                    text += f" {found.summary().splitlines()[0]}"
            except CptlawError as error:
                text = in_app(str(error))
            said.append(text)
        return said

    @app.callback(
        Output("tick", "disabled", allow_duplicate=True),
        Output("problem-laws", "children", allow_duplicate=True),
        Input("fit", "n_clicks"),
        *(State(f"law-{role}", "value") for role in ROLES),
        State("where", "value"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def fit_again(_: Any, target: str, source: str, where: Any, key: str) -> Any:
        """Fit the same table with other laws or rows; what is shown stays until that is done."""
        session = session_of(sessions, key)
        if session is None or session.loaded is None or session.loaded.fitted is None:
            return no_update, NOT_YET
        if not all(isinstance(value, str) for value in (target, source)):
            return no_update, "Choose a law for each loss."
        laws, rows = {"target": target, "source": source}, where.strip() if isinstance(where, str) else ""
        return False, begin_fit(sessions, session, replace(session.loaded, laws=laws, where=rows, fitted=None), "laws")


def _jobs(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, dcc, no_update

    def starts(button: str, place: str, more: list[Any], work: Any) -> None:
        @app.callback(
            Output("tick", "disabled", allow_duplicate=True),
            Output(f"problem-{place}", "children", allow_duplicate=True),
            Input(button, "n_clicks"),
            *more,
            *places(State),
            State("session", "data"),
            prevent_initial_call=True,
        )
        def begin(_: Any, *given: Any) -> Any:
            session = session_of(sessions, given[-1])
            if session is None or session.loaded is None or session.fitted is None:
                return no_update, NOT_YET
            loaded, chosen = session.loaded, given[: len(more)]
            try:
                scenario = scenario_of(session.fitted, given[len(more) :])
            except CptlawError as error:
                return no_update, in_app(str(error))
            if session.begin(place, lambda tell: work(loaded, scenario, *chosen, tell)) is None:
                return no_update, "It is being computed already: wait for it."
            return False, None

    starts("suggest", "suggest", [State("budget", "value")], jobs.suggest_cells)
    starts("make-report", "report", [], jobs.make_page)

    @app.callback(
        Output("cells", "children"),
        Output("download", "data", allow_duplicate=True),
        Input("finished", "data"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_result(finished: Any, _: Any, key: str) -> Any:
        """Show the runs that were suggested, or hand over the page that was made."""
        session = session_of(sessions, key)
        if session is None or (session.suggestion is None and session.report is None):
            return None, no_update
        sent = no_update
        if session.report is not None:
            content, session.report = session.report, None
            sent = dcc.send_bytes(content, "report.html")
        return (no_update if session.suggestion is None else shown.suggested(session.suggestion)), sent


def _downloads(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, dcc, no_update

    @app.callback(
        Output("download", "data"),
        Output("problem-report", "children", allow_duplicate=True),
        *(Input(f"download-{role}", "n_clicks") for role in ROLES),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def download(_: Any, __: Any, key: str) -> Any:
        """Hand over a fit, as the command line writes it."""
        from dash import ctx

        session = session_of(sessions, key)
        if session is None or session.fitted is None:
            return no_update, NOT_YET
        role = "source" if ctx.triggered_id == "download-source" else "target"
        fit = getattr(session.fitted, role)
        if fit is None:
            return no_update, "No source loss was fitted: this table has none."
        return dcc.send_string(fit.text(), f"{role}.json"), None

    @app.callback(
        Output("download", "data", allow_duplicate=True),
        Output("problem-suggest", "children", allow_duplicate=True),
        Input("download-cells", "n_clicks"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def download_cells(_: Any, key: str) -> Any:
        """Hand over the suggested runs."""
        session = session_of(sessions, key)
        if session is None or session.suggestion is None:
            return no_update, "No runs have been suggested yet: press Suggest runs first."
        return dcc.send_string(session.suggestion.to_csv(), "cells.csv"), None
