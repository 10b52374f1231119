"""Verbs take a law and the runs, or the runs alone: law auto is meant then."""

from __future__ import annotations

from typing import Any, NamedTuple

from cptlaw.laws import Law


class Asked(NamedTuple):
    """What a verb was given: law, runs, eval, filter."""

    law: Any
    runs: Any
    on: str | None
    where: str | None


def asked(law: Any, runs: Any, on: str | None, where: str | None) -> Asked:
    """Sort out a call by what stands first: a law, a table alone, or a table and its eval."""
    if runs is None:
        return Asked("auto", law, on, where)
    if isinstance(runs, str) and not isinstance(law, str | Law | type) and law is not None:
        return Asked("auto", law, runs, where if on is None else on)  # fit(runs, "target", "ptpp <= 31")
    return Asked("auto" if law is None else law, runs, on, where)
