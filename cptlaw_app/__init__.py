"""An app: one page over `cptlaw.answer`, from a table or from none to what to train, with map and curves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from cptlaw.runs import Runs


def app(
    runs: Runs | pd.DataFrame | str | Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8050,
    where: str | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the app until it is interrupted.

    Parameters
    ----------
    runs
        The runs table that every page opens with: `Runs`, a DataFrame or a path; the example runs where absent.
    host
        Address to listen on. Anybody who can reach it can read the runs, so other machines are let in only if asked.
    port
        Port to listen on; 0 takes any that is free.
    where
        Filter of the rows to fit that the page opens with.
    tell
        Receives the lines to show: where the app is, and a warning where others can reach it.

    Raises
    ------
    UsageError, DataError
        If the table cannot be read, Flask is missing, or the port is taken.
    """
    from cptlaw.runs import Runs, read_runs
    from cptlaw_app.server import LOOPBACK, build, listen, serve

    table = runs if runs is None or isinstance(runs, Runs) else read_runs(runs)
    built = build(table, where or "", (*LOOPBACK, host) if host not in LOOPBACK else LOOPBACK)
    socket = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    if host not in LOOPBACK:
        tell(
            f"warning: {host} can be reached from other machines. Whoever can reach it can read the runs and use this "
            f"machine's time; there is no password."
        )
    tell(f"cptlaw app on http://{name}:{socket.getsockname()[1]}/ (Ctrl-C ends it)")
    try:
        serve(built, socket)
    finally:
        socket.close()


__all__ = ["app"]
