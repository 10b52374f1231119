"""How answers reach the terminal: the answer or one JSON object on stdout, everything else on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Protocol

import click

from cptlaw.commands import command_line
from cptlaw.findings import has_error

if TYPE_CHECKING:
    from cptlaw.findings import Remedy
    from cptlaw.result import Result

FOUND_ERRORS = 4
INFEASIBLE = 3
# Where a command keeps what its options say about showing: -q (-1) and -v (1), --json, --strict, --no-cache.
VERBOSITY, JSON, STRICT, NO_CACHE = "cptlaw.verbosity", "cptlaw.json", "cptlaw.strict", "cptlaw.no-cache"
MORE = "-v shows all"
WIDTH = 92  # characters of a line in a pipe


def _context_setting(key: str) -> int:
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(key, 0))


def verbosity() -> int:
    """Return -1 under -q, 1 under -v, else 0."""
    return _context_setting(VERBOSITY)


def wants_json() -> bool:
    """Whether the verb was asked for one JSON object on stdout."""
    return bool(_context_setting(JSON))


def show(
    result: Result, following: str | Iterable[str] = "", beside: Mapping[str, object] | None = None, then: str = ""
) -> None:
    """Print an answer, name the next command, and end with the exit code that the answer asks for.

    Parameters
    ----------
    result
        The answer.
    following
        The next command, as words or as a line.
    beside
        What was written: keys of the JSON object beside those of the answer, and a line each of the text.
    then
        What a person does next where no command can be pasted.
    """
    if wants_json():
        show_json({**(beside or {}), **result.to_dict()})
    else:
        show_text(result)
        for name, value in (beside or {}).items():
            for item in value if isinstance(value, list) else [value]:
                click.echo(f"{name}: {item}")
        if following:
            show_next(following)
        if then and verbosity() >= 0:
            click.echo(f"then: {then}", err=True)
    if getattr(result, "feasible", True) is False:
        sys.exit(INFEASIBLE)
    if _context_setting(STRICT) and has_error(result.findings):
        sys.exit(FOUND_ERRORS)


def show_text(result: Result) -> None:
    """Print an answer: in colour and as wide as the window on a terminal, plain and at most `WIDTH` wide in a pipe."""
    from cptlaw.result import on_terminal

    verbose, quiet = verbosity() > 0, verbosity() < 0
    if sys.stdout.isatty():
        from rich.console import Console

        console = Console(highlight=False)
        for part in on_terminal(result, verbose, quiet, MORE, as_option):
            console.print(part)
        return
    click.echo(result.summary(verbose, quiet, how=MORE, words=as_option, width=WIDTH))


def wrap_paragraphs(text: str) -> str:
    """Return a text in lines of at most `WIDTH`: paragraphs flow, what is indented stays so."""
    lines: list[str] = []
    prose: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line[:1].strip():
            prose.append(line)
            continue
        place = re.match(r"\s*(\S+( \S+)?\s{2,})?", line)
        for part, indent in ((" ".join(prose), 0), (line, place.end() if place else 0)):
            hanging = " " * indent
            lines += wrap(part, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
        lines += [] if line.strip() else [""]
        prose = []
    return "\n".join(lines[:-1])


def as_option(remedy: Remedy) -> str:
    """Return a remedy as the running command writes it; empty where the command has no such option."""
    for option in click.get_current_context().command.params:
        if option.name in (remedy.option, f"{remedy.option}_name"):
            flag = next((name for name in option.opts if name.startswith("--")), "")
            given = remedy.value not in (None, True)
            return command_line([flag, *([str(remedy.value)] if given else [])]) if flag else ""
    return ""


def show_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout."""
    from cptlaw.result import plain

    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def show_next(following: str | Iterable[str]) -> None:
    """Name the next command on stderr, as a line that can be pasted; under -q say nothing."""
    if verbosity() >= 0:
        click.echo(f"next: {following if isinstance(following, str) else command_line(following)}", err=True)


def show_notes(notes: Iterable[str]) -> None:
    """Say on stderr what was assumed; under -q say nothing."""
    for note in notes if verbosity() >= 0 else ():
        click.echo(f"note: {note}", err=True)


class Saves(Protocol):
    """A result that writes a file."""

    def save(self, path: str, force: bool) -> object:
        """Write it, and return where."""


def save_beside(result: Saves, output: str, force: bool) -> str:
    """Save a result that is a file to edit, say so where another one stays as it is, and return its place."""
    place = str(result.save(output, force))
    if place != str(Path(output)):
        show_notes([f"{output} says something else, and stays as it is: {place} is written (--force overwrites)"])
    return place
