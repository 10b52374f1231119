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

    Parameters are all of a model, those of idle experts too. Of any other `--base config.json` counts the
    parameters; its tokens per parameter are given with --ptpp.

    \b
    Examples:
      cptlaw bases
      cptlaw answer --base meta-llama/Llama-3.1-8B --target-tokens 20B --shift language
    """
    from cptlaw.runs.known_models import bases

    if wants_json():
        show_json({"bases": bases()})
        return
    click.echo(f"{'name':19} {'parameters':>11} {'tokens':>7} {'a parameter':>12} {'peak rate':>10}  text public")
    for name, ids, n_params, pt_tokens, ptpp, rate, public, source in bases().itertuples(index=False, name=None):
        size = format_quantity(n_params, 3)
        # What is not published is NaN.
        tokens, each = (format_quantity(pt_tokens, 3), f"{ptpp:,.0f}") if pt_tokens > 0 else ("-", "-")
        click.echo(f"{name:19} {size:>11} {tokens:>7} {each:>12} {f'{rate:g}' if rate > 0 else '-':>10}  {public}")
        if verbosity() > 0:
            click.echo(wrap_paragraphs(f"    {ids.split()[0]}; {source}"))
    show_next(["cptlaw", "bases", "-v"])
