"""What a source of logs must offer, and how runs are named after files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History
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
    """

    name: str
    title: str
    looks_for: str

    @abstractmethod
    def find(self, source: Path) -> list[Path]:
        """Return the files or folders of this kind in a source, one per run or part of a run."""

    @abstractmethod
    def read(self, found: list[Path], source: Path) -> list[History]:
        """Read what `find` found.

        Raises
        ------
        DataError
            If a file is damaged; the message names file and place.
        """


def files_below(source: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files in a folder, at any depth, whose names match a pattern; or the source itself if it matches."""
    if source.is_file():
        return [source] if any(source.match(pattern) for pattern in patterns) else []
    found = {path for pattern in patterns for path in source.rglob(pattern) if path.is_file()}
    return sorted(path for path in found if not _hidden(path.relative_to(source)))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts[:-1])


def run_name(path: Path, source: Path) -> str:
    """Name a run after its path relative to the source, or after the source where they are the same."""
    inner = path.relative_to(source).as_posix() if path.is_relative_to(source) else path.name
    return path.resolve().name if inner == "." else inner


def file_run_name(path: Path, source: Path) -> str:
    """Name a run after its file, without the ending."""
    name = run_name(path, source) if path != source else path.name
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return name.removesuffix(ending)


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
