"""The tree of errors. Every message says what is wrong, where, what was expected and what to do.

The command line prints such a message without a traceback and exits with 2.
"""

from __future__ import annotations

import difflib
import itertools
import re
import reprlib
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Control characters (a terminal obeys some), line separators, marks that turn the direction of text, lone surrogates.
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HIDDEN_BUT_LINES = re.compile(_HIDDEN.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 80, 80, 40
_LONGEST_MESSAGE = 10_000
_LONGEST_QUOTE = 200
_MOST_NAMES = 200
_LONGEST_NAME = 200


class CptlawError(Exception):
    """Base of every error that a user can cause or mend."""

    def __init__(self, message: object = "") -> None:
        # A message quotes names from files, which may be of any length and hold what a terminal would obey.
        text = str(message)
        cut = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ..."
        super().__init__(_HIDDEN_BUT_LINES.sub(_escaped, cut))


class DataError(CptlawError):
    """The runs table, or a file that was given, is unusable as it stands."""


class UsageError(CptlawError):
    """A name, an option or a combination of options is not usable."""


class NotInstalledError(UsageError, AttributeError):
    """A package that is needed is not installed: to `hasattr`, `help` and `inspect` what needs it is not there."""


class FitError(CptlawError):
    """A law cannot be fitted to the rows that were given."""


def name_hint(name: object, known: Iterable[str]) -> str:
    """Return what ends a sentence about a name that is not known: the nearest ones, and all.

    Examples
    --------
    >>> name_hint("lokal", ["local", "ray"])
    " Did you mean 'local'? Known: local, ray."
    """
    names = list(known)
    return f"{did_you_mean(str(name), names)} Known: {', '.join(names)}."


def require_type(value: object, kinds: type | tuple[type, ...], name: str, expected: str) -> None:
    """Refuse an argument of another type."""
    if not isinstance(value, kinds):
        raise wrong_type(value, name, expected)


def wrong_type(value: object, name: str, expected: str) -> UsageError:
    """Return the error of an argument of another type than the expected one."""
    return UsageError(f"{name}: found {quote(value)}. Expected {expected}.")


def refuse_others(given: Iterable[str], known: Iterable[str], verb: str) -> None:
    """Refuse options that a verb does not have."""
    names = list(known)
    for name in given:
        if name not in names:
            raise UsageError(f"{verb} has no option {name!r}.{did_you_mean(name, names)} It has {', '.join(names)}.")


@contextmanager
def needed_for(purpose: str, install: str) -> Iterator[None]:
    """Say what to install where a package that is imported inside is not there.

    Parameters
    ----------
    purpose
        What it is needed for, to begin a sentence with.
    install
        What pip is to install, such as ``"cptlaw[report]"``.

    Raises
    ------
    NotInstalledError
        Naming the package.

    Examples
    --------
    >>> with needed_for("a picture", "painter"):
    ...     import no_such_painter
    Traceback (most recent call last):
    cptlaw.errors.NotInstalledError: a picture needs no_such_painter. Install it with: pip install painter
    """
    try:
        yield
    except ImportError as error:
        name = str(error.name or error).partition(".")[0]
        raise NotInstalledError(f"{purpose} needs {name}. Install it with: {install_command(install)}") from None


def install_command(requirement: str) -> str:
    """Return the command that installs a requirement; an extra of this package comes from its repository, or a clone.

    Examples
    --------
    >>> install_command("rich")
    'pip install rich'
    """
    name, bracket, extra = requirement.partition("[")
    if name != "cptlaw" or not bracket:
        return f"pip install {shlex.quote(requirement)}"
    if address := repository():
        return f"pip install {shlex.quote(f'{requirement} @ git+{address}')}"
    return f"pip install {shlex.quote(f'.[{extra}')} in your clone of cptlaw"


def repository() -> str:
    """Return the address of the repository, from the metadata of the package; empty where it names none."""
    from importlib import metadata  # takes a while, and errors are rare

    try:
        named = metadata.metadata("cptlaw").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    return next((str(url).partition(", ")[2] for url in named if str(url).startswith("Repository, ")), "")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known names, or an empty string."""
    name = str(name)
    if len(name) > _LONGEST_NAME:  # the comparison is quadratic
        return ""
    short = [word for word in itertools.islice(known, _MOST_NAMES) if len(word) <= _LONGEST_NAME]
    near = difflib.get_close_matches(name, short, n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(word) for word in near)}?" if near else ""


def quote(value: object) -> str:
    """Return a value as messages quote it: its `repr`, cut in the middle where it is long.

    Examples
    --------
    >>> quote("8.1X"), len(quote("1" * 100_000)) < 100
    ("'8.1X'", True)
    """
    text = _SHORT.repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def join_names(names: Iterable[str], most: int = 16) -> str:
    """Return names with commas between; of many the first ones and how many more there are.

    Examples
    --------
    >>> join_names("abcde", 3), join_names("ab", 3)
    ('a, b, c and 2 more', 'a, b')
    """
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def escape_hidden(text: str) -> str:
    """Return text with what nobody can see, and a terminal may obey, written out.

    Examples
    --------
    >>> escape_hidden("run\\x1b[31m")
    'run\\\\x1b[31m'
    """
    return _HIDDEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
