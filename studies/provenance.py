"""Whether a result file still holds: its study's probe is asked, wherever code that the study uses has changed.

Each study has ``probe()``: some numbers behind its tables, unrounded, in some seconds. A result file keeps them, and
`stamps.json` the digest of the code with which they were last found as they are (comments and docstrings are no code).
With another digest the probe runs: equal to `SAME` the file holds, and so it does within half of a printed digit
(`PRINTED`); further off it is *out of date*, by how much is noted in the stamp, and pages say so above their tables. A
study that was edited itself, but for names that it imports, or whose tables on disk changed, is out of date too.

    python -m studies results          runs the probes that must run, and notes what they say
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import json
import re
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw
from cptlaw.plugins import FUNCTIONS, LAWS, PLANS, SCORES, plugin_entries

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "studies" / "results"  # what studies measured: a file each, from which docs/run_pages.py fills pages
STAMPS = ROOT / "studies" / "stamps.json"
DATA = ROOT.parent / "shared" / "data"  # public tables, which are no part of this repository
PACKAGES = ("cptlaw", "cptlaw_app", "cptlaw_curves", "cptlaw_published", "cptlaw_scores", "cptlaw_sweep", "studies")
TABLES = {".csv", ".json", ".jsonl", ".parquet", ".yaml", ".yml"}
QUICK = 60  # seconds of CPU, for --quick
SAME, PRINTED = 1e-9, 5e-4  # of a probe's number, or of LEAST where it is smaller: what is equal, and what prints alike
LEAST, MOST_NUMBERS = 0.01, 40
COSTS = (5, 15, 30, QUICK, 120, 300, 600, 1800, 3600, 7200, 14400, 43200)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# What writes results changes none of their values, nor what reads spreadsheets, which no table of a study is.
IGNORED = {"cptlaw", "cptlaw.runs.spreadsheet", "studies", "studies.__main__", "studies.provenance", "studies.remake"}
# Who asks entry points, and for what.
ASKS = {"cptlaw.laws.registry": LAWS, "cptlaw.planning": PLANS, "cptlaw.forecasting.scores": SCORES}
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
    return hashlib.sha256(json.dumps(plain(_tree(module))).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _homes() -> Mapping[str, str]:
    """Return name of `cptlaw` -> module in which it lives, those of the packages beside among them."""
    return cptlaw._HOMES | {name: _module_of(entry) for name, entry in plugin_entries(FUNCTIONS).items()}


def _module_of(entry: EntryPoint) -> str:
    return entry.value.partition(":")[0]


@functools.lru_cache(maxsize=1)
def _learned_digests() -> list[str]:
    """Return a line for each file of what was learned, which counts as code."""
    return [f"{path.name} {_short(path.read_bytes())}" for path in sorted((ROOT / "cptlaw").rglob("*.json"))]


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
    if module in ASKS:
        found |= {_module_of(entry) for entry in plugin_entries(ASKS[module]).values()}
    packages = {".".join(parts[:end]) for parts in (name.split(".") for name in found) for end in range(1, len(parts))}
    return frozenset((found | packages) & known.keys() - IGNORED - {module})


def _named(module: str) -> set[str]:
    """Return what the imports of a module name, ours or not, and the homes of what it takes from `cptlaw`."""
    known, found, doors = _files(), set(), set()
    homes = _homes()
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


def code(study: str) -> str:
    """Return the digest of the code on which a study depends, itself left out; what was learned counts as code."""
    lines = [f"{name} {_digest(name)}" for name in sorted(modules(study) - {study})]
    return _short("\n".join([*lines, *_learned_digests()]).encode())


def own_code(study: str) -> str:
    """Return the digest of a study's own file; neither its probe nor what it calls things of ours changes it."""
    tree = ast.parse(_files()[study].read_text(encoding="utf-8"))
    body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    tree.body = [node for node in body if getattr(node, "name", "") != "probe"]
    ours = [
        node for node in _tree(study).body if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGES)
    ]
    imported_names = {one.asname or one.name for node in ours for one in node.names}
    places: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in imported_names:
            node.id = places.setdefault(node.id, f"imported {len(places)}")
    return _short(json.dumps(plain(tree)).encode())


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


# -- probes ------------------------------------------------------------------------------------------------------------


def study_of(command: str) -> str:
    """Return the module that a command runs."""
    name = command.split("studies ", 1)[1].split()[0]
    return next(module for module in _files() if module.startswith("studies.") and module.endswith(f".{name}"))


@functools.cache
def code_at_start(study: str) -> dict[str, str]:
    """Return the stamp of today's code; what is called before a run holds for its end, whatever is edited meanwhile."""
    return {"code": code(study), "own": own_code(study)}


