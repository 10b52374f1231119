"""Help in groups: the options that most people need, and all of them under ``--help-all``."""

from __future__ import annotations

from typing import Any

import click

# Group -> names of its parameters, in order; what stands nowhere comes last. The same for every verb.
GROUPS: dict[str, tuple[str, ...]] = {
    "The table": (
        *("source_eval", "target_eval", "on", "where", "law_name", "columns", "losses", "score_columns"),
        *("n_params_kind", "schedules", "test_where", "target", "source", "score"),
    ),
    "The question": (
        *("n_params", "ptpp", "base", "tokens", "target_tokens", "budget", "at", "shift"),
        *("lr_peak", "merge_weight", "lora_rank", "method", "vocab_added", "lr_pretrain", "batch_tokens", "replay_of"),
        *("max_epochs", "gpus", "mfu", "gpu_hour", "n", "sizes", "ptpps", "replays", "suggest_budget", "interval"),
    ),
    "Limits": (
        *("max_forgetting", "max_target_loss", "max_source_loss", "max_tokens", "min_score", "max_drop", "risk"),
        *("min_replay", "max_replay", "base_source_loss", "base_target_loss", "base_score"),
        *("forgetting", "reference", "base_law"),
    ),
    "Output": ("output", "json", "verbose", "quiet", "explain", "pilots", "title", "png", "pdf", "force", "strict"),
}
OTHERS = "The search"
_PLACES = {name: place for place, name in enumerate(name for names in GROUPS.values() for name in names)}
_ALL = "cptlaw.help-all"


class Grouped(click.Command):
    """A verb with many options, of which its help shows a few.

    Parameters
    ----------
    few
        Names of the parameters that ``--help`` shows; ``--help-all`` shows every one.
    **rest
        As `click.Command` takes it.
    """

    def __init__(self, *arguments: Any, few: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.few = frozenset(few)
        everything = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Every option."
        )
        self.params.append(everything)

    def place(self, name: str) -> int:
        """Return where a parameter stands in the help."""
        return _PLACES.get(name, len(_PLACES))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in their groups."""
        of_group = {name: group for group, names in GROUPS.items() for name in names}
        rows: dict[str, list[tuple[int, tuple[str, str]]]] = {group: [] for group in (*GROUPS, OTHERS)}
        hidden = 0
        for option in self.get_params(ctx):
            shown = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            name = str(option.name)
            if shown is None or {"--help", "--help-all"} & set(option.opts):
                continue
            if name not in self.few and not ctx.meta.get(_ALL):
                hidden += 1
                continue
            rows[of_group.get(name, OTHERS)].append((self.place(name), shown))
        for group, listed in rows.items():
            if listed:
                with formatter.section(group):
                    formatter.write_dl([shown for _, shown in sorted(listed, key=lambda row: row[0])])
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{hidden} more options: {ctx.command_path} --help-all")


def _help_all(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()
