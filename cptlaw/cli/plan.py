"""The verb plan: one subcommand per question, with the options that its scenario declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.named import Named
from cptlaw.cli.output import show
from cptlaw.cli.scenario_options import of_scenario
from cptlaw.errors import UsageError
from cptlaw.planning import scenario as scenarios
from cptlaw.signatures import Declared


@click.group(cls=Named, context_settings={"help_option_names": ["-h", "--help"]})
def plan() -> None:
    """Choose replay, tokens, size and schedule before the compute is spent.

    \b
    Exit code 3 means that no plan keeps the limits: an answer, which names the limit that blocks.
    Sizes, tokens and shares take units: 8.1B, 72B, 34%.
    """


target = click.option("--target", required=True, metavar="T.json", help="Fit of the target loss.")
source = click.option("--source", metavar="S.json", help="Fit of the source loss.")
needed_source = click.option("--source", required=True, metavar="S.json", help="Fit of the source loss.")


def subcommand(
    name: str, scenario: Declared, sides: tuple[Callable[..., object], ...]
) -> Callable[[Callable[[], None]], click.Command]:
    """Return a decorator that makes a subcommand out of a docstring, a scenario and the fits that it takes."""

    def make(described: Callable[[], None]) -> click.Command:
        def run(**asked: object) -> None:
            import cptlaw as cl

            fits = [asked.pop(side) for side in ("target", "source") if side in asked]
            show(getattr(cl.plan, name.replace("-", "_"))(*fits, **asked))

        run.__doc__ = described.__doc__
        decorated = options.option_group(*sides, of_scenario(scenario), options.strict, options.as_json)(run)
        return plan.command(name)(decorated)

    return make


@subcommand("min-tokens", scenarios.MinTokens, (target, source))
def min_tokens() -> None:
    """Find the fewest tokens, and the replay, that keep limits on forgetting and losses.

    \b
    Example:
      cptlaw plan min-tokens --target t.json --source s.json --n-params 8.1B --ptpp 279 \\
          --max-forgetting 2% --max-target-loss 1.8 --base-source-loss 1.95 --risk 0.9
    """


@subcommand("trade-off", scenarios.TradeOff, (target, needed_source))
def trade_off() -> None:
    """Find the replay with the lowest target loss at given tokens, under a limit on forgetting.

    \b
    Example:
      cptlaw plan trade-off --target t.json --source s.json --n-params 1.8B --tokens 10B --max-forgetting 3%
    """


@subcommand("limited-data", scenarios.LimitedData, (target, source))
def limited_data() -> None:
    """Find the replay with the lowest target loss where the target corpus is small.

    \b
    Example:
      cptlaw plan limited-data --target t.json --n-params 1.8B --target-tokens 5B
    """


@subcommand("allocate", scenarios.Allocate, (target,))
def allocate() -> None:
    """Find the model size and the tokens with the lowest target loss for a compute budget.

    \b
    Example:
      cptlaw plan allocate --target t.json --replay 50% --budget 5e19
    """


@subcommand("pareto", scenarios.Pareto, (target, needed_source))
def pareto() -> None:
    """List the mixes within a compute budget that no other beats in both losses.

    \b
    Example:
      cptlaw plan pareto --target t.json --source s.json --n-params 1.8B --budget 1e20
    """


@plan.command("mix")
@options.option_group(
    click.argument("runs", required=False, type=click.Path()),
    click.option("--fit", "fits", multiple=True, metavar="FIT.json", help="Fit of an eval's loss. May be repeated."),
    of_scenario(scenarios.MixOfCorpora),
    options.law,
    click.option("--where", metavar="Q", help="With RUNS: keep these rows."),
    options.reading,
    options.strict,
    options.as_json,
)
def mix(runs: str | None, fits: tuple[str, ...], law_name: str, where: str | None, **rest: Any) -> None:
    """Find the mix of k corpora with the lowest losses, under limits on each eval.

    Give RUNS, a table with a column mix_NAME for each corpus, of which each eval that the question names is fitted; or
    fits, one for each eval. What goes by name may be repeated: --max-forgetting web=2% --unique math=5B.

    \b
    Examples:
      cptlaw plan mix runs.csv --n-params 1B --tokens 20B --minimise math=0.7 --minimise code=0.3 --max-loss web=2.6
      cptlaw plan mix --fit math.json --fit web.json --tokens 20B --minimise math=1 --max-forgetting web=2% \\
          --base-loss web=2.41 --unique math=5B --repetition discount --risk 0.8
    """
    import cptlaw as cl

    if (runs is None) == (not fits):
        raise UsageError("plan mix takes a runs table, or fits with --fit: one of the two.")
    asked = {name: rest.pop(name) for name in scenarios.options_of(scenarios.MixOfCorpora)}
    if runs is None:
        result = cl.plan.mix(list(fits), **asked)
    else:
        result = cl.plan.mix(options.read_table(runs, rest), law=law_name, where=where, **asked)
    show(result)
