"""What the command line asks of schedules: `cptlaw plan schedule` and its kin."""

from __future__ import annotations

from typing import Any

from cptlaw.cli import options
from cptlaw.cli.output import save_beside, show
from cptlaw.cli.plan import needed_source, plan, source, subcommand, target
from cptlaw.cli.scenario_options import of_scenario
from cptlaw_curves.planning import scenario as scenarios


@subcommand("schedule", scenarios.ScheduleOfRun, (target, source))
def schedule() -> None:
    """Find the best learning-rate schedule of CPT, for a weight between the losses or under limits.

    The fits are of laws that read learning rates, such as cpt-dynamics.

    \b
    Examples:
      cptlaw plan schedule --target t.json --source s.json --weight-source 0.5 --vary peak,steps --max-steps 20K
      cptlaw plan schedule --target t.json --source s.json --max-forgetting 2% --vary peak,replay,decay
    """


@plan.command("whole-schedule")
@options.option_group(target, source, of_scenario(scenarios.WholeSchedule))
@options.output("RATES", "LR.csv", "Write the rates, for file: in a schedules file.")
@options.option_group(options.strict, options.as_json)
def whole_schedule(output: str | None, force: bool, **asked: Any) -> None:
    """Find the rate of every CPT step, never rising, and the nearest schedule with a name.

    \b
    Example:
      cptlaw plan whole-schedule --target t.json --source s.json --weight-source 0.5 --steps 10K -o lr.csv
    """
    import cptlaw as cl

    result = cl.plan.whole_schedule(asked.pop("target"), asked.pop("source"), **asked)
    if output:
        output = save_beside(result, output, force)
    show(result, "" if output else options.repeated_command(output="lr.csv"))


@subcommand("turning-length", scenarios.TurningLength, (target, needed_source))
def turning_length() -> None:
    """Find after how many steps at a constant rate the weighted loss is back at its start: 0, a number, or never.

    \b
    Example:
      cptlaw plan turning-length --target t.json --source s.json --weight-source 0.7
    """


@subcommand("critical-point", scenarios.CriticalPoint, (needed_source,))
def critical_point() -> None:
    """Find the length of pre-training beyond which CPT loses source loss for good.

    \b
    Example:
      cptlaw plan critical-point --source s.json
    """
