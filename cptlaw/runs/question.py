"""A question about a table, the choices that answer it, and the errors that carry them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias, TypedDict

from cptlaw.commands import command_line
from cptlaw.errors import DataError, UsageError, name_hint
from cptlaw.runs.expressions import IGNORE, as_texts, column_pairs
from cptlaw.units import parse_pairs

FRAME = "DataFrame"  # what a table without a file is called
MAPPINGS: tuple[Literal["columns", "losses", "scores"], ...] = ("columns", "losses", "scores")
TEXTS: tuple[Literal["source_eval", "target_eval", "n_params_kind"], ...] = (
    "source_eval",
    "target_eval",
    "n_params_kind",
)
ColumnNames: TypeAlias = Mapping[str, str | list[str]]  # column of cptlaw -> of the file; several that are ignored


class TableOptions(TypedDict, total=False):
    """How `read_runs` reads a table."""

    columns: ColumnNames | None
    losses: Mapping[str, str] | None
    scores: Mapping[str, str] | None
    source_eval: str | None
    target_eval: str | None
    n_params_kind: str | None
    all_runs: bool


@dataclass(frozen=True)
class Question:
    """A column that varies and is read as nothing, or something else that is not known of a table.

    Parameters
    ----------
    name
        The column of the file; empty where it is none.
    question
        What is known of it, and what is asked.
    choices
        What it can be, as `--columns` takes it, or as other options with their names; the likeliest first.
    flag
        The option with the likeliest choice, or its form where nothing is likely.
    explains
        Whether losses differ with it among rows alike else, so that an answer without it would be wrong.
    """

    name: str
    question: str
    choices: tuple[str, ...]
    flag: str
    explains: bool


class NotUnderstoodError(DataError):
    """A table of which something must be said before it can be read.

    Parameters
    ----------
    message
        What is missing, with the options that say it.
    choices
        These options, as `Question` has them.
    form
        An option whose value is left to the user, where there is no choice.
    """

    def __init__(self, message: object, choices: Iterable[str] = (), form: str = "") -> None:
        super().__init__(message)
        self.choices, self.form = tuple(choices), form

    @property
    def asked(self) -> tuple[Question, ...]:
        """What is missing as a question."""
        flag = as_flag(self.choices[0]) if self.choices else self.form
        return (Question("", str(self), self.choices, flag, True),)


class UnreadColumnError(NotUnderstoodError):
    """A table that may not be answered from: a setting may be among the columns that are read as nothing.

    Parameters
    ----------
    label
        The table.
    asked
        All that is open; the message has the flags that answer it.
    """

    def __init__(self, label: str, asked: Sequence[Question]) -> None:
        names = sum(1 for one in asked if one.name)
        what = f"{names} column{'s are' if names > 1 else ' is'} not understood, and an answer that leaves out a"
        lines = [f"{label}: {what} setting would be wrong." if names else f"{label}: not understood."]
        for number, one in enumerate(asked, 1):
            lines += [f"  {number}. {one.question}", *(f"       {as_flag(choice)}" for choice in one.choices)]
        first = dict[str, str]()  # each input from one column
        for one in asked:
            pairs = dict[str, str]()
            for pair in one.choices:  # the likeliest first
                pairs.setdefault(pair if pair.startswith(IGNORE) else pair.partition("=")[0], pair)
            known = one.choices and one.choices[0] in first.values()  # one choice for two columns
            free = [(key, pair) for key, pair in pairs.items() if key not in first]
            first |= dict(free[:1] if (one.explains or not one.name) and not known else [])
        if len(first) > 1:
            lines.append(f"If the first of each is right: {_together(first.values())}")
        if first and label == FRAME:
            how = reduce(with_reply, first.values(), TableOptions())
            lines.append(f"In Python: cl.read_runs(frame, {', '.join(f'{name}={one!r}' for name, one in how.items())})")
        super().__init__("\n".join(lines))
        self._asked = tuple(asked)

    @property
    def asked(self) -> tuple[Question, ...]:
        """All that is open."""
        return self._asked


def _together(choices: Iterable[str]) -> str:
    """Return choices as the options of one command."""
    every = list(choices)
    columns = ",".join(one for one in every if not one.startswith("--"))
    return " ".join([*(one for one in every if one.startswith("--")), *([as_flag(columns)] if columns else [])])


def as_flag(choice: str) -> str:
    """Return a choice as the option that a shell takes.

    Examples
    --------
    >>> print(as_flag("replay=1-ja_frac"))
    --columns 'replay=1-ja_frac'
    """
    if choice.startswith("--"):
        return choice  # of another option
    return f"--columns '{choice}'" if "'" not in choice else command_line(["--columns", choice])


def flags_of(how: TableOptions) -> list[str]:
    """Return what a command line needs to read a table in the same way again.

    Examples
    --------
    >>> flags_of({"columns": {"replay": "rr"}, "losses": {"source": "en"}, "all_runs": True})
    ['--columns', 'replay=rr', '--losses', 'source=en', '--all-runs']
    """
    flags = [word for pair in as_texts(how.get("columns") or {}) for word in ("--columns", pair)]
    for name in MAPPINGS[1:]:
        if named := how.get(name):
            flags += [f"--{name}", ",".join(f"{key}={place}" for key, place in named.items())]
    return [*flags, "--all-runs"] if how.get("all_runs") else flags


def arguments_of(choice: str) -> TableOptions:
    """Return a choice as arguments of `read_runs`.

    Raises
    ------
    UsageError
        If it cannot be read as one.

    Examples
    --------
    >>> arguments_of("replay=rr"), arguments_of("--source-eval en --target-eval 'fr 2'")
    ({'columns': {'replay': 'rr'}}, {'source_eval': 'en', 'target_eval': 'fr 2'})
    """
    words = shlex.split(choice) if choice.startswith("--") else ["--columns", choice]
    result = TableOptions()
    for flag, text in zip(words[::2], words[1::2], strict=False):
        name = flag.removeprefix("--").replace("-", "_")
        if name not in (*MAPPINGS, *TEXTS):
            raise UsageError(f"{flag}: no option that says how to read.{name_hint(name, (*MAPPINGS, *TEXTS))}")
        if name == "columns":
            result["columns"] = column_pairs([text])
        for mapping in MAPPINGS[1:]:
            if name == mapping:
                result[mapping] = parse_pairs([text], flag, "NAME=COLUMN")
        for one in TEXTS:
            if name == one:
                result[one] = text
    if not result:
        raise UsageError(f"{choice!r}: expected NAME=COLUMN, as in eval=domain.")
    return result


def with_reply(how: TableOptions, choice: str) -> TableOptions:
    """Return how a table is read with one choice more, which adds to what was said and goes before it."""
    more = arguments_of(choice)
    result: TableOptions = {**how, **more}
    for name in MAPPINGS[1:]:
        if added := more.get(name):
            result[name] = {**(how.get(name) or {}), **added}
    if columns := more.get("columns"):
        before = how.get("columns") or {}
        ignored = {IGNORE: [*before.get(IGNORE, []), *columns[IGNORE]]} if IGNORE in columns else {}
        result["columns"] = {**before, **columns, **ignored}
    return result
