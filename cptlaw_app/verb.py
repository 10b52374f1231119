"""The verb app."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped


@click.command(cls=Grouped)
@click.argument("runs", required=False, type=click.Path())
@options.reading
@click.option("--where", metavar="Q", help="Filter of the rows to fit that the page opens with.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=8050, show_default=True, help="Port to listen on; 0 takes any free one.")
@options.loudness
def app(runs: str | None, where: str | None, host: str, port: int, **rest: object) -> None:
    """Open a page over `answer`: a table or none in, what to train, what to expect and how sure that is out.

    \b
    Without RUNS it opens with the example runs. It serves this machine alone unless --host says otherwise, and
    sends nothing anywhere.

    \b
    Examples:
      cptlaw app
      cptlaw app runs.csv --where "ptpp <= 124" --port 8051
    """
    from cptlaw_app import app as serve

    table = None if runs is None else options.read_table(runs, rest)
    serve(table, host=host, port=port, where=where, tell=lambda text: click.echo(text, err=True))
