"""Options that several verbs share, and how their texts are read."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cptlaw.cli import complete
from cptlaw.cli.output import JSON, NO_CACHE, STRICT, VERBOSITY, show_notes, wants_json
from cptlaw.units import parse_pairs, parse_quantity

if TYPE_CHECKING:
    from cptlaw.runs import Question, Reading, Runs
    from cptlaw.runs.question import TableOptions

Command = TypeVar("Command", bound=Callable[..., Any])


def option_group(*decorators: Callable[..., object]) -> Callable[[Command], Command]:
    """Apply decorators so that the first one stands first in the help."""

    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


def quantity(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Read the value of an option as a number that may carry a unit, such as ``90%``."""
    return None if text is None else parse_quantity(text, option.opts[0])


def _flag(key: str, *names: str, help: str, value: int = 1, envvar: str | None = None) -> Callable[[Command], Command]:
    """Add a flag that is kept in the context, not handed to the verb.

    How an answer is shown is decided where it is printed, so no verb has to carry these to `show`.
    """

    def keep(context: click.Context, option: click.Parameter, given: bool) -> None:
        if given:
            context.meta[key] = value

    return click.option(*names, is_flag=True, expose_value=False, callback=keep, help=help, envvar=envvar)


loudness = option_group(
    _flag(VERBOSITY, "-v", "--verbose", help="Every finding."),
    _flag(VERBOSITY, "-q", "--quiet", value=-1, help="The answer alone."),
    _flag(NO_CACHE, "--no-cache", envvar="CPTLAW_NO_CACHE", help="Neither use nor keep fits of earlier commands."),
)
as_json = option_group(_flag(JSON, "--json", help="Print one JSON object and nothing else on stdout."), loudness)
strict = _flag(STRICT, "--strict", help="End with exit code 4 if a finding is an error.")
seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed; the same seed repeats the output."
)
interval = click.option(
    "--interval",
    callback=quantity,
    metavar="P",
    default="0.9",
    show_default=True,
    help="Probability that the intervals hold, as 0.9 or 90%.",
)

reading = option_group(
    click.option("--source-eval", metavar="EVAL", help="The eval of what the base model knew, if not called source."),
    click.option("--target-eval", metavar="EVAL", help="The eval of the new domain, if not called target."),
    click.option(
        "--columns",
        multiple=True,
        metavar="NAME=COLUMN,..",
        help="Read column COLUMN of the file as NAME, as in eval=domain; one value for all rows, as in n_params=8B; or "
        "what follows from columns, as in replay=1-new_share, replay=mix% or tokens=btok:B. ignore=COLUMN: no setting.",
    ),
    click.option(
        "--losses",
        metavar="EVAL=COLUMN,..",
        help="Read a table with one column of losses per eval, as in source=en_loss,target=fr_loss.",
    ),
    click.option(
        "--scores",
        "score_columns",  # plans have scores= of their own: their fits
        metavar="EVAL=COLUMN,..",
        help="The same for columns of benchmark scores, as in gsm8k=gsm8k_acc,mmlu=mmlu_acc.",
    ),
    click.option(
        "--n-params-kind",
        type=click.Choice(["non_embedding", "total"]),
        help="Which parameters n_params counts, if the file does not say.",
    ),
    click.option(
        "--all-runs",
        is_flag=True,
        help="Keep runs that did not finish, and all of a sweep of rates and not the best of each cell alone.",
    ),
)
table = option_group(click.argument("runs", type=click.Path()), reading)

rows = option_group(
    click.option(
        "--on",
        metavar="EVAL",
        shell_complete=complete.evals,
        help="The eval whose loss is meant, by name or by role. [default: the only one]",
    ),
    click.option("--where", metavar="Q", help="Keep these rows, as in 'ptpp <= 31 and replay in (0.1, 0.25)'."),
)


def law_option(names: tuple[str, str], shown: str, help: str) -> Callable[[Command], Command]:
    """Add an option of laws, by their names; without it, law auto."""
    laws = complete.laws
    return click.option(*names, default="auto", show_default=True, shell_complete=laws, metavar=shown, help=help)


