"""Commands as one line that can be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def command_line(words: Iterable[str]) -> str:
    """Return words as a line for the shell, quoted so that it reads and pastes well.

    A word with single quotes in it, as most filters have, stands in double quotes; one with both kinds has its double
    quotes escaped, and never the unreadable mixture that `shlex.quote` makes.

    Examples
    --------
    >>> print(command_line(["cptlaw", "fit", "runs.csv", "--where", "lr_schedule == 'cosine' and ptpp <= 31"]))
    cptlaw fit runs.csv --where "lr_schedule == 'cosine' and ptpp <= 31"
    >>> print(command_line(["--where", 'run == "a b"']))
    --where 'run == "a b"'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if "'" not in word:
        return shlex.quote(word)
    escaped = "".join(f"\\{letter}" if letter in '"$`\\' else letter for letter in word)
    # An exclamation mark before anything but a blank or = would call up an earlier command in an interactive shell.
    lively = any(
        word[place + 1 : place + 2] not in ("", " ", "=") for place, letter in enumerate(word) if letter == "!"
    )
    return shlex.quote(word) if lively else f'"{escaped}"'
