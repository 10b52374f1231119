"""What the readers of text logs share: which files are logs of a kind, and their lines without colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cptlaw.errors import DataError
from cptlaw.importing.history import History
from cptlaw.importing.reader import Reader, files_below, text_of

ENDINGS = ("*.log", "*.out", "*.txt", "*.err", "*.log.gz")
NUMBER = r"[+-]?(?:[0-9][0-9,]*+(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|[nN]a[nN]|[+-]?inf"
# Characters; a line of measurements has some hundred, and the patterns look at no more.
LONGEST_LINE = 4000
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class TextLog(Reader):
    """Text logs with lines of one trainer's kind; each file is a run."""

    sign: re.Pattern[str]
    """What a line of this kind looks like."""

    def find(self, source: Path) -> list[Path]:
        """Return the logs that hold such lines."""
        files = [source] if source.is_file() else files_below(source, ENDINGS)
        return [path for path in files if _is_text(path) and any(self.sign.search(line) for line in lines_of(path))]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each log."""
        return [self.read_one(path, source) for path in files]

    def read_one(self, path: Path, source: Path) -> History:
        """Read one log."""
        raise NotImplementedError


def to_number(text: str) -> float:
    """Read a number as logs print it, with commas in thousands."""
    return float(text.replace(",", ""))


def _is_text(path: Path) -> bool:
    if path.suffix == ".gz":
        return path.name.endswith(ENDINGS[-1][1:])
    if any(path.match(pattern) for pattern in ("*.csv", "*.tsv", "*.json", "*.jsonl", "*.ndjson", "*.parquet")):
        return False
    try:
        with path.open("rb") as file:
            return b"\x00" not in file.read(4096)
    except OSError:
        return False


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a log; what a progress bar has overwritten counts as lines too."""
    try:
        text = text_of(path)
    except DataError:  # empty or unreadable: no log of any kind
        return
    for line in _COLOUR.sub("", text).replace("\r", "\n").split("\n"):
        if line and not line.isspace():
            yield line[:LONGEST_LINE]