AUTO = "A law, of which `cptlaw laws` lists all; auto averages those that the columns allow."
law = law_option(("--law", "law_name"), "LAW", AUTO)

# What is hidden is read, as it was; Python has it (`starts=`, `tie=`).
search = option_group(
    click.option(
        "--delta", callback=quantity, hidden=True, help="Huber threshold on log residuals. [default: the law's]"
    ),
    click.option(
        "--starts", type=click.IntRange(1), hidden=True, help="Starts of the search. [default: the law's, mostly 64]"
    ),
    seed,
)

restraint = option_group(
    click.option("--fix", multiple=True, metavar="NAME=X", help="Hold a parameter, as in alpha=0.34."),
    click.option("--tie", multiple=True, hidden=True, help="Give parameters one value, as in alpha,beta."),
    click.option("--bound", multiple=True, hidden=True, help="Keep a parameter in a range."),
    click.option("--prior", multiple=True, metavar="NAME=MEAN:SD", help="Put a weak prior on a parameter."),
)


schedules = click.option(
    "--schedules",
    metavar="F",
    type=click.Path(),
    help="Learning-rate schedules by run (YAML or JSON), for laws of loss curves; 'columns' as the table tells them.",
)

SHIFTS = ("language", "domain", "code", "near")
shift = click.option(
    "--shift",
    type=click.Choice(SHIFTS),
    help="What the new text is; it matters most with few runs. near: much like the old text.",
)

domain = click.option("--domain", metavar="NAME", help="The corpus that is asked about, of those in column domain.")

auto_restraint = click.option(
    "--restraint",
    type=click.Choice(["none"]),
    help="none: fit the rows and what is said here alone, without what other studies say.",
)


def output(kind: str, metavar: str, text: str, required: bool = False) -> Callable[[Command], Command]:
    """Add ``-o`` and ``--force``, and refuse a place that may not be written before any work is done.

    Parameters
    ----------
    kind
        The name in `cptlaw.writing` of the kind of file.
    metavar, text
        How the help shows the option.
    required
        Whether there is no result without it.
    """

    def apply(command: Command) -> Command:
        @functools.wraps(command)
        def checked(*arguments: object, **given: Any) -> object:
            if given["output"] is not None:
                from cptlaw import writing

                writing.check_output(
                    given["output"], getattr(writing, kind), inputs=_inputs_given(), force=given["force"]
                )
            return command(*arguments, **given)

        option = click.option("-o", "--output", required=required, metavar=metavar, type=click.Path(), help=text)
        force = click.option("--force", is_flag=True, help="Let -o overwrite a file of another kind.")
        return option_group(option, force)(checked)  # type: ignore[return-value]

    return apply


def _inputs_given() -> list[str]:
    """Return every text that was given and is not the output: what is a path among it may be an input."""
    given = click.get_current_context().params | {"output": None}
    items = [item for value in given.values() for item in (value if isinstance(value, tuple) else (value,))]
    return [item for item in items if isinstance(item, str)]


def flag_of(name: str) -> str:
    """Return how the running command writes one of its parameters, as in ``--target-eval``."""
    return next(one.opts[0] for one in click.get_current_context().command.params if one.name == name)


def words_of_rows(**others: str | None) -> list[str]:
    """Return what was given of RUNS and the options that choose its rows and the law, for the next command.

    Parameters
    ----------
    others
        Options to say besides, or in the place of what was given.
    """
    return _words_of(SAME, others)


def repeated_command(**others: str | None) -> list[str]:
    """Return the command as it was given, with other options besides: to be run again."""
    context = click.get_current_context()
    given = [
        str(parameter.name)
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
    ]
    return [*context.command_path.split(), *_words_of(given, others)]


