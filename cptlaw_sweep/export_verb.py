"""The verb export."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.output import show_json, show_notes, wants_json

TRAINERS = ("axolotl", "llamafactory", "automodel", "torchtitan", "trl", "megatron", "huggingface")


@click.command("export")
@click.argument("answer", metavar="ANSWER.json", type=click.Path())
@click.option("--to", required=True, type=click.Choice(TRAINERS), help="The trainer.")
@click.option("-o", "--output", metavar="FOLDER", default=".", type=click.Path(), help="Where the file goes.")
@click.option("--lr-peak", metavar="X", help="Peak rate. [default: the answer's]")
@click.option("--context", metavar="N", default="4096", show_default=True, help="Tokens of a row.")
@click.option("--batch", metavar="N", help="Most rows of a step. [default: near what the answer advises, else 256]")
@click.option("--warmup", metavar="X", default="1%", show_default=True, help="Share of the steps that warm up.")
@click.option(
    "--end", metavar="X", default="10%", show_default=True, help="Share of the peak at which the cosine ends."
)
@options.as_json
def export(answer: str, to: str, output: str, **how: Any) -> None:
    """Write the run of an answer as the configuration of a trainer.

    What an answer cannot know stands in capitals there: the base model, and where the texts lie.

    \b
    Example:
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --max-forgetting 2% --json > answer.json
      cptlaw export answer.json --to trl -o run
    """
    from cptlaw_sweep.trainers import export as write

    written = [str(path) for path in write(answer, to, output, **how)]
    if wants_json():
        show_json({"written": written})
        return
    show_notes(["put your model and texts where the file has capitals"])
    for path in written:
        click.echo(path)
