"""The verb `answer`: from a question to what to train, in one command."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_notes, wants_json
from cptlaw.errors import UsageError

SHIFTS = ("language", "domain", "code", "near")


@click.command(
    cls=Grouped,
    few=(
        *("source_eval", "target_eval", "n_params", "ptpp", "tokens", "target_tokens"),
        *("max_forgetting", "max_target_loss", "output", "json"),
    ),
)
@click.argument("runs", type=click.Path(), required=False)
@options.reading
@click.option("--base", metavar="NAME", help="A known open base model: N, ptpp and rate. `cptlaw bases` lists them.")
@click.option("--n-params", metavar="N", help="Parameters of the model, as in 8B.")
@click.option("--ptpp", metavar="P", help="Pre-training tokens per parameter of its base model, as in 1875.")
@click.option("--tokens", metavar="D", help="Adaptation tokens there are to spend, replay included.")
@click.option("--target-tokens", metavar="D", help="Unique tokens of the new domain there are.")
@click.option("--budget", metavar="FLOPS", help="Most compute to spend, 6 x parameters x tokens, as in 1e22.")
@click.option("--max-forgetting", metavar="X", help="Most forgetting, as in 2%.")
@click.option("--max-target-loss", metavar="L", help="Highest target loss, in the unit of the table.")
@click.option("--min", "min_score", multiple=True, metavar="NAME=X", help="Least score, as in gsm8k=60%.")
@click.option("--max-drop", multiple=True, metavar="NAME=X", help="Most points to lose, as in mmlu=1pt.")
@click.option("--base-score", multiple=True, metavar="NAME=X", help="Base model's score, where no run measured it.")
@click.option("--base-source-loss", metavar="L0", help="Source loss of the base model, where no run measured it.")
@click.option("--base-target-loss", metavar="L0", help="Target loss of the base model, where no run measured it.")
@click.option("--batch-tokens", metavar="B", help="Without RUNS: tokens of a step to weigh. [default: the best]")
@click.option("--lr-peak", metavar="LR", help="Peak rate of CPT, as in 3e-5. [default: the best that was run]")
@click.option("--lr-pretrain", metavar="LR", help="Without RUNS: peak rate of pre-training. [default: usual for N]")
@click.option("--min-replay", metavar="R", help="Smallest replay to consider. [default: the smallest that was run]")
@click.option("--max-replay", metavar="R", help="Largest replay to consider. [default: the largest that was run]")
@click.option("--risk", metavar="P", default="0.8", show_default=True, help="Each limit holds with this probability.")
@click.option("--shift", type=click.Choice(SHIFTS), help="Without RUNS: what the new domain is. near: like the old.")
@click.option("--where", metavar="Q", help="Keep these rows, as in 'ptpp <= 31'.")
@options.schedules
@click.option("--explain", is_flag=True, help="Show each step as the command that repeats it.")
@click.option("--pilots", metavar="FOLDER", type=click.Path(), help="Without RUNS: write the three pilots here.")
@options.output("REPORT", "report.html", "Write a page to send (with RUNS: extra `report`).")
@options.seed
@options.strict
@options.as_json
def answer(
    runs: str | None,
    explain: bool,
    pilots: str | None,
    output: str | None,
    force: bool,
    **given: Any,
) -> None:
    """Say what to train, what to expect, how sure that is, and what to run next.

    From a table of RUNS: finds laws for both losses, forecasts and plans. Without RUNS: what the studies of others say.

    \b
    Examples:
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --max-forgetting 2%
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --max-forgetting 2% --max-target-loss 1.8 -o report.html
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --min gsm8k=60% --max-drop mmlu=1pt
      cptlaw answer --n-params 8B --ptpp 1875 --target-tokens 20B --shift language --pilots pilots
    """
    import cptlaw as cl

    table = {name: given.pop(name) for name in ("columns", "losses", "score_columns", *options.TABLE_OPTIONS)}
    if runs is None:
        foreign = [name for name in ("where", "schedules") if given[name] is not None]
        if foreign or any(table.values()):
            name = [*foreign, *(name for name, value in table.items() if value)][0]
            raise UsageError(f"answer: {options.flag_of(name)} goes with RUNS, a table of runs.")
        source = None
    else:
        if pilots is not None:
            raise UsageError("answer: --pilots is for an answer without RUNS.")
        source = options.read_table(runs, table)
    found = cl.answer(source, **given)
    if pilots is not None:
        written = cl.write_pilots(found.next_runs, pilots)
        show_notes(f"wrote {path}" for path in written)
        if written[0].name != "pilots.yaml":
            show_notes(["the pilots.yaml there says something else, and stays as it is"])
        show_notes([f"put your model and text where {written[0]} has capitals, then: cptlaw sweep {written[0]}"])
    if output is not None:
        show_notes([f"wrote {found.report(output, force=force)}"])
    if explain and not wants_json():
        click.echo("\n".join(found.steps), err=True)
    # Pilots that were written have capitals to be filled in first, so that no command can follow at once.
    show(found, found.following if pilots is None else "")
