"""Scores of benchmarks are fitted by a package beside the core, `cptlaw_scores`; this is the door to it.

``scoring`` stands for the package, which is loaded when a name of it is first asked for. Who only looks whether
something is a fitted score asks `is_score_fit` and `is_error_rate`, which load nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from cptlaw.errors import NotInstalledError
from cptlaw.laws.base import Role
from cptlaw.plugins import SCORES, load, plugin_entries
from cptlaw.runs import Runs, read_runs
from cptlaw.runs.table import RunsLike

__all__ = ["is_error_rate", "is_score_fit", "known_score_laws", "resolve_score_or_eval", "scoring", "with_derived"]

if TYPE_CHECKING:
    import cptlaw_scores as scoring
    from cptlaw.findings import Finding
    from cptlaw_scores import ErrorRate, ScoreFit
else:

    class _Door:
        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):  # whoever looks at the door does not open it
                raise AttributeError(name)
            entry = plugin_entries(SCORES).get("scores")
            if entry is None:
                raise NotInstalledError("scores of benchmarks cannot be fitted: no package of them is installed.")
            value = getattr(load(entry, "what fits scores of benchmarks"), name)
            setattr(self, name, value)
            return value

    scoring = _Door()


def is_score_fit(fit: object) -> TypeGuard[ScoreFit]:
    """Whether this is a fit of a score."""
    return getattr(fit, "is_score_fit", False) is True


def is_error_rate(fit: object) -> TypeGuard[ErrorRate]:
    """Whether this is a fitted score as plans take it, the lower the better."""
    return getattr(fit, "is_error_rate", False) is True


def known_score_laws() -> list[str]:
    """Return the names of all laws of scores; none where nothing fits scores."""
    try:
        return list(scoring.known_score_laws())
    except NotInstalledError:
        return []


def resolve_score_or_eval(runs: RunsLike, on: str | None, role: Role | None = None) -> tuple[Runs, str, list[Finding]]:
    """Return the runs as verbs take them, the eval that is meant (`Runs.resolve_eval`) and findings on repeated runs.

    The eval has the role that it shows, is made of others where it is a derived score, and no run is there twice.
    """
    table = runs if isinstance(runs, Runs) else read_runs(runs)
    name = table.resolve_eval(on, role)
    if (key := ("resolved", name)) not in table.memo:  # once: what is known of its rows is kept with it
        table.memo[key] = with_derived(table.with_inferred_role(name), [name]).without_copies()
    whole, copied = table.memo[key]
    return whole, name, list(copied)


def with_derived(table: Runs, names: Iterable[str]) -> Runs:
    """Return a table with rows of the derived scores that are named, as ``mean:a,b`` and ``x:pass@50``."""
    asked = [name for name in names if ":" in name]
    return scoring.with_derived(table, asked) if asked else table
