"""Help in groups: the options that most people need, and all of them under ``--help-all``."""

from __future__ import annotations

from typing import Any

import click

# Group -> names of its parameters, in order, the same for every verb. What stands in none is the verb's own.
GROUPS: dict[str, tuple[str, ...]] = {
    "The table": (
        *("source_eval", "target_eval", "on", "where", "law_name", "law_names", "params", "note"),
        *("columns", "losses", "score_columns"),
        *(
            "n_params_kind",
            "all_runs",
            "domain",
            "anyway",
            "schedules",
            "run",
            "fit_where",
            "test_where",
            "anchors_where",
            "cv",
        ),
        *("target", "source", "score", "fits", "scores"),
    ),
    "The question": (
        *("n_params", "n_active", "ptpp", "base", "tokens", "target_tokens", "unique_target_tokens", "unique_tokens"),
        *("budget", "at", "points", "every", "replay", "shift", "lr_peak", "merge_weight", "lora_rank", "method"),
        *("vocab_added", "lr_pretrain", "batch_tokens", "replay_of", "max_epochs", "repetition", "weight_source"),
        *("minimise", "gpus", "mfu", "gpu_hour", "n", "sizes", "ptpps", "replays", "suggest_budget", "interval"),
    ),
    "Limits": (
        *("max_forgetting", "max_target_loss", "max_source_loss", "max_loss", "max_tokens", "min_score", "max_drop"),
        *("risk", "min_replay", "max_replay", "min_share", "max_share", "within", "base_source_loss"),
        *("base_target_loss", "base_score", "base_loss", "forgetting", "reference", "base_law"),
    ),
    "The schedule": (
        *("vary", "ranges", "shape", "peak", "steps", "warmup", "decay", "end", "tokens_per_step", "max_steps"),
        *("highest", "floor"),
    ),
    "The search": ("delta", "starts", "seed", "fix", "tie", "bound", "prior", "restraint"),
    "Output": (
        "output",
        "json",
        "verbose",
        "quiet",
        "no_cache",
        "explain",
        "pilots",
        "title",
        "png",
        "pdf",
        "force",
        "strict",
    ),
}
_PLACES = {name: place for place, name in enumerate(name for names in GROUPS.values() for name in names)}
_ALL = "cptlaw.help-all"


class Grouped(click.Command):
    """A verb whose help has its options in groups; where they are many, it shows a few.

    Parameters
    ----------
    few
        Names of the parameters that ``--help`` shows; ``--help-all`` shows every one. Empty: all are shown.
    **rest
        As `click.Command` takes it.
    """

    def __init__(self, *arguments: Any, few: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.few = frozenset(few)
        everything = click.Option(
            ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Every option."
        )
        self.params += [everything] if few else []

    def place(self, name: str) -> int:
        """Return where a parameter stands in the help."""
        return _PLACES.get(name, len(_PLACES))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in their groups."""
        of_group = {name: group for group, names in GROUPS.items() for name in names}
        own = f"Options of {ctx.info_name} alone"
        rows: dict[str, list[tuple[int, tuple[str, str]]]] = {group: [] for group in (own, *GROUPS)}
        hidden = 0
        for option in self.get_params(ctx):
            shown = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            name = str(option.name)
            if shown is None or {"--help", "--help-all"} & set(option.opts):
                continue
            if self.few and name not in self.few and not ctx.meta.get(_ALL):
                hidden += 1
                continue
            rows[of_group.get(name, own)].append((self.place(name), shown))
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
