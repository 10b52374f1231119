"""What the shell offers on the tabulator key: names of laws, of a table's evals, of the examples, of logs."""

from __future__ import annotations

import click

from cptlaw.errors import CptlawError


def laws(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the laws that begin so; after a comma, those of a list."""
    from cptlaw.laws import LAWS

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in LAWS if name.startswith(last)]


def evals(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the evals of the table that stands before on the line; its roles where there is none yet."""
    names: tuple[str, ...] = ("source", "target")
    path = context.params.get("runs")
    if path:
        from cptlaw.runs import read_runs

        try:
            names = read_runs(path).evals
        except CptlawError:  # said when the command is run; a completion stays silent
            names = ()
    return [name for name in names if name.startswith(begun)]


def examples(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the examples that begin so."""
    from cptlaw.examples import EXAMPLES

    return [name for name in EXAMPLES if name.startswith(begun)]


def formats(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the formats of logs that begin so."""
    from cptlaw.importing import readers

    return [reader.name for reader in readers() if reader.name.startswith(begun)]
