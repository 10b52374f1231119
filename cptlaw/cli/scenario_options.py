"""Options of the command line from the declarations of scenarios, so that each of them is written once."""

from __future__ import annotations

from collections.abc import Callable

import click

from cptlaw.cli.options import Command, option_group
from cptlaw.planning.options import Entry
from cptlaw.planning.scenario import options_of
from cptlaw.signatures import Declared


def of_scenario(scenario: Declared, but: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of a scenario.

    Parameters
    ----------
    scenario
        One of the classes of `cptlaw.planning.scenario`.
    but
        Names to leave out.
    """
    known = {name: option for name, option in options_of(scenario).items() if name not in but}
    needed = vars(scenario)["__required_keys__"]
    return option_group(*(_option(name, option, name in needed) for name, option in known.items()))


def _option(name: str, option: Entry, required: bool) -> Callable[..., object]:
    # One letter is one dash, as in -n 24.
    flag = f"-{name}" if len(name) == 1 else f"--{option.several or name.replace('_', '-')}"
    if option.several:
        return click.option(flag, name, multiple=True, metavar=option.metavar, help=option.help)
    if option.flag:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=option.default, help=option.help)
    kind: object = click.Choice(list(option.words)) if option.words else None
    # A whole number by default is one for good; all other quantities are texts, so that 8.1B and 2% can be written.
    if isinstance(option.default, int):
        kind = int
    return click.option(
        flag,
        name,
        required=required,
        type=kind,
        # Shown as people write it: 0.9, not the float that stands for it.
        default=option.default if kind is not None or option.default is None else str(option.default),
        show_default=option.default is not None,
        metavar=option.metavar or None,
        help=option.help,
    )
