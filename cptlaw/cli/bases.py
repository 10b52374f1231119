"""The verb `bases`: the open base models that `answer --base` knows."""

from __future__ import annotations

import json

import click

from cptlaw.cli import options
from cptlaw.cli.output import wants_json
from cptlaw.units import format_quantity


@click.command()
@options.as_json
def bases() -> None:
    """List the open base models that `answer --base` knows.

    \b
    Example:
      cptlaw bases
    """
    from cptlaw.answering.known_bases import BASES, bases

    if wants_json():
        click.echo(json.dumps({"bases": json.loads(bases().to_json(orient="records"))}))
        return
    for each in BASES:
        peak = "not published" if each.lr_pretrain is None else f"{each.lr_pretrain:g}"
        size, tokens = format_quantity(each.n_params, 3), format_quantity(each.pt_tokens, 3)
        tokens = f"{tokens} tokens ({each.ptpp:,.0f} a parameter)"
        click.echo(f"{each.name:15} {size:>6} parameters, {tokens}, peak rate {peak}; {each.source}")
