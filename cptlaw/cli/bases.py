"""The verb `bases`: the open base models that `answer --base` knows."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show_json, show_next, verbosity, wants_json, wrap_paragraphs
from cptlaw.units import format_quantity


@click.command(cls=Grouped)
@options.as_json
def bases() -> None:
    """List the open base models that `answer --base` knows; with -v their ids on Hugging Face and sources.

    Parameters are all of a model, those of idle experts too; cost counts the active ones. Of any other
    `--base config.json` counts both; its tokens per parameter are given with --ptpp.

    \b
    Examples:
      cptlaw bases
      cptlaw answer --base meta-llama/Llama-3.1-8B --target-tokens 20B --shift language
    """
    from cptlaw.runs.known_models import bases

    if wants_json():
        show_json({"bases": bases()})
        return
    shown = "{:19} {:>11} {:>7} {:>7} {:>12} {:>10}  {}".format
    click.echo(shown("name", "parameters", "active", "tokens", "a parameter", "peak rate", "text public"))
    for name, ids, size, active, pt_tokens, ptpp, rate, public, source in bases().itertuples(index=False, name=None):
        # What is not published is NaN.
        tokens, each = (format_quantity(pt_tokens, 3), f"{ptpp:,.0f}") if pt_tokens > 0 else ("-", "-")
        counts = (format_quantity(number, 3) for number in (size, active))
        click.echo(shown(name, *counts, tokens, each, f"{rate:g}" if rate > 0 else "-", public))
        if verbosity() > 0:
            click.echo(wrap_paragraphs(f"    {ids.split()[0]}; {source}"))
    show_next(["cptlaw", "bases", "-v"])
