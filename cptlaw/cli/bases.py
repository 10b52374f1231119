"""The verb `bases`: the open base models that `answer --base` knows."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show_json, wants_json
from cptlaw.units import format_quantity


@click.command(cls=Grouped)
@options.as_json
def bases() -> None:
    """List the open base models that `answer --base` knows, by name and by id on Hugging Face.

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
    for name, ids, n_params, pt_tokens, ptpp, rate, public, source in bases().itertuples(index=False, name=None):
        # What is not published is NaN.
        peak = f", peak rate {rate:g}" if rate > 0 else ""
        text = "public" if public == "yes" else "not public"
        counted = f"{format_quantity(pt_tokens, 3)} tokens ({ptpp:,.0f} a parameter)"
        tokens = counted if pt_tokens > 0 else "tokens not published"
        size = format_quantity(n_params, 3)
        click.echo(f"{name:19} {size:>6} parameters, {tokens}{peak}, text {text}; {ids.split()[0]}; {source}")
