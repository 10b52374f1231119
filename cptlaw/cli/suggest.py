"""The verb suggest."""

from __future__ import annotations

import shlex
from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.output import show_json, show_next, stop_on_errors


@click.command()
@options.table
@options.law
@options.rows
@click.option("--at", required=True, metavar="K=V,..", help="The forecast that matters, as for forecast --at.")
@click.option("--budget", required=True, metavar="FLOPS", help="Compute for runs and new base models, as in 1e20.")
@click.option("-n", "n", type=click.IntRange(1), metavar="N", help="Most cells. [default: what pays, up to 24]")
@click.option("--sizes", metavar="N,N", help="Sizes to choose from. [default: half the smallest one, to the asked one]")
@click.option("--ptpps", metavar="P,P", help="Pre-training budgets to choose from. [default: seen to asked]")
@click.option("--replays", metavar="R,R", help="Mixes to choose from. [default: seen ones and the asked one]")
@click.option("--tokens", metavar="D,D", help="Lengths to choose from. [default: an eighth of the longest, and up]")
@options.interval
@options.search
@options.restraint
@options.auto_restraint
@options.output("CELLS", "CELLS.csv", "Write the cells, one run per line.")
@options.strict
@options.as_json
def suggest(
    runs: str,
    law_name: str,
    on: str,
    where: str | None,
    output: str | None,
    force: bool,
    strict: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Choose the next runs: those that shrink the interval of a forecast most for a compute budget.

    \b
    Example:
      cptlaw suggest runs.csv --law ptpp-gated-floor --on target --where "ptpp <= 31" \\
          --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279 --budget 1.3e20 -o cells.csv
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    found = cl.suggest(law_name, table, on, where, **rest)
    if output:
        found.save(output, force)
    if as_json:
        show_json(found.to_dict())
    else:
        click.echo(found.summary())
        if not output:
            show_next("again with -o CELLS.csv, then train the cells and add their losses to the table")
        else:
            show_next(f"train the runs of {shlex.quote(output)}, add their losses to {shlex.quote(runs)}, and fit")
    stop_on_errors(found.findings, strict)
