"""From a table to a page that shows it: opening, dropping a file, fitting, and watching jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cptlaw.errors import CptlawError, UsageError
from cptlaw.runs import Runs
from cptlaw_app import jobs, shown
from cptlaw_app.layout import ROLES
from cptlaw_app.scenario import read_address
from cptlaw_app.sentences import in_app
from cptlaw_app.session import FITS, PLACES, Loaded, Session, Sessions
from cptlaw_app.upload import columns_of, decode, read_upload

NONE = "(none)"


def register(app: Any, sessions: Sessions) -> None:
    """Give the page what reads, fits and watches."""
    _opening(app, sessions)
    _reading(app, sessions)
    _watching(app, sessions)


def session_of(sessions: Sessions, key: object) -> Session | None:
    """Return a page's session; ``None`` where it is not known."""
    try:
        return sessions.get(key)
    except CptlawError:
        return None


def begin_fit(sessions: Sessions, session: Session, loaded: Loaded, place: str) -> str | None:
    """Fit a table, and show it once that is done; return what stands against beginning."""
    if session.begin(place, lambda tell: jobs.fit_both(session, sessions.shelf, loaded, tell)) is None:
        return "Laws are still being fitted: wait for them, then try again."
    return None


def _opening(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    @app.callback(
        Output("session", "data"),
        Output("pins", "data"),
        Output("tick", "disabled", allow_duplicate=True),
        Output("problem-upload", "children", allow_duplicate=True),
        Output("mapping", "hidden", allow_duplicate=True),
        *(Output(f"incoming-{role}", what, allow_duplicate=True) for role in ROLES for what in ("options", "value")),
        Input("token", "data"),
        State("session", "data"),
        State("address", "search"),
        prevent_initial_call="initial_duplicate",
    )
    def begin(token: str, key: str | None, search: str | None) -> Any:
        """Open a session once the page is there, and answer for its runs; merely asking for the page opens none."""
        if session_of(sessions, key) is not None:
            return (no_update,) * 9
        pins: list[str] = []
        problem, table, scenario = None, None, None
        try:
            table, scenario, pins = read_address(search)
        except CptlawError as error:
            problem = f"This link cannot be read, so the page starts anew: {in_app(str(error))}"
        try:
            name = sessions.open(token)
        except CptlawError as error:
            return no_update, no_update, no_update, str(error), *(no_update,) * 5
        session = sessions.get(name)
        loaded, session.linked = session.loaded, scenario
        if table is not None and not (loaded is not None and loaded.runs.fingerprint.startswith(table)):
            known = sessions.shelf.table(table)
            if known is None:
                problem = (
                    "This link is of a table that this app does not hold: drop that table, then open the link again."
                )
                session.linked, pins = None, []
            loaded = known or loaded
        hidden: tuple[Any, ...] = (True, *(no_update,) * 4)
        if loaded is None:
            return name, pins, True, problem or "There are no runs yet: drop a table.", *hidden
        try:
            _of_one_replay(loaded.runs)
            loaded = replace(loaded, runs=_with_target(loaded.runs), fitted=None)
        except CptlawError as error:
            hidden_form, _, *evals = _form(session, None)
            return name, pins, True, in_app(str(error)), hidden_form, *evals
        return name, pins, False, begin_fit(sessions, session, loaded, "upload") or problem, *hidden


def _reading(app: Any, sessions: Sessions) -> None:
    from dash import ALL, Input, Output, State, ctx, no_update

    @app.callback(
        Output("tick", "disabled", allow_duplicate=True),
        Output("problem-upload", "children", allow_duplicate=True),
        Output("mapping", "hidden"),
        Output("columns", "children"),
        *(Output(f"incoming-{role}", what) for role in ROLES for what in ("options", "value")),
        Input("upload", "contents"),
        Input("apply-columns", "n_clicks"),
        Input("drop-incoming", "n_clicks"),
        State("upload", "filename"),
        State({"type": "column", "name": ALL}, "value"),
        State({"type": "column", "name": ALL}, "id"),
        *(State(f"incoming-{role}", "value") for role in ROLES),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def read(contents: str, _: Any, __: Any, name: str, values: list[Any], ids: list[Any], *rest: Any) -> Any:
        """Read an upload, or read it again with what was chosen; the page keeps what it shows until that is fitted."""
        *evals, key = rest
        stay = (no_update,) * 4
        try:
            session = sessions.get(key)
        except CptlawError as error:
            return no_update, str(error), no_update, no_update, *stay
        if ctx.triggered_id == "drop-incoming":
            session.incoming = None
            return no_update, None, True, [], *stay
        columns, chosen = None, {}
        try:
            if ctx.triggered_id == "upload":
                session.incoming = None
                session.incoming = decode(contents, name)
            else:
                columns = {each["name"]: value for each, value in zip(ids, values, strict=True) if value}
                chosen = {role: name for role, name in zip(ROLES, evals, strict=True) if name not in (None, NONE)}
            runs = _brought(session, columns)
            _of_one_replay(runs)
            runs = with_roles(runs, chosen) if chosen else _with_target(runs)
        except CptlawError as error:
            return no_update, in_app(str(error)), *_form(session, columns)
        problem = begin_fit(sessions, session, Loaded(runs), "upload")
        return False, problem, True, no_update, *stay


def _brought(session: Session, columns: Mapping[str, str] | None) -> Runs:
    """Return the table that was brought last: a file that was dropped, else the one that the app was started with."""
    if session.incoming is not None:
        return read_upload(*session.incoming, columns)
    if session.loaded is None:
        raise UsageError("no table has been brought yet: drop one first.")
    return session.loaded.runs


def _form(session: Session, columns: Mapping[str, str] | None) -> tuple[Any, ...]:
    """Return the form that asks what columns and evals of a table are: whether it is hidden, and what it offers."""
    names, taken = ([], {}) if session.incoming is None else columns_of(*session.incoming)
    evals: list[str] = []
    with contextlib.suppress(CptlawError):  # the message is shown already
        evals = list(_brought(session, columns).evals)
    options = [NONE, *evals]
    offered = shown.column_choices(names, {**taken, **(columns or {})}) if names else []
    return not (names or evals), offered, options, NONE, options, NONE


def _of_one_replay(runs: Runs) -> None:
    """Refuse runs of k corpora before anything is fitted to them: the page has one control for the mix."""
    if runs.corpora and "replay" not in runs.frame.columns:
        listed = ", ".join(runs.corpora[:8]) + (", .." if len(runs.corpora) > 8 else "")
        raise UsageError(
            f"{runs.label}: its runs mix {len(runs.corpora)} corpora ({listed}), and this page chooses one replay. "
            f"`cptlaw answer` finds the best mix of all in the terminal."
        )


def _with_target(runs: Runs) -> Runs:
    """Return runs that have a target, which the only eval is where there is one alone."""
    roles = {runs.role(name) for name in runs.evals}
    if "target" in roles:
        return runs
    names = [name for name in runs.evals if runs.role(name) == "other"]
    if len(names) == 1:
        return with_roles(runs, {"target": names[0]})
    raise UsageError(
        f"{runs.label}: which eval is the new domain's (the target), and which the old one's (the source)? Choose them "
        f"below. Evals found: {', '.join(runs.evals)}."
    )


def with_roles(runs: Runs, evals: Mapping[str, str]) -> Runs:
    """Return the runs with the roles that the user chose, where the names do not say them already."""
    given = {f"{role}_eval": name for role, name in evals.items() if runs.role(name) != role}
    return runs.with_roles(**given) if given else runs


def _watching(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    parts = ("progress", "value"), ("stage", "children"), ("working", "hidden"), ("problem", "children")

    @app.callback(
        *(Output(f"{part}-{place}", what) for place in PLACES for part, what in parts),
        Output("tick", "n_intervals"),
        Output("tick", "disabled"),
        Output("fitted", "data"),
        Output("finished", "data"),
        Input("tick", "n_intervals"),
        State("session", "data"),
        State("fitted", "data"),
        prevent_initial_call=True,
    )
    def watch(_: Any, key: str, count: int) -> Any:
        """Show how far each job is where it was asked for, and pass on what came of those that ended."""
        session = session_of(sessions, key)
        told: list[Any] = []
        finished, running = no_update, False
        for place in PLACES:
            job = None if session is None else session.jobs.get(place)
            if job is None:
                told += ["0", "", True, no_update]
            elif not job.done:
                running = True
                told += [f"{job.share:.3f}", job.stage, False, None]
            else:
                assert session is not None
                session.forget(job)
                told += ["0", "", True, None if job.problem is None else in_app(job.problem)]
                if place not in FITS and job.problem is None:
                    finished = {"place": place, "id": id(job)}
                    if place == "suggest":
                        session.suggestion = job.result
                    else:
                        session.report = job.result
        shown_now = 0 if session is None else session.version
        return (*told, 0, not running, no_update if shown_now == count else shown_now, finished)