@functools.cache
def probed(study: str) -> tuple[float, ...] | None:
    """Return the numbers of a study's probe, at most `MOST_NUMBERS`; ``None`` where its tables are not here."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = list(numbers_in(importlib.import_module(study).probe()))
        except SystemExit:  # a public table is not on this machine
            return None
    return tuple(found[:: -(-len(found) // MOST_NUMBERS)])


def numbers_in(value: Any) -> Iterator[float]:
    """Yield the numbers in what a probe returns, in their order."""
    if isinstance(value, pd.DataFrame):
        value = value.select_dtypes("number").to_numpy(dtype=float)
    if isinstance(value, np.ndarray):
        yield from map(float, value.ravel())
    elif isinstance(value, Mapping):
        yield from (number for one in value.values() for number in numbers_in(one))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from (number for one in value for number in numbers_in(one))
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_):
        yield float(value)


def moved(old: Sequence[float | None], new: Sequence[float | None]) -> str:
    """Return by how much numbers moved, as text; empty where what is printed of them would not. None is missing."""
    if len(old) != len(new):
        return f"the probe gave {len(old)} numbers, and gives {len(new)}"
    pairs = [(np.nan if a is None else a, np.nan if b is None else b) for a, b in zip(old, new, strict=True)]
    beyond = [(a, b) for a, b in pairs if not _alike(a, b, PRINTED)]
    if not beyond:
        return ""
    a, b = max(beyond, key=lambda pair: abs(pair[1] - pair[0]) / max(abs(pair[0]), LEAST))
    return f"{len(beyond)} of {len(pairs)} probed numbers moved, most {a:.5g} -> {b:.5g}"


def _alike(a: float, b: float, within: float) -> bool:
    return a == b or (np.isnan(a) and np.isnan(b)) or bool(abs(a - b) <= within * max(abs(a), LEAST))


def fingerprint(command: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result file says of its making: tables that it read, cost, and what its study's probe gives.

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
    tables = data(sorted(_opened))
    return {"data": tables, "seconds": seconds, "probe": kept_numbers(study_of(command), before.get("probe"))}


def kept_numbers(study: str, before: Sequence[float | None] | None = None) -> list[float | None]:
    """Return a probe's numbers as a result file keeps them: those of before where they are equal."""
    now = probed(study) or ()
    if before is not None and len(before) == len(now):
        old = [np.nan if a is None else a for a in before]
        if all(_alike(a, b, SAME) for a, b in zip(old, now, strict=True)):
            return list(before)
    return [None if np.isnan(number) else number for number in now]


# -- stamps ------------------------------------------------------------------------------------------------------------


def stamps() -> dict[str, dict[str, str]]:
    """Return by result file with which code it was last looked at, and what was found."""
    found: dict[str, dict[str, str]] = json.loads(STAMPS.read_text(encoding="utf-8"))
    return found


def _learned(name: str) -> bool:
    return name.startswith("cptlaw/") and name.endswith(".json")


def note(**found: Mapping[str, str]) -> None:
    """Write stamps of result files; a file without a stamp is forgotten with its file."""
    names = {path.stem for path in RESULTS.glob("*.json")}
    every = {name: dict(stamp) for name, stamp in sorted((stamps() | found).items()) if name in names}
    STAMPS.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


def look(held: Mapping[str, Any], stamp: Mapping[str, str]) -> dict[str, str]:
    """Return today's stamp of a result file; ``moved`` says what is out of date, if anything is.

    The probe runs where the code is not that of the stamp.
    """
    study = study_of(held["command"])
    now = code_at_start(study)
    tables = data(list(held["data"]))
    changed = [
        name
        for name, digest in tables.items()
        if digest != held["data"][name] and not (digest is None and name.startswith("..")) and not _learned(name)
    ]
    edited = stamp.get("own") != now["own"]
    if changed or edited:  # no code is noted: once both are as they were, the probe is asked again
        why = f"changed: {', '.join(changed)}" if changed else "the study itself was edited"
        return {"code": "", "own": stamp.get("own", ""), "moved": why}
    if stamp.get("code") == now["code"]:
        return dict(stamp)
    numbers = probed(study)
    if numbers is None:  # it cannot be told on this machine
        return dict(stamp)
    said = moved(held["probe"], numbers)
    return now | ({"moved": said} if said else {})


@functools.lru_cache(maxsize=1)
def out_of_date() -> dict[str, str]:
    """Return what was last found out of date, and by how much, for every such result file."""
    return {name: stamp["moved"] for name, stamp in stamps().items() if "moved" in stamp}


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
