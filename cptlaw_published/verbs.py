"""The verb that runs laws on frozen splits of real runs."""

from __future__ import annotations

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show
from cptlaw.progress import progress


@click.command(cls=Grouped)
@click.option(
    "--data", metavar="FOLDER", type=click.Path(), help="Folder of public tables, listed in studies/bench.md."
)
@click.option("--laws", metavar="A,B,..", help="Laws, also of installed packages. [default: auto and others]")
@click.option("--splits", metavar="NAME,..", help="Studies, or single splits as study/split. [default: all]")
@options.as_json
def bench(data: str | None, laws: str | None, splits: str | None) -> None:
    """Judge laws on rows of real runs that they were not fitted on.

    \b
    Examples:
      cptlaw bench
      cptlaw bench --data ../shared/data --laws auto,chinchilla --splits gadre,olmo
    """
    from cptlaw_published.benching import bench as run
    from cptlaw_published.benching.splits import SPLITS

    with progress("bench", len(SPLITS)) as advance:
        result = run(data, laws, splits, progress=advance)
    show(result)
