"""The verbs register and score."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_json, wants_json
from cptlaw.commands import command_line


@click.command(cls=Grouped)
@click.argument("forecast", metavar="FORECAST.json", type=click.Path())
@click.option("-o", "--output", required=True, metavar="SEALED.json", type=click.Path(), help="Where the seal goes.")
@click.option("--git", metavar="RUNS", type=click.Path(), help="Name the commit that holds this runs table.")
@click.option("--timestamp", metavar="FILE", type=click.Path(), help="Write the SHA-256 for a time-stamping service.")
@options.as_json
def register(forecast: str, output: str, git: str | None, timestamp: str | None) -> None:
    """Seal a forecast before its runs are trained: inputs, intervals, laws, data, date and their SHA-256.

    Keep the SHA-256 where you cannot change it, in a commit or a message: that shows that the forecast came first.

    \b
    Example:
      cptlaw forecast t.json s.json --at n_params=204K,tokens=3.2M,replay=25%,ptpp=62 --json > forecast.json
      cptlaw register forecast.json -o sealed.json
    """
    import cptlaw as cl

    seal = cl.register(forecast, output, git=git, timestamp=timestamp)
    if wants_json():
        show_json({"output": output, **seal.to_dict()})
        return
    show(seal, then=f"train the runs, then {command_line(['cptlaw', 'score', output, '--runs', 'RUNS.csv'])}")


@click.command(cls=Grouped)
@click.argument("sealed", nargs=-1, required=True, metavar="SEALED.json ..", type=click.Path())
@click.option("--runs", required=True, metavar="RUNS", type=click.Path(), help="The table with the measurements.")
@options.reading
@click.option("--where", metavar="Q", help="Keep these rows, as in \"lr_schedule == 'constant'\".")
@options.strict
@options.as_json
def score(sealed: tuple[str, ...], runs: str, where: str | None, **rest: object) -> None:
    """Score sealed forecasts against the runs measured since: errors, and how many intervals held.

    \b
    Example:
      cptlaw score sealed.json --runs results/runs.csv --where "lr_schedule == 'constant'"
    """
    import cptlaw as cl

    result = cl.score(list(sealed), options.read_table(runs, rest), where)
    show(result)
