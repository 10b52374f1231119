"""Commands of the demos: shown as one would type them, then run in this process."""

import shlex

import click

from cptlaw.cli import main as cptlaw


def run(command: str) -> None:
    """Show a command of the command line and run it."""
    click.secho(f"\n$ cptlaw {command}", fg="cyan")
    try:
        cptlaw(shlex.split(command))
    except SystemExit as ended:
        if ended.code not in (0, None, 3):  # 3: no plan keeps the limits, which is an answer
            raise
