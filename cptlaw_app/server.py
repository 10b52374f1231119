"""The app as a web server on this machine: Flask for the pages, Waitress for the socket."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import cptlaw as cl
from cptlaw.errors import CptlawError, UsageError, escape_hidden, needed_for
from cptlaw_app.page import answer_page, read_as
from cptlaw_app.question import (
    EVALS,
    EXAMPLE,
    EXAMPLE_QUESTION,
    GIVEN,
    NO_RUNS,
    NO_RUNS_QUESTION,
    AnswerQueue,
    Problem,
    about_largest,
    fields,
    filled_fields,
    or_problem,
)
from cptlaw_app.repeat import repetition
from cptlaw_app.tables import ENDINGS, LARGEST, UploadStore, checked_upload

if TYPE_CHECKING:
    import flask
    from flask.typing import ResponseReturnValue

THREADS = 8
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BODY = LARGEST + 1_000_000  # of a request: a file and what goes along
MOST_CONNECTIONS = 1000
SILENCE = 20  # seconds after which a connection that says nothing is closed, also one that never finished its request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def build(runs: cl.Runs | None = None, where: str = "", hosts: tuple[str, ...] = LOOPBACK) -> flask.Flask:
    """Return the app, for any WSGI server.

    Parameters
    ----------
    runs, where
        The table that pages open with, and the filter of its rows; the example runs where absent.
    hosts
        Names under which the server answers; others are refused, so that no page of another site that points its name
        at this machine can read along.

    Raises
    ------
    UsageError
        If Flask or Plotly is not installed.
    """
    with needed_for("the app", "cptlaw[app]"):
        import flask
        import plotly
    app = flask.Flask("cptlaw_app", root_path=str(Path(__file__).parent), static_folder="assets")
    queue = AnswerQueue(UploadStore(), runs, where)
    _guard_headers(app, hosts)

    def page(given: dict[str, str], problem: Problem | None = None) -> ResponseReturnValue:
        uploaded = given.get("table") if given.get("table") not in (NO_RUNS, EXAMPLE, GIVEN, None) else None
        try:
            name = queue.uploads.get(uploaded).name if uploaded else ""
        except CptlawError as error:
            given, problem = queue.default_form(), Problem(str(error))
            name, uploaded = "", None
        none: dict[str, str] = {}
        tables = [(GIVEN, "the table given at the start", none)] if queue.runs is not None else []
        tables += [(uploaded, name, none)] if uploaded else []
        tables += [(EXAMPLE, "the example runs", EXAMPLE_QUESTION), (NO_RUNS, "I have no runs", NO_RUNS_QUESTION)]
        shape = {"tables": tables, "problem": problem, "endings": ",".join(ENDINGS), "first": bool(given.get("first"))}
        numbers = {"largest": LARGEST // 1_000_000, "version": cl.__version__}
        return flask.render_template("page.html", **shape, **numbers, **reading_of(given))

    def reading_of(given: dict[str, str]) -> dict[str, object]:
        return {"fields": fields(), "given": given, "of_evals": EVALS, **read_as(queue, given)}

    @app.get("/")
    def start() -> ResponseReturnValue:
        return page(flask.request.args.to_dict() or queue.default_form())

    @app.post("/table")
    def table() -> ResponseReturnValue:
        given = {name: value for name, value in flask.request.form.to_dict().items() if value.strip()}
        file = flask.request.files.get("file")
        if file is None:
            return page(given, Problem("no file arrived. Choose one, and try again.")), 400
        try:
            with contextlib.closing(file):
                given["table"] = queue.uploads.keep(checked_upload(file.filename or "", file.read()))
        except CptlawError as error:
            return page(given, Problem(str(error))), 400
        if filled_fields(given) in ({}, EXAMPLE_QUESTION, NO_RUNS_QUESTION):  # a question of another door
            runs = getattr(queue.read({"table": given["table"]}), "runs", None)
            given = {"table": given["table"], **(about_largest(runs) if runs is not None else {})}
        given["first"] = "1"  # how it was read is to be looked at before anything is answered
        return flask.redirect("/?" + urlencode(given), 303)

    @app.get("/reading")
    def reading() -> ResponseReturnValue:
        return flask.render_template("reading.html", **reading_of(flask.request.args.to_dict()))

    @app.get("/answer")
    def answer() -> ResponseReturnValue:
        given = flask.request.args.to_dict()
        result = queue.ask(given)
        if isinstance(result, Problem):
            return flask.render_template("problem.html", problem=result), 400
        content = or_problem(lambda: {**answer_page(result), **repetition(queue, given)})
        if isinstance(content, Problem):
            return flask.render_template("problem.html", problem=content), 400
        return flask.render_template("answer.html", query=urlencode(given), **content)

    @app.get("/report")
    def report() -> ResponseReturnValue:
        result = queue.ask(flask.request.args.to_dict())
        if isinstance(result, Problem):
            return flask.abort(400, result.text)
        with tempfile.TemporaryDirectory(prefix="cptlaw-") as folder:
            content = result.report(Path(folder) / "report.html").read_bytes()
        attached = {"Content-Disposition": "attachment; filename=report.html"}
        return flask.Response(content, mimetype="text/html", headers=attached)

    @app.get("/plotly.js")
    def drawing() -> ResponseReturnValue:
        folder = Path(str(plotly.__file__)).parent / "package_data"
        return flask.send_from_directory(folder, "plotly.min.js", max_age=86400)

    return app


def _guard_headers(app: flask.Flask, hosts: tuple[str, ...]) -> None:
    from flask import abort, request
    from werkzeug.exceptions import HTTPException

    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MOST_BODY

    @app.before_request
    def known_host() -> None:
        # DNS rebinding: a page of another site may point its own name at this machine, and would then be of the same
        # origin.
        if _name_of(request.headers.get("Host", "")) not in hosts:
            abort(403, f"this app answers to {', '.join(hosts)} only")
        # A browser says on whose behalf it asks: no page of another site has business here, nor may it start work.
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        other = origin is not None and _name_of(origin.partition("://")[2]) not in hosts
        if (request.method != "GET" or request.path != "/") and (other or site not in ("none", "same-origin")):
            abort(403, "this app answers to its own page only")

    @app.errorhandler(Exception)
    def unusable(error: Exception) -> object:
        if isinstance(error, HTTPException):
            return error
        return f"that could not be done ({escape_hidden(type(error).__name__)}).", 500

    @app.after_request
    def headers(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"  # a form says by it that it is ours
        return response


def _name_of(place: str) -> str:
    """Return the host of ``host:port``, without the brackets of an IPv6 address."""
    return place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to host and port.

    Raises
    ------
    UsageError
        If that is not possible, saying what to do.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: expected a number from 0 (any free port) to 65535.")
    result = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        result = socket.socket(family, kind, protocol)
        # A server that was just stopped leaves its port waiting for a minute, in which it could not be started again.
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind(address)
    except OSError as error:
        if result is not None:
            result.close()
        raise UsageError(
            f"the app cannot listen on {host}, port {port} ({error.strerror or error}). Is it running already? Choose "
            f"another --port; 0 takes any that is free."
        ) from None
    return result


def serve(app: flask.Flask, where: socket.socket) -> None:
    """Serve until interrupted."""
    _server(app, where).run()


def _server(app: flask.Flask, where: socket.socket, silence: int = SILENCE) -> Any:
    with needed_for("the app", "cptlaw[app]"):
        import waitress
    # Connections that were opened and say nothing take no thread, and no place of others for longer than `silence`.
    return waitress.create_server(
        app,
        sockets=[where],
        threads=THREADS,
        max_request_body_size=MOST_BODY,
        connection_limit=MOST_CONNECTIONS,
        channel_timeout=silence,
        cleanup_interval=max(silence // 4, 1),
        asyncore_use_poll=True,
        ident=None,
    )
