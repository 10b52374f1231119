"""How a file is read, kept beside it: the replies to what could not be told, to be looked at, edited or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast

from cptlaw.errors import DataError, name_hint
from cptlaw.reading import STDIN, read_yaml
from cptlaw.runs.expressions import IGNORE
from cptlaw.runs.question import MAPPINGS, TEXTS, TableOptions
from cptlaw.runs.table import RunsLike
from cptlaw.writing import TEXT, write_text

ENDING = ".cptlaw.yaml"
_HEAD = "# How cptlaw reads {}: edit it, or delete it. What a command says of its own comes first.\n"


def place_of_replies(source: RunsLike) -> Path | None:
    """Return where the replies on a file are kept; ``None`` where nothing can stand beside it."""
    if not isinstance(source, str | Path) or str(source) == "-" or Path(source) == STDIN:
        return None
    path = Path(source)
    return path.with_name(path.name + ENDING) if path.name else None


def replies(source: RunsLike) -> TableOptions:
    """Return what is kept beside a file, as arguments of `read_runs`; nothing where no file is there.

    Raises
    ------
    DataError
        If something else than replies stands there.
    """
    place = place_of_replies(source)
    try:
        if place is None or not place.is_file():
            return {}
    except (OSError, ValueError):  # a name that is too long
        return {}
    kept = read_yaml(place)
    if not isinstance(kept, dict):
        raise DataError(f"{place}: expected entries such as 'columns: {{replay: rr}}'. Mend it, or delete it.")
    entries: dict[str, object] = {}
    for name, value in kept.items():
        if name not in (*MAPPINGS, *TEXTS):
            hint = name_hint(name, (*MAPPINGS, *TEXTS))
            raise DataError(f"{place}: {name!r} is no entry.{hint} Mend it, or delete it.")
        entries[name] = _mapping(value, name, place) if name in MAPPINGS else str(value)
    return cast("TableOptions", entries)


def _mapping(value: object, name: str, place: Path) -> dict[str, str | list[str]]:
    if not isinstance(value, dict):
        raise DataError(f"{place}: {name} is {value!r}. Expected a mapping such as {{replay: rr}}. Mend it.")
    for key, item in value.items():
        several = name == "columns" and key == IGNORE and isinstance(item, list)
        if isinstance(item, list | dict) and not several:
            raise DataError(f"{place}: {name} has {item!r} for {key!r}. Expected one name. Mend it.")
    return {key: [str(one) for one in item] if isinstance(item, list) else str(item) for key, item in value.items()}


def with_replies(source: RunsLike, given: TableOptions) -> tuple[TableOptions, tuple[str, ...]]:
    """Return how a file is to be read, what is given before what is kept beside it, and a note on what was kept."""
    kept = replies(source)
    result: TableOptions = {**given, "columns": _merged(kept.get("columns"), given.get("columns"))}
    for mapping in MAPPINGS[1:]:
        result[mapping] = _merged(kept.get(mapping), given.get(mapping))
    for text in TEXTS:
        result[text] = kept.get(text) if given.get(text) is None else given.get(text)
    used = []
    for name, value in kept.items():
        said = given.get(name)
        before = said if isinstance(said, Mapping) else {} if said is None else {name: said}
        of_name = value if isinstance(value, Mapping) else {name: value}
        added = {key: item for key, item in of_name.items() if key not in before}
        used += [f"{key}={', '.join(item) if isinstance(item, list) else item}" for key, item in added.items()]
    note = f"read as {place_of_replies(source)} says: {', '.join(used)}"
    return result, (note,) if used else ()


Item = TypeVar("Item")


def _merged(kept: Mapping[str, Item] | None, given: Mapping[str, Item] | None) -> dict[str, Item] | None:
    """Return what is kept and not given, and what is given; None where nothing is."""
    if kept is None and given is None:
        return None
    said = given or {}
    return {**{key: item for key, item in (kept or {}).items() if key not in said}, **said}


def keep_replies(source: str | Path, given: TableOptions) -> Path | None:
    """Keep beside a file how it is to be read, with what was kept there before; return where, or ``None``."""
    import yaml  # few commands keep anything

    place = place_of_replies(source)
    how, _ = with_replies(source, given)
    ordered = {name: how[name] for name in (*MAPPINGS, *TEXTS) if how.get(name) is not None}
    if place is None or not ordered:
        return None
    text = yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return write_text(place, _HEAD.format(Path(source).name) + text, TEXT)
