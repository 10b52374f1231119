"""Text logs of trainers, read by grammars: one reader for all of them, one file of data for each."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from cptlaw.errors import DataError
from cptlaw.importing.grammar import Grammar, Line, grammars
from cptlaw.importing.history import SAMPLES_NAMES, STEP_NAMES, History, Record, first_of
from cptlaw.importing.reader import Reader, file_run_names, files_below, first_bytes, text_of
from cptlaw.importing.settings import config_beside
from cptlaw.units import SUFFIXES

# Characters; a line of measurements has some hundred, and the patterns look at no more.
LONGEST_LINE = 4000
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TABLES = ("*.csv", "*.tsv", "*.json", "*.jsonl", "*.ndjson", "*.parquet")
_VALIDATION = ("val", "valid", "validation", "", None)


class LineLog(Reader):
    """Text logs with lines of one trainer's kind; each file is a run."""

    grammar: ClassVar[Grammar]

    def find(self, source: Path) -> list[Path]:
        """Return the logs that hold such lines."""
        files = [source] if source.is_file() else files_below(source, self.grammar.files)
        return [path for path in files if self.grammar.name in _grammars_of(path)]

    def read(self, files: list[Path], source: Path) -> list[History]:
        """Read each log."""
        names = file_run_names(files, source)
        return [read_log(self.grammar, path, names[path]) for path in files]


def _define() -> dict[str, Grammar]:
    """Make a reader of each grammar, which registers itself, and return the grammars by name."""
    known = {}
    for grammar in grammars():
        known[grammar.name] = grammar
        said = {"name": grammar.name, "title": grammar.title, "looks_for": grammar.looks_for, "order": grammar.order}
        type(grammar.title.title().replace(" ", ""), (LineLog,), said | {"grammar": grammar})
    return known


def read_log(grammar: Grammar, path: Path, run: str) -> History:
    """Read one log, of a run of this name.

    A line without a step belongs to the step before it: trainers print headers and bars first, and name no step at the
    end.
    """
    config: dict[str, object] = config_beside(path.parent)
    found: list[tuple[Line, float | None, float | None, dict[str, float]]] = []
    for text in lines_of(path):
        for line in grammar.lines:
            if match := line.pattern.search(text):
                found.append((line, *_numbers(grammar, line, match, text)))
                if line.holds_metrics:  # what follows a bar on its line may be more than the bar
                    break
        else:
            config |= dict(_settings(grammar, text))
    records = _records(found)
    if grammar.repeats is not None:
        records = _without_repeats(records, grammar.repeats)
    return History(run, path, tuple(records), config, how_to_measure=grammar.switch_on)


def lines_of(path: Path) -> list[str]:
    """Return the lines of a log; what a progress bar has overwritten counts as lines too."""
    try:
        text = text_of(path)
    except DataError:  # empty or unreadable: no log of any kind
        return []
    return [line[:LONGEST_LINE] for line in _COLOUR.sub("", text).replace("\r", "\n").split("\n") if line.strip()]


def to_number(text: str) -> float:
    """Read a number as logs print it, with commas in thousands or a unit behind it.

    Examples
    --------
    >>> to_number("1,024.5"), to_number("1.02K"), to_number("nan")
    (1024.5, 1020.0, nan)
    """
    plain = text.replace(",", "")
    scale = float(SUFFIXES[plain[-1].upper()]) if plain[-1].upper() in "KMBT" else 1.0
    return float(plain[:-1]) * scale if scale != 1.0 else float(plain)


def _grammars_of(path: Path) -> frozenset[str]:
    try:
        found = path.stat()
    except OSError:
        return frozenset()
    return _recognised(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=200_000)
def _recognised(path: Path, changed: int, size: int) -> frozenset[str]:
    """Return the grammars of which a file holds lines; by time and size, so that it is read once for all of them."""
    if any(path.match(pattern) for pattern in _TABLES) or not _is_text(path):
        return frozenset()
    lines = lines_of(path)
    text = "\n".join(lines)
    signed = {name: one for name, one in GRAMMARS.items() if one.sign.search(text)}
    return frozenset(name for name, one in signed.items() if not one.whole or _all_lines_match(one, lines))


