"""A group of commands that knows what was meant by a name that is nearly one of its own."""

from __future__ import annotations

import click

from cptlaw.cli.grouped import Grouped
from cptlaw.errors import name_hint


class Named(click.Group):
    """A group that suggests the nearest verb, or question of one, for a name that it does not know."""

    command_class = Grouped

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the verb, or fail with a suggestion."""
        command = super().get_command(ctx, name)
        if command is None:
            what = f"verb {name!r}" if ctx.parent is None else f"{ctx.info_name} {name!r}"
            ctx.fail(f"There is no {what}.{name_hint(name, self.list_commands(ctx))}")
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which a study uses them."""
        return [name for name, command in self.commands.items() if not command.hidden]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each verb is for: its whole first sentence, which click would cut off."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(200)) for name in self.list_commands(ctx)]
            )
