"""The verb forecast for runs that are not finished."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.output import show_json, stop_on_errors
from cptlaw.errors import UsageError


def forecast_run(
    run: str, schedules: str | None, interval: float, strict: bool, as_json: bool, table: dict[str, Any]
) -> None:
    """Forecast the ends of the unfinished runs of a table."""
    import cptlaw as cl

    if schedules is None:
        raise UsageError("forecast --run needs --schedules F, a file with the whole planned schedule of the run.")
    found = cl.forecast_run(options.read_table(run, table), schedules, interval=interval)
    if as_json:
        show_json(found.to_dict())
    else:
        click.echo(found.summary())
        click.echo(f"lo, hi: {interval:g} interval of a loss measured at the last planned step", err=True)
    stop_on_errors(found.all_findings, strict)
