"""Scores that are made of others: the mean over tasks, and pass@k at numbers of attempts that were not measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cptlaw.runs import Runs
from cptlaw_scores.attempts import with_attempts
from cptlaw_scores.mean import members_of, with_means
from cptlaw_scores.rows import DERIVED


def with_derived(table: Runs, names: Iterable[str]) -> Runs:
    """Return a table with rows of the derived scores that are named; other names, and what is there, change nothing.

    Parameters
    ----------
    table
        The runs.
    names
        Evals, such as ``mean:hellaswag,arc_easy`` or ``humaneval:pass@50``; a mean may be over either.

    Raises
    ------
    UsageError, DataError
        If what one of them is to be made of is not there.
    """
    asked = list(dict.fromkeys(names))
    return with_means(with_attempts(table, [*asked, *(member for name in asked for member in members_of(name))]), asked)


def fingerprint_of(table: Runs) -> str:
    """Return the fingerprint of a table as it was before derived scores were added to it."""
    if DERIVED not in table.frame.columns:
        return table.fingerprint
    measured = ~table.frame[DERIVED].eq(True).to_numpy(dtype=bool)
    return replace(table, frame=table.frame[measured]).fingerprint
