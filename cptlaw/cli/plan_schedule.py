"""The questions of the verb plan that concern learning-rate schedules."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.output import show

curve_target = click.option("--target", required=True, metavar="T.json", help="Fit of the target loss by a curve law.")
curve_source = click.option("--source", metavar="S.json", help="Fit of the source loss by a curve law.")
needed_source = click.option("--source", required=True, metavar="S.json", help="Fit of the source loss by a curve law.")
known = options.several(
    click.option("--schedules", metavar="F", type=click.Path(), help="Schedules file. [default: those of the fits]"),
    click.option("--run", metavar="RUN", help="The run of it whose base model is meant, where they differ."),
    click.option("--replay", metavar="R", help="Share of the source corpus in the mix, where a law reads it."),
    click.option("--n-params", metavar="N", help="Parameters of the model, where a law reads them."),
)


@click.command("schedule")
@options.several(curve_target, curve_source)
@click.option("--weight-source", metavar="W", help="Weight of the source loss, 0 to 1; the target has the rest.")
@click.option(
    "--vary",
    default="peak",
    show_default=True,
    metavar="A,B,..",
    help="What may be chosen: peak, decay, end, rewarmup, replay, steps, loss-potential.",
)
@click.option("--range", "ranges", multiple=True, metavar="NAME=LOW:HIGH", help="Another range. May be repeated.")
@click.option("--max-forgetting", metavar="X", help="Most forgetting, as in 2%.")
@click.option("--max-target-loss", metavar="L", help="Highest target loss, nats per token.")
@click.option("--max-source-loss", metavar="L", help="Highest source loss, nats per token.")
@click.option("--max-steps", metavar="K", help="Most optimiser steps of CPT, as in 20K.")
@click.option(
    "--minimise",
    type=click.Choice(["weighted", "target", "source", "steps"]),
    help="What to minimise. [default: follows from the weight and the limits]",
)
@known
@click.option("--shape", metavar="NAME", help="Shape of the CPT schedule: cosine, linear, wsd, .. [default: as known]")
@click.option("--peak", metavar="LR", help="Peak rate where it is not varied; base: the base model's last rate.")
@click.option("--steps", metavar="K", help="CPT steps where they are not varied.")
@click.option("--warmup", metavar="K", help="Steps of re-warm-up, or a share of the steps as in 2%.")
@click.option("--decay", metavar="K", help="Steps of the decay, or a share of the steps.")
@click.option("--end", metavar="LR", help="Last rate, or a share of the peak.")
@click.option("--tokens-per-step", metavar="D", help="Tokens of one optimiser step, as in 4M.")
@click.option("--base-source-loss", metavar="L0", help="Measured source loss of the base model.")
@click.option(
    "--forgetting",
    type=click.Choice(["relative", "absolute"]),
    default="relative",
    show_default=True,
    help="Forgetting as a share of the base model's source loss, or in nats.",
)
@click.option("--risk", metavar="P", help="Each limit holds with this probability under the fits' doubt.")
@options.several(options.interval, options.seed, options.strict, options.as_json)
def schedule(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the best learning-rate schedule of CPT, for a weight between the losses or under limits.

    \b
    Examples:
      cptlaw plan schedule --target t.json --source s.json --weight-source 0.5 --vary peak,steps --max-steps 20K
      cptlaw plan schedule --target t.json --source s.json --max-forgetting 2% --vary peak,replay,decay
    """
    import cptlaw as cl

    question["ranges"] = list(question["ranges"]) or None
    found = cl.plan.schedule(question.pop("target"), question.pop("source"), **question)
    show(found, as_json, strict=strict)


@click.command("whole-schedule")
@options.several(curve_target, curve_source)
@click.option("--weight-source", default="0", show_default=True, metavar="W", help="Weight of the source loss, 0 to 1.")
@click.option("--steps", metavar="K", help="CPT steps. [default: as known, or 10K]")
@click.option("--highest", metavar="LR", help="Highest rate. [default: the peak of pre-training]")
@click.option("--floor", metavar="LR", default="1e-10", show_default=True, help="Lowest rate.")
@known
@options.output("RATES", "LR.csv", "Write the rates, for file: in a schedules file.")
@options.several(options.strict, options.as_json)
def whole_schedule(as_json: bool, strict: bool, output: str | None, force: bool, **question: Any) -> None:
    """Find the rate of every CPT step, never rising, and the nearest schedule with a name.

    \b
    Example:
      cptlaw plan whole-schedule --target t.json --source s.json --weight-source 0.5 --steps 10K -o lr.csv
    """
    import cptlaw as cl

    found = cl.plan.whole_schedule(question.pop("target"), question.pop("source"), **question)
    if output:
        found.save(output, force)
    show(found, as_json, "" if output else options.same_command(output="lr.csv"), strict)


@click.command("turning-length")
@options.several(curve_target, needed_source)
@click.option("--weight-source", required=True, metavar="W", help="Weight of the source loss, 0 to 1.")
@click.option("--peak", metavar="LR", help="The constant rate. [default: the peak of pre-training]")
@click.option("--warmup", metavar="K", help="Steps of re-warm-up.")
@options.several(known, options.strict, options.as_json)
def turning_length(as_json: bool, strict: bool, **question: Any) -> None:
    """Find after how many steps at a constant rate the weighted loss is back at its start: 0, a number, or never.

    \b
    Example:
      cptlaw plan turning-length --target t.json --source s.json --weight-source 0.7
    """
    import cptlaw as cl

    found = cl.plan.turning_length(question.pop("target"), question.pop("source"), **question)
    show(found, as_json, strict=strict)


@click.command("critical-point")
@needed_source
@click.option("--peak", metavar="LR", help="The constant rate of CPT. [default: the peak of pre-training]")
@options.several(known, options.strict, options.as_json)
def critical_point(as_json: bool, strict: bool, **question: Any) -> None:
    """Find the length of pre-training beyond which CPT loses source loss for good.

    \b
    Example:
      cptlaw plan critical-point --source s.json
    """
    import cptlaw as cl

    found = cl.plan.critical_point(question.pop("source"), **question)
    show(found, as_json, strict=strict)


QUESTIONS = (schedule, whole_schedule, turning_length, critical_point)
