"""The mean over named tasks as an eval of its own: ``mean:hellaswag,arc_easy``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cptlaw.errors import DataError, UsageError, did_you_mean
from cptlaw.runs import Runs
from cptlaw_scores.joint import MEAN, tasks_at
from cptlaw_scores.rows import appended


def with_means(table: Runs, names: Iterable[str]) -> Runs:
    """Return a table with rows of the means that are named; other names, and means that are there, change nothing.

    A mean has a row at each model that all its tasks were measured at. Its questions are as many as would give a share
    of that height the noise that the questions of the tasks give their mean.

    Parameters
    ----------
    names
        Evals; means begin with ``mean:``, as in ``mean:hellaswag,arc_easy``.

    Raises
    ------
    UsageError
        If a mean names fewer than two tasks, or one twice.
    DataError
        If one of its tasks is no score of the table, or no model was scored on all.
    """
    for name in dict.fromkeys(names):
        if str(name).startswith(MEAN) and name not in table.evals:
            table = _with_mean(table, name)
    return table


def members_of(name: str) -> list[str]:
    """Return the tasks over which a mean is; none of an eval that is no mean."""
    return str(name).removeprefix(MEAN).split(",") if str(name).startswith(MEAN) else []


def _with_mean(table: Runs, name: str) -> Runs:
    members = members_of(name)
    if len(members) < 2 or not all(members) or len(set(members)) < len(members):
        raise UsageError(f"{name!r}: expected a mean over two scores or more, as in {MEAN}hellaswag,arc_easy.")
    for member in members:
        if member not in table.scores:
            near = did_you_mean(member, table.scores)
            listed = ", ".join(table.scores) or "none; a column metric says which rows are scores"
            raise DataError(f"{name!r}: {table.label} has no score {member!r}.{near} Scores found: {listed}.")
    rows, share, items, chances = tasks_at(table, members, members[:1])
    # A mean over other tasks for each model would be another score for each.
    whole = np.isfinite(share).all(axis=0)
    if not whole.any():
        raise DataError(f"{name!r}: no model of {table.label} was scored on all of {', '.join(members)}.")
    share, items = share[:, whole], items[:, whole]
    # A score of none or all right has noise too: that of half a question.
    inner = np.clip(share, 0.5 / items, 1.0 - 0.5 / items)
    noise = (inner * (1.0 - inner) / items).sum(axis=0) / len(members) ** 2
    middle = inner.mean(axis=0)
    metrics = {table.scores[member] for member in members}
    added = rows[whole].assign(
        eval=name,
        metric=metrics.pop() if len(metrics) == 1 else "accuracy",
        loss=share.mean(axis=0),
        # As many questions as would give one score of this height the noise of the mean: so it is fitted like any
        # other.
        n_items=np.round(middle * (1.0 - middle) / noise),
        chance=float(np.mean(chances)),
    )
    return appended(table, added)
