"""The verbs that look up what comes with the package: laws, example."""

from __future__ import annotations

import click

from cptlaw.cli import complete, options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import show_json, show_next, wants_json, wrap_paragraphs


@click.command(cls=Grouped)
@click.argument("name", required=False, shell_complete=complete.laws)
@options.as_json
def laws(name: str | None) -> None:
    """List the laws, or describe one: equation, parameters, units, source.

    \b
    Examples:
      cptlaw laws
      cptlaw laws ptpp-gated-floor
    """
    from cptlaw.forecasting.scores import known_score_laws, scoring
    from cptlaw.laws import LAWS, card, describe, law

    if name in known_score_laws():
        of_scores = scoring.score_law(str(name))
        if wants_json():
            show_json(scoring.describe_score(of_scores))
        else:
            click.echo(wrap_paragraphs(scoring.score_card(of_scores)))
        return
    result = [describe(law(name))] if name else [describe(law(known)) for known in LAWS]
    result += [] if name else [scoring.describe_score(scoring.score_law(known)) for known in known_score_laws()]
    if wants_json():
        show_json(result[0] if name else {"laws": result})
    elif name:
        click.echo(wrap_paragraphs(card(law(name))))
    else:
        width = max(len(item["name"]) for item in result)
        for item in result:
            click.echo(wrap_paragraphs(f" {item['name']:<{width}}  {item['equation']}")[1:].replace("\n ", "\n"))
        for entry, reason in LAWS.broken.items():
            click.echo(f"The entry point {entry} of an installed package cannot be loaded: {reason}", err=True)
        show_next(["cptlaw", "laws", result[0]["name"]])


@click.command(cls=Grouped)
@click.argument("name", required=False, shell_complete=complete.examples)
@click.option("--schedules", is_flag=True, help="The path of its schedules file, for laws of loss curves.")
@options.as_json
def example(name: str | None, schedules: bool) -> None:
    """Print the path of example runs that come with the package; without a name, list them.

    \b
    Example:
      cptlaw check $(cptlaw example en-fr-pilot) --on target
    """
    from cptlaw import examples

    find, all_names = (examples.schedules, examples.SCHEDULES) if schedules else (examples.path, examples.EXAMPLES)
    paths = {known: str(find(known)) for known in ([name] if name else all_names)}
    if wants_json():
        show_json({"examples": paths})
        return
    for known, path in paths.items():
        click.echo(path if name else known)
