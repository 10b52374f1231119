"""The app as a web server on this machine: Dash for the page, Waitress for the socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from cptlaw.errors import CptlawError, UsageError, visible
from cptlaw.runs import Runs
from cptlaw_app import moving, opening, scored, taking
from cptlaw_app.layout import page
from cptlaw_app.session import Loaded, Session, Sessions
from cptlaw_app.upload import LARGEST

THREADS = 6
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BODY = int(LARGEST * 4 / 3) + 2_000_000  # of a request: base64 and what goes along
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def build(runs: Runs | None = None, where: str = "", hosts: tuple[str, ...] = LOOPBACK) -> Any:
    """Return the Dash app.

    Parameters
    ----------
    runs, where
        What every new page starts with.
    hosts
        Names under which the server answers; others are refused, so that no page of another site that points its name
        at this machine can read along.

    Raises
    ------
    UsageError
        If Dash is not installed.
    """
    try:
        from dash import Dash
    except ImportError:
        raise UsageError("the app needs Dash. Install it with: pip install 'cptlaw[app]'") from None
    sessions = Sessions(lambda: Session(loaded=None if runs is None else Loaded(runs, where)))
    app = Dash(
        __name__,
        title="cptlaw",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        # No script from elsewhere: the app works without a network, and its policy allows none.
        serve_locally=True,
        include_assets_files=True,
        compress=False,
        on_error=_unexpected,
    )
    app.layout = page(sessions.token)
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    for room in (opening, moving, scored, taking):
        room.register(app, sessions)
    _guard(app.server, hosts)
    return app


def _guard(server: Any, hosts: tuple[str, ...]) -> None:
    from flask import abort, request
    from werkzeug.exceptions import HTTPException

    server.config["MAX_CONTENT_LENGTH"] = MOST_BODY
    server.config["MAX_FORM_MEMORY_SIZE"] = MOST_BODY

    @server.before_request
    def known_host() -> None:
        # DNS rebinding: a page of another site may point its own name at this machine, and would then be of the same
        # origin.
        if _name_of(request.headers.get("Host", "")) not in hosts:
            abort(403, f"this app answers to {', '.join(hosts)} only")
        # A browser says on whose behalf it asks: no page of another site has business here.
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        other = origin is not None and _name_of(origin.partition("://")[2]) not in hosts
        if request.method != "GET" and (other or site not in ("none", "same-origin")):
            abort(403, "this app answers to its own page only")
        if request.method == "POST" and not isinstance(request.get_json(silent=True), dict):
            abort(400, "this is no request that the page of this app makes")

    @server.errorhandler(Exception)
    def unusable(error: Exception) -> Any:
        # Whatever a request made by hand holds, Dash meets it before any code of ours does.
        return (
            error if isinstance(error, HTTPException) else ("this is no request that the page of this app makes", 400)
        )

    @server.after_request
    def headers(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def _name_of(place: str) -> str:
    """Return the host of ``host:port``, without the brackets of an IPv6 address."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]


def _unexpected(error: Exception) -> None:
    """Tell the page that something failed, whatever it was; the page stays as it is."""
    from dash import set_props

    text = str(error) if isinstance(error, CptlawError) else f"that could not be done ({type(error).__name__})."
    set_props("problem-move", {"children": visible(text)})


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to host and port.

    Raises
    ------
    UsageError
        If that is not possible, saying what to do.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: expected a number from 0 (any free port) to 65535.")
    found = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        # A server that was just stopped leaves its port waiting for a minute, in which it could not be started again.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        if found is not None:
            found.close()
        raise UsageError(
            f"the app cannot listen on {host}, port {port} ({error.strerror or error}). Is it running already? Choose "
            f"another --port; 0 takes any that is free."
        ) from None
    return found


def serve(app: Any, where: socket.socket) -> None:
    """Serve until interrupted."""
    try:
        import waitress
    except ImportError:
        raise UsageError("the app needs Waitress. Install it with: pip install 'cptlaw[app]'") from None
    waitress.serve(app.server, sockets=[where], threads=THREADS, max_request_body_size=MOST_BODY, ident=None)
