"""The verb `read`: what was understood of a table or of logs, and what is open."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show_json, show_next, show_notes, show_text, wants_json

NOT_UNDERSTOOD = 2


@click.command(cls=Grouped)
@click.argument("source", metavar="FILE|FOLDER|wandb:..")
@options.reading
@options.as_json
def read(source: str, **rest: Any) -> None:
    """Say what each column was taken for, and ask about those that were not understood.

    Every verb reads in this way. Replies are kept in FILE.cptlaw.yaml, so that the next command needs none of them;
    exit code 2 while a column that is not understood explains losses.

    \b
    Examples:
      cptlaw read runs.csv
      cptlaw read runs.csv --columns replay=1-ja_frac,tokens=btok:B
      cptlaw read outputs/ --json
    """
    import cptlaw as cl

    given = options.how_to_read(rest)
    reading = cl.read(source, **given)
    if options.is_interactive() and options.has_choices(reading):
        given = options.with_replies(reading.open, given)
        reading = cl.read(source, **given)
    kept = options.save_replies(source, given) if reading.understood and Path(source).is_file() else None
    if kept is not None:
        show_notes([f"kept in {kept}"])
    if wants_json():
        show_json(reading.to_dict())
    else:
        show_notes(reading.notes)
        show_text(reading)
    if not reading.understood:
        sys.exit(NOT_UNDERSTOOD)
    if not wants_json():
        is_table = reading.runs is not None and reading.runs.path is not None
        show_next(["cptlaw", "check", source] if is_table else ["cptlaw", "import", source, "-o", "runs.csv"])
