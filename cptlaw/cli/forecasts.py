"""The verb forecast: at points never run, or at the end of a run that is not finished."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_notes
from cptlaw.errors import UsageError


@click.command(cls=Grouped)
@click.argument("fits", nargs=-1, type=click.Path())
@click.option(
    "--run", "run", metavar="RUNS", type=click.Path(), help="Forecast the end of the unfinished runs in this table."
)
@options.reading
@click.option("--at", metavar="K=V,K=V,..", help="One point, as in n_params=8.1B,tokens=72B,replay=34%,ptpp=279.")
@click.option("--points", metavar="POINTS.csv", type=click.Path(), help="A table of points.")
@click.option("--every", metavar="STEPS", type=int, help="A curve: a forecast every so many steps, up to the end.")
@options.domain
@options.interval
@options.schedules
@options.strict
@options.as_json
def forecast(
    *,
    fits: tuple[str, ...],
    at: str | None,
    points: str | None,
    interval: float,
    schedules: str | None,
    run: str | None,
    every: int | None,
    domain: str | None,
    **table: object,
) -> None:
    """Forecast losses at sizes, budgets and mixes never run, or at the end of a run that is not finished.

    \b
    Examples:
      cptlaw forecast target.json --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279
      cptlaw forecast target.json source.json --points points.csv --interval 0.8
      cptlaw forecast target.json --at n_params=8.1B,tokens=72B,replay=34% --domain law
      cptlaw forecast curve.json --at run=wsd-20k,step=24000 --schedules schedules.yaml
      cptlaw forecast curve.json --at run=wsd-20k --every 100 --schedules schedules.yaml
      cptlaw forecast --run log.csv --schedules schedules.yaml
    """
    import cptlaw as cl
    from cptlaw.runs.points import read_points

    if run is not None:
        if fits or at is not None or points is not None or domain is not None:
            raise UsageError("forecast --run takes a table of runs and --schedules: no fits, points or --domain.")
        if schedules is None:
            raise UsageError("forecast --run needs --schedules F, a file with the whole planned schedule of the run.")
        show(cl.forecast_run(options.read_table(run, table), schedules, interval=interval, every=every))
        return
    if not fits:
        raise UsageError("forecast needs FIT.json files, or --run RUNS for a run that is not finished.")
    if any(table.values()):
        name = next(name for name, value in table.items() if value)
        raise UsageError(
            f"{options.flag_of(name)} says how to read a table of runs: it goes with --run RUNS, not with fits."
        )
    if (at is None) == (points is None):
        raise UsageError("forecast needs either --at K=V,K=V,.. or --points POINTS.csv.")
    asked: Any = at
    if points is not None:
        asked, notes = read_points(points)
        show_notes(notes)
    result = cl.forecast(list(fits), asked, interval, schedules, every=every, domain=domain)
    show(result.answer)
