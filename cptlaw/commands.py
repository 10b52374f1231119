"""Commands as one line that can be pasted into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable


def command_line(words: Iterable[str]) -> str:
    """Return words as a line for the shell, quoted so that it reads and pastes well.

    A word with single quotes in it, as most filters have, stands in double quotes; one with both kinds has its double
    quotes escaped, and not the unreadable mixture that `shlex.quote` makes, unless a shell would read more into it.

    Examples
    --------
    >>> print(command_line(["cptlaw", "fit", "runs.csv", "--where", "lr_schedule == 'cosine' and ptpp <= 31"]))
    cptlaw fit runs.csv --where "lr_schedule == 'cosine' and ptpp <= 31"
    >>> print(command_line(["--where", 'run == "a b"']))
    --where 'run == "a b"'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    # Inside double quotes a shell still reads $ and `, and an interactive one ! before anything but a blank or =.
    if "'" not in word or re.search(r"[$`]|!(?![\s=]|$)", word):
        return shlex.quote(word)
    escaped = re.sub(r'(["\\])', r"\\\1", word)
    return f'"{escaped}"'