def _all_lines_match(grammar: Grammar, lines: list[str]) -> bool:
    return len(lines) > 1 and all(any(line.pattern.search(text) for line in grammar.lines) for text in lines)


def _is_text(path: Path) -> bool:
    if path.suffix == ".gz":
        return path.name.endswith(".log.gz")
    return b"\x00" not in first_bytes(path, 4096)


def _numbers(
    grammar: Grammar, line: Line, match: re.Match[str], text: str
) -> tuple[float | None, float | None, dict[str, float]]:
    """Return the step, the last step where a bar shows it, and what a line logs by name."""
    given = {name: to_number(match[key]) for key, name in line.names.items() if match[key] is not None}
    step, last = given.pop("step", None), given.pop("of", None)
    if line.pairs is not None:
        named = match.groupdict().get("set")
        on = "" if named in _VALIDATION else f"{named} "
        for pair in line.pairs.finditer(text[match.end() :]):
            given.setdefault(line.under.format(name=pair["name"].strip(), set=on), to_number(pair["value"]))
    values = {grammar.metric_name(name): value for name, value in given.items()}
    values.pop("", None)
    step = first_of(values, STEP_NAMES) if step is None else step
    values.pop("step", None)
    if grammar.bits:
        values = {name: value * math.log(2) if "loss" in name else value for name, value in values.items()}
    return (None if step is None else step + line.done), last, values


def _records(found: list[tuple[Line, float | None, float | None, dict[str, float]]]) -> list[Record]:
    """Return what was logged, each at its own step or at that of the nearest line before it."""
    # Evaluations have bars of their own: of all bars those count that end where the one before most losses does.
    ends: Counter[float] = Counter()
    shown: float | None = None
    for line, _, last, values in found:
        shown = last if last is not None else shown
        if line.holds_metrics and shown is not None and "loss" in values:
            ends[shown] += 1
    counts = ends.most_common(1)[0][0] if ends else None
    records: list[Record] = []
    step: float | None = None
    for line, at, last, values in found:
        if at is not None and (last is None or counts is None or last == counts):
            step = at
        if line.holds_metrics and values:
            records.append(Record(step if at is None or last is not None else at, values))
    return _at_one_moment(records)


def _at_one_moment(records: list[Record]) -> list[Record]:
    """Return records in which evaluations that follow each other at one epoch stand at the step of the last of them.

    A bar is printed now and then: the one before them may show an earlier step, and 0 is none of what was trained.
    """
    after: Record | None = None
    for place in reversed(range(len(records))):
        one = records[place]
        epoch = one.values.get("epoch", 0.0)
        if epoch > 0 and "loss" not in one.values:
            if after is not None and after.values.get("epoch") == epoch and "loss" not in after.values:
                one = replace(one, step=after.step)
            records[place] = one = replace(one, step=None) if one.step == 0 else one
        after = one
    return records


def _without_repeats(records: list[Record], repeated: re.Pattern[str]) -> list[Record]:
    """Return records without values that a line only repeats, each value at the step of the line before its first one.

    It belongs to the step of the line before: that is where training stood when it was measured.
    """
    result: list[Record] = []
    shown: dict[str, float] = {}
    before: Record | None = None
    for record in records:
        evals = {name: value for name, value in record.values.items() if repeated.match(name)}
        new = {name: value for name, value in evals.items() if shown.get(name) != value}
        shown |= evals
        now = Record(record.step, {name: value for name, value in record.values.items() if name not in evals})
        if new:
            at = before or now
            samples = first_of(at.values, SAMPLES_NAMES)
            known = {} if samples is None else {"consumed_samples": samples}
            result.append(Record(at.step, new | known))
        result.append(now)
        before = now
    return result


def _settings(grammar: Grammar, text: str) -> Iterator[tuple[str, object]]:
    for line in grammar.settings:
        if match := line.pattern.search(text):
            groups = match.groupdict()
            if "key" in groups:
                yield groups["key"], groups["value"].strip()
            yield from ((name, to_number(match[key])) for key, name in line.names.items())


GRAMMARS = _define()
