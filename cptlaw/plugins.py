"""Plug-ins: laws, verbs of the command line and functions of the library, which packages add through entry points.

A package names its verbs (`click` commands) in the group ``cptlaw.verbs``, "plan NAME" for one of `cptlaw plan`, the
functions behind them in ``cptlaw.functions`` and, of `cptlaw.plan`, ``cptlaw.plans``, and laws by their names in
``cptlaw.laws``; one package fits scores of benchmarks (``cptlaw.scores``). What comes with the core and stands beside
it (`BESIDE`) comes that way, so that nothing here knows it.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from cptlaw.errors import NotInstalledError

GROUP = "cptlaw."  # begins the name of each group
VERBS, FUNCTIONS, PLANS, LAWS, SCORES = (GROUP + name for name in ("verbs", "functions", "plans", "laws", "scores"))
BESIDE = "cptlaw_"  # begins the name of each package that comes with the core
_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def plugin_entries(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by name; those of a checkout that is run without being installed, too."""
    result = {entry.name: entry for entry in metadata.entry_points(group=group)}
    if _PROJECT.is_file():
        import tomllib

        project = tomllib.loads(_PROJECT.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == "cptlaw":
            own = project.get("entry-points", {}).get(group, {})
            result |= {name: metadata.EntryPoint(name, value, group) for name, value in own.items()}
    return result


def load(entry: metadata.EntryPoint, called: str) -> object:
    """Return what an entry point names.

    Raises
    ------
    NotInstalledError
        If it needs what is not installed.
    """
    try:
        found: object = entry.load()
    except ImportError as error:
        raise NotInstalledError(f"{called} cannot be loaded: {error}. Install what it needs.") from None
    return found
