"""The tree of errors. Every message says what is wrong, where, what was expected and what to do.

The command line prints such a message without a traceback and exits with 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CptlawError(Exception):
    """Base of every error that a user can cause or mend."""


class DataError(CptlawError):
    """The runs table, or a file that was given, is unusable as it stands."""


class UsageError(CptlawError):
    """A name, an option or a combination of options is not usable."""


class FitError(CptlawError):
    """A law cannot be fitted to the rows that were given."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known names, or an empty string.

    Parameters
    ----------
    name
        What the user typed.
    known
        The names that would have been right.
    """
    near = difflib.get_close_matches(name, list(known), n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(word) for word in near)}?" if near else ""
