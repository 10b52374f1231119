"""The verb `bases`: the open base models that `answer --base` knows."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.output import show_json, wants_json
from cptlaw.units import format_quantity


@click.command()
@options.as_json
def bases() -> None:
    """List the open base models that `answer --base` knows.

    \b
    Example:
      cptlaw bases
    """
    from cptlaw.answering.base_models import bases

    if wants_json():
        show_json({"bases": bases()})
        return
    for name, n_params, pt_tokens, ptpp, rate, public, source in bases().itertuples(index=False, name=None):
        peak = f"{rate:g}" if rate > 0 else "not published"  # a rate that is not published is NaN
        text = "public" if public == "yes" else "not public"
        size, tokens = format_quantity(n_params, 3), format_quantity(pt_tokens, 3)
        tokens = f"{tokens} tokens ({ptpp:,.0f} a parameter)"
        click.echo(f"{name:15} {size:>6} parameters, {tokens}, peak rate {peak}, text {text}; {source}")
