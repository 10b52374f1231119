"""What is known of rows that a fit was asked about lately: a plan comes back to them, and so does the next question."""

from __future__ import annotations

from typing import Protocol

from cptlaw.fitting.cached import Cache, cached_stat
from cptlaw.fitting.learned import left_out
from cptlaw.laws.inputs import Columns

MOST_ASKED, MOST_ROWS = 100, 1000  # sets of rows of which what is known is kept, and the largest beside others


class HasRole(Protocol):
    """A fit, of a loss in a role."""

    @property
    def role(self) -> str:
        """Of the eval."""


def known_at(fit: HasRole, frame: Columns) -> Cache:
    """Return what is known of rows, by name: to be read and added to."""
    if "run" in frame or not all(column.dtype.kind in "fiu" for column in frame.columns.values()):
        return {}  # a run has a schedule, which may be another one the next time
    # By content: plans build new rows for each question about the same points.
    key = fit.role, left_out(), *((name, column.dtype, column.tobytes()) for name, column in frame.columns.items())
    known: dict[object, Cache] = cached_stat(fit, "rows", dict)
    result = known.get(key)
    if result is None:
        if len(known) >= MOST_ASKED or len(frame) > MOST_ROWS:
            known.clear()
        known[key] = result = {}
    return result
