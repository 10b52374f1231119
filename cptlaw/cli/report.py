"""The verb report."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli import plan as plans
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show
from cptlaw.cli.scenario_options import of_scenario
from cptlaw.commands import command_line
from cptlaw.planning.report_scenario import ReportOfRuns
from cptlaw.planning.scenario import options_of
from cptlaw.progress import progress

PARTS = 15  # of a report of two fits with a plan


@click.command(
    cls=Grouped,
    few=(
        *("target", "source", "test_where", "n_params", "ptpp", "at"),
        *("max_forgetting", "max_target_loss", "risk", "output"),
    ),
)
@options.table
@options.option_group(plans.target, plans.source)
@of_scenario(ReportOfRuns, but=("repetition",))
@click.option("--png", metavar="DIR", type=click.Path(), help="Write each figure as PNG too.")
@click.option("--pdf", metavar="DIR", type=click.Path(), help="Write each figure as PDF too.")
@options.output("REPORT", "REPORT.html", "The page.", required=True)
@options.as_json
def report(
    *,
    runs: str,
    target: str,
    source: str | None,
    output: str,
    force: bool,
    png: str | None,
    pdf: str | None,
    **rest: Any,
) -> None:
    """Write one self-contained page: question, answer, plan, doubts, figures, and how to repeat it all.

    \b
    With a limit the page answers `plan min-tokens`, else it shows the forecast --at.
    Exit code 3 means that the page says that no plan keeps the limits.

    \b
    Examples:
      cptlaw report runs.csv --target t.json --source s.json --n-params 8.1B --ptpp 279 \\
          --max-forgetting 2% --max-target-loss 1.8 -o report.html
      cptlaw report runs.csv --target t.json --at n_params=8.1B,tokens=72B,replay=34%,ptpp=279 -o report.html
    """
    import cptlaw as cl

    table = options.read_table(runs, rest)
    # What the library has by default is left to it: a reference alone, say, would ask for a plan without a limit.
    known = options_of(ReportOfRuns)
    asked = {name: value for name, value in rest.items() if value not in (None, (), known[name].default)}
    with progress("drawing", PARTS) as advance:
        result = cl.report(table, target, source, progress=advance, **asked)
        written = result.save(output, force)
    images = [
        path
        for folder, ending in ((png, "png"), (pdf, "pdf"))
        if folder is not None
        for path in result.save_figures(folder, ending, force)
    ]
    beside = {"output": str(written), "images": [str(path) for path in images]}
    show(
        result, beside=beside, then=f"open {command_line([str(written)])} in a browser, or send it: it needs no network"
    )
