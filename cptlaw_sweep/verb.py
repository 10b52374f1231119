"""The verbs sweep, merge and export."""

from __future__ import annotations

import sys
from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_json, show_notes, wants_json
from cptlaw.commands import command_line
from cptlaw.errors import UsageError
from cptlaw.units import parse_pairs
from cptlaw_sweep.trainers import TRAINERS

ALL_FAILED = 1  # exit code of a sweep of which no job finished


@click.command(cls=Grouped)
@click.argument("recipe", metavar="SWEEP.yaml", type=click.Path())
@click.option(
    "--engine", default="local", show_default=True, metavar="ENGINE", help="Where runs run: local, ray, slurm."
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Processes, or most jobs at a time. [default: one per core]"
)
@click.option(
    "--engine-option", multiple=True, metavar="K=V", help="What the engine takes, as partition=gpu. May be repeated."
)
@click.option(
    "--dry-run", is_flag=True, help="Print every run with its tokens, FLOPs, time and disk, and train nothing."
)
@click.option(
    "-o",
    "--output",
    metavar="PLACE",
    help="Where results go: a folder or an fsspec URL; with --dry-run the folder for one manifest per run. "
    "[default: the name of the recipe]",
)
@click.option("--status", is_flag=True, help="Print how the sweep stands, while it runs or after; train nothing.")
@click.option(
    "--tune-lr", is_flag=True, help="Find the learning rates by short trials of the smallest models; train no run."
)
@click.option("--retry-failed", is_flag=True, help="Try runs again that failed by themselves, not by the machine.")
@options.as_json
def sweep(
    recipe: str,
    output: str | None,
    dry_run: bool,
    status: bool,
    tune_lr: bool,
    **how: Any,
) -> None:
    """Train the runs of a recipe: pre-training ladders, then continual pre-training with replay.

    Stopped at any moment, the same command goes on where it was. A run that fails does not stop the others;
    where all failed the exit code is 1.

    \b
    Example:
      cptlaw sweep sweep.yaml --dry-run
      cptlaw sweep sweep.yaml -o results
      cptlaw sweep sweep.yaml -o results --status
      cptlaw sweep sweep.yaml -o /shared/results --engine ray --engine-option address=10.0.0.1:6379
      cptlaw fit results/runs.csv --law ptpp-gate --on target -o target.json
    """
    from cptlaw_sweep import sweep as verb

    again = ["cptlaw", "sweep", recipe]
    if dry_run + status + tune_lr > 1:
        raise UsageError("--dry-run, --status and --tune-lr are three questions. Ask one at a time.")
    expected = "OPTION=VALUE, as in partition=gpu"
    how["engine_options"] = parse_pairs(how.pop("engine_option"), "--engine-option", expected, between=None)
    if status:
        show(verb.status(recipe, output), [*again, *(["-o", output] if output else [])])
    elif tune_lr:
        del how["retry_failed"]
        then = f"put the first line under `pretrain` of {recipe}, then {command_line(again)}"
        show(verb.tune_lr(recipe, output, **how), then=then)
    elif dry_run:
        then = "follow the manifests with your own trainer, then cptlaw import its logs" if output else ""
        result = verb.dry_run(recipe, output, engine=how["engine"], workers=how["workers"])
        show(result, "" if output else [*again, "-o", "results"], then=then)
    else:
        done = verb.sweep(recipe, output, **how)
        mend = f"mend the cause, then {command_line([*again, '-o', done.store, '--retry-failed'])}"
        check = ["cptlaw", "check", f"{done.store}/runs.csv", "--on", "target"]
        show(done, [] if done.failed else check, then=mend if done.failed else "")
        if done.failed and not done.finished:
            sys.exit(ALL_FAILED)


@click.command(cls=Grouped)
@click.argument("base", type=click.Path())
@click.argument("adapted", type=click.Path())
@click.option("-w", "--weight", type=float, required=True, metavar="W", help="0 is the base model, 1 the adapted one.")
@click.option("-o", "--output", metavar="FOLDER", type=click.Path(), required=True, help="A folder that is new.")
@options.as_json
def merge(base: str, adapted: str, weight: float, output: str) -> None:
    """Merge an adapted model with its base: base + W (adapted - base).

    Both are folders of Hugging Face models in safetensors. One shard is in memory at a time; the tokenizer is that of
    the adapted model.

    \b
    Example:
      cptlaw merge models/base models/medicine -w 0.7 -o models/medicine-0.7
    """
    from cptlaw_sweep.merging import merge as run

    show(run(base, adapted, output, weight=weight), then="measure both losses of it beside those of the adapted model")


@click.command(cls=Grouped)
@click.argument("answer", metavar="ANSWER.json", type=click.Path())
@click.option("--to", required=True, type=click.Choice(list(TRAINERS)), help="The trainer.")
@click.option("-o", "--output", metavar="FOLDER", default=".", type=click.Path(), help="Where the file goes.")
@click.option("--gpus", metavar="N", help="Devices that share the batch. [default: one]")
@click.option("--base", metavar="MODEL", help="The base model, as the trainer loads it. [default: the answer's]")
@click.option("--lr-peak", metavar="X", help="Peak rate. [default: the answer's]")
@click.option("--context", metavar="N", default="4096", show_default=True, help="Tokens of a row.")
@click.option("--batch", metavar="N", help="Most rows of a step. [default: near what the answer advises, else 256]")
@click.option("--warmup", metavar="X", default="1%", show_default=True, help="Share of the steps that warm up.")
@click.option(
    "--end", metavar="X", default="10%", show_default=True, help="Share of the peak at which the cosine ends."
)
@options.as_json
def export(answer: str, to: str, output: str, **how: object) -> None:
    """Write the run of an answer as the configuration of a trainer.

    What an answer cannot know stands in capitals there: where the texts lie, and the base model where it has no name.

    \b
    Example:
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --max-forgetting 2% --json > answer.json
      cptlaw export answer.json --to trl --gpus 8 -o run
    """
    from cptlaw.writing import write_all_to_edit
    from cptlaw_sweep.trainers import files_of_answer, notes_of

    contents = files_of_answer(answer, to, **how)
    written, notes = [str(path) for path in write_all_to_edit(contents, output)], notes_of(contents)
    if wants_json():
        show_json({"written": written, "notes": notes})
        return
    show_notes([*notes, *(["this is for one device: --gpus N shares the batch"] if how["gpus"] is None else [])])
    for path in written:
        click.echo(path)
