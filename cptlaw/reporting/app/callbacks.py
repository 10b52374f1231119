"""What the page does: every action is one call of the library, and every mistake its message."""

from __future__ import annotations

from typing import Any

import numpy as np

from cptlaw.checking import check
from cptlaw.errors import CptlawError, UsageError
from cptlaw.fitting.fit_file import fit_text
from cptlaw.reporting.app import jobs, shown
from cptlaw.reporting.app.layout import ROLES, SLIDERS, planning_laws
from cptlaw.reporting.app.moves import Fitted, Move, move
from cptlaw.reporting.app.session import Session, Sessions
from cptlaw.reporting.app.upload import columns_of, decode, read_upload
from cptlaw.runs import Runs
from cptlaw.units import format_percent, format_quantity, parse_quantity

NONE = "(none)"
LOGARITHMIC = ("n_params", "ptpp", "tokens")
FAVOURITES = ("ptpp-floor", "dcpt-l3")  # the first that the table can feed


def register(app: Any, sessions: Sessions) -> None:
    """Give the page its callbacks."""
    _opening(app, sessions)
    _reading(app, sessions)
    _fitting(app, sessions)
    _moving(app, sessions)
    _taking(app, sessions)


def _opening(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    @app.callback(
        Output("session", "data"),
        Output("read", "data"),
        Output("problem", "children", allow_duplicate=True),
        Input("token", "data"),
        State("session", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def begin(token: str, key: str | None) -> Any:
        """Open a session once the page is there; merely asking for the page opens none."""
        if _session(sessions, key) is not None:
            return no_update, no_update, no_update
        try:
            return sessions.open(token), 1, None
        except CptlawError as error:
            return no_update, no_update, str(error)


def _reading(app: Any, sessions: Sessions) -> None:
    from dash import ALL, Input, Output, State, ctx, no_update

    @app.callback(
        Output("read", "data", allow_duplicate=True),
        Output("problem", "children", allow_duplicate=True),
        Output("mapping", "hidden"),
        Output("columns", "children"),
        Input("upload", "contents"),
        Input("apply-columns", "n_clicks"),
        State("upload", "filename"),
        State({"type": "column", "name": ALL}, "value"),
        State({"type": "column", "name": ALL}, "id"),
        State("session", "data"),
        State("read", "data"),
        prevent_initial_call=True,
    )
    def read(contents: str, _: Any, name: str, values: list[Any], ids: list[Any], key: str, count: int) -> Any:
        """Read an upload, or read it again with the columns that the user chose."""
        if not contents:
            return no_update, no_update, no_update, no_update
        session = None
        try:
            session = sessions.get(key)
            if ctx.triggered_id == "upload":
                session.upload = decode(contents, name)
                columns = None
            else:
                columns = {each["name"]: value for each, value in zip(ids, values, strict=True) if value}
            if session.upload is None:
                raise UsageError("no table has been uploaded yet: drop one first.")
            session.runs, session.fitted = read_upload(*session.upload, columns), None
            session.where = ""
        except CptlawError as error:
            if session is None or session.upload is None:
                return no_update, str(error), True, no_update
            names, taken = columns_of(*session.upload)
            return no_update, str(error), not names, shown.column_choices(names, taken)
        return count + 1, None, True, no_update

    @app.callback(
        Output("summary", "children"),
        *(Output(f"eval-{role}", what) for role in ROLES for what in ("options", "value")),
        *(Output(f"law-{role}", what) for role in ROLES for what in ("options", "value")),
        Output("where", "value"),
        Output("fitted", "data", allow_duplicate=True),
        Input("read", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_runs(_: int, key: str) -> Any:
        """Show what was read, and the choices that it leaves."""
        session = _session(sessions, key)
        if session is None or session.runs is None:
            return (*[no_update] * 9, no_update, no_update)
        runs, evals = session.runs, list(session.runs.evals)
        by_role = {runs.role(name): name for name in evals}
        target = by_role.get("target") or evals[0]
        others = [name for name in evals if name != target]
        source = by_role.get("source") or NONE
        names = [name for name in planning_laws() if _feeds(runs, name)]
        best = next((name for name in FAVOURITES if name in names), names[0] if names else None)
        return (
            shown.runs(runs), evals, target, [NONE, *others], source, names, best, names, best, session.where, 0,
        )  # fmt: skip

    @app.callback(
        Output("check", "children"),
        Input("law-target", "value"),
        Input("law-source", "value"),
        Input("eval-target", "value"),
        Input("eval-source", "value"),
        Input("where", "value"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def look(law_target: str, law_source: str, target: str, source: str, where: str, key: str) -> Any:
        """Check the rows against the laws before anything is fitted."""
        session = _session(sessions, key)
        if session is None or session.runs is None or not law_target:
            return no_update
        parts = []
        for law, name in ((law_target, target), (law_source, source)):
            if name in (None, NONE):
                continue
            try:
                found = check(law, session.runs, name, where or None)
                parts += [shown.lines([(name, found.summary().splitlines()[0])]), shown.findings(found.findings)]
            except CptlawError as error:
                parts.append(_problem(f"{name}: {error}"))
        return parts


def _fitting(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    @app.callback(
        Output("tick", "disabled", allow_duplicate=True),
        Output("problem", "children", allow_duplicate=True),
        Input("fit", "n_clicks"),
        State("law-target", "value"),
        State("law-source", "value"),
        State("eval-target", "value"),
        State("eval-source", "value"),
        State("where", "value"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def begin_fit(_: Any, law_target: str, law_source: str, target: str, source: str, where: str, key: str) -> Any:
        session = _session(sessions, key)
        if session is None or session.runs is None:
            return no_update, "There are no runs yet: drop a table first."
        runs, evals = session.runs, {"target": target}
        if source not in (None, NONE):
            evals["source"] = source
        try:
            runs = _with_roles(runs, evals)
        except CptlawError as error:
            return no_update, str(error)
        laws = {"target": law_target, "source": law_source}
        return _begin(session, "fit", lambda tell: jobs.fit_both(session, runs, laws, evals, where, tell))

    @app.callback(
        Output("progress", "value"),
        Output("stage", "children"),
        Output("working", "hidden"),
        Output("tick", "disabled"),
        Output("problem", "children"),
        Output("finished", "data"),
        Output("fitted", "data"),
        Input("tick", "n_intervals"),
        State("session", "data"),
        State("fitted", "data"),
        prevent_initial_call=True,
    )
    def watch(_: Any, key: str, count: int) -> Any:
        """Show how far the job is, and pass on its result."""
        session = _session(sessions, key)
        job = None if session is None else session.job
        if job is None:
            return "0", "", True, True, no_update, no_update, no_update
        if not job.done:
            return f"{job.share:.3f}", job.stage, False, False, no_update, no_update, no_update
        if job.problem is not None:
            return "0", "", True, True, job.problem, no_update, no_update
        again = (count or 0) + 1 if job.kind == "fit" else no_update
        return "1", "done", True, True, None, {"kind": job.kind, "id": id(job)}, again


def _moving(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, no_update

    @app.callback(
        Output("explore", "hidden"),
        Output("take", "hidden"),
        Output("fit-result", "children"),
        *(Output(name, what) for name in SLIDERS for what in ("min", "max", "step", "value")),
        *(Output(f"field-{name}", "hidden") for name in SLIDERS),
        Output("budget", "value"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def set_sliders(count: int, key: str) -> Any:
        """Bring the sliders to the ranges of a new fit, or hide them where there is none."""
        session = _session(sessions, key)
        fitted = None if session is None or not count else session.fitted
        if fitted is None:
            return (True, True, None, *[no_update] * (5 * len(SLIDERS)), no_update)
        spans = _spans(fitted)
        settings = [value for name in SLIDERS for value in spans.get(name, (0.0, 1.0, 0.01, 0.5))]
        hidden = [name not in spans for name in SLIDERS]
        result = [
            part
            for fit in fitted.fits
            for part in (
                shown.lines(
                    [
                        (fit.on, f"{fit.law.spec}: {fit.status}; {fit.n_agree} of {fit.n_starts} starts agree; rank "
                         f"{fit.rank} of {fit.n_free}; {fit.n_points} points of {fit.n_runs} runs"),
                    ]
                ),
                shown.findings(fit.findings),
            )
        ]  # fmt: skip
        most = max(float((fit.data["tokens"] * fit.data.get("n_params", 1.0)).max()) for fit in fitted.fits)
        return (False, False, result, *settings, *hidden, f"{6 * 10 * most:.1g}")

    @app.callback(
        *(Output(f"said-{name}", "children") for name in SLIDERS),
        Output("forecast", "children"),
        Output("plan", "children"),
        Output("map", "figure"),
        Output("map-caption", "children"),
        Output("notes", "children"),
        Output("asked", "data"),
        *(Input(name, "value") for name in SLIDERS),
        Input("limits", "value"),
        Input("risk", "value"),
        Input("base_source_loss", "value"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_move(*given: Any) -> Any:
        """Show forecast, plan and map for a position of the sliders: the answer, before its doubt."""
        session = _session(sessions, given[-1])
        if session is None or session.fitted is None:
            return (no_update,) * (len(SLIDERS) + 6)
        said = [_said(name, value) for name, value in zip(SLIDERS, given, strict=False)]
        try:
            question = _question(session.fitted, given)
            found = move(session.fitted, question)
        except CptlawError as error:
            return (*said, no_update, _problem(str(error)), no_update, no_update, None, None)
        session.asked = question
        return (*said, *_shown_move(found), question)

    @app.callback(
        Output("forecast", "children", allow_duplicate=True),
        Output("plan", "children", allow_duplicate=True),
        Output("map", "figure", allow_duplicate=True),
        Output("map-caption", "children", allow_duplicate=True),
        Output("notes", "children", allow_duplicate=True),
        Input("asked", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_doubt(question: Any, key: str) -> Any:
        """Show the same with intervals and under the risk, unless the sliders have moved on."""
        session = _session(sessions, key)
        if session is None or session.fitted is None or question is None or session.asked != question:
            return (no_update,) * 5
        try:
            found = move(session.fitted, question, doubt=True)
        except CptlawError as error:
            return (no_update, _problem(str(error)), no_update, no_update, None)
        return (no_update,) * 5 if session.asked != question else _shown_move(found)


def _shown_move(found: Move) -> tuple[Any, ...]:
    """Return forecast, plan, map, its caption and notes as elements of the page."""
    plan = shown.lines(found.plan_lines) if found.plan_lines else found.plan_title
    figure, caption = ({}, "") if found.figure is None else (found.figure.drawing, found.figure.caption)
    return shown.lines(found.lines), plan, figure, caption, shown.findings(found.notes)


def _taking(app: Any, sessions: Sessions) -> None:
    from dash import Input, Output, State, ctx, dcc, no_update

    places = [State(name, "value") for name in (*SLIDERS, "limits", "risk", "base_source_loss", "fitted")]

    @app.callback(
        Output("tick", "disabled", allow_duplicate=True),
        Output("problem", "children", allow_duplicate=True),
        Input("exact", "n_clicks"),
        Input("suggest", "n_clicks"),
        Input("download-report", "n_clicks"),
        State("budget", "value"),
        *places[:-1],
        State("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def begin(_: Any, __: Any, ___: Any, budget: str, *given: Any) -> Any:
        session = _session(sessions, given[-1])
        if session is None or session.fitted is None:
            return no_update, "There is no fit yet."
        try:
            question = _question(session.fitted, given)
        except CptlawError as error:
            return no_update, str(error)
        if ctx.triggered_id == "exact":
            if all(question.get(name) is None for name in ("max_forgetting", "max_target_loss")):
                return no_update, "A plan needs a limit: on forgetting or on the target loss."
            return _begin(session, "exact", lambda tell: jobs.full_plan(session, question, tell))
        if ctx.triggered_id == "suggest":
            return _begin(session, "suggest", lambda tell: jobs.suggest_cells(session, question, budget, tell))
        return _begin(session, "report", lambda tell: jobs.make_page(session, question, tell))

    @app.callback(
        Output("exact-result", "children"),
        Output("cells", "children"),
        Output("download", "data", allow_duplicate=True),
        Input("finished", "data"),
        Input("fitted", "data"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def show_result(finished: Any, _: Any, key: str) -> Any:
        """Show what a job found, or hand over the page that it made."""
        session = _session(sessions, key)
        if session is None or ctx.triggered_id == "fitted" or finished is None:
            return None, None, no_update
        if finished["kind"] == "exact":
            plan = session.exact
            return [shown.lines(plan.lines), shown.findings(plan.findings)], no_update, no_update
        if finished["kind"] == "suggest" and session.suggestion is not None:
            found = session.suggestion
            parts = [shown.lines(found.lines)]
            label = "suggested runs, gain in nats per token"
            parts += [shown.table(table, label) for table in found.tables if found.cells]
            return no_update, [*parts, shown.findings(found.findings)], no_update
        if finished["kind"] == "report" and session.report is not None:
            content, session.report = session.report, None
            return no_update, no_update, dcc.send_bytes(content, "report.html")
        return no_update, no_update, no_update

    @app.callback(
        Output("download", "data"),
        Output("problem", "children", allow_duplicate=True),
        Input("download-target", "n_clicks"),
        Input("download-source", "n_clicks"),
        Input("download-cells", "n_clicks"),
        State("session", "data"),
        prevent_initial_call=True,
    )
    def download(_: Any, __: Any, ___: Any, key: str) -> Any:
        """Hand over a fit or the cells, as the command line writes them."""
        session = _session(sessions, key)
        if session is None or session.fitted is None:
            return no_update, "There is no fit yet."
        if ctx.triggered_id == "download-cells":
            if session.suggestion is None:
                return no_update, "No experiments have been suggested yet: press Suggest next experiments first."
            return dcc.send_string(session.suggestion.to_csv(), "cells.csv"), None
        role = "target" if ctx.triggered_id == "download-target" else "source"
        fit = session.fitted.target if role == "target" else session.fitted.source
        if fit is None:
            return no_update, "No source loss was fitted: choose its eval and fit again."
        return dcc.send_string(fit_text(fit), f"{role}.json"), None


def _session(sessions: Sessions, key: object) -> Session | None:
    try:
        return sessions.get(key)
    except CptlawError:
        return None


def _begin(session: Session, kind: str, work: Any) -> Any:
    if session.begin(kind, work) is None:
        return False, "Something is still being computed: wait for it, then try again."
    return False, None


def _problem(text: str) -> Any:
    from dash import html

    return html.P(text, className="problem")


def _feeds(runs: Runs, name: str) -> bool:
    from cptlaw.laws import law

    return all(column in runs.frame.columns and runs.frame[column].notna().any() for column in law(name).inputs)


def _with_roles(runs: Runs, evals: dict[str, str]) -> Runs:
    """Return the runs with the roles that the user chose, where the names do not say them already."""
    given = {f"{role}_eval": name for role, name in evals.items() if runs.role(name) != role}
    return runs.with_roles(**given) if given else runs


def _spans(fitted: Fitted) -> dict[str, tuple[float, float, float, float]]:
    """Return min, max, step and first value of each slider, logarithms of ten for sizes, budgets and tokens."""
    spans: dict[str, tuple[float, float, float, float]] = {}
    fitted_most = {
        name: max(float(fit.data[name].max()) for fit in fitted.fits if name in fit.data.columns)
        for name in fitted.ranges
    }
    for name, (low, high) in fitted.ranges.items():
        if name in LOGARITHMIC:
            ends = np.log10([low, high, fitted_most[name]])
            spans[name] = (float(ends[0]), float(ends[1]), 0.002, float(ends[2]))
        else:
            spans[name] = (low, high, 0.005, 0.5 * (low + high))
    losses = fitted.target.data["loss"].to_numpy(dtype=float)
    low, high = 0.6 * float(losses.min()), float(losses.max())
    spans["max_target_loss"] = (round(low, 3), round(high, 3), 0.001, round(float(np.quantile(losses, 0.25)), 3))
    if fitted.source is not None:
        spans["max_forgetting"] = (0.0, 1.0, 0.005, 0.25)
    return spans


def _raw(name: str, value: Any) -> float:
    return 10.0 ** float(value) if name in LOGARITHMIC else float(value)


def _said(name: str, value: Any) -> str:
    if value is None:
        return ""
    raw = _raw(name, value)
    if name in ("replay", "max_forgetting"):
        return format_percent(raw)
    return f"{raw:.3f}" if name == "max_target_loss" else format_quantity(raw)


def _question(fitted: Fitted, given: tuple[Any, ...]) -> dict[str, Any]:
    """Return what the sliders ask in raw units: sliders, limits in force, risk, base loss."""
    values = dict(zip(SLIDERS, given, strict=False))
    limits, risk, base = given[len(SLIDERS) : len(SLIDERS) + 3]
    question: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            raise UsageError(f"{SLIDERS[name]}: not a number. Move the slider.")
        if name in fitted.ranges:
            question[name] = _snapped(fitted, name, _raw(name, value))
        elif name in (limits or ()):
            question[name] = _raw(name, value)
    question.setdefault("n_params", 1.0)
    question["risk"] = None if risk in (None, "none") else float(risk)
    if base not in (None, ""):
        question["base_source_loss"] = parse_quantity(base, "base model's source loss")
    return question


def _snapped(fitted: Fitted, name: str, value: float) -> float:
    """Return the level that was run where a slider comes close, so that a measured base model is found."""
    if name not in ("n_params", "ptpp"):
        return value
    frames = [fit.base if len(fit.base) else fit.data for fit in fitted.fits]
    levels = np.unique(
        np.concatenate([frame[name].dropna().to_numpy(dtype=float) for frame in frames if name in frame])
    )
    if not len(levels):
        return value
    nearest = float(levels[np.abs(np.log(levels / value)).argmin()])
    return nearest if abs(np.log(nearest / value)) < 0.02 else value
