"""What a source of logs must offer, which kinds there are, and how runs are named after files.

Nothing is listed: a kind registers itself when its class is defined, and every file of this folder is imported on first
use.
"""

from __future__ import annotations

import csv
import fnmatch
import importlib
import io
import os
import pkgutil
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from cptlaw.errors import DataError, quote
from cptlaw.importing.history import STEP_NAMES, History, first_of, numbers_of
from cptlaw.reading import read_utf8


class Reader(ABC):
    """One kind of logs.

    Attributes
    ----------
    name
        What ``--format`` calls it.
    title
        What it is, for messages.
    looks_for
        By what it recognises a source, in words.
    order
        Its turn when a source is to be recognised: the more a format says of itself the earlier.
    by_file_name
        Whether names of files alone tell it. Only such a kind is looked for beside another that was recognised: text
        logs and tables there are mostly parts of that one, and long to search.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    looks_for: ClassVar[str]
    order: ClassVar[int]
    by_file_name: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            _KINDS[cls.name] = cls

    @abstractmethod
    def find(self, source: Path) -> list[Path]:
        """Return the files or folders of this kind in a source, one per run or part of a run."""

    @abstractmethod
    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read what `find` found.

        Raises
        ------
        DataError
            If a file is damaged; the message names file and place.
        """


_KINDS: dict[str, type[Reader]] = {}


def readers() -> tuple[Reader, ...]:
    """Return a reader of each kind, in the order in which a source is held against them."""
    package = importlib.import_module("cptlaw.importing")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(kind() for kind in sorted(_KINDS.values(), key=lambda kind: kind.order))


_WALKED: ContextVar[dict[Path, list[tuple[str, Path]]] | None] = ContextVar("walked", default=None)


@contextmanager
def walking_once() -> Iterator[None]:
    """Walk through a folder once, however many readers look for their files in it."""
    token = _WALKED.set({})
    try:
        yield
    finally:
        _WALKED.reset(token)


def _all_below(source: Path) -> list[tuple[str, Path]]:
    """Return the files in a folder, at any depth but in no hidden folder, with their names and in order."""
    walked = _WALKED.get()
    known = None if walked is None else walked.get(source)
    if known is None:
        paths = []
        for folder, inner, names in os.walk(source):
            inner[:] = [name for name in inner if not name.startswith(".")]
            paths += [path for path in map(Path(folder).joinpath, names) if path.is_file()]
        known = [(path.name, path) for path in sorted(paths)]
        if walked is not None:
            walked[source] = known
    return known


def files_below(source: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files in a folder, at any depth, whose names match a pattern; or the source itself if it matches."""
    if source.is_file():
        return [source] if any(source.match(pattern) for pattern in patterns) else []
    everything = _all_below(source)
    names = {name for name, _ in everything}
    matching = {name for pattern in patterns for name in fnmatch.filter(names, pattern)}
    return [path for name, path in everything if name in matching]


def run_name(path: Path, source: Path) -> str:
    """Name a run after its path relative to the source, or after itself where it is the source or holds it."""
    inner = path.relative_to(source).as_posix() if path.is_relative_to(source) else "."
    return path.resolve().name if inner == "." else inner


def file_run_name(path: Path, source: Path) -> str:
    """Name a run after its file, without the ending."""
    name = run_name(path, source) if path != source else path.name
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return name.removesuffix(ending)


# What logs are called that lie in the folder of their run, which then names it.
_OF_FOLDER = frozenset(
    "trainer_log logging metrics training validation history log logs train training_log main stdout stderr output out "
    "std console progress debug run job results readme".split()
)


def file_run_names(paths: Iterable[Path], source: Path) -> dict[Path, str]:
    """Name runs after their files, or after their folders where the file's name says nothing and is the only such one.

    Examples
    --------
    >>> a, b = Path("out/124M-r25/trainer_log.jsonl"), Path("out/124M-r50.jsonl")
    >>> list(file_run_names([a, b], Path("out")).values())
    ['124M-r25', '124M-r50']
    """
    given = list(paths)
    alone = Counter(path.parent for path in given)
    return {
        path: run_name(path.parent, source)
        if alone[path.parent] == 1 and path != source and path.parent != source and _is_generic_name(path.name)
        else file_run_name(path, source)
        for path in given
    }


def _is_generic_name(name: str) -> bool:
    stem = name.lower().partition(".")[0]
    return stem in _OF_FOLDER or re.fullmatch(r"log_\d+", stem) is not None  # torchtune's has the time in it


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


def rows_by_step(path: Path) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield the step and the numbers of each row of a CSV file.

    Raises
    ------
    DataError
        If a row has no step.
    """
    for number, row in enumerate(csv_rows(path), 2):
        values = numbers_of({str(name).strip(): text for name, text in row.items() if name and text})
        step = first_of(values, STEP_NAMES)
        if step is None:
            found = next((row[name] for name in row if str(name).strip().lower() == "step"), None)
            raise DataError(f"{path}, row {number}: column step: found {quote(found)}, no number.")
        yield step, values


def csv_rows(path: Path) -> csv.DictReader[str]:
    """Return the rows of a CSV file, or of one with tabs, as mappings from the names of its header."""
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    return csv.DictReader(io.StringIO(read_utf8(path).decode("utf-8"), newline=""), delimiter=delimiter)


def csv_header(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file; nothing where it cannot be read as one."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


def with_distinct_names(runs: Sequence[tuple[History, str]]) -> list[History]:
    """Return runs, each by its name where that is its own, else with a part of its id behind it."""
    names = Counter(history.run for history, _ in runs)
    return [
        history if names[history.run] == 1 else replace(history, run=f"{history.run}-{own}") for history, own in runs
    ]


def text_of(path: Path) -> str:
    """Return a log as text; what is not UTF-8 in it, such as a progress bar cut in two, is replaced."""
    try:
        return read_utf8(path).decode("utf-8")
    except DataError:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: the file cannot be read ({error.strerror or error}). Check it.") from None
        if path.suffix == ".gz" or not content.strip():
            raise
        return content.decode("utf-8", errors="replace")
