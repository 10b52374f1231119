"""The verb plan: one subcommand per question."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import Verbs, options, plan_schedule
from cptlaw.cli.output import show


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
def plan() -> None:
    """Choose replay, tokens and size before the compute is spent.

    \b
    Exit code 3 means that no plan keeps the limits: an answer, which names the limit that blocks.
    Sizes, tokens and shares take units: 8.1B, 72B, 34%.
    """


target = click.option("--target", required=True, metavar="T.json", help="Fit of the target loss.")
source = click.option("--source", metavar="S.json", help="Fit of the source loss.")
needed_source = click.option("--source", required=True, metavar="S.json", help="Fit of the source loss.")
size = click.option("--n-params", required=True, metavar="N", help="Parameters of the model, as in 8.1B.")
ptpp = click.option("--ptpp", metavar="P", help="Pre-training tokens per parameter of the base model.")
forgetting_limit = click.option("--max-forgetting", metavar="X", help="Most forgetting, as in 2%.")
source_limit = click.option("--max-source-loss", metavar="L", help="Highest source loss, nats per token.")
replay_range = options.several(
    click.option("--min-replay", metavar="R", help="Smallest replay to consider. [default: from the fitted range]"),
    click.option("--max-replay", metavar="R", help="Largest replay to consider. [default: from the fitted range]"),
)
risk = click.option("--risk", metavar="P", help="Each limit holds with this probability under the fits' doubt.")
reference = options.several(
    click.option("--base-source-loss", metavar="L0", help="Measured source loss of the base model."),
    click.option(
        "--reference",
        type=click.Choice(["measured", "base-law", "asymptote", "min-tokens", "shifted"]),
        default="measured",
        show_default=True,
        help="Where the base model's source loss comes from.",
    ),
    click.option("--base-law", metavar="B.json", help="Fit of ptpp-base, for --reference base-law."),
    click.option(
        "--forgetting",
        type=click.Choice(["relative", "absolute"]),
        default="relative",
        show_default=True,
        help="Forgetting as a share of the base model's source loss, or in nats.",
    ),
)


@plan.command("min-tokens")
@options.several(target, source, size, ptpp, forgetting_limit)
@click.option("--max-target-loss", metavar="L", help="Highest target loss, nats per token.")
@options.several(source_limit, reference, replay_range)
@click.option("--max-tokens", metavar="D", help="Most adaptation tokens to spend, as in 100B.")
@click.option("--unique-target-tokens", metavar="U", help="Target tokens there are.")
@click.option(
    "--repetition",
    type=click.Choice(["forbid", "discount"]),
    default="forbid",
    show_default=True,
    help="Read target tokens once, or repeat them at the discounted worth of Muennighoff et al.",
)
@risk
@click.option("--savings/--no-savings", default=True, help="With --risk: which next runs would pay for themselves.")
@options.several(options.interval, options.strict, options.as_json)
def min_tokens(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the fewest tokens, and the replay, that keep limits on forgetting and losses.

    \b
    Example:
      cptlaw plan min-tokens --target t.json --source s.json --n-params 8.1B --ptpp 279 \\
          --max-forgetting 2% --max-target-loss 1.8 --base-source-loss 1.95 --risk 0.9
    """
    import cptlaw as cl

    show(cl.plan.min_tokens(question.pop("target"), question.pop("source"), **question), as_json, strict=strict)


@plan.command("trade-off")
@options.several(target, needed_source, size)
@click.option("--tokens", required=True, metavar="D", help="Adaptation tokens, replay included.")
@options.several(ptpp, forgetting_limit, source_limit, reference, replay_range, risk)
@options.several(options.interval, options.strict, options.as_json)
def trade_off(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the replay with the lowest target loss at given tokens, under a limit on forgetting.

    \b
    Example:
      cptlaw plan trade-off --target t.json --source s.json --n-params 1.8B --tokens 10B --max-forgetting 3%
    """
    import cptlaw as cl

    show(cl.plan.trade_off(question.pop("target"), question.pop("source"), **question), as_json, strict=strict)


@plan.command("limited-data")
@options.several(target, size)
@click.option("--target-tokens", required=True, metavar="D", help="Tokens of the target corpus, each read once.")
@options.several(source, ptpp, forgetting_limit, source_limit, reference)
@click.option("--min-replay", metavar="R", default="0", show_default=True, help="Smallest replay to consider.")
@click.option("--max-replay", metavar="R", default="95%", show_default=True, help="Largest replay to consider.")
@options.several(risk, options.interval, options.strict, options.as_json)
def limited_data(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the replay with the lowest target loss where the target corpus is small.

    \b
    Example:
      cptlaw plan limited-data --target t.json --n-params 1.8B --target-tokens 5B
    """
    import cptlaw as cl

    show(cl.plan.limited_data(question.pop("target"), **question), as_json, strict=strict)


@plan.command("allocate")
@target
@click.option("--budget", required=True, metavar="FLOPS", help="Compute, 6 x parameters x tokens, as in 5e19.")
@click.option("--replay", metavar="R", help="Share of the source corpus, where the law reads it.")
@options.several(ptpp, options.interval, options.strict, options.as_json)
def allocate(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the model size and the tokens with the lowest target loss for a compute budget.

    \b
    Example:
      cptlaw plan allocate --target t.json --replay 50% --budget 5e19
    """
    import cptlaw as cl

    show(cl.plan.allocate(question.pop("target"), **question), as_json, strict=strict)


@plan.command("pareto")
@options.several(target, needed_source, size)
@click.option("--budget", required=True, metavar="FLOPS", help="Compute, 6 x parameters x tokens, as in 5e19.")
@ptpp
@click.option("--points", type=click.IntRange(2), default=20, show_default=True, help="Most points of the front.")
@options.several(reference, replay_range, options.interval, options.strict, options.as_json)
def pareto(as_json: bool, strict: bool, **question: Any) -> None:
    """List the mixes within a compute budget that no other beats in both losses.

    \b
    Example:
      cptlaw plan pareto --target t.json --source s.json --n-params 1.8B --budget 1e20
    """
    import cptlaw as cl

    show(cl.plan.pareto(question.pop("target"), question.pop("source"), **question), as_json, strict=strict)


for question in plan_schedule.QUESTIONS:
    plan.add_command(question)
