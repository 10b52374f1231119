"""Verbs take a law and the runs, or the runs alone: law auto is meant then."""

from __future__ import annotations

from typing import Any

from cptlaw.laws import Law
from cptlaw.runs.table import RunsLike


def parse_fit_arguments(
    law: object, runs: RunsLike | None, on: str | None, where: str | None
) -> tuple[Any, Any, str | None, str | None]:
    """Return law, runs, eval and filter by what a call begins with: a law, a table alone, or a table and its eval."""
    if runs is None:
        return "auto", law, on, where
    if isinstance(runs, str) and not isinstance(law, str | Law | type) and law is not None:
        return "auto", law, runs, where if on is None else on  # fit(runs, "target", "ptpp <= 31")
    return "auto" if law is None else law, runs, on, where
