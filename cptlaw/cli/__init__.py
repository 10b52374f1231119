"""The command line: every verb parses, calls one function of the library, prints, and names the next command.

Nothing heavy is imported before a verb runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from cptlaw.cli.named import Named
from cptlaw.errors import CptlawError

BAD_INPUT = 2
INTERRUPTED = 130


def _say_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    # Not click's own option: that one needs an installed package, and a copy of the repository runs without.
    if asked and not context.resilient_parsing:
        import cptlaw

        click.echo(f"cptlaw, version {cptlaw.__version__}")
        context.exit()


class CommandLine(Named):
    """The verbs together; a reader of their output that has enough, such as ``head``, is no mistake of anybody."""

    # Here and not around `main`: click's own `main` takes the error for itself and ends with exit code 1.
    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        """Parse the arguments, which prints where help or the version is asked for."""
        with _ending_without_reader():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb."""
        with _ending_without_reader():
            return super().invoke(ctx)


@contextlib.contextmanager
def _ending_without_reader() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(0) from None


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_say_version, help="Show the version."
)
def cli() -> None:
    """Scaling laws of continual pre-training: from a table of runs to a plan.

    \b
    Without runs, and on runs that come with the package:
      cptlaw answer --n-params 8B --ptpp 1875 --target-tokens 20B --shift language
      RUNS=$(cptlaw example en-fr-pilot)
      cptlaw check "$RUNS" --on target
      cptlaw answer "$RUNS" --n-params 124672 --ptpp 279 --tokens 1M --max-forgetting 25%
    """


def commands() -> tuple[click.Command, ...]:
    """Return the verbs in the order in which a study uses them."""
    from cptlaw.cli import (
        answer,
        bases,
        fits,
        forecasts,
        import_logs,
        plan,
        read,
        reference,
        report,
        sealing,
        suggest,
    )

    return (
        answer.answer,
        bases.bases,
        fits.check,
        fits.fit,
        fits.compare,
        forecasts.forecast,
        sealing.register,
        sealing.score,
        plan.plan,
        suggest.suggest,
        report.report,
        import_logs.import_logs,
        read.read,
        *_plugin_verbs(),
        reference.laws,
        fits.given,
        reference.example,
    )


def _plugin_verbs() -> list[click.Command]:
    """Return the verbs of other packages, and give `plan` those that are its own.

    One that cannot be loaded is told of, and stops no other.
    """
    from cptlaw.cli import plan
    from cptlaw.plugins import VERBS, plugin_entries

    result = []
    for name, entry in plugin_entries(VERBS).items():
        group, _, verb = name.rpartition(" ")
        try:
            command = entry.load()
            if not isinstance(command, click.Command):
                raise TypeError("it is no command of click")
        except Exception as error:  # noqa: BLE001 - another package's fault must not stop this one
            click.echo(f"note: the verb {name} ({entry.value}) cannot be loaded: {error}", err=True)
            continue
        if group == "plan":
            plan.plan.add_command(command, verb)
        else:
            result.append(command)
    return result


def main(arguments: list[str] | None = None) -> object:
    """Run the command line and exit.

    A user's mistake ends with one message and exit code 2, an interrupt with exit code 130; neither with a traceback.
    """
    # Added here and not at import, so that a test or the documentation can ask for the verbs without the group.
    for command in commands():
        if command.name not in cli.commands:  # a verb of another package takes no name of ours
            cli.add_command(command)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names may hold what no text can be encoded with
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=arguments, prog_name="cptlaw", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except CptlawError as error:
        click.echo(f"Error: {error}", err=True)
        code = BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted.", err=True)
        code = INTERRUPTED
    # What the library does not turn into a message of its own: a full disk, a folder without permission.
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        full = " The disk is full: make room, or write elsewhere." if error.errno == errno.ENOSPC else ""
        click.echo(f"Error: {where}{error.strerror or error}.{full}", err=True)
        code = BAD_INPUT
    except MemoryError:
        click.echo("Error: this machine has not enough memory for that. Fit fewer rows (--where).", err=True)
        code = BAD_INPUT
    sys.exit(code if isinstance(code, int) else 0)


def _drop_output() -> None:
    """Send what is still to be printed nowhere: the interpreter would fail on it again at its end."""
    with contextlib.suppress(OSError, ValueError):  # no real file under a test
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
