"""With which code and data a result file was made, and whether both still stand.

A result file carries the digests of the rooms of code that its study imports (a room is a folder of cptlaw, or one
module of studies) and of the tables that it read. Code counts as its syntax tree: comments and docstrings change
nothing. A file whose digests are not those of today is *out of date*: its numbers may still be right, and nobody knows.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cptlaw

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "studies" / "results"  # what studies measured: a file each, from which docs/run_pages.py fills pages
DATA = ROOT.parent / "shared" / "data"  # public tables, which are no part of this repository
PACKAGES = ("cptlaw", "cptlaw_app", "cptlaw_sweep", "studies")
TABLES = {".csv", ".json", ".jsonl", ".parquet", ".yaml", ".yml"}
QUICK = 60  # seconds of CPU: what continuous integration runs anew
COSTS = (5, 15, 30, QUICK, 120, 300, 600, 1800, 3600, 7200, 14400, 43200)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# What writes results changes none of their values, nor what reads spreadsheets, which no table of a study is.
IGNORED = {"cptlaw", "cptlaw.runs.spreadsheet", "studies", "studies.__main__", "studies.provenance", "studies.remake"}
SYNTAX_LEFT_OUT = ("ctx", "kind", "type_comment", "type_ignores")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_opened: set[str] = set()


# -- code --------------------------------------------------------------------------------------------------------------


def plain(node: Any) -> Any:
    """Return a syntax tree as nested lists, alike in every version of Python: no places, docstrings or empty fields."""
    if isinstance(node, list):
        return [plain(one) for one in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if name not in SYNTAX_LEFT_OUT}
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return [type(node).__name__, *([name, plain(value)] for name, value in fields.items() if value not in ([], None))]


@functools.lru_cache(maxsize=1)
def _files() -> dict[str, Path]:
    """Return module -> file of all packages of the repository."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = path
    return found


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_files()[module].read_text(encoding="utf-8"))


@functools.cache
def _digest(module: str) -> str:
    tree = ast.parse(_files()[module].read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(plain(tree)).encode()).hexdigest()


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs, in functions too, and not what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield child
            yield from _running(child)


@functools.cache
def imported(module: str) -> frozenset[str]:
    """Return the modules of the repository that a module imports, names of ``import cptlaw as cl`` among them."""
    known = _files()
    found = _named(module)
    # A door loads by name: every file of its folder counts.
    if module != "cptlaw" and "import_module(" in known[module].read_text(encoding="utf-8"):
        folder = module if known[module].name == "__init__.py" else module.rpartition(".")[0]
        found |= {name for name in known if name.startswith(f"{folder}.")}
    packages = {".".join(parts[:end]) for parts in (name.split(".") for name in found) for end in range(1, len(parts))}
    return frozenset((found | packages) & known.keys() - IGNORED - {module})


