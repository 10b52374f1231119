"""The question as a form: its fields are the options of the verb `answer`, read and answered as that verb does it."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click

import cptlaw as cl
from cptlaw.cli import commands, options
from cptlaw.cli.output import VERBOSITY
from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.runs import check_parquet_size
from cptlaw.units import format_quantity
from cptlaw_app.labels import FIRST, LABELS
from cptlaw_app.tables import Upload, UploadStore

Key = TypeVar("Key")
Kept = TypeVar("Kept")

AT_A_TIME = 2
MOST_KEPT = 16  # answers, so that an address that is opened again is there at once
MOST_READ = 4  # uploads as tables, so that the next question about one reads nothing, and its fits are known
LONGEST = 2000  # characters of a field
MOST_ROWS = 2_000_000  # of a Parquet file, whose bytes say little of its size
# Where runs come from: none at all, the example runs, the table that the app was started with, an upload.
NO_RUNS, EXAMPLE, GIVEN = "none", "example", "given"
EXAMPLE_NAME = "en-fr-pilot"
EXAMPLE_QUESTION = {"n_params": "124672", "ptpp": "279", "tokens": "1M", "max_forgetting": "25%"}  # as in the README
NO_RUNS_QUESTION = {
    "n_params": "8B",
    "ptpp": "1875",
    "target_tokens": "20B",
    "shift": "language",
    "max_forgetting": "5%",
}
EVALS = ("source_eval", "target_eval")  # chosen from what a table has


@dataclass(frozen=True)
class Field:
    """An option of the verb, to be filled in.

    Attributes
    ----------
    name, flag
        Its name in the library and on the command line.
    label, help, example
        What stands above, below and in the empty field.
    choices
        What may be chosen; nothing where it is text.
    many
        Whether it may hold several values, with commas between.
    of_table
        Whether it says how the table is read, and not what is asked.
    first
        Whether it is among the few that are shown at once; the others are folded.
    """

    name: str
    flag: str
    label: str
    help: str
    example: str
    choices: tuple[str, ...]
    many: bool
    of_table: bool
    first: bool


@dataclass(frozen=True)
class Problem:
    """Why a question has no answer, and the field that it is about, where it is about one."""

    text: str
    field: str = ""


@cache
def verb() -> click.Command:
    """Return the verb `answer`, the one declaration of what can be asked and of what its help shows at once."""
    return next(command for command in commands() if command.name == "answer")


@cache
def fields() -> tuple[Field, ...]:
    """Return the fields of the form, in the order of the verb's help."""
    result = []
    for option in verb().params:
        text = isinstance(option.type, click.Choice) or type(option.type) in (
            type(click.STRING),
            click.IntRange,
            type(click.FLOAT),
        )
        # Places on this machine are no matter of a page, and how the answer is printed neither.
        if not isinstance(option, click.Option) or option.is_flag or option.hidden or not text or option.name == "seed":
            continue
        choices = tuple(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ()
        name = str(option.name)
        label, example = LABELS.get(name, (name.replace("_", " "), ""))
        # A page has no capitals for a table, and no verb to look things up with.
        shown = (option.help or "").partition("[default")[0].partition(" See `")[0].strip()
        shown = shown.replace("`", "").replace("RUNS", "runs")
        places = {"of_table": name in options.READING, "first": name in FIRST}
        result.append(Field(name, option.opts[0], label, shown, example, choices, bool(option.multiple), **places))
    order = {name: place for place, name in enumerate(LABELS)}
    return tuple(sorted(result, key=lambda one: order.get(one.name, len(order))))


class AnswerQueue:
    """Answers questions, a few at a time, and keeps the last ones.

    Parameters
    ----------
    uploads
        The tables that browsers brought.
    runs
        The table that the app was started with.
    where
        Filter of its rows that the form opens with.
    """

    def __init__(self, uploads: UploadStore, runs: cl.Runs | None = None, where: str = "") -> None:
        self.uploads, self.runs, self.where = uploads, runs, where
        self._kept: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], cl.Answer] = OrderedDict()
        self._read: OrderedDict[tuple[str, str], cl.Runs] = OrderedDict()
        # Answers take all of a processor: a few at a time are as fast, and a crowd of them cannot block the page.
        self._work, self._lock = threading.Semaphore(AT_A_TIME), threading.Lock()

    def default_form(self) -> dict[str, str]:
        """Return what the form of a new page holds."""
        if self.runs is None:
            return {"table": EXAMPLE, **EXAMPLE_QUESTION}
        return {"table": GIVEN, **({"where": self.where} if self.where else {})}

    def ask(self, given: Mapping[str, str]) -> cl.Answer | Problem:
        """Return the answer to a filled form, or the `Problem` that it has."""
        asked, table = filled_fields(given), given.get("table", NO_RUNS)
        key = (table, tuple(sorted(asked.items())))
        with self._lock:
            if key in self._kept:
                return self._kept[key]
        with self._work:
            result = or_problem(lambda: self._answer(table, asked))
        if isinstance(result, Problem):
            return result
        self._keep(self._kept, key, result, MOST_KEPT)
        return result

    def _keep(self, kept: OrderedDict[Key, Kept], key: Key, value: Kept, most: int) -> None:
        with self._lock:
            kept[key] = value
            while len(kept) > most:
                kept.popitem(last=False)

    def read(self, given: Mapping[str, str]) -> cl.Reading | Problem | None:
        """Return what was understood of the table that a form names, the `Problem` with it, or ``None`` without one."""
        table = given.get("table", NO_RUNS)
        if table == NO_RUNS:
            return None

        def work() -> cl.Reading:
            with parsed_options(filled_fields(given)) as read:
                how = options.how_to_read({name: read[name] for name in options.READING})
            runs = cl.examples.load(EXAMPLE_NAME) if table == EXAMPLE else self.runs if table == GIVEN else None
            if runs is not None:
                return cl.read(runs)
            reading: cl.Reading = read_upload(self.uploads.get(table), lambda path: cl.read(path, **how))
            return reading

        with self._work:
            return or_problem(work)

    def name(self, table: str) -> str:
        """Return how a table is called: that with which the app was started, or one that was brought."""
        return self.runs.label if table == GIVEN and self.runs is not None else self.uploads.get(table).name

    def _answer(self, table: str, asked: Mapping[str, str]) -> cl.Answer:
        with parsed_options(asked) as read:
            reading = {name: read[name] for name in options.READING}
            question = {one.name: read[one.name] for one in fields() if not one.of_table}
            return cl.answer(self._runs(table, reading), seed=read.get("seed", 0), **question)

    def _runs(self, table: str, reading: dict[str, object]) -> cl.Runs | None:
        if table == NO_RUNS:
            return None
        if table == EXAMPLE:
            return cl.examples.load(EXAMPLE_NAME)
        if table == GIVEN and self.runs is not None:
            return self.runs
        upload, key = self.uploads.get(table), (table, repr(sorted(reading.items())))
        runs = self._read.get(key)
        if runs is None:
            runs = read_upload(upload, lambda path: options.read_table(path, reading))
            runs = replace(runs, path=Path(upload.name))  # commands and reports name the file as it is called
            self._keep(self._read, key, runs, MOST_READ)
        return runs


