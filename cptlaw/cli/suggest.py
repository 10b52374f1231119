"""The verb suggest."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import save_beside, show
from cptlaw.cli.scenario_options import of_scenario
from cptlaw.errors import UsageError
from cptlaw.planning.scenario import NextRuns


@click.command(cls=Grouped, few=("on", "where", "law_name", "at", "budget", "n", "sizes", "replays", "output", "json"))
@options.table
@options.law
@options.rows
@of_scenario(NextRuns)
@options.search
@options.schedules
@options.restraint
@options.auto_restraint
@options.output("CELLS", "CELLS.csv", "Write the cells, one run per line.")
@options.strict
@options.as_json
def suggest(runs: str, output: str | None, force: bool, **rest: Any) -> None:
    """Choose the next runs: those that shrink the interval of a forecast most for a compute budget.

    \b
    Example:
      cptlaw suggest runs.csv --on target --where "ptpp <= 31" \\
          --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279 --budget 1.3e20 -o cells.csv
      cptlaw suggest target.json --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279 --budget 1.3e20
    """
    import cptlaw as cl
    from cptlaw.forecasting.verbs.load_file import is_fit_file

    if is_fit_file(runs):
        unread = [name for name in options.READING if rest.pop(name)]
        if unread:
            raise UsageError(f"suggest: {options.flag_of(unread[0])} says how to read runs, and a fit was given.")
        result = cl.suggest(runs=runs, **{name: value for name, value in rest.items() if value not in (None, (), 0)})
    else:
        result = cl.suggest(runs=options.read_table(runs, rest), **rest)
    if output:
        output = save_beside(result, output, force)
    add = f"train the runs of {output}, add their losses to {runs}, and fit again"
    show(result, "" if output else options.repeated_command(output="cells.csv"), then=add if output else "")