def _named(module: str) -> set[str]:
    """Return what the imports of a module name, ours or not, and the homes of what it takes from `cptlaw`."""
    known, found, doors = _files(), set(), set()
    homes: Mapping[str, str] = cptlaw._HOMES
    for node in _running(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
            doors |= {one.asname or one.name for one in node.names if one.name == "cptlaw"}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                inner = f"{node.module}.{one.name}"
                found.add(inner if inner in known else node.module)
                if node.module == "cptlaw" and inner not in known:
                    found.add(homes.get(one.name, "cptlaw"))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in doors:
            found.add(homes.get(node.attr, "cptlaw"))
    return found


def modules(study: str) -> frozenset[str]:
    """Return all modules of the repository on which a module depends, itself among them."""
    seen, ahead = set(), {study}
    while ahead:
        seen |= ahead
        ahead = {other for one in ahead for other in imported(one)} - seen
    return frozenset(seen)


def code(study: str) -> dict[str, str]:
    """Return room -> digest of the code on which a module depends."""
    rooms: dict[str, list[str]] = {}
    for name in sorted(modules(study)):
        first, *rest = name.split(".")
        folder = rest and (ROOT / first / rest[0]).is_dir()
        room = name if first == "studies" else f"{first}.{rest[0]}" if folder else first
        rooms.setdefault(room, []).append(f"{name} {_digest(name)}")
    return {room: _short("\n".join(lines).encode()) for room, lines in sorted(rooms.items())}


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


# -- data --------------------------------------------------------------------------------------------------------------


def watch() -> None:
    """Note from now on the tables that this process reads."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | Path) and set(arguments[1] or "w") <= set("rbtU"):
            name = table_name(Path(arguments[0]))
            if name is not None:
                _opened.add(name)

    sys.addaudithook(hook)


def table_name(path: Path) -> str | None:
    """Return the name of a table in a fingerprint; ``None`` where it is no table of the repository or of the data."""
    if path.suffix not in TABLES:
        return None
    path = path.resolve()
    for folder, prefix in ((ROOT, ""), (DATA.resolve(), "../shared/data/")):
        if path.is_relative_to(folder):
            name = f"{prefix}{path.relative_to(folder).as_posix()}"
            return None if name.startswith((".", "studies/results/")) and not prefix else name
    return None


def data(names: list[str]) -> dict[str, str | None]:
    """Return table -> digest; ``None`` where a public table is not on this machine."""
    found: dict[str, str | None] = {}
    for name in names:
        path = (DATA.resolve() / Path(name).name) if name.startswith("..") else ROOT / name
        found[name] = _short(path.read_bytes()) if path.exists() else None
    return found


# -- fingerprints ------------------------------------------------------------------------------------------------------


def study_of(command: str) -> str:
    """Return the module that a command runs."""
    name = command.split("studies ", 1)[1].split()[0]
    return next(module for module in _files() if module.startswith("studies.") and module.endswith(f".{name}"))


@functools.cache
def code_at_start(study: str) -> dict[str, str]:
    """Return the digests of the code; what is called before a run holds for its end, whatever is edited meanwhile."""
    return code(study)


def fingerprint(command: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result file says of its making: code, data and cost.

    Parameters
    ----------
    command
        What writes the file.
    before
        The file as it was: its cost stays where today's is much the same, so that a run anew changes no byte.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() + children.ru_utime + children.ru_stime
    old = before.get("seconds", 0)
    alike = old / 6 <= spent <= 1.5 * old
    seconds = old if alike else next((cost for cost in COSTS if spent <= cost), COSTS[-1])
    return {"code": code_at_start(study_of(command)), "data": data(sorted(_opened)), "seconds": seconds}


def changes(held: Mapping[str, Any]) -> list[str]:
    """Return what of the code and data of a result file is not as it was; empty where the file is up to date."""
    if "code" not in held:
        return ["it does not say with which code it was made"]
    now = code(study_of(held["command"]))
    changed = [room for room in sorted({*held["code"], *now}) if held["code"].get(room) != now.get(room)]
    tables = data(list(held["data"]))
    return changed + [
        name
        for name, digest in tables.items()
        if digest != held["data"][name] and not (digest is None and name.startswith(".."))
    ]


@functools.lru_cache(maxsize=1)
def out_of_date() -> dict[str, list[str]]:
    """Return what has changed, for every result file that is out of date, by name."""
    states = {path.stem: changes(read(path.stem)) for path in sorted(RESULTS.glob("*.json"))}
    return {name: changed for name, changed in states.items() if changed}


def read(name: str) -> dict[str, Any]:
    """Return a result file."""
    held: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return held


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the cells of two sets of tables that differ by more than a unit of the last digit that is shown."""
    found = []
    for key in {**old, **new}:
        if key not in old or key not in new or old[key]["columns"] != new[key]["columns"]:
            found.append(f"{key}: other columns")
            continue
        before, after = old[key]["rows"], new[key]["rows"]
        if len(before) != len(after):
            found.append(f"{key}: {len(before)} rows, now {len(after)}")
        for row, (one, other) in enumerate(zip(before, after, strict=False)):
            for column, left, right in zip(old[key]["columns"], one, other, strict=True):
                if not _same(left, right):
                    found.append(f"{key}, row {row + 1}, {column}: {left} -> {right}")
    return found


def _same(left: str, right: str) -> bool:
    pairs = list(zip(NUMBER.findall(left), NUMBER.findall(right), strict=False))
    if NUMBER.sub("#", left) != NUMBER.sub("#", right):
        return False
    return all(_near(a, b) for a, b in pairs)


def _near(a: str, b: str) -> bool:
    digits = len(a.partition("e")[0].partition(".")[2])
    x, y = (float(text.replace(",", "")) for text in (a, b))
    if "e" in a:
        return abs(x - y) <= 0.011 * max(abs(x), abs(y))
    return abs(x - y) <= (1.01 * 10.0**-digits if digits else 0.0)