def _words_of(names: Collection[str], others: Mapping[str, str | None]) -> list[str]:
    context = click.get_current_context()
    words: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in names or name in others or parameter.opts[0].removeprefix("--") in others:
            continue
        given = context.params.get(name)
        if isinstance(parameter, click.Option) and parameter.is_flag:
            # A flag that is kept in the context has no value here: that it was given says that it is on.
            off = [] if parameter.expose_value else parameter.opts[:1]
            words += off if given is None else parameter.secondary_opts[:1] if not given else parameter.opts[:1]
            continue
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            words += [str(value)] if isinstance(parameter, click.Argument) else [parameter.opts[0], str(value)]
    for name, text in others.items():
        words += [] if text is None else ["-o" if name == "output" else f"--{name}", text]
    return words


def how_to_read(options: dict[str, Any]) -> TableOptions:
    """Return the arguments of `read_runs` that the options of `table` give, taking these out of `options`."""
    from cptlaw.runs.expressions import column_pairs

    form = "NAME=COLUMN, as in {}"
    losses, scores = options.pop("losses", None), options.pop("score_columns", None)
    return {
        "columns": column_pairs(options.pop("columns")) or None,
        "losses": parse_pairs([losses], "--losses", form.format("fr=fr_loss")) if losses else None,
        "scores": parse_pairs([scores], "--scores", form.format("gsm8k=gsm8k_acc")) if scores else None,
        "source_eval": options.pop("source_eval"),
        "target_eval": options.pop("target_eval"),
        "n_params_kind": options.pop("n_params_kind"),
        "all_runs": options.pop("all_runs"),
    }


def read_table(runs: str, options: dict[str, Any]) -> Runs:
    """Read the runs table with the options of `table`, taking them out of `options`; tell once what was assumed.

    On a terminal it asks about columns that explain losses and are not understood; the replies are kept.
    """
    from cptlaw.runs import read_runs, understand

    given = how_to_read(options)
    if is_interactive():
        reading = understand(runs, where=options.get("where"), **given)
        if has_choices(reading):
            given = with_replies(reading.open, given)
            if (kept := save_replies(runs, given)) is not None:
                show_notes([f"kept in {kept}"])
    table = read_runs(runs, **given)
    show_notes(table.notes)
    context = click.get_current_context()
    if NO_CACHE not in context.meta:
        from cptlaw.cli.kept_fits import kept_fits

        context.with_resource(kept_fits())
    return table


def is_interactive() -> bool:
    """Whether somebody is there to be asked: input and messages are a terminal, and no program reads the result."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not wants_json()


def has_choices(reading: Reading) -> bool:
    """Whether a table is not understood, and options would tell all that is missing."""
    return not reading.understood and all(one.flag for one in reading.open)


def with_replies(asked: Iterable[Question], given: TableOptions) -> TableOptions:
    """Ask each question that is open on the terminal, and return how to read with the replies."""
    from cptlaw.runs.question import with_reply

    for one in asked:
        click.echo(one.question, err=True)
        for number, choice in enumerate(one.choices, 1):
            click.echo(f"  {number}. {choice}", err=True)
        # What can be read as no reply is asked again.
        answered = functools.partial(_reply, {str(number): choice for number, choice in enumerate(one.choices, 1)})
        first = "1" if one.choices else None
        reply = click.prompt("Number, or NAME=COLUMN", default=first, err=True, value_proc=answered)
        given = with_reply(given, reply)
    return given


def _reply(known: Mapping[str, str], text: str) -> str:
    from cptlaw.errors import UsageError
    from cptlaw.runs.question import arguments_of

    choice = known.get(text.strip(), text.strip())
    try:
        arguments_of(choice)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    return choice


def save_replies(runs: str, given: TableOptions) -> Path | None:
    """Keep beside a file how it is to be read, where anything was said of it, and return where."""
    from cptlaw.runs.replies import keep_replies

    return keep_replies(runs, given) if any(given.values()) else None


TABLE_OPTIONS = ("source_eval", "target_eval", "n_params_kind", "all_runs")
READING = ("columns", "losses", "score_columns", *TABLE_OPTIONS)
SAME = {"runs", "law_name", "on", "where", *READING, "fix", "tie", "bound", "prior", "schedules"}
