"""What a grammar of log lines says: which lines there are, what their numbers are called, where the step stands.

A grammar is a YAML file of a few lines in the folder ``grammars``, with a sample of the log and what is read from it
beside it; the tests read each sample. Adding a trainer is adding a file.

=========== =========================================================================================================
key         meaning
=========== =========================================================================================================
title       What the log is, for messages.
looks_for   By what it is recognised, in words.
order       Its turn when a file is to be recognised.
lines       Patterns: regular expressions in which ``<step>`` stands for a whole number, ``<NAME>`` for a number that is
            logged as NAME, and ``<of>`` for the last step of a progress bar. Either a text, or a mapping of ``line``,
            ``pairs`` (how the rest of the line gives more, see `PAIRS`), ``under`` (what pairs are called, with
            ``{name}`` and ``{set}``) and ``done`` (steps that are done when a line names one; by default the one that
            it names: -1 where a loss is measured before that step, 1 where steps count from 0).
sign        A pattern that must occur; by default any of the lines that hold more than a step.
names       Pattern of a whole name -> what it is called instead; ``""`` leaves it out.
settings    Patterns of lines that tell settings: ``<NAME>``, or the groups ``key`` and ``value``.
files       Names of files. [default: those of logs]
bits        Whether losses are in bits per token.
repeats     A pattern of metrics that each line repeats until they are measured anew.
whole       Whether all lines of the file must fit.
switch_on   How this trainer is told to measure validation losses.
sample      A piece of a log, and whether the package wrote it or we did, after its documentation.
reads       What is read from the sample: rows of step, metric and value.
=========== =========================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cptlaw.reading import read_yaml

FOLDER = Path(__file__).with_name("grammars")
ENDINGS = ("*.log", "*.out", "*.txt", "*.err", "*.log.gz")
NUMBER = r"[+-]?(?:[0-9][0-9,]*+(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[KMBTk]?(?![\w.])|[nN]a[nN]\b|[+-]?inf\b"
# How a line writes its numbers by name; names of the last kind may hold spaces and begin the line.
PAIRS = {
    "bars": re.compile(rf"(?<![^|:])(?P<name>[^|:]++):\s*(?P<value>{NUMBER})\s*(?:\||$)"),  # name: 1.0 | name: 2.0
    "values": re.compile(rf"(?<![^|:])(?P<name>[^|:]+?) value:\s*(?P<value>{NUMBER})\s*(?:\||$)"),
    "words": re.compile(rf"(?<![\w/.-])(?P<name>[A-Za-z_][\w/.-]*+)(?::\s*|=)(?P<value>{NUMBER})(?=[\s,|\]%(]|$)"),
    "columns": re.compile(rf"\|\s*(?P<name>[A-Za-z_]\w*+)\s+(?P<value>{NUMBER})\s*(?=\||$)"),  # | name 1.0 | name 2.0
    "commas": re.compile(
        rf"(?:^|,)\s*(?P<name>[A-Za-z/]++(?: [A-Za-z/]++)*+) (?P<value>{NUMBER})(?=\s|,|$)"
    ),  # A name 1, other 2
    "quoted": re.compile(rf"""(?P<quote>['"])(?P<name>[^'"]++)(?P=quote):\s*['"]?(?P<value>{NUMBER}|\d++(?=/\d))"""),
    "one": re.compile(rf"\s*(?P<name>[^=:|]*[^=:|\s])\s*[=:]\s*(?P<value>{NUMBER})\s*$"),
}
_HOLE = re.compile(r"<(?P<name>[a-zA-Z][\w ]*)>")


@dataclass(frozen=True)
class Line:
    """A kind of lines: its pattern, what its groups are called, and how the rest of it is read."""

    pattern: re.Pattern[str]
    names: Mapping[str, str]
    pairs: re.Pattern[str] | None = None
    under: str = "{name}"
    done: float = 0.0

    @property
    def holds_metrics(self) -> bool:
        """Whether it tells more than a step."""
        return self.pairs is not None or bool(set(self.names.values()) - {"step", "of"})


@dataclass(frozen=True)
class Grammar:
    """A grammar, its patterns compiled; see the module for what each entry means."""

    name: str
    title: str
    looks_for: str
    order: int
    lines: tuple[Line, ...]
    sign: re.Pattern[str]
    names: Mapping[re.Pattern[str], str] = field(default_factory=dict)
    settings: tuple[Line, ...] = ()
    files: tuple[str, ...] = ENDINGS
    bits: bool = False
    repeats: re.Pattern[str] | None = None
    whole: bool = False
    switch_on: str = ""
    sample: str = ""
    reads: tuple[tuple[float, str, float], ...] = ()

    def metric_name(self, name: str) -> str:
        """Return what a metric is called."""
        for pattern, new in self.names.items():
            match = pattern.fullmatch(name)
            if match:
                return match.expand(new)
        return name


def grammars() -> Iterator[Grammar]:
    """Yield the grammars of the folder."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield grammar_of(path.stem.replace("_", "-"), read_yaml(path))


def grammar_of(name: str, said: Mapping[str, Any]) -> Grammar:
    """Return a grammar as its file says it."""
    lines = tuple(_line(one) for one in said["lines"])
    signs = [said["sign"]] if "sign" in said else [line.pattern.pattern for line in lines if line.holds_metrics]
    sign = "|".join(_HOLE.sub(r"\\d", one) if "sign" in said else _unnamed(one) for one in signs)
    return Grammar(
        name,
        said["title"],
        said["looks_for"],
        said["order"],
        lines,
        re.compile(sign, re.MULTILINE),
        {re.compile(old): new for old, new in said.get("names", {}).items()},
        tuple(_line(one) for one in said.get("settings", ())),
        tuple(said.get("files", ENDINGS)),
        said.get("bits", False),
        re.compile(said["repeats"]) if "repeats" in said else None,
        said.get("whole", False),
        said["switch_on"],
        said["sample"],
        tuple((float(step), metric, float(value)) for step, metric, value in said["reads"]),
    )


def _line(said: str | Mapping[str, object]) -> Line:
    entry: Mapping[str, Any] = {"line": said} if isinstance(said, str) else said
    names: dict[str, str] = {}

    def group(match: re.Match[str]) -> str:
        key = f"v{len(names)}"
        names[key] = match["name"]
        number = r"[0-9]{1,18}" if match["name"] in ("step", "of") else NUMBER
        return f"(?P<{key}>{number})"

    # A name in angle brackets that follows `(?P` is a group of the pattern's own.
    pattern = re.compile(re.sub(rf"(?<!\(\?P){_HOLE.pattern}", group, entry["line"]))
    pairs = PAIRS[entry["pairs"]] if "pairs" in entry else None
    return Line(pattern, names, pairs, entry.get("under", "{name}"), float(entry.get("done", 0)))


def _unnamed(pattern: str) -> str:
    """Return a pattern without names of groups, so that several can be joined."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)