def about_largest(runs: cl.Runs) -> dict[str, str]:
    """Return the question that a table opens with: about its largest model, as far as its columns tell."""
    names = [name for name in ("n_params", "ptpp", "tokens") if name in runs.frame.columns]
    highest = {name: float(runs.frame[name].max()) for name in names}
    return {name: format_quantity(value, 4) for name, value in highest.items() if value > 0}


def filled_fields(given: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form in which something stands."""
    return {one.name: given[one.name].strip() for one in fields() if given.get(one.name, "").strip()}


def words_of(asked: Mapping[str, str]) -> list[str]:
    """Return the fields of a form as words of the command line."""
    words: list[str] = []
    for one in fields():
        text = asked.get(one.name, "")
        # A comma may stand in the name of a column: the next value begins with NAME=.
        parts = re.split(",(?=[^=,]+=)", text) if one.many else [text]
        values = [value for part in parts if (value := part.strip(" ,") if one.many else part)]
        words += [word for value in values for word in (one.flag, value)]
    return words


@contextlib.contextmanager
def parsed_options(asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Give the options of a form as the verb's own reader takes them: texts mean the same as on the command line."""
    for name, text in asked.items():
        if len(text) > LONGEST:  # the rest must not be lost without a word
            raise UsageError(f"{name}: {len(text):,} characters. Expected {LONGEST:,} at most.")
    pairs = zip(*[iter(words_of(asked))] * 2, strict=True)
    with verb().make_context("answer", [f"{flag}={value}" for flag, value in pairs]) as context:
        context.meta[VERBOSITY] = -1  # what was assumed is no matter of the terminal that serves
        yield dict(context.params)


def or_problem(work: Callable[[], Kept]) -> Kept | Problem:
    """Return what a piece of work gives, or the `Problem` that it has."""
    try:
        return work()
    except click.ClickException as error:
        return Problem(error.format_message(), getattr(getattr(error, "param", None), "name", "") or "")
    except CptlawError as error:
        return Problem(str(error), _field_in(str(error)))


def read_upload(upload: Upload, reader: Callable[[str], Kept]) -> Kept:
    """Return what a reader makes of an upload's file, in a temporary folder that is gone when this returns.

    Raises
    ------
    CptlawError
        With the messages of the command line, the file under its own name.
    """
    with upload.as_file() as path:
        try:
            if path.suffix == ".parquet":
                check_parquet_size(path, upload.name, MOST_ROWS)
            return reader(str(path))
        except CptlawError as error:
            text = str(error).replace(str(path), upload.name).replace(path.name, upload.name)
            raise DataError(text) from None


def _field_in(text: str) -> str:
    """Return the field that a message names first: as the command line writes it, or as the library does."""
    places = {}
    for one in fields():
        result = [at for at in (text.find(one.flag), text.find(one.name)) if at >= 0]
        if result:
            places[one.name] = (min(result), -len(one.name))
    return min(places, key=lambda name: places[name]) if places else ""
