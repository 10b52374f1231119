"""What the command line asks of schedules: `cptlaw plan schedule`."""

from __future__ import annotations

from typing import Any

import click

from cptlaw.cli import options
from cptlaw.cli.grouped import Grouped
from cptlaw.cli.output import save_beside, show
from cptlaw.cli.plan import plan, source
from cptlaw.cli.scenario_options import of_scenario
from cptlaw.errors import UsageError
from cptlaw.planning.scenario import options_of
from cptlaw_curves.planning import scenario as scenarios

# What is found -> its options, and which fits it needs.
FINDS = {
    "schedule": (scenarios.ScheduleOfRun, ("target",)),
    "whole-schedule": (scenarios.WholeSchedule, ("target", "source")),
    "turning-length": (scenarios.TurningLength, ("target", "source")),
    "critical-point": (scenarios.CriticalPoint, ("source",)),
}
_SHARED = tuple(name for name in options_of(scenarios.WholeSchedule) if name in options_of(scenarios.ScheduleOfRun))


@plan.command("schedule")
@click.option(
    "--find",
    type=click.Choice(list(FINDS)),
    default="schedule",
    show_default=True,
    help="schedule: its peak, length, decay, mix; whole-schedule: the rate of every step; turning-length: steps until "
    "the weighted loss is back at its start; critical-point: pre-training beyond which CPT loses source loss for good.",
)
@click.option("--target", metavar="T.json", help="Fit of the target loss.")
@options.option_group(source, of_scenario(scenarios.ScheduleOfRun))
@of_scenario(scenarios.WholeSchedule, but=_SHARED)
@options.output("RATES", "LR.csv", "Write the rates of a whole schedule, for file: in a schedules file.")
@options.option_group(options.strict, options.as_json)
@click.pass_context
def schedule(context: click.Context, /, find: str, output: str | None, force: bool, **asked: Any) -> None:
    """Find the best learning-rate schedule of CPT, for a weight between the losses or under limits.

    The fits are of laws that read learning rates, such as cpt-dynamics.

    \b
    Examples:
      cptlaw plan schedule --target t.json --source s.json --weight-source 0.5 --vary peak,steps --max-steps 20K
      cptlaw plan schedule --target t.json --source s.json --max-forgetting 2% --vary peak,replay,decay
      cptlaw plan schedule --find whole-schedule --target t.json --source s.json --weight-source 0.5 -o lr.csv
      cptlaw plan schedule --find turning-length --target t.json --source s.json --weight-source 0.7
      cptlaw plan schedule --find critical-point --source s.json
    """
    import cptlaw as cl

    scenario, needed = FINDS[find]
    fits = {side: asked.pop(side) for side in ("target", "source")}
    given = {name for name in asked if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    foreign = sorted(given - options_of(scenario).keys())
    takes = [name for name, (one, _) in FINDS.items() if foreign and foreign[0] in options_of(one)]
    if output and find != "whole-schedule":
        foreign, takes = ["output"], ["whole-schedule"]
    if foreign:
        raise UsageError(f"--{foreign[0].replace('_', '-')} is not asked for a {find}; --find {takes[-1]} takes it.")
    lacking = [side for side in needed if fits[side] is None]
    if lacking:
        raise UsageError(f"--find {find} needs --{lacking[0]}, the fit of the {lacking[0]} loss.")
    sides = [fits[side] for side in ("target", "source") if find == "schedule" or side in needed]
    question = {name: asked[name] for name in given}
    result = getattr(cl.plan, find.replace("-", "_"))(*sides, **question)
    if output:
        output = save_beside(result, output, force)
    show(result, "" if output or find != "whole-schedule" else options.repeated_command(output="lr.csv"))


def _old_spelling(find: str) -> click.Command:
    """Return `plan FIND`, which is read as `plan schedule --find FIND`."""
    named = click.Option(["--find"], default=find, hidden=True)
    rest = [one for one in schedule.params if one.name != "find"]
    return Grouped(find, callback=schedule.callback, params=[named, *rest], hidden=True, help=schedule.help)


whole_schedule, turning_length, critical_point = map(_old_spelling, list(FINDS)[1:])
