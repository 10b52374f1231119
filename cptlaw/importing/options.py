"""What the user asks of an import: which metrics are losses, what holds for whole runs, how tokens are counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from cptlaw.errors import DataError, UsageError, did_you_mean, join_names, name_hint, wrong_type
from cptlaw.importing.names_of_losses import eval_of
from cptlaw.importing.patterns import FIELD, match_pattern
from cptlaw.importing.reader import csv_rows
from cptlaw.reading import existing_file
from cptlaw.runs.schema import COLUMNS, canonical_name
from cptlaw.units import parse_quantity

LOSS = "loss"
_FROM_ROWS = ("loss", "run", "eval")


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import, read and checked.

    Parameters
    ----------
    losses
        Eval -> metric; empty where the losses are to be recognised by their names.
    metrics
        Column of the runs table -> metric.
    constants
        Column -> value for every row.
    config
        Column -> key of the trainer's settings.
    pattern
        How run names are made, with columns in braces.
    batch_tokens, seq_length
        Tokens per step; tokens per sample.
    first_step
        The step at which adaptation began.
    table
        Run -> columns, of a table of settings.
    all_runs
        Whether runs count that crashed, did not finish or collapsed.
    """

    losses: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, float | str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    pattern: str | None = None
    batch_tokens: float | None = None
    seq_length: float | None = None
    first_step: float = 0.0
    table: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    all_runs: bool = False

    def from_name(self, run: str) -> dict[str, float | str]:
        """Return the columns that the name of a run tells by the pattern.

        Raises
        ------
        UsageError
            If the name does not fit the pattern.

        Examples
        --------
        >>> ImportOptions(pattern="{n_params}-p{ptpp}-r{replay%}").from_name("124M-p31-r25")
        {'n_params': 124000000.0, 'ptpp': 31.0, 'replay': 0.25}
        """
        if self.pattern is None:
            return {}
        result = match_pattern(self.pattern, run)
        if result is None:
            raise UsageError(
                f"run {run!r} does not fit --pattern {self.pattern!r}. Expected names such as "
                f"{FIELD.sub(_example, self.pattern)!r}; write {{any}} for a part that does not matter."
            )
        percent = {field["name"] for field in FIELD.finditer(self.pattern) if field["percent"]}
        return {
            name: _value(name, text + ("%" if name in percent else ""), "--pattern")
            for name, text in result.items()
            if not name.startswith("any")
        }

    def from_table(self, run: str) -> Mapping[str, float | str]:
        """Return what the table of settings says of a run, by its name or the last part of it.

        Raises
        ------
        UsageError
            If there is such a table, and it has no row for the run.
        """
        if not self.table:
            return {}
        name = run if run in self.table else run.rpartition("/")[2]
        if name not in self.table:
            near = did_you_mean(run, self.table)
            raise UsageError(f"--settings: no row for run {run!r}.{near} Found: {join_names(self.table)}. Add the row.")
        return self.table[name]


class HowToRead(TypedDict, total=False):
    """What `cptlaw.importing.import_logs` takes to read logs by."""

    mapping: Mapping[str, str] | None
    constants: Mapping[str, object] | None
    config: Mapping[str, str] | None
    pattern: str | None
    batch_tokens: object
    seq_length: object
    first_step: object
    settings: str | Path | None
    all_runs: bool


def read_options(**options: Unpack[HowToRead]) -> ImportOptions:
    """Check the options of an import; see `cptlaw.importing.import_logs` for what they mean."""
    for given, option in (("mapping", "--map"), ("constants", "--set"), ("config", "--config")):
        pairs = options.get(given) or {}
        texts = [*pairs, *(() if given == "constants" else pairs.values())] if isinstance(pairs, Mapping) else [None]
        if not all(isinstance(one, str) for one in texts):
            raise wrong_type(pairs, f"{given} ({option})", "a mapping from names to texts, as {'seed': 'run_seed'}")
    pattern, first_step = options.get("pattern"), options.get("first_step")
    batch_tokens, seq_length = options.get("batch_tokens"), options.get("seq_length")
    losses: dict[str, str] = {}
    metrics: dict[str, str] = {}
    for key, metric in (options.get("mapping") or {}).items():
        name, _, eval_name = key.partition(":")
        if name == LOSS:
            losses[eval_name or eval_of(metric)] = metric
        else:
            metrics[_column(key, "--map")] = metric
    if pattern is not None:
        names = [match["name"] for match in FIELD.finditer(pattern)]
        if not names:
            raise UsageError(f"--pattern {pattern!r} holds no column in braces, as in '{{n_params}}-r{{replay}}'.")
        for name in names:
            if not name.startswith("any"):
                _column(name, "--pattern")
        if len(set(names)) < len(names):
            raise UsageError(f"--pattern {pattern!r} names a column twice. Write {{any1}}, {{any2}} for other parts.")
    # Both would say what a step holds, and they seldom agree.
    if batch_tokens is not None and seq_length is not None:
        raise UsageError("give --batch-tokens (tokens = step x batch) or --seq-length (tokens = samples x length).")
    return ImportOptions(
        losses,
        metrics,
        {
            _column(key, "--set"): _value(_column(key, "--set"), value, "--set")
            for key, value in (options.get("constants") or {}).items()
        },
        {_column(key, "--config"): value for key, value in (options.get("config") or {}).items()},
        pattern,
        _positive(batch_tokens, "--batch-tokens"),
        _positive(seq_length, "--seq-length"),
        0.0 if first_step is None else parse_quantity(first_step, "--first-step"),
        {} if (settings := options.get("settings")) is None else _table(Path(settings)),
        bool(options.get("all_runs")),
    )


def _table(path: Path) -> dict[str, dict[str, float | str]]:
    """Return run -> columns of a CSV file with a row per run; columns of other names are kept under theirs."""
    result: dict[str, dict[str, float | str]] = {}
    for number, row in enumerate(csv_rows(existing_file(path)), 2):
        cells = {str(name).strip(): str(text).strip() for name, text in row.items() if name and text}
        run = cells.pop("run", cells.pop("Name", None))
        if run is None or run in result:
            found = "no run" if run is None else f"run {run!r} again"
            raise DataError(f"{path}, row {number}: {found}. Expected a column run, and one row for each.")
        for name, text in cells.items():
            column = canonical_name(name) or name
            value = _value(column, text, f"--settings {path}, row {number},") if column in COLUMNS else text
            result.setdefault(run, {})[column] = value
        result.setdefault(run, {})
    return result


def _column(name: str, option: str) -> str:
    column = canonical_name(name)
    if column is None or column in _FROM_ROWS:
        known = [known for known in COLUMNS if known not in _FROM_ROWS]
        of_losses = " loss:EVAL=METRIC names a loss." if option == "--map" else ""
        raise UsageError(f"{option}: {name!r} is not a column of a runs table.{name_hint(name, known)}{of_losses}")
    return column


def _value(column: str, value: object, option: str) -> float | str:
    if not COLUMNS[column].numeric:
        return str(value)
    return parse_quantity(value, f"{option} {column}")


def _positive(value: object, option: str) -> float | None:
    if value is None:
        return None
    number = parse_quantity(value, option)
    if number <= 0:
        raise UsageError(f"{option} {value}: expected a number above 0.")
    return number


_EXAMPLES = {"n_params": "124M", "ptpp": "31", "replay": "0.25", "seed": "0", "lr_peak": "3e-4", "domain": "fr"}


def _example(match: re.Match[str]) -> str:
    return "25" if match["percent"] else _EXAMPLES.get(match["name"], "x")
