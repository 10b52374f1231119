"""The verb `answer`: from a question to what to train, in one command."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show, show_notes, wants_json
from cptlaw.cli.scenario_options import of_scenario
from cptlaw.errors import UsageError
from cptlaw.planning.scenario import AnswerQuestion

OF_RUNS = (*options.READING, "domain", "where", "schedules", "anyway")


@click.command(
    cls=Grouped,
    few=(
        *("source_eval", "target_eval", "n_params", "ptpp", "tokens", "target_tokens"),
        *("max_forgetting", "max_target_loss", "output", "json"),
    ),
)
@click.argument("runs", type=click.Path(), required=False)
@options.reading
@click.option(
    "--base", metavar="NAME", help="A base model by name, Hugging Face id or config.json. See `cptlaw bases`."
)
@of_scenario(AnswerQuestion)
@options.shift
@options.domain
@click.option("--where", metavar="Q", help="Keep these rows, as in 'ptpp <= 31'.")
@options.schedules
@click.option("--anyway", is_flag=True, help="With RUNS: answer in spite of errors in the table.")
@click.option("--explain", is_flag=True, help="Show each step as the command that repeats it.")
@click.option("--pilots", metavar="FOLDER", type=click.Path(), help="Without RUNS: write the three pilots here.")
@options.output("REPORT", "report.html", "Write a page to send (with RUNS: extra `report`).")
@options.seed
@options.strict
@options.as_json
def answer(runs: str | None, explain: bool, pilots: str | None, output: str | None, force: bool, **given: Any) -> None:
    """Say what to train, what to expect, how sure that is, and what to run next.

    From a table of RUNS: finds laws for both losses, forecasts and plans. Without RUNS: what the studies of others say.

    \b
    Examples:
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --max-forgetting 2%
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --max-forgetting 2% --max-target-loss 1.8 -o report.html
      cptlaw answer runs.csv --n-params 8B --ptpp 300 --tokens 20B --min gsm8k=60% --max-drop mmlu=1pt
      cptlaw answer --n-params 8B --ptpp 1875 --target-tokens 20B --shift language --pilots pilots
      cptlaw answer --base llama-3.1-8b --target-tokens 20B --max-epochs 4 --gpus 64xH100 --mfu 40% --gpu-hour 2.50
    """
    import cptlaw as cl

    table = {name: given.pop(name) for name in options.READING}
    if runs is None:
        foreign = [name for name, value in {**given, **table}.items() if value and name in OF_RUNS]
        if foreign:
            raise UsageError(f"answer: {options.flag_of(foreign[0])} goes with RUNS, a table of runs.")
        source = None
    else:
        if pilots is not None:
            raise UsageError("answer: --pilots is for an answer without RUNS.")
        source = options.read_table(runs, table)
    result = cl.answer(source, **given)
    if pilots is not None:
        written = cl.write_pilots(result.next_runs, pilots)
        show_notes(f"wrote {path}" for path in written)
        if written[0].name != "pilots.yaml":
            show_notes(["the pilots.yaml there says something else, and stays as it is"])
        show_notes([f"put your model and text where {written[0]} has capitals, then: cptlaw sweep {written[0]}"])
    if output is not None:
        show_notes([f"wrote {result.report(output, force=force)}"])
    if explain and not wants_json():
        click.echo("\n".join(result.commands), err=True)
    # Pilots that were written have capitals to be filled in first, so that no command can follow at once.
    show(result, result.following if pilots is None else "")
