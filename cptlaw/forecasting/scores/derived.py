"""Scores that are made of others: the mean over tasks, and pass@k at numbers of attempts that were not measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cptlaw.findings import Finding
from cptlaw.forecasting.scores.attempts import with_attempts
from cptlaw.forecasting.scores.mean import members_of, with_means
from cptlaw.forecasting.scores.rows import DERIVED
from cptlaw.laws.base import Role
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.table import RunsLike


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


def resolve_score_or_eval(runs: RunsLike, on: str | None, role: Role | None = None) -> tuple[Runs, str, list[Finding]]:
    """Return the runs as verbs take them, the eval that is meant (`Runs.resolve_eval`) and findings on repeated runs.

    The eval has the role that it shows, is made of others where it is a derived score, and no run is there twice.
    """
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    on = table.resolve_eval(on, role)
    table, copied = with_derived(table.with_inferred_role(on), [on]).without_copies()
    return table, on, copied


def fingerprint_of(table: Runs) -> str:
    """Return the fingerprint of a table as it was before derived scores were added to it."""
    if DERIVED not in table.frame.columns:
        return table.fingerprint
    measured = ~table.frame[DERIVED].eq(True).to_numpy(dtype=bool)
    return replace(table, frame=table.frame[measured]).fingerprint
