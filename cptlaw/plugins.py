"""Plug-ins: verbs of the command line and functions of the library that other packages add through entry points.

A package names its verbs (`click` commands) in the group ``cptlaw.verbs`` and the functions behind them in the group
``cptlaw.functions``. The sweep and the app come that way, so that nothing here knows them.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

GROUP = "cptlaw."  # begins the name of each group
VERBS, FUNCTIONS = GROUP + "verbs", GROUP + "functions"
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
